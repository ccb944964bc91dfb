//! Tests how cgroups and the waits between them are summed up by subject.

use noctule_model::{
    Blame, BlameRow, CgroupRow, Histogram, Owner, SubjectBlame, SubjectRow, WaitRow,
};

use super::*;

fn row(id: u64, path: &str, ns: u64) -> CgroupRow {
    let mut counters = Counters::default();
    counters[Counter::CpuTime] = ns;
    let owner = Owner {
        path: path.into(),
        ..Owner::unknown(CgroupId(id))
    };
    CgroupRow {
        id: CgroupId(id),
        owner: Some(Arc::new(owner)),
        counters,
        ..CgroupRow::default()
    }
}

fn step(rollup: &mut Rollup, at: u64, cgroups: Vec<CgroupRow>) -> Vec<(Subject, u64)> {
    let mut batch = Batch {
        taken_ns: at,
        cgroups,
        ..Batch::default()
    };
    rollup.apply(&mut batch);
    let cpu = |r: &SubjectRow| (r.subject.clone(), r.counters[Counter::CpuTime]);
    batch.subjects.iter().map(cpu).collect()
}

#[test]
fn late_name_does_not_reduce_the_old_subject() {
    let mut rollup = Rollup::new(100);
    step(&mut rollup, 0, vec![row(7, "#7", 10)]);
    let rows = step(&mut rollup, 1, vec![row(7, "/a", 15)]);
    let cgroup = |path: &str| Subject::Cgroup(path.into());
    assert_eq!(rows, [(cgroup("#7"), 10), (cgroup("/a"), 5)]);
}

#[test]
fn subject_of_a_removed_group_stays_for_the_grace_period() {
    let mut rollup = Rollup::new(100);
    step(&mut rollup, 0, vec![row(7, "/a", 10)]);
    assert_eq!(step(&mut rollup, 100, vec![])[0].1, 10);
    assert_eq!(step(&mut rollup, 101, vec![]), []);
}

#[test]
fn oldest_ended_groups_are_dropped_first_during_churn() {
    const PLACES: usize = 8;
    let mut rollup = Rollup {
        max_ended: PLACES,
        ..Rollup::new(u64::MAX)
    };
    let path = |id: u64| format!("/{id}");
    let last = PLACES as u64 + 9;
    for id in 0..=last {
        step(&mut rollup, id * SECOND, vec![row(id, &path(id), 10)]);
    }
    // The live subject, those that ended in the last 5 s, and as many older ones as the limit
    // allows.
    let now = last + 1;
    let rows = step(&mut rollup, now * SECOND, vec![row(last, &path(last), 11)]);
    let has = |id| rows.contains(&(Subject::Cgroup(path(id)), 10));
    assert_eq!(rows.len(), 1 + 4 + PLACES);
    assert!((5..last).all(has) && !(0..5).any(has));
    // A burst of cgroups that end immediately.
    let burst = (10_000..10_000 + 2 * last).map(|id| row(id, &path(id), 1));
    step(&mut rollup, (now + 1) * SECOND, burst.collect());
    let rows = step(&mut rollup, (now + 6) * SECOND, vec![]);
    assert_eq!(rows.len(), 2 * last as usize + PLACES);
    let rows = step(&mut rollup, (now + 7) * SECOND, vec![]);
    assert_eq!(rows.len(), PLACES);
}

const SECOND: u64 = 1_000_000_000;

/// Applies a batch with these cgroups, each with this CPU time, and returns the CPU time of each
/// subject.
fn crowd(rollup: &mut Rollup, second: u64, used: &[(u64, u64)]) -> HashMap<Subject, u64> {
    let rows = used.iter().map(|(id, ns)| row(*id, &format!("/{id}"), *ns));
    step(rollup, second * SECOND, rows.collect())
        .into_iter()
        .collect()
}

#[test]
fn late_group_takes_the_place_of_an_idle_one() {
    let mut rollup = Rollup::new(u64::MAX);
    rollup.places.max_bytes = 2 * (10 << 10);
    let named = |id: u64| Subject::Cgroup(format!("/{id}"));
    let flood = [(1, 10), (2, 20), (3, 30), (4, 40)];
    let first = crowd(&mut rollup, 1, &flood);
    assert_eq!(first.len(), 3);
    assert_eq!(first.values().sum::<u64>(), 100, "{first:?}");
    // No active subject loses its row, and the sum is complete.
    let busy = flood.map(|(id, ns)| (id, ns + 1));
    let second = crowd(&mut rollup, 5, &busy);
    assert_eq!(second.values().sum::<u64>(), 104, "{second:?}");
    assert!(first.keys().all(|known| second.contains_key(known)));
    // The flood is idle by the time another cgroup starts.
    let late = |ns| [&busy[..], &[(9, ns)]].concat();
    let third = crowd(&mut rollup, 20, &late(7));
    assert!(!third.contains_key(&named(9)));
    let fourth = crowd(&mut rollup, 21, &late(9));
    assert_eq!(fourth[&named(9)], 2, "{fourth:?}");
    assert_eq!(fourth[&Subject::Overflow], third[&Subject::Overflow]);
    assert_eq!(rollup.places.refused, 2 + 1 + 1);
    let sum: u64 = late(9).iter().map(|(_, ns)| ns).sum();
    assert_eq!(rollup.total[Counter::CpuTime], sum);
}

