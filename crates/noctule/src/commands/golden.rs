//! Golden tables at four widths, in ASCII and with colours.
//! `NOCTULE_BLESS=1 cargo test -p noctule --bin noctule golden` rewrites them; read the diff.

use std::path::Path;
use std::sync::Arc;

use noctule_analysis::{
    CpuUse, Party, ProcessUse, Report, ReportBuilder, StripStep, Thresholds, WaitReport,
};
use noctule_model::{
    Batch, Blame, BlameRow, Cause, CgroupId, CgroupRow, Comm, Counter, Counters, CpuWeight, Energy,
    FeatureState, Group, Histogram, Level, Node, Owner, Pod, ProcessId, ProcessRow, RealTime,
    WaitRow, Waiting, Zone, ZoneAccount, ZoneKind, ZoneReading,
};
use noctule_text::{ascii, width};
use serde_json::Value;

use super::measure::energy_table;
use super::measure::wait_answers;
use super::measure::wait_table;
use super::measure::why_text;
use super::shared::columns::Choice;
use super::shared::stat_table;
use crate::print::Paint;
use crate::users::Users;

mod others;

const MS: u64 = 1_000_000;

/// Terminal widths; `None` stands for a file or a pipe.
const WIDTHS: [Option<usize>; 5] = [Some(40), Some(80), Some(120), Some(250), None];

/// Activity of a group: path, CPU time, number and length of its waits, the cause of the waits, and
/// the culprit.
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

/// Adds an energy zone to the second batch: 40 J in total, 12 J of which are idle energy.
fn meter(batch: &mut Batch, active_uj: u64) {
    let zone = Zone {
        socket: Some(0),
        path: "/sys/class/powercap/intel-rapl:0".into(),
        ..Zone::powercap(ZoneKind::Package, "package-0")
    };
    let idle_uj = active_uj / 28 * 12;
    batch.energy = Some(Energy {
        zones: [zone].into(),
        readings: vec![ZoneReading::of(active_uj + idle_uj)],
    });
    batch.zone_accounts = vec![ZoneAccount {
        idle_uj,
        active_uj,
        total_uj: active_uj + idle_uj,
        residual_uj2: active_uj as f64 * 1e3,
        ..ZoneAccount::default()
    }];
    let all = batch.node.total[Counter::CpuTime].max(1);
    let part = |cpu_ns: u64| (u128::from(active_uj) * u128::from(cpu_ns) / u128::from(all)) as u64;
    for row in &mut batch.cgroups {
        row.joules[ZoneKind::Package] = part(row.counters[Counter::CpuTime]);
    }
    for row in &mut batch.processes {
        row.joules[ZoneKind::Package] = part(row.counters[Counter::CpuTime]);
    }
}

fn counters(cpu_ms: u64, count: u64, each: u64, cause: Cause) -> Counters {
    let mut counters = Counters::default();
    counters[Counter::CpuTime] = cpu_ms * MS;
    counters[Counter::PageReads] = cpu_ms * 3;
    counters[Counter::SwitchesVoluntary] = count;
    counters[Counter::SwitchesPreempted] = count / 3;
    counters[Counter::Wait(cause)] = count * each;
    if cause == Cause::Throttle {
        counters[Counter::SwitchesThrottled] = count;
    }
    counters
}

/// A thread of the user has been runnable for 12 s, and three threads of the pod have waited for
/// `each`.
fn waiting(id: u64, each: u64) -> Waiting {
    let (threads, longest_ns) = match id {
        0 => (3, each),
        3 => (1, 12_000 * MS),
        _ => (0, 0),
    };
    Waiting {
        threads,
        longest_ns,
    }
}

