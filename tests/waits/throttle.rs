//! Tests of the time that a quota throttles a group, compared with the kernel's figure for the
//! group.
//!
//! The kernel sums throttled time per run queue (CPU), while noctule sums it per thread. The two
//! sums are equal if each CPU has one thread of the group.

use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::affinity::{last_cpu, pin};
use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::window::Window;
use super::{cause, row_of, support, waited};

/// Maximum relative error.
const SHARE: f64 = 0.05;

/// Runs the load in the group until it ends, and returns the group's row.
fn watch(group: &Group, load: &str) -> Value {
    let window = Window::of(&["waits", "--by", "cgroup"]);
    let mut load = Load::own(group, load);
    // For a failure, prints how long the load's threads waited according to the kernel.
    println!("{}", load.next_message());
    load.wait_for_end();
    load.reap();
    // The kernel adds a throttle to its figure when the throttle ends.
    thread::sleep(Duration::from_millis(300));
    let answer = window.close().answer;
    row_of(&answer, group).clone()
}

#[track_caller]
fn assert_throttled(case: &Case, row: &Value, kernel: f64) {
    let (what, ours) = (case.name, cause(row, "throttle"));
    println!("{what}: {ours} s throttled; the kernel says {kernel} s");
    assert!(
        kernel > 0.5,
        "{what}: the group was hardly throttled: {kernel} s"
    );
    // A switch away from a process that the kernel hides from programs is not seen. If a wait ends
    // with such a switch, and a batch is taken before the thread leaves its CPU, the wait has no
    // cause.
    let unknown = cause(row, "unattributed");
    assert!(ours <= kernel * (1.0 + SHARE), "{what}: {row}");
    let least = kernel * (1.0 - SHARE) - case.first_moments();
    assert!(ours + unknown >= least, "{what}: {row}");
    assert!(unknown <= kernel * SHARE, "{what}: {row}");
    assert!(
        row["switches.throttled"].as_u64() > Some(0),
        "{what}: {row}"
    );
    assert_adds_up(row);
}

struct Case {
    name: &'static str,
    cpus: f64,
    threads: usize,
    seconds: f64,
    /// For how long a thread runs and sleeps in turn, in microseconds.
    turns: &'static str,
}

impl Case {
    /// Returns how many seconds of throttling may be missing. Before Linux 6.18 noctule notices a
    /// group's first throttle only when that throttle starts, so earlier starts of waits are
    /// unknown. Before 6.6 the same applies to threads that were moved during a throttle. This
    /// costs about 10 ms per thread, and more on a slow machine.
    fn first_moments(&self) -> f64 {
        match support::slowness() > 1.0 {
            true => 0.1 * self.threads as f64,
            false => 0.0,
        }
    }

    /// The load takes longer on an emulated machine, because of [`Self::first_moments`].
    fn load(&self) -> String {
        let longer = if support::slowness() > 1.0 { 2.0 } else { 1.0 };
        let seconds = longer * self.seconds;
        format!("worker {} {seconds} {}", self.threads, self.turns)
    }
}

const CASES: [Case; 4] = [
    Case {
        name: "two threads that run",
        cpus: 0.2,
        threads: 2,
        seconds: 0.2,
        turns: "",
    },
    Case {
        name: "one thread that runs",
        cpus: 0.2,
        threads: 1,
        seconds: 0.4,
        turns: "",
    },
    Case {
        name: "two threads that sleep and wake",
        cpus: 0.2,
        threads: 2,
        seconds: 0.2,
        turns: "1000 500",
    },
    Case {
        name: "two threads that wake all the time",
        cpus: 0.2,
        threads: 2,
        seconds: 0.2,
        turns: "200 50",
    },
];

#[test]
fn throttled_time_matches_the_kernel() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    for case in &CASES {
        let group = Group::new("throttle").heavy();
        group.limit(case.cpus);
        let row = watch(&group, &case.load());
        assert_throttled(case, &row, group.throttled_seconds());
    }
}

#[test]
fn a_quota_of_the_parent_group_counts_too() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    for case in &CASES {
        let parent = Group::new("quota").heavy();
        parent.limit(case.cpus);
        let child = Below::new(&format!("{}/child", &parent.path()[1..]));
        let row = watch(&child.group, &case.load());
        assert_throttled(case, &row, parent.throttled_seconds());
    }
}

/// Makes the scheduler of a CPU choose its next thread.
fn reschedule(cpu: usize) {
    let visitor = thread::spawn(move || pin(None, cpu));
    visitor.join().expect("the CPU is online");
}

/// The thread repeatedly leaves a group with an exhausted quota in the middle of a throttle. A move
/// to another group does not make an idle CPU reschedule. The thread would then wait for an idle
/// CPU until the next interrupt, which is no throttling.
#[test]
fn a_throttle_counts_until_a_move_ends_it() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    needs!("cgroup_moves");
    let limited = Group::new("limited").heavy();
    limited.limit(0.01);
    let free = Group::new("free").heavy();
    let load = Load::own(&free, "spin 1");
    let cpu = last_cpu();
    pin(Pid::from_raw(load.pid() as i32), cpu);
    let window = Window::of(&["waits", "--by", "cgroup"]);
    for _ in 0..10 {
        limited.add(load.pid());
        thread::sleep(Duration::from_millis(60));
        free.add(load.pid());
        reschedule(cpu);
        thread::sleep(Duration::from_millis(5));
    }
    let answer = window.close().answer;
    let row = row_of(&answer, &limited);
    println!("{row}");
    assert_adds_up(row);
    assert!(waited(row) > 0.2, "{row}");
    // Older kernels do not report the time of a run queue that the thread has left.
    if support::kernel() >= (6, 6) {
        assert!(cause(row, "throttle") > 0.6 * waited(row), "{row}");
    }
}

#[test]
fn groups_without_a_quota_are_not_throttled() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let groups = ["one", "other"].map(|name| Group::new(name).heavy());
    let _loads = groups.each_ref().map(|group| Load::own(group, "spin 2"));
    let answer = super::waits("1s");
    for group in &groups {
        let row = row_of(&answer, group);
        assert_eq!(row["switches.throttled"], 0, "{row}");
        assert_eq!(row["causes"]["throttle"], 0.0, "{row}");
    }
}
