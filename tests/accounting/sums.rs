//! Tests that sums add up: elapsed time equals processes plus idle plus remainder, and the levels
//! agree.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::assert_exact;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::oracle;
use super::support::reading::Reading;
use super::support::record::Recorder;
use super::support::window::Window;
use super::support::{self, assert_close};

/// Starts a hog, a thread that sleeps and wakes, eight threads, four of them short-lived, and a
/// shell that starts one process after another.
fn mixed(group: &Group) -> Vec<Load> {
    let forks = "while :; do ( j=0; while [ $j -lt 3000 ]; do j=$((j + 1)); done ); done";
    vec![
        Load::shell(group, "while :; do :; done"),
        Load::own(group, "sleeper"),
        Load::own(group, "threads"),
        Load::shell(group, forks),
    ]
}

/// Starts a thread that gets its CPU before the window opens and never leaves the CPU.
fn staying(group: &Group) -> Vec<Load> {
    group.allow_realtime_throughout();
    vec![Load::own(group, "realtime-sampler")]
}

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name}"))
}

fn sum_and_elapsed(answer: &Value) -> (f64, f64) {
    let sum = support::cpu_seconds(&support::rows(answer, |_| true));
    (
        sum,
        number(answer, "cpus") * number(answer, "window_seconds"),
    )
}

type Make = fn(&Group) -> Vec<Load>;

/// Number of windows that may be tried. On a quiet machine, 0.34 s of 4 s were once unaccounted for
/// an unknown reason. Time that is missing in every window is a defect.
const TRIES: usize = 3;

/// Each level gets its own window. All windows run at the same time.
const LEVELS: [&str; 3] = ["process", "cgroup", "container"];

/// Checks that rows, idle time and remainder of a window add up at each level. Returns a message if
/// the remainder exceeds steal and interrupt time, which belong to no row.
fn remainder_error(name: &str) -> Option<String> {
    let before = oracle::node_time();
    let windows = LEVELS.map(Window::open);
    thread::sleep(Duration::from_secs(2));
    let answers = windows.map(|window| window.close().answer);
    let after = oracle::node_time();
    let other = after.steal - before.steal + after.interrupts - before.interrupts;
    let found = LEVELS.iter().zip(&answers).filter_map(|(level, answer)| {
        let (sum, elapsed) = sum_and_elapsed(answer);
        let idle = number(answer, "idle_seconds");
        let remainder = number(answer, "remainder_seconds");
        // `/proc/stat` rounds to 1/100 s for each CPU.
        let stolen = support::stolen() + 0.01 * number(answer, "cpus");
        let what = format!("{name}, by {level}");
        assert_close(&what, sum + idle + remainder, elapsed, 0.001, stolen);
        // `/proc/stat` rounds to 1/100 s.
        let most = 0.01 * elapsed + other + 0.02;
        let words = || format!("{level}: {remainder} s of {elapsed} s; others: {other} s");
        (remainder > most).then(words)
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| found.join(", "))
}

#[test]
fn rows_idle_and_remainder_add_up_to_elapsed() {
    let _machine = support::alone();
    needs!("cpu_time");
    let cases: [(&str, Make); 3] = [
        ("quiet", |_| Vec::new()),
        ("mixed", mixed),
        ("staying", staying),
    ];
    for (name, start) in cases {
        let group = Group::new("sums");
        let loads = start(&group);
        let tries = (0..TRIES).map_while(|_| remainder_error(name));
        let remainders: Vec<String> = tries.collect();
        assert!(remainders.len() < TRIES, "{name}: {remainders:?}");
        drop(loads);
    }
}

fn several(agent: &Agent, count: usize) -> Vec<Reading> {
    (0..count).map(|_| Reading::fresh(agent)).collect()
}

/// Maximum number of batches to take. Many are needed, because the host can steal time in any
/// batch.
const MOST_BATCHES: u32 = 3_000;
const STEPS: u32 = 100;
const LEAST_STEPS: u32 = 30;

/// If use that belongs to one batch were reported in the next batch, the remainder would shrink by
/// that amount. In this test that would be the 4 ms of a process that ends while a batch is taken,
/// or of a process that changes its group meanwhile.
/// Between its last message to its parent and its last switch, a thread can lose its CPU unseen. A
/// thread loses its CPU like this in one of thirty batches on a busy machine. If exits were
/// reported late, nearly every batch would show it.
#[test]
fn process_ending_or_moving_during_a_batch_is_in_it() {
    let _machine = support::alone();
    needs!("cpu_time");
    let agent = Agent::start(&["--interval", "100ms"]);
    let group = Group::new("ends");
    let forks = "while :; do ( j=0; while [ $j -lt 1500 ]; do j=$((j + 1)); done ); done";
    let other = Group::new("moves");
    let burns = "j=0; while [ $j -lt 1500 ]; do j=$((j + 1)); done";
    let [here, there] =
        [&group, &other].map(|it| format!("echo 0 > {}/cgroup.procs", it.folder().display()));
    let moves = format!("while :; do {there}; {burns}; {here}; {burns}; done");
    let _loads = [forks, forks, &moves].map(|script| Load::shell(&group, script));
    let mut late = Vec::new();
    let mut judged = 0;
    // The third value is the steal time so far, because the test can judge only a step without
    // steal.
    let mut before = (0.0, 0.0, f64::MAX);
    for _ in 0..MOST_BATCHES {
        let reading = Reading::fresh(&agent);
        let remainder = reading.value("noctule_node_cpu_remainder_seconds", &[]);
        let remainder = remainder.expect("it is always there");
        let stolen = support::stolen();
        let (last, stolen_last, stolen_before) = before;
        if stolen <= stolen_before {
            judged += 1;
            late.extend(Some(remainder - last).filter(|step| *step < -0.001 * support::slowness()));
        }
        before = (remainder, stolen, stolen_last);
        if judged == STEPS {
            break;
        }
    }
    assert!(
        judged >= LEAST_STEPS,
        "only {judged} steps without steal: nothing is shown on this machine now"
    );
    assert!(
        late.len() as u32 <= 1 + judged / 10,
        "told a batch late: {late:?} s of {judged} steps"
    );
}

#[test]
fn idle_time_matches_proc_stat() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = Agent::start(&["--interval", "100ms"]);
    let recorder = Recorder::start(oracle::node_time);
    let group = Group::new("idle");
    let mut readings = several(&agent, 20);
    let load = Load::own(&group, "sleeper");
    readings.extend(several(&agent, 20));
    drop(load);
    readings.extend(several(&agent, 20));
    let record = recorder.end();
    let ours = |reading: &Reading| {
        let idle = reading.value("noctule_node_cpu_idle_seconds_total", &[]);
        idle.expect("it is always there")
    };
    let stray = record.stray(&readings, ours, |time| time.idle);
    // The kernel's figures have steps of 10 ms, for idle and for iowait, on each CPU.
    let steps = 0.03 * oracle::cpus_online() as f64;
    let allowed = steps
        .max(0.01 * record.growth(|time| time.idle))
        .max(0.002 * support::slowness());
    // Time that interrupts or the host take from an idle CPU is idle time here, but not in
    // /proc/stat. On a kernel that counts interrupts only at ticks (no CONFIG_IRQ_TIME_ACCOUNTING),
    // most of that time is in no figure.
    let other = record.growth(|time| time.steal + time.interrupts);
    let sum = record.growth(|time| time.busy + time.idle + time.steal + time.interrupts);
    let nowhere = (record.length() * oracle::cpus_online() as f64 - sum).max(0.0);
    assert!(
        stray <= allowed + other + nowhere,
        "{stray} s off, {allowed} s allowed; steal and interrupts: {other} s; in no figure of the kernel: {nowhere} s"
    );
}

