//! Tests of long waits: a wait counts while it lasts, its culprits are found however often they
//! take turns, and a real-time budget is not reported as a neighbour.

use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::window::Window;
use super::support::{affinity, oracle, wait_until};
use super::{cause, number, row_of, support, waited};

/// Share of the time that the host and kernel threads may take in a scene of a second or two.
const DISTURBED: f64 = 0.1;

/// The kernel updates the CPU time of a running thread at its tick: 10 ms at 100 Hz.
const TICK: f64 = 0.012;

/// Measures a window in which nothing starts or ends.
fn watched(seconds: f64) -> (Value, f64) {
    let window = Window::of(&["waits", "--by", "cgroup"]);
    thread::sleep(Duration::from_secs_f64(seconds));
    let answer = window.close().answer;
    let length = number(&answer["window_seconds"]);
    (answer, length)
}

/// Starts a thread that hardly ever gets the last CPU once other loads run. The thread must start
/// before the loads and end after them, because it would make no progress while they run.
fn starved(group: &Group) -> Load {
    group.weigh(1);
    Load::own(group, "spin 1")
}

fn culprit<'a>(row: &'a Value, group: &Group) -> Option<&'a Value> {
    let culprits = row["culprits"].as_array().expect("culprits");
    culprits.iter().find(|c| c["name"] == group.path().as_str())
}

#[test]
fn an_unfinished_wait_counts_while_it_lasts() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let hog = Group::new("hog").heavy();
    let victim = Group::new("starved");
    let load = starved(&victim);
    let _hogs = Load::own(&hog, "spin 50");
    // The thread's share of the CPU is at most 1 in 10,000, so the thread waits for seconds.
    let before = oracle::waited_seconds(load.pid());
    thread::sleep(Duration::from_millis(300));
    let (answer, length) = watched(1.0);
    let row = row_of(&answer, &victim);
    let ended = oracle::waited_seconds(load.pid()) - before;
    println!(
        "{} s of {length} s; {ended} s in waits that ended",
        waited(row)
    );
    assert_adds_up(row);
    let ran = number(&row["cpu.seconds"]);
    // This thread waits whenever it does not run. The error is the time between the start or end of
    // the window and the walk over run queues, which is some microseconds.
    let expected = length - ran;
    assert!((waited(row) - expected).abs() < 0.01 * length, "{row}");
    let blamed = culprit(row, &hog).map_or(0.0, |c| number(&c["seconds"]));
    let allowed = DISTURBED + support::stolen() / length;
    assert!(blamed > (1.0 - allowed) * expected, "{row}");
    assert_ne!(row["verdict"]["kind"], "quiet", "{row}");
}

/// No file shows when a wait started. But a thread that never sleeps either runs or waits, and
/// schedstat sums both. The two sums show how much time passed until the thread's last wait began.
#[test]
fn an_unfinished_wait_is_shown_from_its_start() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let hog = Group::new("hog").heavy();
    let victim = Group::new("starved");
    let load = starved(&victim);
    // The thread is alone on the CPU.
    load.burn_to(oracle::process_seconds(load.pid()) + 0.1);
    let sums = || oracle::schedstat_seconds(load.pid()) + oracle::waited_seconds(load.pid());
    let (ran_at, ran_sums) = (support::now(), sums());
    let _hogs = Load::own(&hog, "spin 50");
    // The thread's last turn is short, and the next one is seconds away.
    let mut tried = 0;
    let (answer, asked, answered) = loop {
        let runs = oracle::runs(load.pid());
        thread::sleep(Duration::from_secs(1));
        let window = Window::of(&["waits", "--by", "cgroup"]);
        thread::sleep(Duration::from_secs(1));
        let asked = support::now();
        let answer = window.close().answer;
        if oracle::runs(load.pid()) == runs {
            break (answer, asked, support::now());
        }
        tried += 1;
        assert!(tried < 20, "it gets the CPU all the time");
    };
    let row = row_of(&answer, &victim);
    let longest = number(&row["waiting"]["longest_seconds"]);
    let began = ran_at + sums() - ran_sums;
    println!(
        "{longest} s; by schedstat {} to {} s: {row}",
        asked - began,
        answered - began
    );
    assert!(longest > asked - began - TICK, "{row}");
    assert!(longest < answered - began + TICK, "{row}");
    assert_eq!(row["waiting"]["threads"], 1, "{row}");
    let sentence = row["verdict"]["reason"].as_str().expect("a sentence");
    assert!(
        sentence.contains("; 1 thread has waited for "),
        "{sentence}"
    );
    assert!(sentence.contains(" and still waits"), "{sentence}");
    // All the threads that share the CPU wait, except the running one. Each switch during the walk
    // can lower the count by one, and the walk of a busy machine is long.
    let others = row_of(&answer, &hog);
    let waiting = others["waiting"]["threads"].as_u64().expect("a number");
    assert!((30..=50).contains(&waiting), "{others}");
}

/// Only the run queue of the CPU knows about this thread. No switch has seen it, and walks over
/// this many threads are rare.
#[test]
fn a_woken_thread_that_never_ran_is_seen_among_many() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let hog = Group::new("hog").heavy();
    let victim = Group::new("woken");
    victim.weigh(1);
    // An emulated machine has room for fewer.
    let many = 10_000 / support::slowness().sqrt() as usize;
    let _many = Load::own(&Group::new("asleep"), &format!("asleep {many}"));
    let mut load = Load::own(&victim, "late-spin");
    let _hogs = Load::own(&hog, "spin 50");
    let window = Window::of(&["waits", "--by", "cgroup"]);
    let (began, ran) = (support::now(), victim.usage_seconds());
    load.say("go");
    thread::sleep(Duration::from_secs(1));
    let expected = support::now() - began - (victim.usage_seconds() - ran);
    let answer = window.close().answer;
    let row = row_of(&answer, &victim);
    println!("{} s; at least {expected} s", waited(row));
    assert_adds_up(row);
    assert!(waited(row) > 0.9 * expected, "{expected}: {row}");
}