#[test]
fn long_names_use_more_of_the_limit() {
    let mut rollup = Rollup::new(u64::MAX);
    rollup.places.max_bytes = 1 << 20;
    let long = |id: u64| row(id, &format!("/{}{id}", "x".repeat(4000)), 1);
    let rows = step(&mut rollup, 1, (1..1000).map(long).collect());
    assert_eq!(rows.len(), 2 + 1);
    assert_eq!(rows.iter().map(|(_, ns)| ns).sum::<u64>(), 999);
}

#[test]
fn use_without_a_kernel_row_is_in_the_overflow() {
    let mut rollup = Rollup::new(100);
    let mut unplaced = row(0, "#0", 5);
    unplaced.owner = Some(Arc::new(Owner::unknown(CgroupId::UNPLACED)));
    let rows = step(&mut rollup, 0, vec![unplaced, row(1, "/1", 2)]);
    let named = Subject::Cgroup("/1".into());
    assert_eq!(rows, [(named, 2), (Subject::Overflow, 5)]);
}

const UNITS: [(u64, &str); 4] = [
    (1, "a.service"),
    (2, "a.service"),
    (3, "b.service"),
    (4, "/"),
];

/// Returns two cgroups of one unit, one of another unit, the root cgroup, and a cgroup without a
/// unit.
fn groups(counters: Counters) -> Vec<CgroupRow> {
    let unit = |&(id, name): &(u64, &str)| {
        let mut row = row(id, "/", 0);
        row.counters = counters;
        let unit = (name != "/").then(|| name.to_owned());
        let path = if name == "/" {
            "/".into()
        } else {
            format!("/{name}/{id}")
        };
        row.owner = Some(Arc::new(Owner {
            unit,
            path,
            ..Owner::unknown(row.id)
        }));
        row
    };
    let mut rows: Vec<CgroupRow> = UNITS.iter().map(unit).collect();
    rows.push(CgroupRow {
        counters,
        ..row(5, "/plain", 0)
    });
    rows
}

fn cell(victim: u64, culprit: Group, wait_ns: u64) -> BlameRow {
    BlameRow {
        victim: Group::Cgroup(CgroupId(victim)),
        culprit,
        blame: Blame {
            wait_ns,
            preemptions: wait_ns / 10,
        },
    }
}

fn applied(rollup: &mut Rollup, at: u64, cgroups: Vec<CgroupRow>, blames: &[BlameRow]) -> Batch {
    let mut batch = Batch {
        taken_ns: at,
        cgroups,
        blames: blames.to_vec(),
        ..Batch::default()
    };
    rollup.apply(&mut batch);
    batch
}

/// Returns the causes and preemptors that are not 0.
fn reported(counters: &Counters) -> Vec<(&'static str, u64)> {
    let causes = Cause::ALL.map(|c| (c.name(), counters[Counter::Wait(c)]));
    let by = Preemptor::ALL.map(|p| (p.name(), counters[Counter::PreemptedBy(p)]));
    causes
        .into_iter()
        .chain(by)
        .filter(|(_, n)| *n > 0)
        .collect()
}

