//! Tests of process events.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use serde_json::Value;

use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::stream::{Stream, is};
use super::support::{self, NOCTULE, wait_until};

fn pid(event: &Value) -> u64 {
    event["process.pid"].as_u64().expect("process.pid")
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    let named = events.iter().filter(|event| event["event.name"] == name);
    named.collect()
}

/// Returns the identity of an event's process.
fn identity(event: &Value) -> (u64, u64) {
    let start = &event["process.creation.time_unix_nano"];
    (pid(event), start.as_u64().expect("a start"))
}

/// In a time namespace the agent sees a shifted time since boot. The kernel's events are not
/// shifted.
#[test]
fn start_times_are_right_in_a_time_namespace() {
    let _machine = support::shared();
    needs!("process_events");
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("a date").as_nanos() as u64
    };
    let began = now();
    let output = Command::new("unshare")
        .args(["--time", "--boottime", "100000", "--fork"])
        .args([NOCTULE, "events", "--json", "-o", "/dev/stdout"])
        .args(["--", "/bin/true"])
        .output()
        .expect("unshare");
    let ended = now();
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let events: Vec<Value> = lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    let ends = named(&events, "process.exit");
    assert!(!ends.is_empty(), "{events:?}");
    for end in ends {
        // The boot time is known only to a tenth of a second.
        let dates = began - 200_000_000..=ended + 200_000_000;
        let date = identity(end).1;
        assert!(dates.contains(&date), "{date} is not in {dates:?}");
    }
}

#[test]
fn every_process_has_one_start_exec_and_exit() {
    let _machine = support::shared();
    needs!("process_events");
    let stream = Stream::start(&["--kind", "process"]);
    // Children inherit this memory at the fork, and lose it at the exec.
    let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
    let cases = [
        ("exit 0", Some(0), None),
        ("exit 7", Some(7), None),
        ("kill -KILL $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
    ];
    for (script, code, signal) in cases {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, "a name with spaces", ""])
            .spawn()
            .expect("a shell");
        let id = child.id();
        child.wait().expect("our own child");
        let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
        let start = stream.of(|e| is(e, "process.start", id));
        let exec = stream.of(|e| is(e, "process.exec", id));
        assert_eq!((start.len(), exec.len()), (1, 1), "{script}");
        assert_eq!(start[0]["process.parent_pid"], std::process::id());
        let path = exec[0]["process.executable.path"].as_str().expect("a path");
        let real = std::fs::canonicalize("/bin/sh").expect("a shell");
        assert_eq!(path, real.to_str().expect("UTF-8"));
        assert_eq!(
            exec[0]["process.command_args"],
            serde_json::json!(["/bin/sh", "-c", script, "a name with spaces", ""])
        );
        assert_eq!(exec[0]["user.id"], 0);
        assert_eq!(end["process.exit.code"].as_i64(), code, "{end}");
        assert_eq!(end["process.exit.signal"].as_i64(), signal, "{end}");
        assert_eq!(end["oom_killed"], false);
        let peak = end["memory.rss_peak_bytes"].as_u64();
        let known = support::kernel() >= (6, 16);
        assert!(peak.is_some() || !known, "{end}");
        let of_a_shell = 100_000..u64::try_from(memory.len()).expect("a size") / 2;
        assert!(peak.is_none_or(|it| of_a_shell.contains(&it)), "{end}");
        assert_eq!(identity(&start[0]), identity(&end));
        assert_eq!(identity(&exec[0]), identity(&end));
    }
    let (told, status) = stream.end();
    assert!(status.success());
    let own = |e: &&Value| {
        e["event.name"] == "process.start" && e["process.parent_pid"] == std::process::id()
    };
    assert_eq!(told.iter().filter(own).count(), cases.len());
}

