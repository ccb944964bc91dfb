//! Reports of handmade batches.

use noctule_model::{Container, ContainerRole, ProcessId, ProcessRow, Runtime, WaitRow, Waiting};

use super::*;
use crate::{Named, Selection};

mod memory;
mod quota;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn owner(id: u64, path: &str) -> Arc<Owner> {
    let unit = path.rsplit('/').find(|part| part.ends_with(".service"));
    let container = path
        .split('/')
        .nth(2)
        .filter(|_| path.starts_with("/docker/"));
    Arc::new(Owner {
        path: path.into(),
        unit: unit.map(Into::into),
        container: container.map(|id| Container {
            id: id.into(),
            runtime: Runtime::Docker,
            role: ContainerRole::Workload,
            name: None,
            image: None,
            chain: vec![],
        }),
        ..Owner::unknown(CgroupId(id))
    })
}

/// Returns a group whose threads ran and waited. `own`, `kernel` and `neighbours` are the sums
/// reported by the kernel side.
fn group(id: u64, path: &str, own_ms: u64, kernel_ms: u64, neighbour_ms: u64) -> CgroupRow {
    let mut row = CgroupRow {
        id: CgroupId(id),
        owner: Some(owner(id, path)),
        ..CgroupRow::default()
    };
    row.counters[Counter::CpuTime] = 100 * MS;
    row.counters[Counter::Wait(Cause::Own)] = own_ms * MS;
    row.counters[Counter::Wait(Cause::Kernel)] = kernel_ms * MS;
    row.counters[Counter::Wait(Cause::Neighbour)] = neighbour_ms * MS;
    row
}

fn cell(victim: u64, culprit: Group, ms: u64) -> BlameRow {
    BlameRow {
        victim: Group::Cgroup(CgroupId(victim)),
        culprit,
        blame: Blame {
            wait_ns: ms * MS,
            preemptions: ms,
        },
    }
}

fn report(level: Level, batch: Batch) -> WaitReport {
    let mut builder = ReportBuilder::new(Batch::default());
    builder.add(Batch {
        taken_ns: 1000 * MS,
        ..batch
    });
    builder.waits(level, false, &Thresholds::default())
}

fn row<'a>(report: &'a WaitReport, level: Level, name: &str) -> &'a WaitReportRow {
    let found = report.rows.iter().find(|row| row.party.name(level) == name);
    found.unwrap_or_else(|| panic!("no row {name}"))
}

fn of(id: u64) -> Group {
    Group::Cgroup(CgroupId(id))
}

/// Returns a batch with a container of two cgroups, another container, a unit and the root group.
fn machine() -> Batch {
    Batch {
        cgroups: vec![
            group(10, "/docker/aaaa", 5, 7, 30),
            group(11, "/docker/aaaa/inner", 0, 0, 40),
            group(20, "/docker/bbbb", 0, 0, 0),
            group(30, "/system.slice/backup.service", 0, 0, 0),
            group(1, "/", 0, 0, 0),
        ],
        blames: vec![
            cell(10, of(20), 20),
            cell(10, of(30), 10),
            cell(11, of(10), 25),
            cell(11, of(1), 9),
            cell(11, Group::Unnamed, 6),
        ],
        ..Batch::default()
    }
}

#[test]
fn groups_of_a_container_are_own_and_units_neighbours() {
    let report = report(Level::Container, machine());
    let victim = row(&report, Level::Container, "aaaa");
    let of = |cause: Cause| victim.wait_ns[cause as usize] / MS;
    // Waits for groups that had no row in the table.
    let wanted = victim.verdict.evidence.wanted_ns() as f64;
    let nameless = report.reason(victim, Level::Container).nameless;
    assert_eq!(nameless, (6 * MS) as f64 / wanted);
    assert_eq!(of(Cause::Own), 5 + 25);
    assert_eq!(of(Cause::Kernel), 7);
    assert_eq!(of(Cause::Neighbour), 20 + 10 + 9 + 6);
    assert_eq!(victim.preemptions, [20 + 10 + 9 + 6, 25, 0]);
    let names: Vec<(String, u64)> = victim
        .culprits
        .iter()
        .map(|c| (c.party.name(Level::Container), c.blame.wait_ns / MS))
        .collect();
    let expected = [
        ("bbbb", 20),
        ("backup.service", 10),
        ("(root)", 9),
        ("kernel threads", 7),
        ("others", 6),
    ];
    let expected: Vec<_> = expected.map(|(name, ms)| (name.to_owned(), ms)).into();
    assert_eq!(names, expected);
}

