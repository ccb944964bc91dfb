//! `noctule stat` around an action of a test.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{NOCTULE, now, wait_until_attached};

/// A running `noctule stat --json` or similar command without a time limit, whose window has
/// started.
pub(crate) struct Window {
    child: Child,
    /// A moment at which the window had certainly started, in seconds of `CLOCK_MONOTONIC`.
    watches: f64,
}

/// The result of a window.
pub(crate) struct Seen {
    /// The parsed output.
    pub(crate) answer: Value,
    /// The earliest and latest moment at which the window can have started, in seconds of
    /// `CLOCK_MONOTONIC`.
    pub(crate) began: (f64, f64),
}

impl Window {
    /// Starts the command and waits until its window has started. The command takes its first
    /// figures before it sleeps in poll for the first time.
    pub(crate) fn open(level: &str) -> Self {
        Self::of(&["stat", "--by", level])
    }

    /// Like [`Self::open`], with any command that accepts `--for`. `args` includes its options.
    pub(crate) fn of(args: &[&str]) -> Self {
        Self::printed(&[args, &["--json"]].concat())
    }

    /// Like [`Self::of`], but the output is the text for people.
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
        wait_until_attached(&mut this.child);
        this.watches = now();
        this
    }

    /// Returns the process id of the command.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the window and returns the result.
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

    /// Ends the window and returns what the command printed.
    pub(crate) fn close_printed(mut self) -> String {
        self.interrupt();
        let output = self.child.stdout.take().expect("piped");
        let text = std::io::read_to_string(output).expect("text");
        assert!(self.child.wait().expect("our child").success());
        text
    }

    fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a child has a pid");
        // The command may have failed and ended by itself, and its output then shows the reason.
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
