//! Tests of start and end: noctule leaves nothing behind, and two agents do not disturb each other.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{assert_says, failure, support, wait_for_end};
use crate::support::agent::Agent;
use crate::support::burner::Burner;
use crate::support::cgroup::Group;
use crate::support::{StopAtEnd, assert_close, bpf, wait_until};

const CPU: &str = "noctule_cgroup_cpu_seconds_total";

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).expect("not 0");
    kill_process(pid, signal).expect("our child");
}

fn output(child: &mut Child) -> String {
    let mut text = String::new();
    let mut out = child.stdout.take().expect("piped");
    out.read_to_string(&mut text).expect("UTF-8");
    text
}

/// Returns the entries of the BPF file system.
fn pinned() -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir("/sys/fs/bpf") else {
        return BTreeSet::new();
    };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.flatten().map(name).collect()
}

#[test]
fn port_in_use_is_reported_before_loading() {
    let _machine = support::shared();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, said) = failure(&["run", "--listen", &address]);
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &[&address, "in use", "--listen"]);
    bpf::assert_no_orphans();
    // If another agent already has the port, the failure is reported, and that agent keeps running.
    let agent = Agent::start(&[]);
    let held = bpf::held_by(agent.pid());
    let (code, said) = failure(&["run", "--listen", agent.address()]);
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &[agent.address(), "another agent"]);
    bpf::assert_no_orphans();
    assert_eq!(bpf::held_by(agent.pid()), held);
    assert_eq!(agent.get("/readyz", "*/*").0, 200);
}

/// Waits until each agent has taken a batch after this call.
fn wait_for_batches(agents: &[&Agent]) {
    let since = Instant::now();
    thread::sleep(Duration::from_secs(1));
    for agent in agents {
        wait_until("there is a new batch", || {
            let most = since.elapsed().as_secs_f64();
            let age = agent.value("noctule_self_tick_age_seconds", &[]);
            age.expect("an age") < most
        });
    }
}

#[test]
fn two_agents_report_the_same() {
    let _machine = support::shared();
    let first = Agent::start(&["--interval", "200ms"]);
    let second = Agent::start(&["--interval", "300ms"]);
    let group = Group::new("seen-twice");
    let path = group.path();
    let value = |agent: &Agent| agent.value(CPU, &[("cgroup", &path)]).unwrap_or(0.0);
    let burner = Burner::within(&group);
    wait_until("the group has used something", || {
        group.usage_seconds() > 2.0
    });
    // The test uses the total since the start, because that window ends at the same time for both
    // agents and the kernel.
    drop(burner);
    wait_for_batches(&[&first, &second]);
    wait_until("the last slice is reported", || {
        let before = (value(&first), value(&second));
        wait_for_batches(&[&first, &second]);
        before == (value(&first), value(&second))
    });
    let used = group.usage_seconds();
    assert_close("the first agent", value(&first), used, 0.02, 0.0);
    assert_close("the second agent", value(&second), used, 0.02, 0.0);
    assert_close(
        "one and the other",
        value(&first),
        value(&second),
        0.02,
        0.0,
    );
}

/// Requests `/metrics`. The agent may end in the middle of its response.
fn scrape(address: &str) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Runs `body` while processes and groups constantly appear and disappear, and while the agent is
/// constantly scraped.
fn under_load(address: &str, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let until_stop = |work: &dyn Fn()| {
        while !stop.load(Ordering::Relaxed) {
            work();
        }
    };
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| until_stop(&|| drop(Command::new("true").status())));
        scope.spawn(|| until_stop(&|| drop(Group::new("load"))));
        scope.spawn(|| until_stop(&|| scrape(address)));
        thread::sleep(Duration::from_secs(2));
        body();
    });
}

#[test]
fn signal_under_load_ends_it_cleanly() {
    let _machine = support::shared();
    for signal in [Signal::TERM, Signal::INT] {
        let mut agent = Agent::start(&["--interval", "50ms", "--process-metrics"]);
        let ids = bpf::held_by(agent.pid());
        assert!(ids.len() >= 8, "{ids:?}");
        let address = agent.address().to_owned();
        let mut code = None;
        under_load(&address, || {
            agent.signal(signal);
            code = agent.end().code();
        });
        assert_eq!(code, Some(0));
        bpf::wait_until_unloaded(&ids);
    }
}

#[test]
fn kill_leaves_nothing_attached_or_pinned() {
    let _machine = support::shared();
    let before = pinned();
    let (mut child, ids) = bpf::start(&["run", "--listen", "127.0.0.1:0"]);
    assert_eq!(pinned(), before, "it pins nothing while it runs");
    signal(&child, Signal::KILL);
    wait_for_end(&mut child);
    bpf::wait_until_unloaded(&ids);
    bpf::assert_no_orphans();
    assert_eq!(pinned(), before);
}

#[test]
fn a_signal_ends_the_window_of_stat_and_the_answer_is_printed() {
    let _machine = support::shared();
    let (mut child, ids) = bpf::start(&["stat", "--json", "--for", "1h"]);
    signal(&child, Signal::INT);
    let text = output(&mut child);
    assert!(wait_for_end(&mut child).success());
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let window = answer["window_seconds"].as_f64().expect("a number");
    assert!(window > 0.0 && window < 3600.0, "{window}");
    assert!(!answer["rows"].as_array().expect("rows").is_empty());
    bpf::wait_until_unloaded(&ids);
}

#[test]
fn a_signal_ends_the_command_of_stat_too() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder of our own");
    let report = folder.path().join("report");
    let path = report.to_str().expect("UTF-8");
    let (mut child, ids) = bpf::start(&["stat", "-o", path, "--", "sleep", "3600"]);
    signal(&child, Signal::TERM);
    // SIGTERM ended the command, and noctule returns the exit status of the command.
    assert_eq!(wait_for_end(&mut child).code(), Some(143));
    let text = fs::read_to_string(&report).expect("the report");
    assert_says(&text, &["sleep", "(exited)"]);
    bpf::wait_until_unloaded(&ids);
}