#[test]
fn ten_thousand_short_processes_are_all_reported() {
    const COUNT: usize = 10_000;
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("storm");
    let stream = Stream::start(&["--kind", "process", "--cgroup", &group.path()]);
    let script = format!("i=0; while [ $i -lt {COUNT} ]; do i=$((i + 1)); ( : ); done; :");
    let mut load = Load::shell(&group, &script);
    let shell = load.pid();
    load.wait_for_end();
    load.reap();
    stream.wait_for("the shell has ended", |e| is(e, "process.exit", shell));
    let (told, _) = stream.end();
    let starts: HashSet<_> = named(&told, "process.start")
        .into_iter()
        .map(identity)
        .collect();
    let ends: HashSet<_> = named(&told, "process.exit")
        .into_iter()
        .map(identity)
        .collect();
    let lost = |name: &str| -> u64 {
        let gaps = named(&told, "gap").into_iter();
        gaps.map(|gap| gap["lost"][name].as_u64().unwrap_or(0))
            .sum()
    };
    let seen = |name: &str| {
        let of_stream = |e: &&&Value| e["noctule.origin"] != "reconciled";
        named(&told, name).iter().filter(of_stream).count() as u64
    };
    // The shell moved itself into the group after its start.
    assert_eq!(seen("process.start") + lost("process.start"), COUNT as u64);
    assert_eq!(
        seen("process.exit") + lost("process.exit"),
        COUNT as u64 + 1
    );
    assert_eq!(
        starts.len(),
        named(&told, "process.start").len(),
        "one was told twice"
    );
    assert_eq!(
        ends.len(),
        named(&told, "process.exit").len(),
        "one was told twice"
    );
    let unpaired: Vec<_> = starts.difference(&ends).collect();
    assert!(unpaired.is_empty(), "{unpaired:?}");
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("leader");
    let stream = Stream::start(&["--kind", "process"]);
    let mut load = Load::own(&group, "leader-ends");
    let id = load.pid();
    wait_until("the leader is gone", || {
        support::oracle::states(id).starts_with(&['Z'])
    });
    assert!(
        stream.of(|e| is(e, "process.exit", id)).is_empty(),
        "it lives on"
    );
    load.kill();
    load.reap();
    stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    assert_eq!(stream.of(|e| is(e, "process.exit", id)).len(), 1);
}

#[test]
fn threads_ending_together_are_one_exit() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("crowd");
    let stream = Stream::start(&["--kind", "process", "--cgroup", &group.path()]);
    let mut load = Load::own(&group, "crowd");
    let id = load.pid();
    load.wait_for_end();
    load.reap();
    stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let (told, _) = stream.end();
    let mut ends: HashMap<_, u32> = HashMap::new();
    for end in named(&told, "process.exit") {
        *ends.entry(identity(end)).or_default() += 1;
    }
    assert_eq!(ends.len(), 201, "with the process that starts them");
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
}

#[test]
fn exec_by_thread_keeps_the_identity() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("exec");
    let stream = Stream::start(&["--kind", "process"]);
    let mut load = Load::own(&group, "exec-from-thread");
    let id = load.pid();
    assert_eq!(load.ask("go"), "shell");
    load.kill();
    load.reap();
    let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let all = stream.of(|e| e["process.pid"] == id);
    assert_eq!(named(&all, "process.start").len(), 1);
    assert_eq!(named(&all, "process.exit").len(), 1);
    assert!(named(&all, "process.exec").len() >= 2, "{all:?}");
    assert!(all.iter().all(|event| identity(event) == identity(&end)));
}

#[test]
fn existing_processes_are_reported_once() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("churn");
    let mut churn = Load::shell(&group, "while :; do ( : ); done");
    let sleeper = Command::new("sleep").arg("1000").spawn();
    let mut sleeper = sleeper.expect("sleep is installed");
    let stream = Stream::start(&["--kind", "process", "--existing"]);
    let id = sleeper.id();
    let told = stream.wait_for("it is listed", |e| is(e, "process.start", id));
    assert_eq!(told["noctule.origin"], "existing");
    stream.wait_for_all("the load runs", 30, |e| e["event.name"] == "process.exit");
    churn.kill();
    churn.reap();
    sleeper.kill().expect("our own child");
    sleeper.wait().expect("our own child");
    stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let shell = churn.pid();
    stream.wait_for("the load has ended", |e| is(e, "process.exit", shell));
    let (told, _) = stream.end();
    let mut starts: HashMap<_, u32> = HashMap::new();
    for start in named(&told, "process.start") {
        *starts.entry(identity(start)).or_default() += 1;
    }
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    // Each exit has an earlier start event, of a new or an existing process. The exception is a
    // process that existed when tracing of starts began and ended before existing processes were
    // listed.
    let time = |event: &Value, key: &str| event[key].as_u64().expect("a time");
    let seen = named(&told, "process.start").into_iter();
    let seen = seen.filter(|start| start["noctule.origin"].is_null());
    let first = seen.map(|start| time(start, "time_unix_nano")).min();
    let first = first.expect("the load starts processes");
    let ends = named(&told, "process.exit");
    let unknown: Vec<_> = ends
        .into_iter()
        .filter(|end| !starts.contains_key(&identity(end)))
        .filter(|end| time(end, "process.creation.time_unix_nano") > first)
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn cpu_time_of_an_ended_process_matches_its_parent() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("burn");
    let stream = Stream::start(&["--kind", "process"]);
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    let mut load = Load::shell(&group, script);
    let id = load.pid();
    load.wait_for_end();
    let used = load.reap();
    let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let told = end["cpu.seconds"].as_f64().expect("cpu.seconds");
    // The exit itself uses CPU time after the event.
    support::assert_close("CPU time", told, used, 0.01, 0.002);
}