#[test]
fn kernel_threads_have_rows_and_the_idle_task_has_none() {
    let _machine = support::shared();
    needs!("cpu_time");
    // The source is schedstat. A thread can end between the two reads.
    let used = || -> BTreeMap<u32, f64> {
        let threads = oracle::kernel_threads().into_iter();
        let used = threads.map(|pid| Some((pid, oracle::leader_seconds(pid)?)));
        used.flatten().collect()
    };
    let outer = used();
    let window = Window::open("process");
    let inner = used();
    let group = Group::new("kernel");
    let load = Load::own(&group, "sleeper");
    load.burn_to(0.5);
    let inner_end = used();
    let answer = window.close().answer;
    let outer_end = used();
    let growth = |from: &BTreeMap<u32, f64>, to: &BTreeMap<u32, f64>, pid| {
        Some(to.get(&pid)? - from.get(&pid)?)
    };
    let mut ran = 0;
    for pid in outer.keys().copied() {
        let (Some(least), Some(most)) = (
            growth(&inner, &inner_end, pid),
            growth(&outer, &outer_end, pid),
        ) else {
            continue;
        };
        let rows = support::rows(&answer, |row| row["process.pid"] == pid);
        let said = support::cpu_seconds(&rows);
        assert_exact(
            &format!("kernel thread {pid}"),
            said,
            said.clamp(least, most),
        );
        if least > 0.0 {
            assert_eq!(rows.len(), 1, "kernel thread {pid} ran: {rows:?}");
            ran += 1;
        }
    }
    assert!(ran > 0, "no kernel thread ran");
    assert_eq!(
        support::rows(&answer, |row| row["process.pid"] == 0).len(),
        0
    );
}

/// Without steal both figures are 0. The kernel's figure is in hundredths of a second.
#[test]
fn steal_time_matches_proc_stat() {
    let _machine = support::shared();
    needs!("cpu_time");
    let window = Window::open("cgroup");
    let group = Group::new("busy");
    let load = Load::own(&group, "spin 1");
    let before = oracle::node_time().steal;
    thread::sleep(Duration::from_secs(3));
    let steal = oracle::node_time().steal - before;
    drop(load);
    let answer = window.close().answer;
    // A kernel that includes steal in used and idle time has the second key.
    let keys = ["steal_seconds", "steal_included_seconds"].map(|key| answer[key].as_f64());
    let said = match keys {
        [Some(said), None] | [None, Some(said)] => said,
        // Some kernels do not measure steal.
        [None, None] if steal == 0.0 => return,
        keys => panic!("{keys:?}: {steal} of /proc/stat"),
    };
    // The window is slightly longer than the time between the kernel's readings.
    let cpus = number(&answer, "cpus");
    assert!(said > 0.95 * steal - 0.01 * cpus, "{said}, {steal}");
    assert!(said < 1.05 * steal + 0.05 * cpus, "{said}, {steal}");
}
