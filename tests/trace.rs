//! Tests that `noctule trace` shows every event, with the same text as the kernel's own tracing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::tracefs::{Instance, Tracefs};
use super::support::{self, NOCTULE, affinity, bpf, wait_until};

/// A running trace. The output arrives when the trace is interrupted.
pub(crate) struct Trace {
    child: Child,
    reader: Option<thread::JoinHandle<Vec<String>>>,
}

impl Trace {
    pub(crate) fn start(command: &str, args: &[&str]) -> Self {
        let mut child = Command::new(NOCTULE)
            .arg(command)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        // The reader drains the pipe, so that noctule never blocks on it.
        let reader = thread::spawn(move || out.lines().map_while(Result::ok).collect());
        wait_until("its programs are loaded", || {
            !bpf::held_by(child.id()).is_empty()
        });
        // Loaded programs are attached immediately afterwards, unless noctule exits with an error.
        thread::sleep(Duration::from_millis(500));
        Self {
            child,
            reader: Some(reader),
        }
    }

    pub(crate) fn end(mut self) -> Vec<String> {
        let held = bpf::held_by(self.child.id());
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.wait(&held)
    }

    fn wait(&mut self, held: &BTreeSet<u32>) -> Vec<String> {
        let lines = self.reader.take().expect("once").join().expect("lines");
        assert!(self.child.wait().expect("our child").success(), "{lines:?}");
        bpf::wait_until_unloaded(held);
        lines
    }

    pub(crate) fn end_json(self) -> Vec<Value> {
        let lines = self.end();
        let json = |line: &String| serde_json::from_str(line).expect("JSON");
        lines.iter().map(json).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = support::noctule(&[&["trace"], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), errors)
}

/// Splits an event into its name and its text.
fn split(event: &Value) -> (String, String) {
    let name = event["event.name"].as_str().expect("a name");
    let text = event["text"].as_str().expect("text").trim_end();
    match name.strip_prefix("syscalls:") {
        Some(name) => (name.to_owned(), text.to_owned()),
        None => {
            let (_, name) = name.split_once(':').expect("an event has its system");
            (name.to_owned(), format!("{name}: {text}"))
        }
    }
}

/// Returns the events that match a pattern with at most one `*`.
fn matching<'a>(all: &'a str, pattern: &str) -> Vec<&'a str> {
    let (begin, end) = pattern.split_once('*').unwrap_or((pattern, ""));
    let fits = |name: &&str| match pattern.contains('*') {
        true => name.len() >= pattern.len() - 1 && name.starts_with(begin) && name.ends_with(end),
        false => *name == pattern,
    };
    all.lines().filter(fits).collect()
}

/// Returns the length of the longest common subsequence.
fn common_length(first: &[String], second: &[String]) -> usize {
    let mut best = vec![0; second.len() + 1];
    for one in first {
        let mut before = 0;
        for (at, other) in second.iter().enumerate() {
            let longest = if one == other {
                before + 1
            } else {
                best[at + 1].max(best[at])
            };
            before = std::mem::replace(&mut best[at + 1], longest);
        }
    }
    best[second.len()]
}

/// Causes events of many kinds and field types, all in one thread.
fn cause_events(folder: &std::path::Path) {
    let path = folder.join("a file");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(&[7; 10_000]).expect("room");
    file.sync_all().expect("a disk");
    fs::rename(&path, folder.join("another")).expect("a file");
    fs::remove_file(folder.join("another")).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let mut client = TcpStream::connect(address).expect("loopback");
    let (mut server, _) = listener.accept().expect("a connection");
    client.write_all(b"question").expect("a connection");
    let mut bytes = [0; 8];
    server.read_exact(&mut bytes).expect("a connection");
    drop((client, server));
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let to = udp.local_addr().expect("bound");
    udp.send_to(b"datagram", to).expect("loopback");
    udp.recv(&mut bytes).expect("loopback");
    let name = c"other name";
    rustix::thread::set_name(name).expect("own name");
    affinity::pin(None, affinity::last_cpu());
    thread::sleep(Duration::from_millis(3));
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("our child");
    let _ = rustix::process::getppid();
    let own = rustix::process::getpid();
    rustix::process::test_kill_process(own).expect("own process");
    rustix::process::kill_process(own, rustix::process::Signal::WINCH).expect("ignored");
}