#[test]
fn harm_mirrors_the_culprits_of_other_groups() {
    let report = report(Level::Cgroup, machine());
    let hurts = |path: &str| {
        let hurts = &row(&report, Level::Cgroup, path).hurts;
        let most = hurts
            .most
            .as_ref()
            .map(|(party, _)| party.name(Level::Cgroup));
        (hurts.wait_ns / MS, most)
    };
    let inner = "/docker/aaaa/inner";
    assert_eq!(hurts("/docker/bbbb"), (20, Some("/docker/aaaa".into())));
    assert_eq!(hurts("/docker/aaaa"), (25, Some(inner.into())));
    assert_eq!(hurts(inner), (0, None));
}

#[test]
fn selected_group_reports_harm_to_unselected_groups() {
    let chosen = Selection::default().with_names(Named::Cgroup, &["/docker/bbbb".into()]);
    let mut builder = ReportBuilder::new(Batch::default()).select(chosen.expect("a path"));
    builder.add(Batch {
        taken_ns: 1000 * MS,
        ..machine()
    });
    let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| row.party.name(Level::Cgroup))
        .collect();
    assert_eq!(rows, ["/docker/bbbb"]);
    let hurts = &report.rows[0].hurts;
    let most = hurts
        .most
        .as_ref()
        .map(|(party, _)| party.name(Level::Cgroup));
    assert_eq!(
        (hurts.wait_ns / MS, most),
        (20, Some("/docker/aaaa".into()))
    );
}

#[test]
fn the_parts_add_up_at_every_level() {
    for level in [Level::Container, Level::Pod, Level::Unit, Level::Cgroup] {
        let report = report(level, machine());
        let all: u64 = report.rows.iter().map(WaitReportRow::total_ns).sum();
        assert_eq!(all, (5 + 7 + 30 + 40) * MS, "{level:?}");
        for row in &report.rows {
            let others = [Cause::Neighbour, Cause::Kernel].map(|c| row.wait_ns[c as usize]);
            assert_eq!(
                row.wait_on_others_ns(),
                others.iter().sum::<u64>(),
                "{level:?}"
            );
        }
    }
}

#[test]
fn other_group_of_a_container_is_a_neighbour_by_cgroup() {
    let report = report(Level::Cgroup, machine());
    let inner = row(&report, Level::Cgroup, "/docker/aaaa/inner");
    assert_eq!(inner.wait_ns[Cause::Own as usize], 0);
    assert_eq!(inner.wait_ns[Cause::Neighbour as usize], (25 + 9 + 6) * MS);
}

#[test]
fn command_is_one_group_regardless_of_its_cgroups() {
    let mut process = ProcessRow {
        id: ProcessId {
            pid: 5,
            start_ns: 1,
        },
        followed: true,
        ..ProcessRow::default()
    };
    process.counters[Counter::Wait(Cause::Own)] = 3 * MS;
    let histogram = Histogram::from_counts([0, 4]);
    let batch = Batch {
        processes: vec![process],
        waits: vec![WaitRow {
            group: Group::Followed,
            histogram: histogram.clone(),
        }],
        blames: vec![BlameRow {
            victim: Group::Followed,
            ..cell(0, of(20), 8)
        }],
        ..machine()
    };
    let mut builder = ReportBuilder::new(Batch::default());
    builder.add(batch);
    let report = builder.waits(Level::Container, true, &Thresholds::default());
    assert_eq!(report.rows.len(), 1);
    let row = row(&report, Level::Container, "the command");
    assert_eq!(row.total_ns(), (3 + 8) * MS);
    assert_eq!(row.histogram, histogram);
    assert_eq!(row.culprits[0].party.name(Level::Container), "bbbb");
}

