//! `noctule stat` around something that a test does.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{NOCTULE, now, wait_until_it_waits};

/// `noctule stat --json`, or another such command, without an end of its own, which watches already.
pub(crate) struct Window {
    child: Child,
    /// When it was known to watch, in seconds of `CLOCK_MONOTONIC`.
    watches: f64,
}

/// What it saw.
pub(crate) struct Seen {
    /// The answer.
    pub(crate) answer: Value,
    /// The earliest and latest moment at which the window can have begun, in seconds of
    /// `CLOCK_MONOTONIC`.
    pub(crate) began: (f64, f64),
}

impl Window {
    /// Starts it and waits until the window has begun. It takes its first figures before it sleeps
    /// for the first time, and sleeps in poll.
    pub(crate) fn open(level: &str) -> Self {
        Self::of(&["stat", "--by", level])
    }

    /// The same with another command that has a window, and more options.
    pub(crate) fn of(args: &[&str]) -> Self {
        Self::printed(&[args, &["--json"]].concat())
    }

    /// The same with an answer for people.
    pub(crate) fn printed(args: &[&str]) -> Self {
        let child = Command::new(NOCTULE)
            .args(args)
            .args(["--for", "600s"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let mut this = Self {
            child,
            watches: 0.0,
        };
        wait_until_it_waits(&mut this.child);
        this.watches = now();
        this
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the window, and returns the answer.
    pub(crate) fn close(mut self) -> Seen {
        let asked = now();
        self.interrupt();
        let mut output = self.child.stdout.take().expect("piped");
        let answer: Value = serde_json::from_reader(&mut output).expect("an answer");
        let answered = now();
        assert!(self.child.wait().expect("our child").success());
        let length = answer["window_seconds"].as_f64().expect("window_seconds");
        Seen {
            began: (asked - length, self.watches.min(answered - length)),
            answer,
        }
    }

    /// Ends the window, and returns what it printed.
    pub(crate) fn close_printed(mut self) -> String {
        self.interrupt();
        let output = self.child.stdout.take().expect("piped");
        let text = std::io::read_to_string(output).expect("text");
        assert!(self.child.wait().expect("our child").success());
        text
    }

    fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a child has a pid");
        // It may have failed and ended by itself; then the answer says so.
        let _ = kill_process(pid, Signal::INT);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            self.interrupt();
            let _ = self.child.wait();
        }
    }
}
