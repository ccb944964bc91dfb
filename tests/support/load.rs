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
mod memory;
mod metered;
mod sockets;
mod waiting;

/// Says which load the test binary is when it starts itself again.
const VARIABLE: &str = "NOCTULE_TEST_LOAD";
/// What a load says to the test follows this.
const MARK: &str = "load: ";

/// A command as which the load runs to its end, to be started by somebody else; what it says is on
/// its standard output, for [`words`].
pub(crate) fn command(name: &str) -> Vec<String> {
    let set = format!("{VARIABLE}={name}");
    vec!["/usr/bin/env".into(), set, binary()]
}

/// What loads said, among other things, on standard output.
pub(crate) fn words(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let said = text.lines().filter_map(|line| line.strip_prefix(MARK));
    said.map(str::to_owned).collect()
}

fn binary() -> String {
    let path = std::env::current_exe().expect("the test binary has a path");
    path.to_str().expect("in UTF-8").to_owned()
}

/// A running load; killed and reaped when it is dropped.
pub(crate) struct Load {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    reaped: bool,
}

impl Load {
    /// A shell script in the group; returns when it is there.
    pub(crate) fn shell(group: &Group, script: &str) -> Self {
        let mut command = group.command("/bin/sh");
        command.args(["-c", &format!("echo '{MARK}ready'; {script}")]);
        Self::of(&mut command)
    }

    /// The same with a pid that was asked for. Another process may be faster: then it is tried again.
    pub(crate) fn shell_with_pid(group: &Group, script: &str, pid: u32) -> Self {
        wait_for("the pid is free", || {
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .expect("CONFIG_CHECKPOINT_RESTORE, and root");
            let load = Self::shell(group, script);
            (load.pid() == pid).then_some(load)
        })
    }

    /// One of the loads that a shell cannot make, with its arguments, in the group; returns when it
    /// says that it is ready. The test binary starts itself for it.
    pub(crate) fn own(group: &Group, name: &str) -> Self {
        let mut command = group.command(&binary());
        command.env(VARIABLE, name);
        Self::of(&mut command)
    }

    /// The same, in a network namespace.
    pub(crate) fn in_namespace(namespace: &Namespace, name: &str) -> Self {
        let mut command = namespace.command(&binary());
        command.env(VARIABLE, name);
        Self::of(&mut command)
    }

    /// Says something, and returns the answer.
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.hear()
    }

    /// A command that says that it is ready.
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
        assert_eq!(this.hear(), "ready");
        this
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing that it says.
    pub(crate) fn hear(&mut self) -> String {
        self.last_words().expect("the load ended without a word")
    }

    /// The same of one that may have ended.
    pub(crate) fn last_words(&mut self) -> Option<String> {
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

    /// Sends it a line.
    pub(crate) fn say(&mut self, word: &str) {
        writeln!(self.input, "{word}").expect("the load listens");
    }

    /// Lets it run until it has used that many seconds of CPU time, by the kernel's figure.
    pub(crate) fn burn_to(&self, seconds: f64) {
        wait_until("the load has used its CPU time", || {
            oracle::process_seconds(self.pid()) >= seconds
        });
    }

    /// Stops it, and returns when none of its threads runs any more.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        wait_until("every thread has stopped", || {
            let states = oracle::states(self.pid());
            states.iter().all(|state| "TZX".contains(*state))
        });
        // From the state to the last switch a thread still runs for some microseconds.
        let mut before = -1.0;
        wait_until("the kernel's figure stands still", || {
            let now = oracle::process_seconds(self.pid());
            std::mem::replace(&mut before, now) >= now
        });
    }

    /// Lets a stopped load run on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it and returns when it is a zombie.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait_for_end();
    }

    /// Returns when it is a zombie: it has ended, and nobody has reaped it.
    pub(crate) fn wait_for_end(&self) {
        wait_until("the load has ended", || oracle::states(self.pid()) == ['Z']);
    }

    /// Reaps it. The value is its CPU time and that of its own reaped children, in seconds.
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
