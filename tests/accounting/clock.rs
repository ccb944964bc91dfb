//! Tests with a system clock that is slewed faster or slower. The scheduler's clock does not follow
//! the system clock.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::agent;
use super::support::affinity::last_cpu;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, oracle};

/// Sets the length of a tick, which is normally 10,000 us. Dropping the value restores the normal
/// length.
struct Tick;

impl Tick {
    fn set(microseconds: u32) -> Self {
        let microseconds = microseconds.to_string();
        let done = Command::new("adjtimex")
            .args(["-t", &microseconds])
            .output();
        let done = done.expect("adjtimex of busybox is installed");
        assert!(done.status.success(), "{done:?}");
        Self
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        let _usual = std::mem::ManuallyDrop::new(Self::set(10_000));
    }
}

#[test]
fn slewed_clock_adds_no_cpu_time() {
    let _machine = support::alone();
    needs!("cpu_time");
    // The clock belongs to the whole machine, so the test changes it only in a virtual machine.
    needs_a_virtual_machine!();
    let agent = agent(0.2);
    let group = Group::new("slewed").heavy();
    let load = Load::own(&group, "sampler");
    let tick = Tick::set(11_000);
    load.burn_to(3.0);
    load.stop();
    let said = Reading::fresh_with(&agent, "it is listed", |r| r.process_seconds(load.pid()));
    drop(tick);
    let kernel = oracle::process_seconds(load.pid());
    // The clock is ahead by 0.3 s.
    assert!((said - kernel).abs() < 0.1, "{said} instead of {kernel}");
}

/// Either clock can be ahead of the other.
#[test]
fn cpu_holders_are_known_while_the_clock_is_behind() {
    let _machine = support::alone();
    needs!("cpu_waits");
    needs_a_virtual_machine!();
    let _tick = Tick::set(9_000);
    // The clock falls behind by one second, which is more than it can have gained since boot.
    thread::sleep(Duration::from_secs(10));
    let group = Group::new("behind").heavy();
    // Two threads take turns, because noctule does not know which thread runs on a CPU that never
    // switches.
    let load = Load::own(&group, "spin 2");
    let pid = load.pid().to_string();
    let answer = support::json(&["why", &pid, "--json", "--for", "2s"]);
    let cpus = answer["time_of_cpus"].as_array().expect("CPUs");
    let cpu = cpus.iter().find(|it| it["cpu"] == last_cpu());
    let holders = cpu.and_then(|it| it["holders"].as_array());
    let holders = holders.unwrap_or_else(|| panic!("the last CPU: {answer}"));
    let held = holders
        .iter()
        .find(|it| it["name"] == group.path().as_str());
    let held = held.and_then(|it| it["seconds"].as_f64()).unwrap_or(0.0);
    assert!(held > 0.5, "{answer}");
}
