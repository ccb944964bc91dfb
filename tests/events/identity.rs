//! Tests that a pid is not an identity. Pids are reused, and many processes may already exist when
//! the agent starts.

use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::stream::{Stream, is};
use super::support::{self, now};
use super::{end, number, port};

fn started(event: &Value) -> u64 {
    number(event, "process.creation.time_unix_nano")
}

#[test]
fn reused_pid_is_not_its_earlier_owner() {
    let _machine = support::alone();
    needs!("process_events", "tcp_events");
    let groups = [
        Group::new("first"),
        Group::new("second"),
        Group::new("third"),
    ];
    let servers = Group::new("server");
    let stream = Stream::start(&["--kind", "process,tcp"]);
    let mut server = Load::own(&servers, "sockets");
    let at = port(&server.ask("listen 127.0.0.1:0"));
    // The first process leaves a connection to a child that outlives it. The child is in another
    // process group, because the pid would otherwise remain in use.
    let script = format!(
        "set -m; exec 3<>/dev/tcp/127.0.0.1/{at}; sleep 1000 <&- >&- & exec 3<&-; \
         echo \"load: $!\"; read word; exit 3"
    );
    let mut command = groups[0].command("/bin/bash");
    command.args(["-c", &format!("echo 'load: ready'; {script}")]);
    let mut first = Load::of(&mut command);
    let heir: u32 = first.next_message().parse().expect("a pid");
    let pid = first.pid();
    server.ask("accept");
    let followed = Stream::start(&["--kind", "process,tcp", "--pid", &pid.to_string()]);
    first.say("end");
    first.wait_for_end();
    first.reap();
    let mut second = Load::shell_with_pid(&groups[1], "read word; exit 4", pid);
    let child = Pid::from_raw(heir.cast_signed()).expect("not 0");
    kill_process(child, Signal::KILL).expect("a child of our own child");
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", pid));
    second.say("end");
    second.wait_for_end();
    second.reap();
    let mut third = Load::shell_with_pid(&groups[2], "read word", pid);
    third.kill();
    third.reap();
    // Another process may have had the pid in between.
    let paths = groups.each_ref().map(Group::path);
    let ours = |e: &Value| {
        paths
            .iter()
            .any(|path| e["process.linux.cgroup"] == path.as_str())
    };
    let exit = |e: &Value| is(e, "process.exit", pid) && ours(e);
    let ends = stream.wait_for_all("all have ended", 3, exit);

    let of = |events: &[Value]| events.iter().map(started).collect::<Vec<_>>();
    let ids = of(&ends);
    let starts = stream.of(|e| is(e, "process.start", pid) && ids.contains(&started(e)));
    assert_eq!(of(&starts), of(&ends), "each end is that of its own start");
    assert_eq!(of(&starts).into_iter().collect::<HashSet<_>>().len(), 3);
    let codes: Vec<_> = ends
        .iter()
        .map(|e| e["process.exit.code"].as_u64())
        .collect();
    assert_eq!(codes, [Some(3), Some(4), None], "{ends:?}");
    assert_eq!(ends[2]["process.exit.signal"], 9);
    for (end, group) in ends.iter().zip(&groups) {
        assert_eq!(end["process.linux.cgroup"], group.path(), "{end}");
        let executed = stream.of(|e| is(e, "process.exec", pid) && started(e) == started(end));
        assert!(
            executed.len() >= 2,
            "the shell that enters, and what it becomes"
        );
    }
    // By the time of the event, the pid belonged to the second process.
    let connect = stream.wait_for("it connects", |e| is(e, "tcp.connect", pid));
    assert!(
        number(&close, "time_unix_nano") > started(&starts[1]),
        "{close}"
    );
    for event in [&connect, &close] {
        assert_eq!(started(event), started(&starts[0]), "{event}");
        assert_eq!(event["process.linux.cgroup"], groups[0].path(), "{event}");
    }
    // A stream that follows the first process reports nothing about the others. For a stream that
    // started later, the connection belongs to the child.
    followed.wait_for("it is closed", |e| is(e, "tcp.close", heir));
    let (told, _) = followed.end();
    let own: Vec<_> = told.iter().filter(|e| e["process.pid"] == pid).collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["process.exit.code"], 3, "{own:?}");
    end(&mut server);
}

/// A process as reported by the load.
struct Note {
    pid: u64,
    /// Time just before the process was killed.
    killed: f64,
}

#[test]
fn thousand_processes_at_start_are_reported_once() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("throng");
    let mut load = Load::own(&group, "throng");
    let stream = Stream::start(&["--kind", "process", "--existing"]);
    // For a process that ends before the list is made, only the end is reported.
    stream.wait_for("the list", |e| e["noctule.origin"] == "existing");
    let watches = now();
    let path = group.path();
    let of_group = |name: &'static str| {
        let path = path.clone();
        move |e: &Value| e["event.name"] == name && e["process.linux.cgroup"] == path.as_str()
    };
    stream.wait_for_all("some have ended", 300, of_group("process.exit"));
    let notes = load.ask("stop");
    let notes: Vec<Note> = notes
        .split_terminator(';')
        .map(|note| {
            let (pid, killed) = note.split_once(' ').expect("two fields");
            let killed = killed.parse().expect("a number");
            Note {
                pid: pid.parse().expect("a number"),
                killed,
            }
        })
        .collect();
    let id = load.pid();
    load.wait_for_end();
    load.reap();
    stream.wait_for("the load has ended", |e| is(e, "process.exit", id));

    let alive = notes.iter().filter(|note| note.killed > watches).count();
    assert!(alive >= 1000, "{alive}");
    // Minimum and maximum number of events by pid. A process that ended while the list was made may
    // have only an end event, or none.
    let mut expected: HashMap<u64, (usize, usize)> = HashMap::new();
    for note in &notes {
        let (least, most) = expected.entry(note.pid).or_default();
        *least += usize::from(note.killed > watches);
        *most += 1;
    }
    // If a kernel skips programs, its table lists that. On any other kernel this gap fails the test
    // below.
    let skipped = stream.lost("skipped") as usize;
    for name in ["process.start", "process.exit"] {
        let told = stream.of(of_group(name));
        let mut identities = HashSet::new();
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for event in &told {
            let pid = number(event, "process.pid");
            assert!(identities.insert((pid, started(event))), "twice: {event}");
            *counts.entry(pid).or_default() += 1;
        }
        let mut missing = Vec::new();
        for (pid, (least, most)) in &expected {
            let count = counts.get(pid).copied().unwrap_or(0);
            assert!(count <= *most, "{name} of {pid}: {count}");
            if count < *least {
                missing.push(*pid);
            }
        }
        assert!(missing.len() <= skipped, "{name}: {missing:?}");
    }
    assert_eq!(stream.gaps(), Vec::<Value>::new());
    let reconciled = stream.of(|e| e["noctule.origin"] == "reconciled");
    assert!(reconciled.len() <= skipped, "{reconciled:?}");
    let existing = stream.of(|e| of_group("process.start")(e) && e["noctule.origin"] == "existing");
    assert!(!existing.is_empty(), "those that were there before");
}
