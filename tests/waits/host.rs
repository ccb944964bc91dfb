//! Tests of time that the host takes, in virtual machines where that time is known. A kernel module
//! (`vm/modules`) provides the clock with which a hypervisor reports it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::Group;
use super::support::expect::skip_because;
use super::support::load::Load;
use super::support::window::Window;
use super::support::{self, assert_close, oracle};
use super::{cause, number, row_of, waited, waits};

const PERCENT: &str = "/sys/module/noctule_steal/parameters/percent";
const STEP: &str = "/sys/module/noctule_steal/parameters/step_ms";

/// Returns whether the machine lacks our modules. If so, reports the skip to the runner. A machine
/// with `noctule_meter` also has `noctule_steal`.
fn lacks_modules() -> bool {
    let lacks = !Path::new("/sys/module/noctule_meter").exists();
    if lacks {
        skip_because("the machine has no modules of our own: those of 6.1 and 6.12 have");
    }
    lacks
}

/// A host that takes time from each CPU, until dropped.
struct Host;

impl Host {
    fn takes(percent: u32) -> Self {
        fs::write(PERCENT, percent.to_string()).expect("the module is loaded");
        Self
    }

    /// Steps the host's clock.
    fn step_clock(milliseconds: i32) {
        fs::write(STEP, milliseconds.to_string()).expect("the module is loaded");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::write(PERCENT, "0");
    }
}

/// Returns the output for three seconds, and how long the host took the last CPU according to
/// /proc/stat.
fn watched() -> (Value, f64) {
    let stolen = || oracle::time_of(oracle::cpus_online() - 1).steal;
    // Earlier processes have ended, and the loads are balanced.
    thread::sleep(Duration::from_millis(300));
    let (before, began) = (stolen(), Instant::now());
    let answer = waits("3s");
    let part = (stolen() - before) / began.elapsed().as_secs_f64();
    let window = number(&answer["window_seconds"]);
    println!("{part} of {window} s are stolen");
    (answer, part * window)
}

#[test]
fn steal_time_is_not_a_neighbour() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    needs!("cpu_waits");
    if lacks_modules() {
        return;
    }
    let groups = ["victim", "neighbour"].map(|name| Group::new(name).heavy());
    let _loads = groups.each_ref().map(|group| Load::own(group, "spin 1"));
    let _host = Host::takes(75);
    let (answer, stolen) = watched();
    let rows = groups.each_ref().map(|group| row_of(&answer, group));
    // At any time, one of the two groups waits.
    let host: f64 = rows.iter().map(|row| cause(row, "host")).sum();
    assert_close("what the host took", host, stolen, 0.05, 0.0);
    for (row, other) in [(rows[0], rows[1]), (rows[1], rows[0])] {
        assert_adds_up(row);
        assert_eq!(row["verdict"]["kind"], "hurt_by_host", "{row}");
        assert_eq!(row["verdict"]["culprit"], Value::Null, "{row}");
        // The kernel charges the running group for the time that the host took from it.
        let ran = number(&other["cpu.seconds"]) * 0.25;
        assert!(cause(row, "neighbour") < 1.1 * ran, "{ran} s: {row}");
    }
}

/// A virtual machine gets half of its CPUs' time, and threads of one group share a CPU.
#[test]
fn threads_that_share_half_a_cpu_blame_no_neighbour() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    needs!("cpu_waits");
    if lacks_modules() {
        return;
    }
    let group = Group::new("victim").heavy();
    let _load = Load::own(&group, "spin 2");
    let _host = Host::takes(50);
    let (answer, stolen) = watched();
    let row = row_of(&answer, &group);
    assert_adds_up(row);
    assert_close("what the host took", cause(row, "host"), stolen, 0.05, 0.0);
    let kinds = ["hurt_by_host", "too_many_threads"].map(Value::from);
    assert!(kinds.contains(&row["verdict"]["kind"]), "{row}");
    assert!(cause(row, "neighbour") < 0.05 * waited(row), "{row}");
}

/// On some hypervisors the clock is wrong, for example after a CPU was offline: it steps back, and
/// afterwards forward.
#[test]
fn steps_of_the_host_clock_are_not_steal() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    needs!("cpu_waits");
    if lacks_modules() {
        return;
    }
    let group = Group::new("steps").heavy();
    let load = Load::own(&group, "spin 2");
    let pid = load.pid().to_string();
    let _host = Host::takes(50);
    let commands: [&[&str]; 3] = [&["waits", "--by", "cgroup"], &["why", &pid], &["stat"]];
    let windows = commands.map(Window::of);
    for step in [-1000, 1000] {
        thread::sleep(Duration::from_millis(1500));
        Host::step_clock(step);
    }
    thread::sleep(Duration::from_millis(1500));
    let [waits, why, stat] = windows.map(|window| window.close().answer);
    let half = number(&waits["window_seconds"]) / 2.0;
    let row = row_of(&waits, &group);
    assert_adds_up(row);
    assert_close(
        "what was waited for it",
        cause(row, "host"),
        half,
        0.05,
        0.0,
    );
    let all = number(&stat["window_seconds"]) * number(&stat["cpus"]) / 2.0;
    let said = number(&stat["steal_included_seconds"]);
    assert_close("of all CPUs", said, all, 0.05, 0.0);
    // This must also hold for the first CPU, which is idle and rarely switches tasks.
    for cpu in why["time_of_cpus"].as_array().expect("CPUs") {
        let half = number(&cpu["seconds"]) / 2.0;
        assert_close("of the CPU", number(&cpu["steal_seconds"]), half, 0.05, 0.0);
    }
}