#[test]
fn reasons_contain_the_figures_behind_the_verdict() {
    let report = report(Level::Container, machine());
    let victim = row(&report, Level::Container, "aaaa");
    assert_eq!(victim.verdict.kind, VerdictKind::HurtByNeighbours);
    let reason = report.reason(victim, Level::Container);
    let culprits: Vec<_> = reason
        .culprits
        .iter()
        .map(|c| (c.name.as_str(), (c.share * 100.0).round()))
        .collect();
    assert_eq!(
        culprits,
        [("bbbb", 7.0), ("backup.service", 4.0), ("(root)", 3.0)]
    );
    assert_eq!((reason.contended * 100.0).round(), 29.0);
    let quiet = Batch {
        cgroups: vec![group(20, "/docker/bbbb", 1, 0, 0)],
        ..Batch::default()
    };
    let report = self::report(Level::Container, quiet);
    let reason = report.reason(&report.rows[0], Level::Container);
    assert_eq!(reason.kind, VerdictKind::Quiet);
    assert_eq!(reason.culprits, []);
}

#[test]
fn current_waits_are_summed_from_the_last_batch() {
    let mut batch = machine();
    batch.cgroups[0].waiting = Waiting::thread(2 * 1_000_000_000);
    batch.cgroups[1].waiting = Waiting::thread(18 * 1_000_000_000);
    let report = report(Level::Container, batch);
    let victim = row(&report, Level::Container, "aaaa");
    let expected = Waiting {
        threads: 2,
        longest_ns: 18 * 1_000_000_000,
    };
    assert_eq!(victim.waiting, expected);
    let reason = report.reason(victim, Level::Container);
    assert_eq!(reason.waiting, Some(expected));
    let other = row(&report, Level::Container, "bbbb");
    assert_eq!(other.waiting, Waiting::default());
}

#[test]
fn many_jobs_below_one_group_are_one_culprit() {
    let jobs = 20..40;
    let path = |id| format!("/ci.slice/job-{id}");
    let mut cgroups = vec![group(10, "/web.slice/shop", 0, 0, 100)];
    cgroups.extend(jobs.clone().map(|id| group(id, &path(id), 0, 0, 0)));
    cgroups.push(group(50, "/web.slice/other", 0, 0, 0));
    let mut blames: Vec<BlameRow> = jobs.map(|id| cell(10, of(id), 4)).collect();
    blames.push(cell(10, of(50), 20));
    let report = report(
        Level::Cgroup,
        Batch {
            cgroups,
            blames,
            ..Batch::default()
        },
    );
    let victim = row(&report, Level::Cgroup, "/web.slice/shop");
    assert_eq!(victim.verdict.kind, VerdictKind::HurtByNeighbour);
    let culprit = victim.verdict.culprit.as_ref().expect("one");
    assert_eq!(culprit.name(Level::Cgroup), "ci.slice/*: 20 jobs");
    assert_eq!(report.reason(victim, Level::Cgroup).culprits[0].share, 0.4);
    assert_eq!(victim.culprits.len(), 21, "each is listed");
}

