//! Tests of run-queue latency: which group waited, for how long, and which group caused the wait.
//! The tests compare with the kernel's own accounting, and with scenes whose cause is known.
//!
//! Groups whose load stays on the last CPU get the highest weight, so that other loads on the
//! machine do not matter. The first CPU is left to the agent.

#![allow(
    clippy::print_stdout,
    reason = "the figures behind a verdict: the harness shows them when a test fails, or when asked"
)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::NamedTempFile;

use super::support::cgroup::Group;
use super::support::{self, NOCTULE, assert_close, load};

mod blocked;
mod churn;
mod disks;
mod exact;
mod followed;
mod host;
mod long;
mod parts;
mod released;
mod settings;
mod switches;
mod system;
mod tail;
mod throttle;
mod verdicts;
mod why;

/// Every cause of a wait.
const CAUSES: [&str; 8] = [
    "throttle",
    "neighbour",
    "self",
    "kernel",
    "interrupt",
    "host",
    "idle",
    "unattributed",
];

/// Runs `noctule waits --json` by cgroup for this long.
fn waits(duration: &str) -> Value {
    support::json(&["waits", "--json", "--by", "cgroup", "--for", duration])
}

/// Returns the group's only row, and panics if there is none or more than one.
#[track_caller]
fn row_of<'a>(answer: &'a Value, group: &Group) -> &'a Value {
    let rows = support::rows(answer, |row| row["cgroup.id"] == group.id());
    assert_eq!(rows.len(), 1, "{}: {answer}", group.path());
    rows[0]
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value}: no number"))
}

/// Returns the total wait of a row in seconds.
fn waited(row: &Value) -> f64 {
    number(&row["wait"]["seconds"])
}

/// Returns the seconds of a cause. A kernel may not measure the time that interrupts and the host
/// take.
fn cause(row: &Value, name: &str) -> f64 {
    match &row["causes"][name] {
        Value::Null if ["interrupt", "host"].contains(&name) => 0.0,
        seconds => number(seconds),
    }
}

/// Creates a configuration file with this text.
fn configuration(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file of our own");
    file.write_all(text.as_bytes()).expect("it can be written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("in UTF-8")
}

/// Runs `noctule` with these arguments around a command. The command is in the group from its first
/// instruction, and noctule writes its output to files.
fn around(args: &[&str], group: &Group, command: &[String]) -> Output {
    let enter = group.enter();
    group.allow_realtime();
    let mut noctule = Command::new(NOCTULE);
    noctule.args(args).args(["--", "/bin/sh", "-c", &enter]);
    let output = noctule.args(command).stdin(Stdio::null()).output();
    output.expect("the binary can be started")
}

/// Creates a file for the output.
fn answer_file() -> NamedTempFile {
    NamedTempFile::new().expect("a file of our own")
}

fn answer_in(file: &NamedTempFile) -> Value {
    let text = std::fs::read_to_string(file.path()).expect("our file");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Parses the waits that processes printed from the kernel's accounting, as pid and seconds.
fn parse_waits(output: &Output) -> Vec<(u32, f64)> {
    let words = load::words(&output.stdout);
    let waited = words.iter().filter_map(|word| word.strip_prefix("waited "));
    let one = |text: &str| {
        let (pid, ns) = text.split_once(' ').expect("pid and time");
        let ns: u64 = ns.parse().expect("a number");
        (pid.parse().expect("a number"), ns as f64 / 1e9)
    };
    waited.map(one).collect()
}
