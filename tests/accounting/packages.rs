//! Tests of use by package (socket), and of time with a busy sibling thread. A machine with one
//! package has no use by package, and a machine with one thread per core has no sibling time.

use std::collections::BTreeMap;

use rustix::process::Pid;
use serde_json::Value;

use super::assert_exact;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::window::Window;
use super::support::{self, affinity, oracle};

const BY_PACKAGE: &str = "cpu.seconds_by_package";

/// Pins every thread of a stopped load to a CPU.
fn move_to(load: &Load, cpu: usize) {
    for thread in oracle::thread_ids(load.pid()) {
        affinity::pin(Pid::from_raw(thread.cast_signed()), cpu);
    }
}

/// Returns the row's figures by package, and checks that their sum is the total.
fn by_package(row: &Value) -> BTreeMap<String, f64> {
    let parts = row[BY_PACKAGE].as_object().expect("several packages");
    let parts = parts
        .iter()
        .map(|(id, used)| (id.clone(), used.as_f64().expect("seconds")));
    let parts: BTreeMap<_, _> = parts.collect();
    let all = row["cpu.seconds"].as_f64().expect("seconds");
    let sum: f64 = parts.values().sum();
    assert!((all - sum).abs() < 1e-6, "{row}");
    parts
}

/// Runs a load on each package in turn, twice, and returns how much the load used on each.
fn tour(load: &Load, packages: &BTreeMap<String, usize>) -> BTreeMap<String, f64> {
    let mut used = BTreeMap::new();
    for (id, cpu) in packages.iter().chain(packages) {
        move_to(load, *cpu);
        let before = oracle::process_seconds(load.pid());
        load.continue_running();
        load.burn_to(before + 0.3);
        load.stop();
        *used.entry(id.clone()).or_insert(0.0) += oracle::process_seconds(load.pid()) - before;
    }
    used
}

#[test]
fn process_use_is_reported_by_package() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_time");
    let packages = oracle::packages();
    let group = Group::new("packages").heavy();
    // The record of a process with several threads may arrive after the end of the window.
    for (name, ends) in [("sampler", false), ("threads", false), ("sampler", true)] {
        let mut load = Load::own(&group, name);
        load.stop();
        let window = Window::open("process");
        let used = tour(&load, &packages);
        if ends {
            load.kill();
            load.reap();
        }
        let answer = window.close().answer;
        let rows = support::rows(&answer, |row| row["process.pid"] == load.pid());
        assert_eq!(rows.len(), 1, "{name}: {rows:?}");
        assert_eq!(rows[0]["exited"], ends, "{name}");
        if packages.len() == 1 {
            assert!(rows[0][BY_PACKAGE].is_null(), "{}", rows[0]);
            continue;
        }
        let told = by_package(rows[0]);
        assert!(told.keys().eq(packages.keys()), "{told:?}");
        for (id, seconds) in &used {
            assert_exact(&format!("{name}, package {id}"), told[id], *seconds);
        }
    }
}

#[test]
fn use_of_short_processes_is_reported_by_package() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_time");
    let packages = oracle::packages();
    let group = Group::new("short-packages").heavy();
    let window = Window::open("cgroup");
    let mut used = BTreeMap::new();
    let rounds = 2000.0 / support::slowness();
    let script = format!(
        "read go; i=0; while [ $i -lt 200 ]; do i=$((i + 1)); \
         ( j=0; while [ $j -lt {rounds:.0} ]; do j=$((j + 1)); done ); done; echo load: done; read end"
    );
    for (id, cpu) in &packages {
        let mut load = Load::shell(&group, &script);
        move_to(&load, *cpu);
        let before = group.usage_seconds();
        load.say("go");
        assert_eq!(load.next_message(), "done");
        load.kill();
        load.reap();
        used.insert(id.clone(), group.usage_seconds() - before);
    }
    let answer = window.close().answer;
    let rows = support::rows(&answer, |row| row["cgroup.id"] == group.id());
    assert_eq!(rows.len(), 1, "{rows:?}");
    if packages.len() == 1 {
        assert!(rows[0][BY_PACKAGE].is_null(), "{}", rows[0]);
        return;
    }
    let told = by_package(rows[0]);
    for (id, seconds) in &used {
        // Until the shell is pinned, it runs on an arbitrary CPU.
        support::assert_close(&format!("package {id}"), told[id], *seconds, 0.01, 0.02);
    }
}

#[test]
fn time_with_a_busy_sibling_is_reported() {
    // Other tests would keep the sibling busy.
    let _machine = support::alone();
    needs!("cpu_time");
    const BESIDE: &str = "cpu.sibling_busy_seconds";
    let group = Group::new("siblings").heavy();
    let siblings = oracle::siblings();
    let [one, other] = [0, 1].map(|_| Load::own(&group, "sampler"));
    for load in [&one, &other] {
        load.stop();
    }
    let window = Window::open("process");
    let Some((first, second)) = siblings else {
        let answer = window.close().answer;
        let rows = support::rows(&answer, |row| !row[BESIDE].is_null());
        assert!(rows.is_empty(), "{rows:?}");
        return;
    };
    move_to(&one, first);
    move_to(&other, second);
    let idle = oracle::time_of(second).idle;
    let began = support::now();
    let before = oracle::process_seconds(one.pid());
    one.continue_running();
    one.burn_to(before + 1.0);
    let both = oracle::process_seconds(other.pid());
    other.continue_running();
    other.burn_to(both + 1.0);
    other.stop();
    let both = oracle::process_seconds(other.pid()) - both;
    one.stop();
    let answer = window.close().answer;
    let told = [&one, &other].map(|load| {
        let rows = support::rows(&answer, |row| row["process.pid"] == load.pid());
        rows[0][BESIDE].as_f64().expect("it is measured")
    });
    // The sibling ran for as long as both loads did, and other tasks also ran on it.
    let busy = support::now() - began - (oracle::time_of(second).idle - idle);
    support::assert_close("the other", told[1], both, 0.05, 0.02);
    assert!(told[0] >= 0.95 * both - 0.02, "{told:?}, {both}");
    assert!(told[0] <= 1.05 * busy + 0.05, "{told:?}, {busy}");
}