#[test]
fn cpu_time_of_threads_that_end_together_is_whole_or_absent() {
    const COUNT: usize = 10;
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("burn");
    let stream = Stream::start(&["--kind", "process"]);
    let mut known = 0;
    for _ in 0..COUNT {
        let mut load = Load::own(&group, "threads");
        let id = load.pid();
        load.next_message();
        load.kill();
        let used = load.reap();
        // On a machine that starts thousands of processes, another one may have had the pid since
        // the stream started.
        let end = stream.wait_for("it has ended", |e| {
            is(e, "process.exit", id) && e["process.linux.cgroup"] == group.path().as_str()
        });
        if let Some(told) = end["cpu.seconds"].as_f64() {
            known += 1;
            // Each thread's exit uses CPU time after the event, or after the thread left its CPU.
            support::assert_close("CPU time", told, used, 0.01, 0.01 + support::stolen());
        }
    }
    // Before 6.7 a program cannot iterate over the threads of a process.
    let table = support::expect::expected();
    let cannot = table.is_some_and(|table| table.state("cgroup_moves") == Some("degraded"));
    assert!(known > 0 || cannot, "never told");
}

#[test]
fn process_tree_is_reported_completely_and_alone() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("tree");
    let mut load = Load::shell(&group, "read word; ( ( : ); : ); ( : ); :");
    let id = load.pid();
    let stream = Stream::start(&["--kind", "process", "--pid", &id.to_string()]);
    Command::new("/bin/true")
        .status()
        .expect("true is installed");
    load.say("go");
    load.wait_for_end();
    load.reap();
    stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let (told, _) = stream.end();
    assert_eq!(named(&told, "process.start").len(), 3, "{told:?}");
    assert_eq!(named(&told, "process.exit").len(), 4, "{told:?}");
    let path = group.path();
    assert!(
        told.iter()
            .all(|event| event["process.linux.cgroup"] == path)
    );
}

#[test]
fn huge_arguments_are_marked_as_truncated() {
    let _machine = support::shared();
    needs!("process_events");
    let stream = Stream::start(&["--kind", "process"]);
    let long = "x".repeat(100_000);
    let mut command = Command::new("/bin/true");
    command
        .arg("first")
        .args(std::iter::repeat_n(long, 10))
        .arg("last\n\u{1b}[31m");
    let mut child = command.spawn().expect("true is installed");
    let id = child.id();
    child.wait().expect("our own child");
    let exec = stream.wait_for("it was executed", |e| is(e, "process.exec", id));
    assert_eq!(exec["process.command_args.truncated"], true);
    let args = exec["process.command_args"].as_array().expect("arguments");
    assert_eq!(args[..2], ["/bin/true", "first"]);
    assert!(args.len() >= 3 && args.len() < 12, "{}", args.len());
}

#[test]
fn parent_is_the_waiting_process() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("sibling");
    let stream = Stream::start(&["--kind", "process"]);
    let mut load = Load::own(&group, "sibling");
    let sibling: u32 = load.next_message().parse().expect("a pid");
    let start = stream.wait_for("it starts", |e| is(e, "process.start", sibling));
    support::oracle::reap(sibling);
    assert_eq!(start["process.parent_pid"], std::process::id(), "{start}");
    load.say("end");
    load.wait_for_end();
    load.reap();
}

