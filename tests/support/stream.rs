//! A running `noctule events --json`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::expect::loses;
use super::{NOCTULE, wait_for, wait_for_or_explain};

/// Number of events shown when an expected event did not arrive.
const SHOWN: usize = 40;

/// A running stream, ended with SIGTERM when dropped.
pub(crate) struct Stream {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Stream {
    /// Starts the stream, and returns once it reports events.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = Command::new(NOCTULE)
            .args(["events", "--json", "--log", "info"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let ready = said
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains("watching"));
        assert!(ready.is_some(), "it ended before it watched");
        // The reader drains the pipe, so that noctule never blocks on it.
        thread::spawn(move || said.map_while(Result::ok).for_each(drop));
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let sink = Arc::clone(&events);
        let reader = thread::spawn(move || {
            for line in output.lines() {
                let line = line.expect("text");
                let event = serde_json::from_str(&line);
                let event = event.unwrap_or_else(|e| panic!("not JSON: {e}: {line}"));
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(event);
            }
        });
        Self {
            child,
            events,
            reader: Some(reader),
        }
    }

    /// Returns the process id of the stream.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the events so far, in order.
    pub(crate) fn events_so_far(&self) -> Vec<Value> {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the events so far that satisfy `keep`.
    pub(crate) fn of(&self, keep: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut told = self.events_so_far();
        told.retain(keep);
        told
    }

    /// Waits for an event that satisfies `keep`, and returns the first one. On failure, prints the
    /// last events.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, keep: impl Fn(&Value) -> bool) -> Value {
        let last = || {
            let told = self.events_so_far();
            let last = told.iter().rev().take(SHOWN).map(Value::to_string);
            last.collect::<Vec<_>>().join("\n")
        };
        wait_for_or_explain(what, || self.of(&keep).into_iter().next(), last)
    }

    /// Waits until `count` events satisfy `keep`.
    #[track_caller]
    pub(crate) fn wait_for_all(
        &self,
        what: &str,
        count: usize,
        keep: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        wait_for(what, || {
            Some(self.of(&keep)).filter(|all| all.len() >= count)
        })
    }

    /// Returns how many losses of this kind the stream reported, or how often programs were
    /// skipped.
    pub(crate) fn lost(&self, kind: &str) -> u64 {
        let gaps = self.of(|event| event["event.name"] == "gap");
        let lost = gaps.iter().map(|gap| gap["lost"][kind].as_u64());
        lost.flatten().sum()
    }

    /// Returns the stream's gaps, except those that the table of this kernel allows.
    pub(crate) fn gaps(&self) -> Vec<Value> {
        let undeclared = |gap: &Value| {
            let lost = gap["lost"].as_object();
            lost.is_none_or(|lost| !lost.keys().all(|kind| loses(kind)))
        };
        self.of(|event| event["event.name"] == "gap" && undeclared(event))
    }

    /// Sends the stream a signal, such as SIGSTOP.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a child has a pid");
        kill_process(pid, signal).expect("our own child");
    }

    /// Ends the stream, and returns all its events and its exit status.
    pub(crate) fn end(mut self) -> (Vec<Value>, ExitStatus) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("our own child");
        self.join();
        (self.events_so_far(), status)
    }

    fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("every line is an event");
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.signal(Signal::TERM);
            let _ = self.child.wait();
            self.reader = None;
        }
    }
}

/// Returns whether the event has this name and belongs to this process.
pub(crate) fn is(event: &Value, name: &str, pid: u32) -> bool {
    event["event.name"] == name && event["process.pid"] == pid
}