/// The parent spends its CPU time on starting short jobs. The parent causes most of the wait, and
/// parent and jobs together cause all of it.
#[test]
fn parent_of_many_jobs_is_blamed_with_them() {
    let jobs = 20..30;
    let path = |id| format!("/ci.slice/job-{id}");
    let mut cgroups = vec![group(10, "/web.slice/shop", 0, 0, 100)];
    cgroups.extend(jobs.clone().map(|id| group(id, &path(id), 0, 0, 0)));
    cgroups.push(group(50, "/ci.slice", 0, 0, 0));
    let mut blames: Vec<BlameRow> = jobs.map(|id| cell(10, of(id), 4)).collect();
    blames.push(cell(10, of(50), 60));
    let report = report(
        Level::Cgroup,
        Batch {
            cgroups,
            blames,
            ..Batch::default()
        },
    );
    let victim = row(&report, Level::Cgroup, "/web.slice/shop");
    let culprit = victim.verdict.culprit.as_ref().expect("one");
    assert_eq!(culprit.name(Level::Cgroup), "ci.slice/*: 10 jobs");
    assert_eq!(victim.verdict.evidence.top_culprit_ns, 100 * MS);
}

#[test]
fn quota_that_throttled_most_is_named() {
    let quota = |id, path: &str, cpus, periods, throttled_ns| QuotaRow {
        cgroup: CgroupId(id),
        path: path.to_owned(),
        cpus,
        period_ns: 100 * MS,
        periods,
        throttled_periods: periods.saturating_sub(1),
        throttled_ns,
        ended: false,
    };
    // The victim existed before the window, but its quota was first read in the window. Which
    // periods belong to the window is therefore unknown.
    let first = Batch {
        cgroups: vec![CgroupRow {
            counters: Counters::default(),
            ..group(10, "/a/victim", 0, 0, 0)
        }],
        quotas: vec![quota(1, "/a", 0.5, 10, 0), quota(3, "/b", 0.1, 0, 0)],
        ..Batch::default()
    };
    let mut victim = group(10, "/a/victim", 0, 0, 300);
    victim.counters[Counter::Wait(Cause::Throttle)] = 500 * MS;
    let last = Batch {
        taken_ns: 1000 * MS,
        cgroups: vec![victim, group(40, "/", 0, 0, 300)],
        blames: vec![cell(10, of(20), 300)],
        quotas: vec![
            quota(1, "/a", 0.5, 20, 500 * MS),
            quota(2, "/a/victim", 0.4, 20, MS),
            quota(3, "/b", 0.1, 10, 900 * MS),
        ],
        ..Batch::default()
    };
    let mut builder = ReportBuilder::new(first);
    builder.add(last);
    let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
    let root = row(&report, Level::Cgroup, "(root)");
    assert_eq!(root.quota, None, "it is none of the groups inside");
    let row = row(&report, Level::Cgroup, "/a/victim");
    let quota = row.quota.as_ref().expect("one throttled it");
    assert_eq!((quota.cpus, quota.group.as_deref()), (0.5, Some("/a")));
    assert_eq!((quota.periods, quota.throttled_periods), (10, 10));
    // The quota ran out in every period, so the neighbour took nothing.
    assert_eq!(row.verdict.kind, VerdictKind::HeldByQuota);
}

/// Returns a report about a job that began in the window next to a busy neighbour. A quota
/// throttled the job for two of its four seconds. `limited` is the group with the quota.
fn short_job(limited: &str, followed: bool) -> WaitReport {
    let mut job = group(10, "/scope/job", 0, 0, 300);
    job.counters[Counter::Wait(Cause::Throttle)] = 2000 * MS;
    let process = ProcessRow {
        id: ProcessId {
            pid: 7,
            start_ns: 1,
        },
        cgroup: CgroupId(10),
        owner: job.owner.clone(),
        counters: job.counters,
        followed,
        ..ProcessRow::default()
    };
    let neighbour = || group(20, "/neighbour", 0, 0, 0);
    let victim = match followed {
        true => Group::Followed,
        false => of(10),
    };
    let blame = BlameRow {
        victim,
        ..cell(10, of(20), 300)
    };
    let mut builder = ReportBuilder::new(Batch {
        cgroups: vec![neighbour()],
        ..Batch::default()
    });
    let during = Batch {
        taken_ns: 2000 * MS,
        processes: vec![process.clone()],
        cgroups: vec![job, neighbour()],
        blames: vec![blame],
        quotas: vec![QuotaRow {
            cgroup: CgroupId(9),
            path: limited.into(),
            cpus: 0.5,
            period_ns: 100 * MS,
            periods: 20,
            throttled_periods: 20,
            throttled_ns: 2000 * MS,
            ended: false,
        }],
        ..Batch::default()
    };
    builder.add(during.clone());
    // The directory was removed, but the batch still has the CPU time of its threads.
    builder.add(Batch {
        taken_ns: 4000 * MS,
        processes: Vec::new(),
        exited: vec![process],
        quotas: Vec::new(),
        ..during
    });
    builder.waits(Level::Cgroup, followed, &Thresholds::default())
}

