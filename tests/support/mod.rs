//! Shared helpers of the tests: the binary, cgroups for tests, and the kernel's figures.

#![allow(dead_code, reason = "each test uses only some of them")]

#[macro_use]
pub(crate) mod expect;

pub(crate) mod affinity;
pub(crate) mod agent;
pub(crate) mod bpf;
pub(crate) mod browser;
pub(crate) mod burner;
pub(crate) mod cgroup;
pub(crate) mod container;
pub(crate) mod folders;
pub(crate) mod hierarchies;
pub(crate) mod history;
pub(crate) mod hostile;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod netns;
pub(crate) mod openmetrics;
pub(crate) mod oracle;
pub(crate) mod prometheus;
pub(crate) mod reading;
pub(crate) mod receiver;
pub(crate) mod record;
pub(crate) mod refuse;
pub(crate) mod scheduler;
pub(crate) mod schema;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod tmux;
pub(crate) mod tracefs;
pub(crate) mod uring;
pub(crate) mod window;

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use machine::{Part, alone, shared, shared_but, stolen};

/// Path of the binary under test: cargo's path, or the path on the machine for which the tests are
/// built.
pub(crate) const NOCTULE: &str = match option_env!("NOCTULE_BINARY") {
    Some(path) => path,
    None => env!("CARGO_BIN_EXE_noctule"),
};

/// Stops threads when dropped, even after a failed assertion, because a scope waits for them.
pub(crate) struct StopAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Creates a builder for a thread with a name, which [`of_threads`] can select.
pub(crate) fn thread(name: &str) -> thread::Builder {
    assert!(name.len() < 16, "the kernel would cut {name}");
    thread::Builder::new().name(name.to_owned())
}

/// Returns a filter for threads of this process whose names start with `prefix`. Tests can run as
/// threads of one process, so each uses its own names.
pub(crate) fn of_threads(prefix: &str) -> String {
    format!(
        "common_tgid == {} && comm ~ \"{prefix}*\"",
        std::process::id()
    )
}

/// Returns a filter for the calling thread.
pub(crate) fn of_this_thread() -> String {
    let thread = rustix::thread::gettid();
    format!("common_pid == {}", thread.as_raw_nonzero())
}

/// Runs `noctule` with these arguments, without input, and captures its output.
pub(crate) fn noctule(args: &[&str]) -> Output {
    let output = Command::new(NOCTULE)
        .args(args)
        .stdin(Stdio::null())
        .output();
    output.expect("the binary can be started")
}

/// Returns the JSON that `noctule` prints with these arguments. The command must succeed. If the
/// arguments contain a command, the JSON is on standard error.
pub(crate) fn json(args: &[&str]) -> Value {
    let output = noctule(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{args:?}: {}\n{errors}",
        output.status
    );
    let answer = match args.contains(&"--") {
        // Standard error may also contain warnings.
        true => errors.lines().find(|line| line.starts_with('{')),
        false => std::str::from_utf8(&output.stdout).ok(),
    };
    let answer = answer.unwrap_or_default();
    serde_json::from_str(answer).unwrap_or_else(|e| panic!("{args:?}: {e}\n{errors}"))
}

/// Returns the rows of `stat --json` output that `keep` selects.
pub(crate) fn rows(answer: &Value, keep: impl Fn(&Value) -> bool) -> Vec<&Value> {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().filter(|row| keep(row)).collect()
}

/// Returns the sum of `cpu.seconds` over rows.
pub(crate) fn cpu_seconds(rows: &[&Value]) -> f64 {
    rows.iter()
        .map(|row| row["cpu.seconds"].as_f64().expect("cpu.seconds"))
        .sum()
}

/// Returns major and minor version of this kernel.
pub(crate) fn kernel() -> (u32, u32) {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse().ok());
    (number().expect("major"), number().expect("minor"))
}

/// Returns the factor by which this machine is slower than a real processor. The environment of an
/// emulated machine contains the factor.
pub(crate) fn slowness() -> f64 {
    let said = std::env::var("NOCTULE_SLOWNESS");
    said.map_or(1.0, |text| text.parse().expect("a number"))
}

/// Fails unless `actual` is within `share` of `expected`, or within `slack` in its unit. The slack
/// covers what the kernel does between two figures, and grows on a slow machine.
#[track_caller]
pub(crate) fn assert_close(what: &str, actual: f64, expected: f64, share: f64, slack: f64) {
    let off = (actual - expected).abs();
    let allowed = (expected.abs() * share).max(slack * slowness());
    assert!(
        off <= allowed,
        "{what}: {actual} instead of {expected}: off by {off}, not {allowed}"
    );
}

/// Returns the time of `CLOCK_MONOTONIC` in seconds.
pub(crate) fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Calls `find` every few milliseconds until it returns a value. Fails after two minutes, which is
/// far longer than anything takes even on a busy machine. An emulated machine gets six minutes.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    wait_for_or_explain(what, find, String::new)
}

/// Like [`wait_for`]. On failure, prints the output of `explain`.
#[track_caller]
pub(crate) fn wait_for_or_explain<T>(
    what: &str,
    mut find: impl FnMut() -> Option<T>,
    explain: impl FnOnce() -> String,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(120).mul_f64(slowness().clamp(1.0, 3.0));
    loop {
        if let Some(found) = find() {
            return found;
        }
        if Instant::now() >= deadline {
            panic!("waited in vain until {what}\n{}", explain());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until everything is attached and the command only waits for its end.
#[track_caller]
pub(crate) fn wait_until_attached(child: &mut std::process::Child) {
    wait_until("it waits for its end", || {
        let ended = child.try_wait().expect("our child");
        assert!(ended.is_none(), "{ended:?}");
        sleeps_in_poll(child.id())
    });
}

/// Returns whether the first thread of a process sleeps in poll. Rust's runtime also polls at the
/// start without sleeping, but can lose its CPU there.
fn sleeps_in_poll(pid: u32) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let (call, stat) = (
        read("syscall").unwrap_or_default(),
        read("stat").unwrap_or_default(),
    );
    let polls = call.split(' ').next() == Some(&libc::SYS_ppoll.to_string());
    polls
        && stat
            .rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('S'))
}

/// Waits until `holds` returns true, like [`wait_for`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}