/// The kernel's tracing and noctule trace the same events of the same thread. The text of each
/// event is the same, in the same order.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of events")]
fn texts_equal_the_kernels_own_trace() {
    const EVENTS: [&str; 25] = [
        "sched:sched_wak*",
        "sched:sched_process_*",
        "sched:sched_switch",
        "signal:*",
        "task:*",
        "timer:timer_*",
        "timer:hrtimer_*",
        "writeback:writeback_dirty*",
        "block:block_*",
        "ext4:*",
        "jbd2:*",
        "filemap:*",
        "filelock:*",
        "sock:*",
        "tcp:*",
        "udp:*",
        "net:*",
        "skb:*",
        "napi:*",
        "oom:*",
        "syscalls:sys_*_getppid",
        "syscalls:sys_*_dup",
        "syscalls:sys_*_close",
        "raw_syscalls:*",
        "workqueue:*",
    ];
    let _machine = support::shared();
    needs!("cpu_time");
    let tracefs = Tracefs::mount();
    let all = tracefs.read("available_events");
    let there = |event: &&str| {
        let system = event.split(':').next().unwrap_or_default();
        all.lines()
            .any(|line| line.starts_with(&format!("{system}:")))
    };
    let events: Vec<&str> = EVENTS.into_iter().filter(there).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (tid, seen, expected) = thread::scope(|scope| {
        scope
            .spawn(|| {
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                let instance = Instance::make(&tracefs, "noctule-text");
                let filter = format!("common_pid == {tid}");
                for event in &events {
                    let (system, _) = event.split_once(':').expect("an event");
                    instance.write(&format!("events/{system}/filter"), &filter);
                }
                let args: Vec<String> = events
                    .iter()
                    .map(|event| format!("{event} if {filter}"))
                    .collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let trace = Trace::start("trace", &[&args[..], &["--json"]].concat());
                for event in events.iter().flat_map(|pattern| matching(&all, pattern)) {
                    let enable = format!("events/{}/enable", event.replacen(':', "/", 1));
                    instance.write(&enable, "1");
                }
                // Both traces contain the events between the marks.
                let mark = rustix::process::getppid();
                cause_events(folder.path());
                assert_eq!(mark, rustix::process::getppid());
                instance.write("tracing_on", "0");
                (tid, trace.end_json(), instance.lines())
            })
            .join()
            .expect("the thread")
    });
    // The kernel skips programs in interrupts that arrive during another program. noctule reports
    // how often.
    let skipped = seen
        .iter()
        .filter_map(|event| event["lost"]["skipped"].as_u64());
    let skipped: u64 = skipped.sum();
    let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in seen.iter().filter(|event| event["event.name"] != "gap") {
        assert_eq!(event["thread.id"], tid, "{event}");
        let (name, text) = split(event);
        ours.entry(name).or_default().push(text);
    }
    let mut kernels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in expected {
        let call = |prefix: &str, line: &str| {
            let rest = line.strip_prefix("sys_")?;
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            Some(format!("{prefix}{}", &rest[..end]))
        };
        let name = if line.starts_with("sys_") && line.contains(" -> ") {
            call("sys_exit_", &line)
        } else if line.starts_with("sys_") && line.contains('(') && !line.starts_with("sys_enter:")
        {
            call("sys_enter_", &line)
        } else {
            line.split(':').next().map(str::to_owned)
        };
        kernels.entry(name.expect("a name")).or_default().push(line);
    }
    // Our trace starts before the kernel's trace and ends after it, so it contains all events of
    // the kernel's trace.
    let (mut compared, mut missing) = (0, 0);
    for (name, theirs) in &kernels {
        let mine = ours.get(name).map_or(&[][..], Vec::as_slice);
        let without = theirs.len() - common_length(theirs, mine);
        assert!(
            without as u64 <= skipped,
            "{name}: {theirs:#?}\nours: {mine:#?}"
        );
        missing += without as u64;
        compared += 1;
    }
    assert!(missing <= skipped, "{missing} {skipped}");
    assert!(compared >= 24, "{:?}", kernels.keys());
}

