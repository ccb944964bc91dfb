//! Tests of blocked time by class, with threads that wait in known calls.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};

use super::support::cgroup::Group;
use super::support::expect;
use super::support::load::Load;
use super::support::window::Window;
use super::{number, row_of, support, waited, waits};

/// Number of the load's threads by class, except threads that read or poll a pipe.
const THREADS: [(&str, f64); 6] = [
    ("timer", 1.0),
    ("unix", 1.0),
    ("lock", 2.0),
    ("loopback", 1.0),
    ("network", 1.0),
    ("child", 1.0),
];
/// Number of all threads of the load.
const ALL: f64 = 11.0;

fn blocked(row: &Value, class: &str) -> f64 {
    number(&row["blocked"][class])
}

/// Returns the total running, runnable and blocked time of the row's threads.
fn all(row: &Value) -> f64 {
    let blocked = row["blocked"].as_object().expect("an object");
    let blocked: f64 = blocked.values().map(number).sum();
    number(&row["cpu.seconds"]) + waited(row) + blocked
}

#[test]
fn running_and_runnable_time_of_busy_threads_add_up_to_the_window() {
    const THREADS: f64 = 8.0;
    // The time of a thread can be off by one tick at each end of the window.
    const TICKS: f64 = 2.0 * 0.004;
    let _machine = support::shared();
    needs!("cpu_waits");
    let group = Group::new("busy-all");
    let _load = Load::own(&group, "spin 8");
    // A window with a loss cannot be checked, because the length of a lost wait is unknown.
    let without_losses = |answer: &Value| answer["losses"].as_object().is_some_and(Map::is_empty);
    let mut windows = (0..5).map(|_| waits("1s"));
    let answer = windows
        .find(without_losses)
        .expect("a window without losses");
    let row = row_of(&answer, &group);
    let (sum, whole) = (all(row), THREADS * number(&answer["window_seconds"]));
    assert!(
        (sum - whole).abs() <= 0.001 * whole + TICKS,
        "{sum} of {whole}: {row}"
    );
}

#[test]
fn threads_that_sleep_all_the_time_are_blocked_for_the_whole_window() {
    let _machine = support::shared();
    if expect::lacks_part_of("blocked_time") {
        return;
    }
    let group = Group::new("blocked-all");
    let mut load = Load::own(&group, "blocks");
    let answer = waits("1s");
    let row = row_of(&answer, &group);
    let window = number(&answer["window_seconds"]);
    let (sum, whole) = (all(row), ALL * window);
    assert!(
        (sum - whole).abs() <= 0.001 * whole,
        "{sum} of {whole}: {row}"
    );
    for (class, threads) in THREADS {
        let seconds = blocked(row, class);
        // The sleeping thread runs occasionally, and waits for a CPU.
        let most = threads * window * 1.001;
        let least = threads * window * 0.999 - waited(row) - number(&row["cpu.seconds"]);
        assert!(
            (least..=most).contains(&seconds),
            "{class}: {seconds}: {row}"
        );
    }
    // A shell may poll its pipe before it reads.
    let either = blocked(row, "pipe") + blocked(row, "poll");
    assert!(
        (either - 4.0 * window).abs() <= 0.001 * whole,
        "{either}: {row}"
    );
    load.say("end");
    load.wait_for_end();
    load.reap();
}

#[test]
fn a_block_counts_from_the_call_until_the_thread_is_runnable() {
    let _machine = support::shared();
    if expect::lacks_part_of("blocked_time") {
        return;
    }
    let group = Group::new("blocked-part");
    let window = Window::of(&["waits", "--by", "cgroup"]);
    let mut load = Load::own(&group, "blocks");
    thread::sleep(Duration::from_millis(500));
    load.say("end");
    let mut measured = BTreeMap::new();
    loop {
        let words = load.next_message();
        let Some((class, seconds)) = words.split_once(' ') else {
            break;
        };
        let seconds: f64 = seconds.parse().expect("a number");
        *measured.entry(class.to_owned()).or_insert(0.0) += seconds;
    }
    load.wait_for_end();
    load.reap();
    let answer = window.close().answer;
    let row = row_of(&answer, &group);
    let busy = waited(row) + number(&row["cpu.seconds"]);
    // Leaves out classes in which threads also block without measuring the time: the first thread
    // and the child read pipes, and threads wait for each other on futexes.
    let only_ours = |class: &str| !["pipe", "poll", "lock", "child"].contains(&class);
    for (class, seconds) in measured.iter().filter(|(class, _)| only_ours(class)) {
        let ours = blocked(row, class);
        let least = seconds - busy - 0.01;
        assert!(
            (least..=seconds + 0.001).contains(&ours),
            "{class}: {ours} of {seconds}: {row}"
        );
    }
    assert_eq!(blocked(row, "other"), 0.0, "{row}");
}

#[test]
fn a_stopped_process_is_stopped_and_nothing_else() {
    let _machine = support::shared();
    let group = Group::new("blocked-stopped");
    let load = Load::shell(&group, "while :; do :; done");
    load.stop();
    let answer = waits("1s");
    let row = row_of(&answer, &group);
    let window = number(&answer["window_seconds"]);
    assert!(
        (blocked(row, "stopped") - window).abs() <= 0.001 * window,
        "{row}"
    );
    assert_eq!(row["verdict"]["kind"], "stopped", "{row}");
    let reason = row["verdict"]["reason"].as_str().expect("a sentence");
    assert!(reason.starts_with("stopped: its threads were "), "{row}");
    load.continue_running();
    load.kill();
}

#[test]
fn a_read_after_a_write_waits_for_the_disk() {
    let _machine = support::shared();
    let group = Group::new("blocked-rereads");
    let window = Window::of(&["waits", "--by", "cgroup"]);
    let mut load = Load::own(&group, "rereads");
    let from_disk: u64 = load.next_message().parse().expect("a number");
    load.wait_for_end();
    load.reap();
    let answer = window.close().answer;
    let row = row_of(&answer, &group);
    assert_eq!(blocked(row, "writeback"), 0.0, "{row}");
    assert_eq!(
        blocked(row, "disk") > 0.0,
        from_disk > 0,
        "{from_disk} bytes: {row}"
    );
}

#[test]
fn rereads_under_a_memory_limit_are_waits_for_the_limit() {
    let _machine = support::shared();
    let group = Group::with_memory("blocked-limit", 8 << 20).heavy();
    let mut load = Load::own(&group, "thrash");
    let answer = waits("1s");
    load.say("end");
    let from_disk: u64 = load.next_message().parse().expect("a number");
    load.wait_for_end();
    load.reap();
    let row = row_of(&answer, &group);
    let stalled = blocked(row, "disk") + blocked(row, "memory");
    let verdict = &row["verdict"];
    // On a busy machine, the load may wait for a CPU for longer.
    if from_disk > 0 && stalled > waited(row) {
        assert_eq!(verdict["kind"], "held_by_memory_limit", "{row}");
        let advice = verdict["next_step"].as_str().expect("advice");
        assert!(
            advice.starts_with("raise its memory limit (now 8.0"),
            "{row}"
        );
    }
    let reason = verdict["reason"].as_str().expect("a sentence");
    assert_eq!(
        reason.contains("memory or evicted pages"),
        from_disk > 0,
        "{row}"
    );
}
