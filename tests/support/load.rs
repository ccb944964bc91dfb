//! Processes that use the CPU in a known way.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::cgroup::Group;
use super::netns::Namespace;
use super::{oracle, wait_for, wait_until};

mod blocks;
mod body;
mod disk;
mod memory;
mod metered;
mod released;
mod sockets;
mod waiting;

/// Variable that names the load when the test binary starts itself.
const VARIABLE: &str = "NOCTULE_TEST_LOAD";
/// Start of a line that a load sends to the test.
const MARK: &str = "load: ";

/// Returns a command that another program starts to run the load until the load ends. [`words`]
/// parses the standard output of the command.
pub(crate) fn command(name: &str) -> Vec<String> {
    let set = format!("{VARIABLE}={name}");
    vec!["/usr/bin/env".into(), set, binary()]
}

/// Returns the messages of loads in a standard output.
pub(crate) fn words(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let said = text.lines().filter_map(|line| line.strip_prefix(MARK));
    said.map(str::to_owned).collect()
}

fn binary() -> String {
    let path = std::env::current_exe().expect("the test binary has a path");
    path.to_str().expect("in UTF-8").to_owned()
}

/// A running load, killed and reaped when dropped.
pub(crate) struct Load {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    reaped: bool,
}

impl Load {
    /// Starts a shell script in the group, and waits until it is ready.
    pub(crate) fn shell(group: &Group, script: &str) -> Self {
        let mut command = group.command("/bin/sh");
        command.args(["-c", &format!("echo '{MARK}ready'; {script}")]);
        Self::of(&mut command)
    }

    /// Like [`Self::shell`], with a requested pid. If another process gets the pid first, tries
    /// again.
    pub(crate) fn shell_with_pid(group: &Group, script: &str, pid: u32) -> Self {
        wait_for("the pid is free", || {
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .expect("CONFIG_CHECKPOINT_RESTORE, and root");
            let load = Self::shell(group, script);
            (load.pid() == pid).then_some(load)
        })
    }

    /// Starts a load that a shell script cannot provide. The load is the test binary itself, with
    /// arguments, in the group. Waits until the load is ready.
    pub(crate) fn own(group: &Group, name: &str) -> Self {
        let mut command = group.command(&binary());
        command.env(VARIABLE, name);
        Self::of(&mut command)
    }

    /// Like [`Self::own`], in a network namespace.
    pub(crate) fn in_namespace(namespace: &Namespace, name: &str) -> Self {
        let mut command = namespace.command(&binary());
        command.env(VARIABLE, name);
        Self::of(&mut command)
    }

    /// Sends a line and returns the reply.
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.next_message()
    }

    /// Starts a command that reports when it is ready.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the load can be started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut this = Self {
            child,
            input,
            output,
            reaped: false,
        };
        assert_eq!(this.next_message(), "ready");
        this
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next message.
    pub(crate) fn next_message(&mut self) -> String {
        self.try_next_message()
            .expect("the load ended without a word")
    }

    /// Like [`Self::hear`], for a load that may have ended.
    pub(crate) fn try_next_message(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).expect("text") == 0 {
                return None;
            }
            if let Some(said) = line.strip_prefix(MARK) {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, word: &str) {
        writeln!(self.input, "{word}").expect("the load listens");
    }

    /// Lets the load run until it has used this much CPU time in seconds, according to the kernel.
    pub(crate) fn burn_to(&self, seconds: f64) {
        wait_until("the load has used its CPU time", || {
            oracle::process_seconds(self.pid()) >= seconds
        });
    }

    /// Stops the load, and waits until none of its threads runs.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        wait_until("every thread has stopped", || {
            let states = oracle::states(self.pid());
            states.iter().all(|state| "TZX".contains(*state))
        });
        // After its state has changed, a thread still runs for some microseconds until its last
        // switch.
        let mut before = -1.0;
        wait_until("the kernel's figure stands still", || {
            let now = oracle::process_seconds(self.pid());
            std::mem::replace(&mut before, now) >= now
        });
    }

    /// Continues a stopped load.
    pub(crate) fn continue_running(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the load, and waits until it is a zombie.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait_for_end();
    }

    /// Waits until the load is a zombie: ended but not reaped.
    pub(crate) fn wait_for_end(&self) {
        wait_until("the load has ended", || oracle::states(self.pid()) == ['Z']);
    }

    /// Reaps the load. Returns the CPU time of its process and of the children that the process
    /// reaped, in seconds.
    pub(crate) fn reap(&mut self) -> f64 {
        self.reaped = true;
        oracle::reap(self.pid())
    }

    fn signal(&self, signal: Signal) {
        assert!(!self.reaped, "the pid may be somebody else's by now");
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a child has a pid");
        kill_process(pid, signal).expect("our own child");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
