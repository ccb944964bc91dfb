//! Tests of the node's context switches, compared with the kernel's own count.

use std::fs;
use std::thread;
use std::time::Duration;

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::record::Recorder;
use super::{assert_close, support};

/// Returns the switches of all CPUs since boot.
fn ctxt() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.expect("ctxt").parse().expect("a number")
}

/// Sums the switches by reason: a thread went to sleep, a thread was preempted, or the idle task
/// ran.
fn ours(reading: &Reading) -> f64 {
    let threads = reading.value("noctule_node_sched_switches_total", &[]);
    let idle = reading.value("noctule_node_cpu_idle_switches_total", &[]);
    threads.expect("switches of threads") + idle.expect("switches of the idle tasks")
}

#[test]
fn switches_by_reason_add_up_to_the_kernels_count() {
    let _machine = support::shared();
    needs!("cpu_waits");
    let agent = Agent::start(&["--interval", "100ms"]);
    let group = Group::new("switches");
    group.limit(0.5);
    let recorder = Recorder::start(ctxt);
    let loads = ["bursts 300 300", "sleepers 20 60", "spin 2"];
    let loads = loads.map(|load| Load::own(&group, load));
    let readings: Vec<Reading> = (0..30).map(|_| Reading::fresh(&agent)).collect();
    drop(loads);
    // The record's last entry must be later than the last scrape.
    thread::sleep(Duration::from_millis(50));
    let record = recorder.end();
    let stray = record.stray(&readings, ours, |count| *count);
    let grown = record.growth(|count| *count);
    println!("{stray} of {grown} switches");
    let least = 5000.0 / support::slowness().sqrt();
    assert!(grown > least, "only {grown} switches");
    assert_close("switches", stray, 0.0, 0.0, grown * 0.001);
}
