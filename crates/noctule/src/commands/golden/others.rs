//! Golden outputs that are not tables of rows: `doctor`, `events` and `diff`.

use noctule_analysis::diff::{Stretch, differences};
use noctule_model::{
    Comm, Event, EventProcess, ExecContext, ExitStatus, Feature, FeatureId, FilePath, Origin,
    Parent, ProcessId, Socket, TcpChange, UnreadZone, What,
};
use noctule_sinks::events::event_line;
use noctule_text::{ascii, width};

use crate::commands::about::doctor;
use crate::commands::events::lines::EventLines;
use crate::commands::golden::{
    CgroupId, FeatureState, Level, MS, Paint, RAN, WIDTHS, batches, compare, owner,
};
use crate::commands::record::diff;

/// Features of a machine that has no PMU and lacks the rights for one feature.
fn features() -> Vec<Feature> {
    use FeatureState::{Degraded, Off, On};
    let pmu = "on a virtual machine, ask the provider for a type with a PMU";
    let feature = |id, state, reason: &str, mend: &str| Feature {
        id,
        state,
        reason: reason.into(),
        mend: mend.into(),
    };
    vec![
        feature(FeatureId::Btf, On, "/sys/kernel/btf/vmlinux is there", ""),
        feature(FeatureId::CpuTime, On, "counted at each context switch", ""),
        feature(FeatureId::Cycles, Off, "this machine has no PMU", pmu),
        feature(FeatureId::Instructions, Off, "this machine has no PMU", pmu),
        feature(
            FeatureId::Tracefs,
            Degraded,
            "/sys/kernel/tracing is not mounted: events that only tracefs has cannot be watched",
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
        feature(
            FeatureId::FileOpens,
            Off,
            "not enabled",
            "[events] files = true",
        ),
    ]
}

fn doctor(paint: Paint) -> String {
    let [_, metered] = batches(true);
    let zones = metered.energy.map(|energy| energy.zones);
    let none: &[UnreadZone] = &[];
    doctor::draw(&features(), (&zones.unwrap_or_default(), none), "", paint)
}

fn process(pid: u32, comm: &str, group: u64) -> EventProcess {
    EventProcess {
        id: ProcessId { pid, start_ns: 1 },
        start_unix_ns: 0,
        comm: Comm::new(comm.as_bytes()),
        thread: None,
        cgroup: CgroupId(group),
        owner: Some(owner(group, RAN[group as usize].0)),
    }
}

/// Events of a shell that runs a download: start, connection, exit, and a gap record.
fn stream() -> Vec<Event> {
    let parent = Parent {
        id: ProcessId {
            pid: 4000,
            start_ns: 1,
        },
        start_unix_ns: 0,
        comm: Comm::new(b"sh"),
    };
    let exec = What::ProcessExec {
        path: FilePath {
            bytes: b"/usr/bin/curl".to_vec(),
            ..FilePath::default()
        },
        args: [
            "curl",
            "--silent",
            "--output",
            "/tmp/x",
            "http://203.0.113.7:8080/x",
        ]
        .map(|arg| arg.as_bytes().to_vec())
        .to_vec(),
        args_truncated: false,
        uid: 1000,
        context: Box::new(ExecContext {
            parent: Some(parent),
            ..ExecContext::default()
        }),
    };
    let address = |text: &str| text.parse().ok();
    let connected = What::Tcp {
        change: TcpChange::Connect {
            duration_ns: Some(1_234_567),
        },
        socket: Socket {
            id: 7,
            local: address("10.0.0.5:43210"),
            peer: address("203.0.113.7:8080"),
            netns_cookie: Some(1),
            multipath: false,
        },
    };
    let exit = What::ProcessExit {
        status: Some(ExitStatus::Signal(9)),
        oom_killed: true,
        core_dumped: false,
        parent: Some(parent),
        duration_ns: Some(3_250 * MS),
        cpu_ns: Some(41 * MS),
        rss_peak_bytes: Some(97 << 20),
    };
    let gap = What::Gap {
        lost: vec![("process.exec", 12), ("tcp.close", 3)],
        since_unix_ns: None,
    };
    let at = |ms: u64, process, what| Event {
        time_unix_ns: 1_764_000_000_000 * MS + ms * MS,
        process,
        origin: Origin::Seen,
        what,
    };
    let curl = || Some(process(4001, "curl", 0));
    vec![
        at(0, curl(), exec),
        at(17, curl(), connected),
        at(3_250, curl(), exit),
        at(4_000, None, gap),
    ]
}

fn events(paint: Paint) -> String {
    let lines = EventLines::new(paint);
    let drawn: String = stream()
        .iter()
        .map(|event| lines.arrange(&event_line(event, 0)))
        .collect();
    lines.head() + &drawn
}

/// A stretch of 24 s with equal activity in each step. The first group has `times` as much activity
/// as the others.
fn stretch(times: u64) -> Stretch {
    let [mut now, step] = batches(false);
    let mut stretch = Stretch::new(Level::Container, 2_000 * MS);
    now.cgroups.clone_from(&step.cgroups);
    now.waits.clone_from(&step.waits);
    now.blames.clone_from(&step.blames);
    for _ in 0..=12 {
        stretch.add(&now);
        now.sequence += 1;
        now.taken_ns += 2_000 * MS;
        now.time_unix_ns += 2_000 * MS;
        now.node.elapsed_ns += 4_000 * MS;
        for (at, (row, each)) in now.cgroups.iter_mut().zip(&step.cgroups).enumerate() {
            for _ in 0..if at == 0 { times } else { 1 } {
                row.counters += &each.counters;
            }
        }
        for (row, each) in now.waits.iter_mut().zip(&step.waits) {
            row.histogram += &each.histogram;
        }
        for (row, each) in now.blames.iter_mut().zip(&step.blames) {
            row.blame += &each.blame;
        }
    }
    stretch
}

fn changed(paint: Paint) -> String {
    let (before, after) = (stretch(1), stretch(2));
    let rows = differences(&before, &after);
    let answer = diff::Answer {
        about: None,
        followed: false,
        before: &before,
        after: &after,
        block_ns: 2_000 * MS,
        level: Level::Container,
        rows: &rows,
    };
    answer.text(10, paint)
}

#[test]
fn other_answers_match_the_golden_files() {
    let drawn = |paint| {
        [
            ("doctor", doctor(paint)),
            ("events", events(paint)),
            ("diff", changed(paint)),
        ]
    };
    let mut now = Vec::new();
    for room in WIDTHS {
        let name = room.map_or("pipe".to_owned(), |room| room.to_string());
        for (answer, text) in drawn(room.map_or_else(Paint::none, Paint::plain)) {
            for line in text.lines() {
                let room = room.unwrap_or(usize::MAX);
                assert!(width(line) <= room, "{answer} {room}: {line}");
            }
            now.push((format!("{answer}-{name}"), text));
        }
    }
    for (answer, text) in drawn(Paint::plain(80)) {
        let text = ascii(&text);
        assert!(text.is_ascii(), "{answer}: {text}");
        now.push((format!("{answer}-ascii-80"), text));
    }
    for (answer, text) in drawn(Paint::colours(80)) {
        assert!(
            !text.contains("\x1b[4"),
            "{answer} sets a background colour: {text}"
        );
        now.push((format!("{answer}-colours-80"), text));
    }
    compare(&now);
}