/// Returns an empty batch and a batch 2 s later that contains the activity.
fn batches(metered: bool) -> [Batch; 2] {
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
    let mut first = Batch {
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
        let counters = counters(cpu_ms, count, each, cause);
        batch.node.total += &counters;
        let row = CgroupRow {
            id: CgroupId(id),
            owner: Some(owner.clone()),
            counters,
            waiting: waiting(id, each),
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
    if metered {
        meter(&mut first, 0);
        meter(&mut batch, 28_000_000);
    }
    [first, batch]
}

fn builder(metered: bool) -> ReportBuilder {
    let [first, batch] = batches(metered);
    let mut builder = ReportBuilder::new(first);
    builder.add(batch);
    builder
}

fn energy(report: &Report, level: Level, paint: Paint) -> String {
    let choice = Choice::usual(&energy_table::columns());
    let users = Users::new(None);
    energy_table::draw(report, level, 4, false, &choice, &users, paint)
}

/// An idle process of the first row.
fn asleep() -> ProcessUse {
    let id = ProcessId {
        pid: 4242,
        start_ns: 1,
    };
    ProcessUse::idle(id, Comm::new(b"logger"))
}

/// Returns the output of `why` for the first row or one of its processes, including settings that
/// are read from files.
fn reason(builder: &ReportBuilder, asked: Option<&ProcessUse>, paint: Paint) -> String {
    let party = Party::Group(owner(0, RAN[0].0));
    let mut why = builder.why(&party, Level::Container, asked, &Thresholds::default());
    why.weight = Some(CpuWeight::Weight(100));
    why.allowed = Some(vec![1]);
    why.pressure = Some(41.7);
    let cpu = |cpu: u32, idle_ms: u64, holders: &[(Party, u64)]| CpuUse {
        cpu,
        elapsed_ns: 2000 * MS,
        idle_ns: idle_ms * MS,
        interrupt_ns: Some(4 * MS),
        steal_ns: Some(60 * MS * u64::from(cpu)),
        holders: holders
            .iter()
            .map(|(it, ms)| (it.clone(), ms * MS))
            .collect(),
    };
    let kernel = Party::Kernel;
    let other = Party::Group(owner(1, RAN[1].0));
    why.cpus = vec![
        cpu(0, 1965, &[(kernel, 9)]),
        cpu(1, 0, &[(other, 1210), (party, 702)]),
    ];
    let step = |cpu_ms: u64, wait_ms: u64| StripStep {
        time_unix_ns: 0,
        length_ns: 1000 * MS,
        cpu_ns: cpu_ms * MS,
        wait_ns: wait_ms * MS,
        throttled_ns: 0,
    };
    why.steps = vec![step(400, 100), step(120, 940)];
    let commands = [
        "checkout --listen 0.0.0.0:8080 --database postgres://shop/checkout --log-level debug --workers 8",
        "pg_dump --format=custom shop",
    ];
    let culprits = why.culprits.iter_mut().flat_map(|(_, processes)| processes);
    for (process, command) in why.processes.iter_mut().chain(culprits).zip(commands) {
        process.command = Some(command.to_owned());
    }
    if let Some((_, processes)) = why.culprits.first_mut() {
        processes[0].real_time = RealTime::new(1, 10);
    }
    why_text::draw(&why, paint)
}

fn stat(report: &Report, level: Level, paint: Paint) -> String {
    let choice = Choice::usual(&stat_table::columns());
    let users = Users::new(None);
    stat_table::draw(report, level, 4, false, &choice, &users, paint)
}

fn waits(report: &WaitReport, paint: Paint) -> String {
    let (level, choice) = (Level::Container, Choice::usual(&wait_table::columns()));
    wait_answers::draw(report, level, 10, paint)
        + &wait_table::draw(report, level, 4, &choice, paint)
}

#[test]
fn tables_match_the_golden_files() {
    let (builder, metered) = (builder(false), builder(true));
    let joules = metered.report(Level::Container, false);
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
            ("why", reason(&builder, None, paint)),
            ("why-process", reason(&builder, Some(&asleep()), paint)),
            ("energy", energy(&joules, Level::Container, paint)),
        ];
        for (table, text) in drawn {
            for line in text.lines() {
                let room = room.unwrap_or(usize::MAX);
                assert!(width(line) <= room, "{table} {room}: {line}");
            }
            now.push((format!("{table}-{name}"), text));
        }
    }
    // No style sets a background, and the colours are readable on light and dark terminals.
    for (look, paint) in [
        ("ascii-80", Paint::plain(80)),
        ("colours-80", Paint::colours(80)),
    ] {
        let drawn = [
            ("stat", stat(&containers, Level::Container, paint)),
            ("waits", waits(&waited, paint)),
            ("why", reason(&builder, None, paint)),
            ("energy", energy(&joules, Level::Container, paint)),
        ];
        for (table, text) in drawn {
            let text = match look {
                "ascii-80" => ascii(&text),
                _ => text,
            };
            assert!(look != "ascii-80" || text.is_ascii(), "{table}: {text}");
            assert!(
                !text.contains("\x1b[4"),
                "{table} sets a background colour: {text}"
            );
            now.push((format!("{table}-{look}"), text));
        }
    }
    compare(&now);
}

#[test]
fn json_distinguishes_a_process_from_its_group() {
    let builder = builder(false);
    let party = Party::Group(owner(0, RAN[0].0));
    let answer = |asked: Option<&ProcessUse>| -> Value {
        let why = builder.why(&party, Level::Container, asked, &Thresholds::default());
        serde_json::from_str(&noctule_sinks::json::why_json(&why)).expect("JSON")
    };
    assert!(answer(None).get("process.pid").is_none());
    let json = answer(Some(&asleep()));
    assert_eq!(json["process.pid"], 4242);
    let figures = |place: usize| {
        let process = &json["processes"][place];
        (
            process["process.pid"].as_u64(),
            process["cpu.seconds"].as_f64(),
        )
    };
    let listed = [figures(0), figures(1)];
    assert_eq!(listed, [(Some(4000), Some(0.52)), (Some(4242), Some(0.0))]);
    // A process that ran is listed once, with its CPU time.
    let ran = ProcessUse {
        id: ProcessId {
            pid: 4000,
            start_ns: 1,
        },
        ..asleep()
    };
    let processes = answer(Some(&ran))["processes"].as_array().map(Vec::len);
    assert_eq!(processes, Some(1));
}

fn compare(now: &[(String, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/golden");
    let mut wrong = Vec::new();
    for (name, text) in now {
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(&path, text).expect("the file can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != *text {
            wrong.push(format!("--- {name}\n{golden}+++ now\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