#[test]
fn waits_are_classified_by_the_culprits_relation() {
    let group = |id| Group::Cgroup(CgroupId(id));
    let cases = [
        (1, group(1), vec![("self", 100), ("self", 10)]),
        (1, group(2), vec![("self", 100), ("self", 10)]),
        (1, group(3), vec![("neighbour", 100), ("neighbour", 10)]),
        (3, group(4), vec![("neighbour", 100), ("neighbour", 10)]),
        (1, group(5), vec![("neighbour", 100), ("neighbour", 10)]),
        (4, group(5), vec![("neighbour", 100), ("neighbour", 10)]),
        (
            5,
            Group::Unnamed,
            vec![("neighbour", 100), ("neighbour", 10)],
        ),
        (
            5,
            Group::Followed,
            vec![("neighbour", 100), ("neighbour", 10)],
        ),
        (5, group(9), vec![]),
    ];
    for (victim, culprit, expected) in cases {
        let mut rollup = Rollup::new(100);
        let cells = [cell(victim, culprit, 100)];
        let batch = applied(&mut rollup, 1, groups(Counters::default()), &cells);
        let owner = batch.cgroups[victim as usize - 1]
            .owner
            .as_ref()
            .expect("an owner");
        let row = batch
            .subjects
            .iter()
            .find(|row| row.subject == owner.subject());
        let row = row.expect("the victim is a subject");
        assert_eq!(reported(&row.counters), expected, "{victim} {culprit:?}");
        assert_eq!(
            reported(&batch.node.total),
            expected,
            "{victim} {culprit:?}"
        );
        // A subject is not blamed for its own waits.
        let blamed: u64 = row.blame.iter().map(|b| b.wait_ns).sum();
        let own = expected.iter().any(|(name, _)| *name == "self");
        assert_eq!(
            blamed > 0,
            !own && !expected.is_empty(),
            "{victim} {culprit:?}"
        );
    }
}

/// Asserts that the wait of each subject for others equals the sum over its culprits.
fn assert_sums_close(batch: &Batch) {
    let mut node = Counters::default();
    for row in &batch.subjects {
        let others = row.counters[Counter::Wait(Cause::Neighbour)]
            + row.counters[Counter::Wait(Cause::Kernel)];
        let blamed: u64 = row.blame.iter().map(|b| b.wait_ns).sum();
        assert_eq!(blamed, others, "{:?}", row.subject);
        node += &row.counters;
    }
    assert_eq!(reported(&node), reported(&batch.node.total));
}

#[test]
fn neighbour_waits_are_recomputed_and_summed_for_the_node() {
    let mut counters = Counters::default();
    for (i, cause) in Cause::ALL.into_iter().enumerate() {
        counters[Counter::Wait(cause)] = 1 << i;
    }
    counters[Counter::PreemptedBy(Preemptor::Neighbour)] = 7;
    counters[Counter::PreemptedBy(Preemptor::Kernel)] = 5;
    let mut rollup = Rollup::new(100);
    let culprit = Group::Cgroup(CgroupId(5));
    let cells = [cell(1, culprit, 50), cell(2, culprit, 30)];
    let mut batch = Batch::default();
    for at in [1, 2] {
        batch = applied(&mut rollup, at, groups(counters), &cells);
        assert_sums_close(&batch);
    }
    let unit = &batch.subjects[0];
    assert_eq!(unit.subject, Subject::Unit("a.service".into()));
    let expected = [
        ("throttle", 2),
        ("neighbour", 80),
        ("self", 8),
        ("kernel", 16),
        ("interrupt", 32),
        ("host", 64),
        ("idle", 128),
        ("unattributed", 256),
        ("neighbour", 8),
        ("kernel", 10),
    ];
    assert_eq!(reported(&unit.counters), expected);
    let blame = |culprit, wait_ns| SubjectBlame { culprit, wait_ns };
    let plain = Blamed::Subject(Arc::new(Subject::Cgroup("/plain".into())));
    assert_eq!(unit.blame, [blame(Blamed::Kernel, 16), blame(plain, 80)]);
    assert_eq!(batch.node.total[Counter::Wait(Cause::Kernel)], 5 * 8);
}

