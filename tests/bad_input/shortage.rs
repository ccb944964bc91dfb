//! Tests with a full process table and with a low limit of open files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::{NOCTULE, assert_says, ended, failure_of, support};
use crate::support::agent::Agent;
use crate::support::folders::Made;
use crate::support::{bpf, hierarchies, wait_until};

/// A cgroup in which no process can be forked.
struct Full {
    folder: PathBuf,
    _made: Made,
}

impl Full {
    fn new() -> Self {
        let mount = hierarchies::with("pids").mount;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("noctule-test-{}-{number}-full", std::process::id());
        let folder = mount.join(name);
        let mut made = Made::default();
        made.make(&folder);
        if !folder.join("pids.max").exists() {
            let control = mount.join("cgroup.subtree_control");
            fs::write(control, "+pids").expect("v2 has the controller");
        }
        // A process can still be moved into the group.
        fs::write(folder.join("pids.max"), "0").expect("the limit can be set");
        Self {
            folder,
            _made: made,
        }
    }

    fn add(&self, pid: u32) {
        let file = self.folder.join("cgroup.procs");
        fs::write(file, pid.to_string()).expect("it can be moved");
    }

    /// Returns a command that runs `noctule` in the group from its first instruction.
    fn noctule(&self, args: &[&str]) -> Command {
        let enter = format!("echo $$ > {}/cgroup.procs", self.folder.display());
        let mut command = Command::new("sh");
        let script = format!("{enter} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, NOCTULE]).args(args);
        command
    }
}

#[test]
fn full_process_table_is_not_a_user_error() {
    let _machine = support::shared();
    let full = Full::new();
    let (code, said) = failure_of(&mut full.noctule(&["stat", "--", "sleep", "1"]));
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &["sleep", "temporarily unavailable"]);
    for args in [&["run", "--listen", "127.0.0.1:0"][..], &["top"]] {
        let (code, said) = failure_of(&mut full.noctule(args));
        assert_eq!(code, 1, "{args:?}: {said}");
        assert_says(&said, &["starting the ", "temporarily unavailable"]);
    }
    bpf::assert_no_orphans();
}

#[test]
fn a_running_agent_survives_a_full_process_table() {
    let _machine = support::shared();
    let full = Full::new();
    let mut agent = Agent::start(&["--interval", "200ms"]);
    full.add(agent.pid());
    let name = "noctule_node_cpu_seconds_total";
    for _ in 0..5 {
        let before = agent.value(name, &[]).expect("the node's time");
        wait_until("another batch is there", || {
            agent.value(name, &[]).is_some_and(|now| now > before)
        });
        assert_eq!(agent.get("/readyz", "*/*").0, 200);
    }
    agent.signal(Signal::TERM);
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn open_file_limit_is_raised_for_the_agent_only() {
    let _machine = support::shared();
    // The programs and maps need more files than this.
    let script = "ulimit -Sn 40; exec \"$0\" stat --json --for 50ms -- sh -c 'ulimit -Sn'";
    let mut command = Command::new("sh");
    let output = ended(command.args(["-c", script, NOCTULE]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // The standard output of noctule contains only the output of the command.
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "40");
}