/// Two threads in separate groups that wake each other about 100,000 times per second. At that
/// rate, a ring of slices covers less than a millisecond.
struct Turns {
    server: Group,
    client: Group,
    _pair: Load,
}

impl Turns {
    fn begin() -> Self {
        let server = Group::new("server").heavy();
        let client = Group::new("client").heavy();
        for group in [&server, &client] {
            group.allow_threads();
        }
        let pair = Load::own(&server, "ping-pong 4000000000");
        let other = || {
            oracle::thread_ids(pair.pid())
                .into_iter()
                .find(|&id| id != pair.pid())
        };
        wait_until("it has a second thread", || other().is_some());
        let thread = other().expect("it has");
        client.add_thread(thread);
        // Before Linux 6.2 moving a thread to another group may reset its affinity.
        affinity::pin(Pid::from_raw(thread as i32), affinity::last_cpu());
        thread::sleep(Duration::from_millis(300));
        Self {
            server,
            client,
            _pair: pair,
        }
    }

    /// Asserts that each of the two groups is blamed for about half of a victim's wait, if no other
    /// thread runs on the CPU.
    fn check_blame(&self, row: &Value) {
        assert_adds_up(row);
        assert!(cause(row, "unattributed") <= 0.05 * waited(row), "{row}");
        let blamed = |group| culprit(row, group).map_or(0.0, |c| number(&c["seconds"]));
        let both = blamed(&self.server) + blamed(&self.client);
        let known = waited(row) - cause(row, "unattributed") - cause(row, "host");
        assert!(both > (1.0 - DISTURBED) * known, "{row}");
        let half = blamed(&self.server) / both;
        assert!((0.2..0.8).contains(&half), "{half}: {row}");
    }
}

#[test]
fn culprits_that_alternate_are_blamed_for_long_waits() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let victim = Group::new("starved");
    let _starved = starved(&victim);
    let turns = Turns::begin();
    let (answer, length) = watched(2.0);
    let row = row_of(&answer, &victim);
    println!("{row}");
    assert!(waited(row) > 0.5 * length, "{row}");
    turns.check_blame(row);
}

/// The thread waits for milliseconds after its own slices. During that time there are more switches
/// than the kernel side remembers per CPU.
#[test]
fn a_thread_does_not_wait_for_its_own_slice() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let victim = Group::new("victim").heavy();
    let _load = Load::own(&victim, "spin 1");
    let turns = Turns::begin();
    let (answer, length) = watched(1.0);
    let row = row_of(&answer, &victim);
    println!("{row}");
    assert!(waited(row) > 0.2 * length, "{row}");
    assert!(cause(row, "self") < 0.01 * waited(row), "{row}");
    turns.check_blame(row);
}

/// The kernel withholds some of each second from real-time threads. The threads that run during
/// that time are not to blame.
#[test]
fn a_real_time_budget_is_not_a_neighbour() {
    let _machine = support::alone();
    needs!("cpu_waits");
    let victim = Group::new("realtime").heavy();
    victim.allow_realtime();
    let other = Group::new("other").heavy();
    let load = Load::own(&victim, "realtime-spin");
    let _other = Load::own(&other, "spin 1");
    thread::sleep(Duration::from_millis(300));
    let before = oracle::waited_seconds(load.pid());
    let (answer, length) = watched(3.0);
    let kernel = oracle::waited_seconds(load.pid()) - before;
    let row = row_of(&answer, &victim);
    println!("{length} s, by the kernel {kernel} s: {row}");
    assert_adds_up(row);
    // At least a twentieth of each second is reserved for other threads.
    assert!(waited(row) > 0.02 * length, "{row}");
    let held = cause(row, "throttle");
    assert!(held + cause(row, "host") > 0.8 * waited(row), "{row}");
    assert!(cause(row, "neighbour") < 0.1 * waited(row), "{row}");
}

/// The wait of a throttled thread before a move belongs to the group in which the thread waited.
#[test]
fn a_wait_before_a_move_stays_with_the_group() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    needs!("cgroup_moves");
    let (first, second) = (Group::new("first").heavy(), Group::new("second").heavy());
    let hog = Group::new("hog").heavy();
    let load = starved(&first);
    let _hogs = Load::own(&hog, "spin 50");
    thread::sleep(Duration::from_millis(300));
    let window = Window::of(&["waits", "--by", "cgroup"]);
    thread::sleep(Duration::from_secs(1));
    second.weigh(1);
    second.add(load.pid());
    let moved = support::now();
    thread::sleep(Duration::from_secs(1));
    let seen = window.close();
    // The agent reports that it has started some time after its start.
    let (earliest, latest) = seen.began;
    let answer = seen.answer;
    let length = number(&answer["window_seconds"]);
    let of = |group| {
        let row = row_of(&answer, group);
        assert_adds_up(row);
        waited(row) + number(&row["cpu.seconds"])
    };
    let (before, after) = (of(&first), of(&second));
    let (least, most) = (moved - latest, moved - earliest);
    println!("moved after {least} to {most} s of {length} s: {before} s before, {after} s after");
    let expected = least - 0.1..most + 0.1;
    assert!(expected.contains(&before), "{before}, not {expected:?}");
    assert!((before + after - length).abs() < 0.05, "{before} + {after}");
}