#[test]
fn short_lived_group_is_held_by_its_quota() {
    for limited in ["/scope/job", "/scope"] {
        let report = short_job(limited, false);
        let job = row(&report, Level::Cgroup, "/scope/job");
        let quota = job.quota.as_ref().expect("it throttled the job");
        assert_eq!((quota.periods, quota.throttled_periods), (20, 20));
        assert_eq!(job.verdict.kind, VerdictKind::HeldByQuota);
    }
}

#[test]
fn a_command_is_held_by_the_quota_of_its_group() {
    let report = short_job("/scope", true);
    let command = &report.rows[0];
    assert_eq!(command.party, Party::Command);
    let quota = command.quota.as_ref().expect("that of its group");
    assert_eq!(quota.group.as_deref(), Some("/scope"));
    assert_eq!(command.verdict.kind, VerdictKind::HeldByQuota);
}

#[test]
fn row_of_a_command_shows_the_waits_it_caused() {
    let mut builder = ReportBuilder::new(Batch::default());
    let process = ProcessRow {
        followed: true,
        counters: group(20, "/", 0, 0, 0).counters,
        ..ProcessRow::default()
    };
    builder.add(Batch {
        taken_ns: 1000 * MS,
        processes: vec![process],
        cgroups: vec![group(10, "/nginx", 0, 0, 300)],
        blames: vec![cell(10, Group::Followed, 300)],
        ..Batch::default()
    });
    let report = builder.waits(Level::Cgroup, true, &Thresholds::default());
    let [command] = &report.rows[..] else {
        panic!("{:?}", report.rows);
    };
    assert_eq!(command.hurts.wait_ns, 300 * MS);
    let (most, _) = command.hurts.most.as_ref().expect("nginx");
    assert_eq!(most.name(Level::Cgroup), "/nginx");
}

#[test]
fn huge_waits_do_not_overflow_shares() {
    // Ten thousand threads, for most of a day.
    let ms = 10_000 * 72_000_000;
    let report = report(
        Level::Cgroup,
        Batch {
            cgroups: vec![group(10, "/victim", 0, 0, ms), group(20, "/b", 0, 0, 0)],
            blames: vec![cell(10, of(20), ms)],
            ..Batch::default()
        },
    );
    let mut victim = row(&report, Level::Cgroup, "/victim").clone();
    victim.verdict.culprit = None;
    let named = victim.main_culprit().map(|who| who.name(Level::Cgroup));
    assert_eq!(named.as_deref(), Some("/b"));
}