#[test]
fn events_have_the_name_of_the_leader() {
    let _machine = support::shared();
    needs!("tcp_events");
    needs!("file_opens");
    let group = Group::new("named");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let stream = Stream::start(&["--kind", "process,tcp,file"]);
    let mut load = Load::own(&group, "named-thread");
    let id = load.pid();
    let comm = std::fs::read_to_string(format!("/proc/{id}/comm")).expect("it runs");
    load.ask(file.to_str().expect("in UTF-8"));
    load.say("end");
    load.wait_for_end();
    load.reap();
    for name in ["tcp.connect", "file.open"] {
        let event = stream.wait_for("a thread did it", |e| is(e, name, id));
        assert_eq!(event["process.executable.name"], comm.trim(), "{event}");
        assert_eq!(event["thread.name"], "worker", "{event}");
    }
    // Events of the leader have no thread name.
    for name in ["tcp.listen", "process.exit"] {
        let event = stream.wait_for("the leader did it", |e| is(e, name, id));
        assert_eq!(event["process.executable.name"], comm.trim(), "{event}");
        assert_eq!(event["thread.name"], Value::Null, "{event}");
    }
}

#[test]
fn an_exec_has_the_context_of_its_process() {
    let _machine = support::shared();
    needs!("process_events");
    let stream = Stream::start(&["--kind", "process"]);
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    // The outer shell is the parent, and the test is the grandparent.
    let script = "/bin/sh -c 'echo $PPID $$; grep CapEff /proc/$$/status; kill -SEGV $$'; :";
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["--uts", "/bin/sh", "-c", script]);
    let output = command.current_dir(&folder).output().expect("unshare");
    let said = String::from_utf8(output.stdout).expect("text");
    let words: Vec<&str> = said.split_whitespace().collect();
    let [parent, id] = [words[0], words[1]].map(|word| word.parse::<u32>().expect("a pid"));
    let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
    let exec = &stream.of(|e| is(e, "process.exec", id))[0];
    let start = &stream.of(|e| is(e, "process.start", id))[0];
    let start_of_parent = &stream.of(|e| is(e, "process.start", parent))[0];
    for event in [start, exec, &end] {
        assert_eq!(event["process.parent_pid"], parent, "{event}");
        assert_eq!(event["process.parent.executable.name"], "sh", "{event}");
        assert_eq!(
            event["process.parent.creation.time_unix_nano"],
            start_of_parent["process.creation.time_unix_nano"]
        );
    }
    let directory = folder.to_str().expect("in UTF-8");
    assert_eq!(exec["process.working_directory"], directory, "{exec}");
    let own = std::fs::read_to_string("/proc/self/comm").expect("it runs");
    assert_eq!(exec["process.ancestors"][0], own.trim(), "{exec}");
    assert_eq!(exec["process.capabilities.effective"], words[3], "{exec}");
    for id in ["user", "real_user", "group", "real_group"] {
        assert_eq!(exec[format!("process.{id}.id")], 0, "{exec}");
    }
    let host = exec["process.namespaces.host"].as_array().expect("a list");
    assert!(host.iter().any(|kind| kind == "user"), "{exec}");
    assert!(host.iter().all(|kind| kind != "uts"), "{exec}");
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "user"] {
        let file = std::fs::metadata(format!("/proc/self/ns/{kind}")).expect("it runs");
        let inode = std::os::unix::fs::MetadataExt::ino(&file);
        assert_eq!(exec["process.namespaces"][kind], inode, "{kind}: {exec}");
    }
}

