//! Tests of the binary with wrong arguments, files, privileges and names.

mod arguments;
mod files;
mod lifetime;
mod lockdown;
mod names;
mod output;
mod rights;
mod shortage;
mod shown;
mod types;

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::{self, NOCTULE, wait_for};

/// Waits until a child ends without a signal from the test.
fn wait_for_end(child: &mut Child) -> ExitStatus {
    wait_for("the process has ended", || {
        child.try_wait().expect("our child")
    })
}

/// Runs `noctule` with arguments that must fail. Returns exit status and standard error.
fn failure(args: &[&str]) -> (i32, String) {
    failure_of(Command::new(NOCTULE).args(args))
}

/// Like [`failure`], for a prepared command.
fn failure_of(command: &mut Command) -> (i32, String) {
    let output = ended(command);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    let code = output.status.code().expect("an exit status");
    assert_ne!(code, 0, "{command:?}: a success\n{said}");
    assert!(!said.contains("panicked"), "{command:?}: {said}");
    (code, said)
}

/// Returns the output of a command that ends soon without a signal from the test.
fn ended(command: &mut Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    // Another thread reads the output, because the output may exceed the capacity of a pipe.
    let (sender, output) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output = output.recv_timeout(Duration::from_secs(120));
    let output = output.unwrap_or_else(|_| panic!("{command:?} does not end"));
    output.expect("our child")
}

/// Fails unless the text contains each of the words.
#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

/// Returns the features that `doctor` lists, by name.
fn verdicts(command: &mut Command) -> BTreeMap<String, Value> {
    let output = command.args(["doctor", "--json"]).output();
    let output = output.expect("it can be started");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let features = answer["features"].as_array().expect("features").iter();
    let count = features.len();
    let named = features.map(|f| (f["name"].as_str().expect("a name").to_owned(), f.clone()));
    let named: BTreeMap<_, _> = named.collect();
    assert_eq!(named.len(), count, "one verdict each");
    named
}