#[test]
fn counters_never_fall_when_groups_and_cells_disappear() {
    let group = |id| Group::Cgroup(CgroupId(id));
    let mut rollup = Rollup::new(10);
    let all = groups(Counters::default());
    let some = |ids: &[u64]| {
        all.iter()
            .filter(|row| ids.contains(&row.id.0))
            .cloned()
            .collect::<Vec<_>>()
    };
    let steps = [
        (1, some(&[1, 5]), vec![cell(1, group(5), 100)]),
        // The culprit was removed. The culprit's cell was moved to the unnamed cell, which grew at
        // the same time.
        (2, some(&[1]), vec![cell(1, Group::Unnamed, 130)]),
        (3, some(&[1]), vec![cell(1, Group::Unnamed, 140)]),
        (20, some(&[1]), vec![cell(1, Group::Unnamed, 140)]),
        // The victim was removed.
        (40, vec![], vec![]),
    ];
    let neighbour = Counter::Wait(Cause::Neighbour);
    let mut reported = Vec::new();
    for (at, cgroups, cells) in steps {
        let batch = applied(&mut rollup, at, cgroups, &cells);
        let victim = batch
            .subjects
            .iter()
            .find(|row| row.owner.cgroup == CgroupId(1));
        reported.push((
            batch.node.total[neighbour],
            victim.map(|row| row.counters[neighbour]),
            victim.map_or(0, |row| row.blame.len()),
        ));
    }
    let expected = [
        (100, Some(100), 1),
        (130, Some(130), 2),
        (140, Some(140), 2),
        (140, Some(140), 1),
        (140, None, 0),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn culprit_is_charged_in_full_once_its_owner_is_known() {
    let mut rollup = Rollup::new(100);
    let culprit = Group::Cgroup(CgroupId(5));
    let mut unowned = groups(Counters::default());
    unowned[4].owner = None;
    let batch = applied(&mut rollup, 1, unowned, &[cell(1, culprit, 10)]);
    assert!(reported(&batch.node.total).is_empty());
    let batch = applied(
        &mut rollup,
        2,
        groups(Counters::default()),
        &[cell(1, culprit, 30)],
    );
    assert_eq!(batch.node.total[Counter::Wait(Cause::Neighbour)], 30);
    assert_sums_close(&batch);
}

#[test]
fn distributions_are_summed_and_kept_after_removal() {
    let mut rollup = Rollup::new(100);
    let mut step = |at: u64, counts: &[(u64, u64)], cgroups: Vec<CgroupRow>| {
        let row = |&(id, count): &(u64, u64)| WaitRow {
            group: Group::Cgroup(CgroupId(id)),
            histogram: Histogram::from_counts([0, count]),
        };
        let mut batch = Batch {
            taken_ns: at,
            cgroups,
            waits: counts.iter().map(row).collect(),
            ..Batch::default()
        };
        rollup.apply(&mut batch);
        batch.subjects[0].waits.count()
    };
    let all = || groups(Counters::default());
    assert_eq!(step(1, &[(1, 4), (2, 5), (3, 100)], all()), 9);
    assert_eq!(step(2, &[(1, 6)], all()), 11);
    assert_eq!(step(3, &[], vec![]), 11);
}

#[test]
fn culprit_without_room_is_blamed_as_unnamed() {
    let mut standing = Standing::new(&Subject::Overflow, &Arc::new(Owner::unknown(CgroupId(1))));
    let culprit = |path: &str| Blamed::Subject(Arc::new(Subject::Cgroup(path.into())));
    let mut room = 1;
    for (path, ns) in [("/a", 1), ("/b", 2), ("/a", 4), ("/c", 8)] {
        standing.blame(culprit(path), ns, &mut room);
    }
    let blame = |culprit, wait_ns| SubjectBlame { culprit, wait_ns };
    assert_eq!(
        standing.row.blame,
        [blame(culprit("/a"), 5), blame(Blamed::Unnamed, 10)]
    );
}

#[test]
fn idle_pairs_are_dropped_when_no_room_is_left() {
    const SECOND: u64 = 1_000_000_000;
    let mut rollup = Rollup {
        max_pairs: 3,
        room: 3,
        ..Rollup::new(u64::MAX)
    };
    let group = |id| Group::Cgroup(CgroupId(id));
    // Waits of `a.service` for `b.service`, of `b.service` for `a.service` and `/plain`, and of
    // `/plain` for `b.service` and unnamed groups.
    let mut at = |second: u64, grows: u64, late: u64| {
        let cells = [
            cell(1, group(3), grows),
            cell(3, group(1), 10),
            cell(3, group(5), 10),
            cell(5, group(3), late),
        ];
        let rows = groups(Counters::default());
        let batch = applied(&mut rollup, second * SECOND, rows, &cells);
        let blamed = |victim: Subject, culprit: Option<Subject>| {
            let rows = batch.subjects.iter();
            let mut rows = rows.filter(|row| row.subject == victim);
            let list = rows.next().map(|row| &row.blame[..]).unwrap_or_default();
            let mut list = list.iter().filter(|blame| match &blame.culprit {
                Blamed::Subject(subject) => culprit.as_ref() == Some(&**subject),
                Blamed::Kernel | Blamed::Unnamed => culprit.is_none(),
            });
            list.next().map_or(0, |blame| blame.wait_ns)
        };
        let [a, b] = ["a", "b"].map(|name| Subject::Unit(format!("{name}.service")));
        let plain = Subject::Cgroup("/plain".into());
        [
            blamed(a.clone(), Some(b.clone())),
            blamed(b.clone(), Some(a)),
            blamed(b.clone(), Some(plain.clone())),
            blamed(plain.clone(), Some(b)),
            blamed(plain, None),
        ]
    };
    assert_eq!(at(1, 10, 7), [10, 10, 10, 0, 7]);
    assert_eq!(at(11, 20, 7), [20, 0, 0, 0, 7]);
    assert_eq!(at(12, 30, 10), [30, 0, 0, 3, 7]);
}