#[test]
fn a_signal_has_its_sender() {
    let _machine = support::shared();
    needs!("process_events");
    let stream = Stream::start(&["--kind", "signal"]);
    let script = "trap : TERM; (kill -TERM $$); wait; :";
    let mut shell = Command::new("/bin/sh")
        .args(["-c", script])
        .spawn()
        .expect("a shell");
    let id = shell.id();
    shell.wait().expect("our own child");
    let of = |number: u64| {
        stream.wait_for("a signal", |e| {
            is(e, "process.signal", id) && e["signal.number"] == number
        })
    };
    let term = of(15);
    assert_eq!(term["signal.name"], "SIGTERM");
    assert_eq!(term["signal.code"], 0);
    // Before 5.11, tracing programs cannot read the current task.
    let older = std::env::var("NOCTULE_RELEASE").is_ok_and(|release| release.starts_with("5.10"));
    match older {
        true => assert_eq!(term["signal.sender.pid"], Value::Null, "{term}"),
        false => {
            assert_eq!(term["signal.sender.executable.name"], "sh", "{term}");
            assert_ne!(term["signal.sender.pid"], id, "{term}");
        }
    }
    // At the end of a child, the kernel itself sends the signal.
    let child = of(17);
    assert_eq!(child["signal.sender.pid"], Value::Null, "{child}");
    assert!(
        stream
            .of(|e| e["event.name"] != "process.signal")
            .is_empty()
    );
}

/// A timer interrupt hits an arbitrary process, which did not send the signal.
#[test]
fn a_signal_of_a_timer_has_no_sender() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("timer");
    let stream = Stream::start(&["--kind", "signal"]);
    let mut load = Load::own(&group, "timer");
    load.say("go");
    load.wait_for_end();
    let alarm = stream.wait_for("a signal", |e| {
        is(e, "process.signal", load.pid()) && e["signal.number"] == 14
    });
    assert_eq!(alarm["signal.code"], -2, "{alarm}");
    assert_eq!(alarm["signal.sender.pid"], Value::Null, "{alarm}");
}

#[test]
fn failed_exec_has_path_and_reason() {
    let _machine = support::shared();
    needs!("process_events", "exec_failures");
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").expect("a file of our own");
    let open = folder.path().join("open");
    std::fs::write(&open, [0; 64]).expect("a file of our own");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&open, mode).expect("a file of our own");
    let missing = folder.path().join("missing");
    let stream = Stream::start(&["--kind", "process", "--failures"]);
    for (path, errno, error) in [
        (&missing, Errno::NOENT, "ENOENT"),
        (&plain, Errno::ACCESS, "EACCES"),
        (&open, Errno::NOEXEC, "ENOEXEC"),
        (&plain.join("below"), Errno::NOTDIR, "ENOTDIR"),
    ] {
        let failed = Command::new(path).spawn().expect_err("it cannot be");
        assert_eq!(Errno::from_io_error(&failed), Some(errno));
        let asked = path.to_str().expect("in UTF-8");
        let of_path = |e: &Value| {
            e["event.name"] == "process.exec_failed" && e["process.executable.path"] == asked
        };
        let event = stream.wait_for("it failed", of_path);
        assert_eq!(event["error.type"], error, "{event}");
        assert_eq!(event["user.id"], 0, "{event}");
        assert_eq!(event["process.parent_pid"], std::process::id(), "{event}");
        // The failed exec is reported once, for the child that tried it. The child has no exec
        // event.
        let end = stream.wait_for("it has ended", |e| {
            e["event.name"] == "process.exit" && pid(e) == pid(&event)
        });
        assert_eq!(identity(&end), identity(&event));
        assert_eq!(stream.of(of_path).len(), 1, "{path:?}");
        let of_child = |e: &Value| e["event.name"] == "process.exec" && pid(e) == pid(&event);
        assert!(stream.of(of_child).is_empty(), "{path:?}");
    }
}

#[test]
fn a_failed_execveat_has_the_descriptor_and_the_thread() {
    let _machine = support::shared();
    needs!("process_events", "exec_failures");
    let group = Group::new("exec-at");
    let stream = Stream::start(&["--kind", "process", "--failures"]);
    let mut load = Load::own(&group, "exec-at");
    let descriptor = load.next_message();
    for (path, error) in [
        (format!("/dev/fd/{descriptor}/no-such-name"), "ENOENT"),
        (format!("/dev/fd/{descriptor}"), "EACCES"),
    ] {
        let event = stream.wait_for("it failed", |e| {
            is(e, "process.exec_failed", load.pid()) && e["process.executable.path"] == path
        });
        assert_eq!(event["error.type"], error, "{event}");
        assert_eq!(event["thread.name"], "worker", "{event}");
    }
    load.say("end");
    load.wait_for_end();
    load.reap();
}
