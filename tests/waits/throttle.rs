//! What a quota adds to the waits of a group, against what the kernel says of the group.
//!
//! The kernel's figure is time of run queues, summed over the CPUs, and ours is time of threads:
//! they are the same when each CPU has one thread of the group.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::window::Window;
use super::{cause, row_of, support, waited};

/// The bar.
const SHARE: f64 = 0.05;

/// The row of a group while the load runs in it to its end.
fn watch(group: &Group, load: &str) -> Value {
    let window = Window::of(&["waits", "--by", "cgroup"]);
    let mut load = Load::own(group, load);
    // Shown where the test fails: what its threads waited in all, by their own accounts.
    println!("{}", load.hear());
    load.wait_for_end();
    load.reap();
    // The kernel adds a throttle to its figure when it ends.
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
    // A switch away from a process that the kernel hides from programs is not seen: a wait that ends with it has
    // no cause if a batch is taken before the thread leaves its CPU.
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
    /// How long a thread runs and sleeps in turn.
    turns: &'static str,
}

impl Case {
    /// Seconds. Before Linux 6.18 the first throttle of all is found when it begins: of what waits already the begin is
    /// not known, nor before 6.6 of what is moved meanwhile. Some 10 ms of each thread, more where all is slower.
    fn first_moments(&self) -> f64 {
        match support::slowness() > 1.0 {
            true => 0.1 * self.threads as f64,
            false => 0.0,
        }
    }

    /// Longer on an emulated machine, for the first moments.
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

/// It leaves a group whose quota is used up in the middle of the throttle, again and again.
#[test]
fn a_throttle_that_a_move_ends_counts_up_to_the_move() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    needs!("cgroup_moves");
    let limited = Group::new("limited").heavy();
    limited.limit(0.01);
    let free = Group::new("free").heavy();
    let load = Load::own(&free, "spin 1");
    let window = Window::of(&["waits", "--by", "cgroup"]);
    for _ in 0..10 {
        limited.add(load.pid());
        thread::sleep(Duration::from_millis(60));
        free.add(load.pid());
        thread::sleep(Duration::from_millis(5));
    }
    let answer = window.close().answer;
    let row = row_of(&answer, &limited);
    println!("{row}");
    assert_adds_up(row);
    assert!(waited(row) > 0.2, "{row}");
    // Older kernels do not have the time of a queue that the thread has left.
    if support::kernel() >= (6, 6) {
        assert!(cause(row, "throttle") > 0.6 * waited(row), "{row}");
    }
}

#[test]
fn nobody_is_throttled_without_a_quota() {
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
