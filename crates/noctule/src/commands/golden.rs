//! Golden tables at four widths, and what becomes of one without UTF-8 and with colours.
//! `NOCTULE_BLESS=1 cargo test -p noctule --bin noctule golden` writes them anew; then read the diff.

use std::path::Path;
use std::sync::Arc;

use noctule_analysis::{Report, ReportBuilder, Thresholds, WaitReport};
use noctule_model::{
    Batch, Blame, BlameRow, Cause, CgroupId, CgroupRow, Comm, Counter, Counters, Group, Histogram,
    Level, Node, Owner, Pod, ProcessId, ProcessRow, WaitRow,
};
use noctule_text::{ascii, width};

use super::columns::Choice;
use super::users::Users;
use super::{table, wait_answers, wait_table};
use crate::print::Paint;

const MS: u64 = 1_000_000;

/// Columns of the terminals; `None` is a file or a pipe.
const WIDTHS: [Option<usize>; 5] = [Some(40), Some(80), Some(120), Some(250), None];

/// What ran: path, CPU time, waits (how many, how long each), the cause of them, and behind whom.
type Ran = (&'static str, u64, u64, u64, Cause, Option<u64>);

const RAN: [Ran; 5] = [
    (
        "/kubepods/burstable/pod1f3c/shop-checkout-77aa",
        520,
        260,
        4 * MS,
        Cause::Neighbour,
        Some(1),
    ),
    (
        "/system.slice/backup-of-the-database.service",
        1040,
        40,
        2 * MS,
        Cause::Own,
        None,
    ),
    (
        "/system.slice/web.service",
        100,
        9,
        80 * MS,
        Cause::Throttle,
        None,
    ),
    (
        "/user.slice/user-1000.slice/größe.scope",
        300,
        12,
        9 * MS,
        Cause::Neighbour,
        Some(1),
    ),
    (
        "/system.slice/cron.service",
        3,
        4,
        MS / 50,
        Cause::Idle,
        None,
    ),
];

fn owner(id: u64, path: &str) -> Arc<Owner> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let unit = name.ends_with(".service").then(|| name.to_owned());
    let pod = path.contains("/pod").then(|| Pod {
        uid: "1f3c0b1e-0000-4000-8000-000000000001".into(),
        qos: "burstable",
        name: Some("shop-7d9f".into()),
        namespace: Some("web".into()),
    });
    Arc::new(Owner {
        path: path.into(),
        unit,
        pod,
        ..Owner::unknown(CgroupId(id))
    })
}

fn builder() -> ReportBuilder {
    let node = |elapsed_ns| Node {
        cpus: 2,
        elapsed_ns,
        ..Node::default()
    };
    let measured = Counter::all().filter(|counter| {
        !matches!(
            counter,
            Counter::Cycles
                | Counter::Instructions
                | Counter::ReferenceCycles
                | Counter::CacheMisses
        )
    });
    let first = Batch {
        node: node(0),
        measured: measured.collect(),
        ..Batch::default()
    };
    let mut batch = Batch {
        sequence: 1,
        taken_ns: 2000 * MS,
        node: node(4000 * MS),
        ..first.clone()
    };
    for (id, (path, cpu_ms, count, each, cause, behind)) in (0..).zip(RAN) {
        let owner = owner(id, path);
        let mut counters = Counters::default();
        counters[Counter::CpuTime] = cpu_ms * MS;
        counters[Counter::PageReads] = cpu_ms * 3;
        counters[Counter::SwitchesVoluntary] = count;
        counters[Counter::SwitchesPreempted] = count / 3;
        counters[Counter::Wait(cause)] = count * each;
        if cause == Cause::Throttle {
            counters[Counter::SwitchesThrottled] = count;
        }
        batch.node.total += &counters;
        let row = CgroupRow {
            id: CgroupId(id),
            owner: Some(owner.clone()),
            counters,
            ..CgroupRow::default()
        };
        batch.cgroups.push(row);
        batch.processes.push(ProcessRow {
            id: ProcessId {
                pid: 4000 + id as u32,
                start_ns: 1,
            },
            comm: Comm::new(b"worker"),
            cgroup: CgroupId(id),
            owner: Some(owner),
            counters,
            ..ProcessRow::default()
        });
        let mut counts = vec![0; Histogram::BUCKETS];
        counts[Histogram::bucket(each)] = count;
        let group = Group::Cgroup(CgroupId(id));
        batch.waits.push(WaitRow {
            group,
            histogram: Histogram::from_counts(counts),
        });
        batch.blames.extend(behind.map(|culprit| BlameRow {
            victim: group,
            culprit: Group::Cgroup(CgroupId(culprit)),
            blame: Blame {
                wait_ns: count * each,
                preemptions: count / 4,
            },
        }));
    }
    batch.node.idle_ns = 4000 * MS - batch.node.total[Counter::CpuTime] - 20 * MS;
    let mut builder = ReportBuilder::new(first);
    builder.add(batch);
    builder
}

fn stat(report: &Report, level: Level, paint: Paint) -> String {
    let choice = Choice::usual(&table::columns());
    let users = Users::new(false);
    table::draw(report, level, 4, false, &choice, &users, paint)
}

fn waits(report: &WaitReport, paint: Paint) -> String {
    let (level, choice) = (Level::Container, Choice::usual(&wait_table::columns()));
    wait_answers::draw(report, level, 10, paint)
        + &wait_table::draw(report, level, 4, &choice, paint)
}

#[test]
fn tables_are_as_they_were() {
    let builder = builder();
    let containers = builder.report(Level::Container, false);
    let processes = builder.report(Level::Process, false);
    let waited = builder.waits(Level::Container, false, &Thresholds::default());
    let mut now = Vec::new();
    for room in WIDTHS {
        let paint = room.map_or_else(Paint::none, Paint::plain);
        let name = room.map_or("pipe".to_owned(), |room| room.to_string());
        let drawn = [
            ("stat", stat(&containers, Level::Container, paint)),
            ("stat-process", stat(&processes, Level::Process, paint)),
            ("waits", waits(&waited, paint)),
        ];
        for (table, text) in drawn {
            for line in text.lines() {
                let room = room.unwrap_or(usize::MAX);
                assert!(width(line) <= room, "{table} {room}: {line}");
            }
            now.push((format!("{table}-{name}"), text));
        }
    }
    now.push((
        "waits-ascii-80".into(),
        ascii(&waits(&waited, Paint::plain(80))),
    ));
    now.push((
        "waits-colours-80".into(),
        waits(&waited, Paint::colours(80)),
    ));
    compare(&now);
}

fn compare(now: &[(String, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/golden");
    let mut wrong = Vec::new();
    for (name, text) in now {
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(&path, text).expect("it can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != *text {
            wrong.push(format!("--- {name}\n{golden}+++ now\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
