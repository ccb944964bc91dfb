use noctule_model::{
    Batch, Blamed, BlockClass, Cause, CgroupId, Container, ContainerRole, Counter, Driver, Energy,
    EventCounter, FeatureState, Histogram, Measured, Node, Owner, Runtime, Subject, SubjectBlame,
    SubjectRow, What, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::*;
use crate::ReportBuilder;

const SECOND: u64 = 1_000_000_000;
/// A time that is a step boundary in all these tests.
const START: u64 = 1_700_000_100 * SECOND;

fn subject(name: &str) -> Subject {
    Subject::Unit(name.into())
}

/// Returns the batch after `at` seconds. Until then, each group has used the CPU for `at * used`
/// seconds, and the first group has waited for the second one as long.
fn batch(at: u64, names: &[&str], used: u64) -> Arc<Batch> {
    let rows = names.iter().enumerate().map(|(number, name)| {
        let owner = Owner {
            unit: Some((*name).into()),
            ..Owner::unknown(CgroupId(number as u64 + 1))
        };
        let mut row = SubjectRow::new(subject(name), Arc::new(owner));
        row.counters[Counter::CpuTime] = at * used;
        if number == 0 && names.len() > 1 {
            row.counters[Counter::Wait(Cause::Neighbour)] = at * used;
            let mut counts = vec![0; Histogram::BUCKETS];
            counts[Histogram::bucket(4_000_000)] = 10 * at;
            row.waits = Histogram::from_counts(counts);
            row.blame = vec![SubjectBlame {
                culprit: Blamed::Subject(Arc::new(subject(names[1]))),
                wait_ns: at * used,
            }];
        }
        row
    });
    let mut subjects: Vec<SubjectRow> = rows.collect();
    subjects.sort_by(|a, b| a.subject.cmp(&b.subject));
    let mut node = Node {
        cpus: 2,
        elapsed_ns: 2 * at * SECOND,
        idle_ns: at * SECOND,
        ..Node::default()
    };
    node.total[Counter::CpuTime] = at * used * names.len() as u64;
    Arc::new(Batch {
        sequence: at,
        taken_ns: at * SECOND,
        time_unix_ns: START + at * SECOND,
        node,
        subjects,
        ..Batch::default()
    })
}

fn history(limits: TimelineLimits, seconds: u64, names: &[&str]) -> Timeline {
    let mut history = Timeline::new(limits);
    for at in 0..=seconds {
        history.observe(&batch(at, names, SECOND / 10));
    }
    history
}

fn query(from: u64, to: u64, steps: usize) -> TimeSpanQuery {
    TimeSpanQuery {
        from_unix_ns: START + from * SECOND,
        to_unix_ns: START + to * SECOND,
        steps,
        waits_of: None,
        pair: None,
        strips: 0,
    }
}

fn name(view: &TimelineView, id: OwnerId) -> String {
    view.parties[&id].name(Level::Container)
}

#[test]
fn range_sums_equal_the_batches() {
    let view = history(TimelineLimits::default(), 60, &["a", "b"]).view();
    let range = view.range(&query(0, 60, 20));
    assert_eq!((range.step_ns, range.buckets.len()), (3 * SECOND, 20));
    let sum = |of: fn(&SpanStep) -> u64| range.buckets.iter().map(of).sum::<u64>();
    assert_eq!(sum(|b| b.covered_ns), 60 * SECOND);
    assert_eq!(sum(|b| b.elapsed_ns), 120 * SECOND);
    assert_eq!(sum(|b| b.used_ns), 12 * SECOND);
    let owners: u64 = range.owners.iter().map(|owner| owner.cpu_ns).sum();
    assert_eq!(owners, 12 * SECOND);
    assert!(range.buckets.iter().all(|b| b.covered_ns == 3 * SECOND));
}

#[test]
fn pairs_have_names_and_equal_sums() {
    let view = history(TimelineLimits::default(), 10, &["a", "b"]).view();
    let range = view.range(&query(0, 10, 10));
    let pair = range.pairs[0];
    assert_eq!(
        (name(&view, pair.victim), name(&view, pair.culprit)),
        ("a".into(), "b".into())
    );
    assert_eq!(pair.wait_ns, SECOND);
    let owner = |id| {
        range
            .owners
            .iter()
            .find(|owner| owner.id == id)
            .expect("a row")
    };
    assert_eq!(owner(pair.victim).waited_ns(), SECOND);
    assert_eq!(owner(pair.culprit).hurts_ns, SECOND);
    let followed = TimeSpanQuery {
        waits_of: Some(pair.victim),
        pair: Some((pair.victim, pair.culprit)),
        ..query(0, 10, 10)
    };
    let followed = view.range(&followed);
    let pairs: u64 = followed.buckets.iter().map(|b| b.pair_ns).sum();
    let waits: u64 = followed.buckets.iter().map(|b| b.lengths.count()).sum();
    assert_eq!((pairs, waits), (SECOND, 100));
}

#[test]
fn step_without_points_is_a_gap() {
    let mut history = history(TimelineLimits::default(), 10, &["a"]);
    // The machine was suspended. The batches' clock stood still for 15 of the 20 seconds.
    let mut batch = (*batch(15, &["a"], SECOND / 10)).clone();
    batch.time_unix_ns = START + 30 * SECOND;
    history.observe(&Arc::new(batch));
    let view = history.view();
    let range = view.range(&query(0, 30, 30));
    let covered: Vec<u64> = range.buckets.iter().map(|b| b.covered_ns).collect();
    assert_eq!(covered[..10], [SECOND; 10]);
    assert_eq!(covered[10..25], [0; 15]);
    assert_eq!(covered[25..], [SECOND; 5]);
    let later = view.range(&query(1, 31, 10));
    assert_eq!(later.from_unix_ns, START, "borders are multiples of a step");
}

/// Returns the points of batches taken at these times, in milliseconds. Half of the machine is
/// used.
fn ticks(millis: impl IntoIterator<Item = u64>) -> TimelineView {
    let mut history = Timeline::new(TimelineLimits::default());
    for (sequence, at) in (0..).zip(millis) {
        let ns = at * (SECOND / 1000);
        let mut node = Node {
            cpus: 2,
            elapsed_ns: 2 * ns,
            idle_ns: ns,
            ..Node::default()
        };
        node.total[Counter::CpuTime] = ns;
        node.events[EventCounter::OomKills] = at / 7000;
        history.observe(&Arc::new(Batch {
            sequence,
            taken_ns: ns,
            time_unix_ns: START + ns,
            node,
            ..(*batch(0, &["a"], 0)).clone()
        }));
    }
    history.view()
}

#[test]
fn a_long_interval_and_a_late_tick_leave_no_gap() {
    // The cases: an interval of 5 s; an interval of 1 s with one late tick; and an interval of 1 s
    // in which each tick is late by a different time.
    let late = (0..=60).map(|at| at * 1000 + if at == 30 { 1900 } else { 0 });
    let late = late.filter(|at| *at != 31_000);
    let jitter = (0..=60).map(|at| at * 1000 + at * 37 % 80);
    let cases = [
        (ticks((0..=12).map(|at| at * 5000)), 5),
        (ticks(late), 1),
        (ticks(jitter), 1),
    ];
    for (view, step) in cases {
        let range = view.range(&query(0, 60, 60));
        assert_eq!(range.step_ns, step * SECOND);
        let covered: Vec<u64> = range.buckets.iter().map(|b| b.covered_ns).collect();
        assert!(
            covered
                .iter()
                .all(|ns| *ns > step * SECOND * 9 / 10 && *ns <= step * SECOND),
            "{covered:?}"
        );
        for bucket in &range.buckets {
            assert!(
                bucket.used_ns.abs_diff(bucket.covered_ns) <= 2,
                "{bucket:?}"
            );
            assert!(bucket.elapsed_ns.abs_diff(2 * bucket.covered_ns) <= 2);
        }
        let kills = range
            .buckets
            .iter()
            .map(|b| b.events[EventCounter::OomKills]);
        assert_eq!(kills.sum::<u64>(), 8, "each is counted once");
    }
    // Steps are at least as long as the interval. A span that ends within a point gets a part of
    // the point.
    let range = ticks((0..=12).map(|at| at * 5000)).range(&query(20, 33, 150));
    let covered: Vec<u64> = range
        .buckets
        .iter()
        .map(|b| b.covered_ns / SECOND)
        .collect();
    assert_eq!(covered, [5, 5, 3]);
}

/// Returns the events in each step of a range. The ticks are in milliseconds. Each tick except the
/// first has `kills` kills, as many losses, and as many waits of equal length.
fn counted(millis: &[u64], kills: u64, query: &TimeSpanQuery) -> Vec<u64> {
    let mut history = Timeline::new(TimelineLimits::default());
    for (sequence, at) in (0..).zip(millis) {
        let mut batch = (*batch(sequence, &["a"], 0)).clone();
        batch.taken_ns = at * (SECOND / 1000);
        batch.time_unix_ns = START + batch.taken_ns;
        batch.node.events[EventCounter::OomKills] = kills * sequence;
        batch.losses = vec![noctule_model::Loss {
            kind: "exit_record",
            place: "exits",
            count: kills * sequence,
        }];
        let mut waits = vec![0; Histogram::BUCKETS];
        waits[Histogram::bucket(4_000_000)] = kills * sequence;
        batch.all_waits = Histogram::from_counts(waits);
        history.observe(&Arc::new(batch));
    }
    let range = history.view().range(query);
    let counts = range.buckets.iter().map(|step| {
        let count = step.events[EventCounter::OomKills];
        assert_eq!((step.losses, step.lengths.count()), (count, count));
        count
    });
    counts.collect()
}

#[test]
fn event_counts_in_the_step_with_most_of_its_point() {
    let all = query(0, 4, 4);
    // If a point crosses a boundary, a single event counts in the step with the larger part of the
    // point. Many events are divided.
    assert_eq!(counted(&[900, 1900], 1, &all), [0, 1, 0, 0]);
    assert_eq!(counted(&[100, 1100], 1, &all), [1, 0, 0, 0]);
    assert_eq!(counted(&[500, 1500], 1, &all), [1, 0, 0, 0]);
    assert_eq!(counted(&[500, 1500], 7, &all), [4, 3, 0, 0]);
    // If a point extends beyond the range, its event may be inside the range, so it counts.
    for (from, to) in [(0, 2), (2, 4)] {
        for (first, last) in [(1100, 2100), (1900, 2900), (1400, 2600)] {
            let steps = counted(&[first, last], 1, &query(from, to, 2));
            assert_eq!(steps.iter().sum::<u64>(), 1, "{first} {last}: {steps:?}");
        }
    }
    // If a point has many events, their count in each step is proportional and not rounded up.
    assert_eq!(counted(&[1900, 2900], 1000, &query(0, 2, 2)), [0, 100]);
    assert_eq!(counted(&[1900, 2900], 1000, &query(2, 4, 2)), [900, 0]);
}

#[test]
fn owners_beyond_the_limit_count_only_for_the_node() {
    let limits = TimelineLimits {
        points: 5,
        owners: 2,
        ..TimelineLimits::default()
    };
    let view = history(limits, 20, &["a", "b", "c", "d"]).view();
    assert_eq!(view.points.len(), 5);
    assert!(
        view.points
            .iter()
            .all(|p| p.rows.unpack().owners.len() == 2 && p.more_owners == 2)
    );
    let range = view.range(&query(0, 20, 20));
    assert_eq!(range.crowded, 5);
    assert_eq!(
        range.buckets.iter().map(|b| b.used_ns).sum::<u64>(),
        2 * SECOND
    );
}

#[test]
fn point_counts_pairs_without_room() {
    let with = |pairs| {
        let limits = TimelineLimits {
            pairs,
            ..TimelineLimits::default()
        };
        let view = history(limits, 20, &["a", "b"]).view();
        let range = view.range(&query(0, 20, 20));
        (range.pairs.len(), range.crowded, range.crowded_pairs)
    };
    assert_eq!(with(1), (1, 0, 0));
    assert_eq!(with(0), (0, 0, 20));
}

#[test]
fn parties_without_points_are_forgotten() {
    let limits = TimelineLimits {
        points: 3,
        ..TimelineLimits::default()
    };
    let mut history = history(limits, 3, &["gone"]);
    assert_eq!(history.view().parties.len(), 1);
    for at in 4..10 {
        history.observe(&batch(at, &["new"], SECOND / 10));
    }
    let view = history.view();
    let names: Vec<String> = view.parties.keys().map(|id| name(&view, *id)).collect();
    assert_eq!(names, ["new"]);
}

#[test]
fn hour_long_point_keeps_all_use_and_waits() {
    let mut history = Timeline::new(TimelineLimits::default());
    // In an hour, an owner used 64 CPUs and waited for as long.
    history.observe(&batch(0, &["a", "b"], 64 * SECOND));
    history.observe(&batch(3600, &["a", "b"], 64 * SECOND));
    let view = history.view();
    let all = 3600 * 64 * SECOND;
    let pairs = view.points[0].rows.unpack().pairs;
    let pair = (pairs[0].victim, pairs[0].culprit);
    let range = view.range(&TimeSpanQuery {
        waits_of: Some(pair.0),
        pair: Some(pair),
        ..query(0, 3600, 1)
    });
    for owner in &range.owners {
        assert_eq!(owner.cpu_ns, all);
    }
    let owner = |id| range.owners.iter().find(|owner| owner.id == id);
    let waited = owner(pair.0).expect("a row").waited_ns();
    let hurts = owner(pair.1).expect("a row").hurts_ns;
    let steps = range.buckets.iter();
    let waits = [
        waited,
        hurts,
        range.pairs[0].wait_ns,
        steps.clone().map(|step| step.pair_ns).sum(),
        steps.flat_map(|step| step.wait_ns).sum(),
    ];
    assert_eq!(waits, [all; 5]);
}

/// Returns the report of an empty window.
fn report(measured: Measured) -> WaitReport {
    let batch = Batch {
        measured,
        ..Batch::default()
    };
    ReportBuilder::new(batch).waits(Level::Container, false, &crate::Thresholds::default())
}

fn judged(party: Party, kind: VerdictKind) -> WaitReportRow {
    let verdict = crate::Verdict {
        kind,
        ..crate::Verdict::default()
    };
    WaitReportRow {
        verdict,
        ..WaitReportRow::quiet(party)
    }
}

#[test]
fn start_of_a_verdict_is_kept_until_a_quiet_window() {
    let mut history = history(TimelineLimits::default(), 1, &["a"]);
    let quiet = WaitReport {
        window_ns: SECOND,
        ..report(Measured::NONE.with(Counter::Wait(Cause::Neighbour)))
    };
    let row = |kind| judged(Party::Kernel, kind);
    let hurt = WaitReport {
        rows: vec![row(VerdictKind::HurtByHost)],
        ..quiet.clone()
    };
    let mut since = Vec::new();
    for (at, report) in [&hurt, &hurt, &quiet, &hurt].into_iter().enumerate() {
        let batch = batch(at as u64 + 2, &["a"], SECOND);
        history.observe(&batch);
        history.judge(report, Level::Container, batch.time_unix_ns);
        let view = history.view();
        let judged = view.judged_at(batch.time_unix_ns).expect("judged");
        since.push(
            judged
                .findings
                .first()
                .map(|f| (f.since_unix_ns - START) / SECOND),
        );
    }
    assert_eq!(since, [Some(1), Some(1), None, Some(4)]);
    let view = history.view();
    assert!(view.judged_at(START + 2 * SECOND - 1).is_none());
    assert!(
        view.judged_at(START + 4 * SECOND)
            .expect("judged")
            .findings
            .is_empty()
    );
    // The last window counts until the second window after it is missing.
    let last = START + 5 * SECOND;
    let told = |at: u64| view.judged_at(at).map(|judged| judged.time_unix_ns);
    assert_eq!(told(last + 2 * SECOND), Some(last));
    assert_eq!(told(last + 2 * SECOND + 1), None);
}

#[test]
fn start_of_a_verdict_changes_with_kind_or_culprit() {
    let mut history = history(TimelineLimits::default(), 1, &["a"]);
    let verdict = |kind, culprit: Option<&str>| {
        let mut row = judged(Party::Kernel, kind);
        row.verdict.culprit = culprit.map(|name| {
            Party::Group(Arc::new(Owner {
                unit: Some(name.into()),
                ..Owner::unknown(CgroupId(1))
            }))
        });
        WaitReport {
            window_ns: SECOND,
            rows: vec![row],
            ..report(Measured::NONE.with(Counter::Wait(Cause::Neighbour)))
        }
    };
    let neighbour = VerdictKind::HurtByNeighbour;
    let windows = [
        (neighbour, Some("a"), 0),
        (neighbour, Some("a"), 0),
        (neighbour, Some("b"), 2),
        (VerdictKind::HeldByQuota, None, 3),
        (VerdictKind::HeldByQuota, None, 3),
    ];
    for (at, (kind, culprit, began)) in (0..).zip(windows) {
        let ended = START + (at + 1) * SECOND;
        history.judge(&verdict(kind, culprit), Level::Container, ended);
        let view = history.view();
        let judged = view.judged_at(ended).expect("judged");
        let since = judged.findings[0].since_unix_ns;
        assert_eq!((since - START) / SECOND, began, "{at}");
    }
}

#[test]
fn window_without_measured_waits_has_no_verdicts() {
    let mut history = history(TimelineLimits::default(), 1, &["a"]);
    history.judge(&report(Measured::NONE), Level::Container, START);
    assert!(history.view().judged.is_empty());
    assert!(!history.view().range(&query(0, 1, 1)).has_waits());
    assert!(history.view().range(&query(5, 6, 1)).has_waits(), "a gap");
}

#[test]
fn hurt_group_beyond_the_limit_keeps_its_verdict() {
    let limits = TimelineLimits {
        findings: 1,
        ..TimelineLimits::default()
    };
    let mut history = history(limits, 1, &["a", "b", "c", "d"]);
    let mut report = report(Measured::NONE.with(Counter::Wait(Cause::Neighbour)));
    let party = |name: &str| {
        Party::Group(Arc::new(Owner {
            unit: Some(name.into()),
            ..Owner::unknown(CgroupId(1))
        }))
    };
    let kinds = [
        ("a", VerdictKind::HurtByHost),
        ("b", VerdictKind::HeldByQuota),
        ("c", VerdictKind::Quiet),
        ("in no point", VerdictKind::HeldByQuota),
    ];
    report.rows = kinds.map(|(name, kind)| judged(party(name), kind)).into();
    history.judge(&report, Level::Container, START);
    let view = history.view();
    let window = view.judged_at(START).expect("judged");
    assert_eq!((window.findings.len(), window.more), (1, 2));
    let verdicts = window.verdicts();
    let mut verdicts: Vec<(String, VerdictKind)> = verdicts
        .into_iter()
        .map(|(id, kind)| (name(&view, id), kind))
        .collect();
    verdicts.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [kinds[0], kinds[1]].map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(verdicts, expected, "the others are quiet");
}

fn event(at: u64, what: What) -> noctule_model::Event {
    noctule_model::Event {
        time_unix_ns: at,
        process: None,
        origin: noctule_model::Origin::Seen,
        what,
    }
}

const KILL: What = What::OomKill {
    rss_bytes: None,
    limit_bytes: None,
};

const PROCESS: What = What::ProcessStart {
    parent_pid: 1,
    parent: None,
};

#[test]
fn process_storm_does_not_displace_an_oom_kill() {
    let mut log = EventLog::new(EventLogLimits {
        events: 10,
        bytes: 1 << 20,
    });
    log.add([event(1, KILL)]);
    log.add((2..100).map(|at| event(at, PROCESS)));
    let kept = log.within(0, 1000);
    assert_eq!(kept.len(), 11);
    assert_eq!(kept[0].time_unix_ns, 1);
    assert_eq!(log.forgotten(), (88, 89));
    let inside = log.within(1, 91);
    let times: Vec<u64> = inside.iter().map(|e| e.time_unix_ns).collect();
    assert_eq!(times, [1, 90, 91]);
}

#[test]
fn signs_of_trouble_and_latest_events_are_kept() {
    let kinds = [KILL, PROCESS, KILL, PROCESS, PROCESS];
    let events = (1..).zip(kinds).map(|(at, what)| Arc::new(event(at, what)));
    let events: Vec<_> = events.collect();
    let times = |most| -> Vec<u64> {
        let kept = at_most(events.clone(), most);
        kept.iter().map(|event| event.time_unix_ns).collect()
    };
    assert_eq!(times(9), [1, 2, 3, 4, 5]);
    assert_eq!(times(4), [1, 3, 4, 5]);
    assert_eq!(times(3), [1, 3, 5]);
    assert_eq!(times(1), [3]);
}

#[test]
fn unreadable_meter_is_a_gap_without_a_spike() {
    let mut history = Timeline::new(TimelineLimits::default());
    // The meter was read in each second except the third and fourth. The next reading includes the
    // energy of these two seconds.
    for (at, read) in [0, 1, 2, 2, 2, 5, 6].into_iter().enumerate() {
        let at = at as u64;
        let reading = ZoneReading {
            energy_uj: 10_000_000 * read,
            before_ns: read * SECOND,
            after_ns: read * SECOND,
            gaps: u64::from(read >= 5),
            lost_ns: 0,
            failed_ns: 0,
            state: match read == at {
                true => FeatureState::On,
                false => FeatureState::Degraded,
            },
            reason: None,
        };
        let mut batch = (*batch(at, &["a"], SECOND)).clone();
        batch.energy = Some(Energy {
            zones: Arc::new([]),
            readings: vec![reading],
        });
        history.observe(&Arc::new(batch));
    }
    let range = history.view().range(&query(0, 6, 6));
    let zones = range.buckets.iter().map(|step| step.zones[0]);
    let watts = zones.map(|zone| zone.energy_uj * 1000 / zone.covered_ns.max(1));
    assert_eq!(watts.collect::<Vec<_>>(), [10, 10, 0, 0, 0, 10]);
    let read: Vec<bool> = range
        .buckets
        .iter()
        .map(|it| it.zones[0].covered_ns > 0)
        .collect();
    assert_eq!(read, [true, true, false, false, false, true]);
}

/// Returns the power of a group in watts over ten seconds. The meter stands still in these seconds, and then counts
/// their energy.
fn watts(still: &[u64]) -> Option<f64> {
    let mut history = Timeline::new(TimelineLimits::default());
    for at in 0..=10 {
        let mut batch = (*batch(at, &["a"], SECOND)).clone();
        let counted = (0..=at).rev().find(|it| !still.contains(it)).unwrap_or(0);
        batch.energy = Some(Energy {
            zones: [Zone::powercap(ZoneKind::Package, "package-0")].into(),
            readings: vec![ZoneReading::of(5_000_000 * counted)],
        });
        batch.zone_accounts = vec![ZoneAccount {
            driver: Driver::Cycles,
            total_uj: 5_000_000 * counted,
            ..ZoneAccount::default()
        }];
        batch.subjects[0].joules[ZoneKind::Package] = 3_000_000 * counted;
        history.observe(&Arc::new(batch));
    }
    let range = history.view().range(&query(0, 10, 3));
    range.watts(&range.owners[0])
}

#[test]
fn power_is_a_mean_over_the_range_and_unknown_if_a_meter_stands_still() {
    assert_eq!(watts(&[]), Some(3.0));
    assert_eq!(watts(&[4]), Some(3.0), "the next second has the energy");
    assert_eq!(watts(&[4, 5]), None);
    assert_eq!(watts(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), None);
    let history = history(TimelineLimits::default(), 10, &["a"]);
    let range = history.view().range(&query(0, 10, 3));
    assert_eq!(range.watts(&range.owners[0]), None, "no meter");
}

/// Returns the report of a window of one second in which a group has this verdict and was blocked for half a second.
fn window(name: &str, kind: VerdictKind, wait_ns: u64) -> WaitReport {
    let owner = Owner {
        unit: Some(name.into()),
        ..Owner::unknown(CgroupId(1))
    };
    let mut row = judged(Party::Group(Arc::new(owner)), kind);
    row.cpu_ns = SECOND / 4;
    row.wait_ns[Cause::Neighbour as usize] = wait_ns;
    row.blocked_ns[BlockClass::Lock as usize] = SECOND / 2;
    row.verdict.evidence.wait_ns = row.wait_ns;
    row.verdict.evidence.stalls.disk_ns = SECOND / 2;
    let measured = Measured::NONE.with(Counter::Wait(Cause::Neighbour));
    WaitReport {
        window_ns: SECOND,
        rows: vec![row],
        ..report(measured.with(Counter::Blocked(BlockClass::Other)))
    }
}

#[test]
fn episode_ends_at_a_gap_or_another_verdict() {
    let mut history = history(TimelineLimits::default(), 1, &["a", "b"]);
    let (quota, host) = (VerdictKind::HeldByQuota, VerdictKind::HurtByHost);
    let windows = [(1, quota, 1), (2, quota, 3), (3, host, 1), (5, host, 1)];
    for (at, kind, wait) in windows {
        let report = window("a", kind, wait * SECOND);
        history.judge(&report, Level::Container, START + at * SECOND);
    }
    let quiet = window("b", VerdictKind::Quiet, 0);
    history.judge(&quiet, Level::Container, START + 6 * SECOND);
    let view = history.view();
    let groups = view.episodes(0, u64::MAX);
    assert_eq!(groups.len(), 1, "quiet groups have no episode");
    assert_eq!(groups[0].wait_ns, 6 * SECOND);
    let episodes = groups[0].episodes.iter().map(|it| {
        let since_start = |ns| (ns - START) / SECOND;
        let (from, to) = (since_start(it.from_unix_ns), since_start(it.to_unix_ns));
        let worst = since_start(it.worst_unix_ns);
        (from, to, it.kind, it.wait_ns / SECOND, worst)
    });
    let expected = [(0, 2, quota, 4, 2), (2, 3, host, 1, 3), (4, 5, host, 1, 5)];
    assert_eq!(episodes.collect::<Vec<_>>(), expected);
    let early = view.episodes(START, START + 2 * SECOND);
    assert_eq!(early[0].episodes.len(), 1);
}

#[test]
fn held_groups_rank_by_the_time_they_were_held() {
    let limits = TimelineLimits {
        findings: 1,
        ..TimelineLimits::default()
    };
    let mut history = history(limits, 1, &["hurt", "held"]);
    let mut report = window("hurt", VerdictKind::HurtByHost, SECOND / 3);
    let held = window("held", VerdictKind::HeldByDisk, 0);
    report.rows.extend(held.rows);
    history.judge(&report, Level::Container, START + SECOND);
    let groups = history.view().episodes(0, u64::MAX);
    let names = groups.iter().map(|it| it.party.name(Level::Container));
    assert_eq!(names.collect::<Vec<_>>(), ["held"], "one verdict is listed");
    assert_eq!((groups[0].wait_ns, groups[0].hurt_ns), (0, SECOND / 2));
}

#[test]
fn account_of_a_group_is_the_sum_of_the_windows_in_the_range() {
    let mut history = history(TimelineLimits::default(), 1, &["a"]);
    for at in 1..=4 {
        let report = window("a", VerdictKind::Quiet, SECOND / 4);
        history.judge(&report, Level::Container, START + at * SECOND);
    }
    let view = history.view();
    let (id, _) = view.parties.iter().next().expect("a party");
    let account = |from, to| view.account(*id, START + from * SECOND, START + to * SECOND);
    let sum = account(1, 3).expect("windows");
    assert_eq!((sum.judged_ns, sum.cpu_ns), (2 * SECOND, SECOND / 2));
    assert_eq!(sum.wait_ns, SECOND / 2);
    assert_eq!(sum.blocked_ns[BlockClass::Lock as usize], SECOND);
    assert_eq!(
        (sum.from_unix_ns, sum.to_unix_ns),
        (START + SECOND, START + 3 * SECOND)
    );
    assert!(sum.has_blocked);
    // For a range after the last window, the account of that window is used for the same time as
    // its verdict.
    assert_eq!(account(5, 6).expect("the last").judged_ns, SECOND);
    assert_eq!(account(50, 60), None);
    assert_eq!(view.account(*id + 1, 0, START + 4 * SECOND), None);
}

#[test]
fn a_new_cgroup_at_the_same_path_is_a_restart() {
    let mut history = Timeline::new(TimelineLimits::default());
    // Batches with the old cgroup alternate with batches with the new one.
    for (at, cgroup) in [(1, 7), (2, 7), (3, 9), (4, 7), (5, 9), (6, 9)] {
        let mut batch = Batch::clone(&batch(at, &["a.service"], SECOND));
        batch.subjects[0].owner = Arc::new(Owner {
            path: "/system.slice/a.service".into(),
            unit: Some("a.service".into()),
            ..Owner::unknown(CgroupId(cgroup))
        });
        history.observe(&Arc::new(batch));
    }
    let restarts = history.view().restarts;
    let found = restarts.iter().map(|it| (it.cgroup, it.time_unix_ns));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(CgroupId(9), START + 3 * SECOND)]
    );
}

#[test]
fn a_container_with_a_new_id_under_the_same_name_is_a_restart() {
    let mut history = Timeline::new(TimelineLimits::default());
    let container = |id: &str, name: Option<&str>| Owner {
        path: format!("/docker/{id}"),
        container: Some(Container {
            id: id.into(),
            runtime: Runtime::Docker,
            role: ContainerRole::Workload,
            name: name.map(Into::into),
            image: None,
            chain: Vec::new(),
        }),
        ..Owner::unknown(CgroupId(1))
    };
    // The name of the second container arrives later.
    let owners = [
        container("one", Some("web")),
        container("one", Some("web")),
        container("two", None),
        container("two", Some("web")),
        container("two", Some("web")),
    ];
    for (at, owner) in (1..).zip(owners) {
        let mut batch = Batch::clone(&batch(at, &["a"], SECOND));
        batch.subjects[0].subject = owner.subject();
        batch.subjects[0].owner = Arc::new(owner);
        history.observe(&Arc::new(batch));
    }
    let view = history.view();
    let found = view.restarts.iter().map(|it| it.time_unix_ns);
    assert_eq!(found.collect::<Vec<_>>(), [START + 4 * SECOND]);
}