#[test]
fn threads_sharing_a_cpu_blame_the_holder_of_the_other() {
    let judged_on = |cpus, room: Option<[u32; 2]>, idle_ms| {
        let mut a = group(10, "/a", 1000, 0, 0);
        a.counters[Counter::CpuTime] = 1000 * MS;
        a.room = room.map(|[threads, cpus]| ThreadRoom { threads, cpus });
        let mut b = group(20, "/b", 0, 0, 0);
        b.counters[Counter::CpuTime] = 950 * MS;
        let node = noctule_model::Node {
            cpus,
            idle_ns: idle_ms * MS,
            ..noctule_model::Node::default()
        };
        let report = report(
            Level::Cgroup,
            Batch {
                node,
                cgroups: vec![a, b, group(30, "/c", 0, 0, 0)],
                ..Batch::default()
            },
        );
        let row = row(&report, Level::Cgroup, "/a");
        let culprit = row.verdict.culprit.as_ref();
        let named = report.reason(row, Level::Cgroup).culprits;
        (
            row.verdict.kind,
            culprit.map(|it| it.name(Level::Cgroup)),
            named.first().map(|it| it.name.clone()),
        )
    };
    let judged = |room, idle_ms| judged_on(2, room, idle_ms);
    let b = || Some("/b".to_owned());
    let by_b = (VerdictKind::HurtByNeighbour, b(), b());
    assert_eq!(judged(Some([2, 2]), 0), by_b);
    // The scheduler had another CPU for the threads.
    assert_eq!(judged(Some([2, 2]), 1000), (VerdictKind::Quiet, None, None));
    // The threads may use two of the four CPUs. Which groups ran on these two is unknown.
    let judged_there = judged_on(4, Some([2, 2]), 0);
    assert_eq!(judged_there, (VerdictKind::HurtByNeighbours, None, None));
    // The threads may use only one CPU, there are more threads than CPUs, or the number of CPUs is
    // unknown.
    for room in [Some([2, 1]), Some([3, 2]), None] {
        let own = (VerdictKind::TooManyThreads, None, None);
        assert_eq!(judged(room, 0), own, "{room:?}");
    }
}

#[test]
fn earlier_waits_do_not_count_after_a_name_loss() {
    let first = Batch {
        blames: vec![cell(10, of(20), 70), cell(10, Group::Unnamed, 5)],
        ..machine()
    };
    let last = Batch {
        taken_ns: 1000 * MS,
        blames: vec![cell(10, Group::Unnamed, 78)],
        ..machine()
    };
    let mut builder = ReportBuilder::new(first);
    builder.add(last);
    let report = builder.waits(Level::Container, false, &Thresholds::default());
    let blamed: u64 = report
        .rows
        .iter()
        .map(WaitReportRow::wait_on_others_ns)
        .sum();
    assert_eq!(blamed, 3 * MS);
}

#[test]
fn removed_culprits_and_victims_keep_their_names() {
    let batch = |groups: &[u64], blames| {
        let all = machine().cgroups.into_iter();
        Batch {
            cgroups: all.filter(|row| groups.contains(&row.id.0)).collect(),
            waits: groups.iter().map(|id| waited(*id)).collect(),
            blames,
            ..Batch::default()
        }
    };
    let mut builder = ReportBuilder::new(batch(&[10], vec![cell(10, Group::Unnamed, 1)]));
    let blames = vec![
        cell(10, Group::Unnamed, 2),
        cell(10, of(20), 40),
        cell(30, of(10), 8),
    ];
    builder.add(batch(&[10, 20, 30], blames));
    // The rows of the culprit and the victim disappear: the waits for the culprit become unnamed,
    // and the victim is dropped.
    builder.add(batch(&[10], vec![cell(10, Group::Unnamed, 45)]));
    let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
    let reported = |name: &str| {
        let row = row(&report, Level::Cgroup, name);
        let culprits = row.culprits.iter().map(|culprit| {
            let name = culprit.party.name(Level::Cgroup);
            (name, culprit.blame.wait_ns / MS)
        });
        let named = culprits.filter(|(name, _)| name != "kernel threads");
        (row.histogram.count(), named.collect::<Vec<_>>())
    };
    // The first wait began before the window.
    let first = [("/docker/bbbb", 40), ("others", 4)].map(|(name, ms)| (name.to_owned(), ms));
    assert_eq!(reported("/docker/aaaa"), (0, first.to_vec()));
    let second = ("/docker/aaaa".to_owned(), 8);
    let backup = "/system.slice/backup.service";
    assert_eq!(reported(backup), (1, vec![second]));
}

fn waited(id: u64) -> WaitRow {
    WaitRow {
        group: of(id),
        histogram: Histogram::from_counts([0, 1]),
    }
}