/// The buffer is far too small. Shown and lost events add up to all calls, and each gap is reported
/// where it occurred.
#[test]
fn shown_and_lost_events_add_up_to_all_calls() {
    const CALLS: u64 = 200_000;
    let _machine = support::shared();
    needs!("cpu_time");
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let number = libc::SYS_getppid;
    let event = format!("raw_syscalls:sys_enter if id == {number} && common_pid == {tid}");
    let trace = Trace::start("trace", &[&event, "--buffer", "64KiB", "--json"]);
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    let all = trace.end_json();
    let (gaps, shown): (Vec<_>, Vec<_>) =
        all.iter().partition(|event| event["event.name"] == "gap");
    let lost: u64 = gaps
        .iter()
        .filter_map(|gap| gap["lost"]["buffer"].as_u64())
        .sum();
    assert_eq!(shown.len() as u64 + lost, CALLS, "{lost} lost");
    assert!(lost > 0 && !shown.is_empty(), "{lost} lost");
    assert!(shown.iter().all(|event| event["fields"]["id"] == number));
}

/// Events of several kinds from all CPUs.
#[test]
fn events_are_in_order_of_time() {
    let _machine = support::shared();
    needs!("cpu_time");
    let filter = support::of_threads("in-order");
    let calls = format!("raw_syscalls:sys_* if {filter}");
    let switches = format!("sched:sched_switch if {filter}");
    let trace = Trace::start("trace", &[&calls, &switches, "--json"]);
    thread::scope(|scope| {
        for _ in 0..4 {
            let sleeps = || {
                for _ in 0..200 {
                    thread::sleep(Duration::from_micros(100));
                }
            };
            let sleeping = support::thread("in-order").spawn_scoped(scope, sleeps);
            sleeping.expect("a thread");
        }
    });
    let all = trace.end_json();
    let events: BTreeSet<_> = all
        .iter()
        .filter_map(|e| e["event.name"].as_str())
        .collect();
    let expected = [
        "raw_syscalls:sys_enter",
        "raw_syscalls:sys_exit",
        "sched:sched_switch",
    ];
    assert!(
        expected.iter().all(|name| events.contains(name)),
        "{events:?}"
    );
    let cpus: BTreeSet<_> = all
        .iter()
        .filter_map(|e| e["cpu.logical_number"].as_u64())
        .collect();
    assert!(!cpus.is_empty());
    let times: Vec<_> = all
        .iter()
        .filter_map(|e| e["time_unix_nano"].as_u64())
        .collect();
    assert!(times.len() > 1600, "{}", times.len());
    assert!(times.is_sorted());
}

/// A filter on dynamic text of the record, and a trace that ends after one event.
#[test]
fn a_filter_works_on_dynamic_text() {
    let _machine = support::shared();
    needs!("cpu_time");
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("a name of its own");
    fs::copy("/bin/true", &program).expect("a copy");
    let filter = "sched:sched_process_exec if filename ~ \"*/a name of its own\"";
    let mut trace = Trace::start("trace", &[filter, "--max", "1"]);
    let held = bpf::held_by(trace.child.id());
    let mut child = Command::new(&program).spawn().expect("a copy of true");
    child.wait().expect("our child");
    let lines = trace.wait(&held);
    let [head, line] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(head.split_whitespace().last(), Some("fields"), "{head}");
    let name = program.to_str().expect("text");
    let pid = child.id();
    let text = format!("  sched:sched_process_exec  filename={name} pid={pid} old_pid={pid}");
    assert!(line.ends_with(&text), "{line}");
    assert_eq!(line.find("sched:"), head.find("event"), "{head}\n{line}");
}

#[test]
fn an_error_has_a_caret_below_its_place() {
    let _machine = support::shared();
    let cases: [(&[&str], &str); 5] = [
        (
            &["sched:sched_switch if prev_pdi == 1"],
            "sched:sched_switch: error: Field not found\n  sched:sched_switch if prev_pdi == 1\n\
             \u{20}                       ^\nhelp: did you mean `prev_pid`?",
        ),
        (
            &["sched:sched_switch prev_pid == 1"],
            "error: Unexpected text after the event\n  sched:sched_switch prev_pid == 1\n\
             \u{20}                    ^\nhelp: write `if` before the filter",
        ),
        (&["sched:sched_switch if"], "error: "),
        (
            &["sched:sched_swich"],
            "this kernel has no event sched:sched_swich; did you mean sched:sched_switch?",
        ),
        (&["syscalls:*"], "one command traces at most 512"),
    ];
    for (args, words) in cases {
        let (code, errors) = refused(args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}
