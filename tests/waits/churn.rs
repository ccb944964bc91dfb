//! Tests that no memory or row remains after thousands of short-lived groups and processes.

use std::collections::BTreeMap;
use std::fs;

use super::support::agent::{Agent, Sample};
use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, oracle, wait_until};
use super::{assert_close, configuration, path};

/// Memory that the agent may keep: the latest events, tables that were larger before, code that ran
/// for the first time, and fragmented free memory.
const SLACK_MIB: f64 = 8.0;
/// Maximum number of groups that exist at the same time.
const BATCH: usize = 100;

/// Returns the number of groups, which is smaller on an emulated machine.
fn group_count() -> usize {
    10_000 / support::slowness().sqrt() as usize
}

/// Creates many groups in a parent, runs a short process in every tenth, and removes the groups.
fn make_groups(parent: &Group) -> Load {
    let groups = group_count();
    let script = format!(
        "cd '{}' && n=0; while [ $n -lt {groups} ]; do i=0; names=; \
         while [ $i -lt {BATCH} ]; do i=$((i + 1)); names=\"$names $n-$i\"; done; \
         /bin/mkdir $names; \
         for name in $names; do case $name in *0) \
         ( echo 0 > $name/cgroup.procs; j=0; while [ $j -lt 500 ]; do j=$((j + 1)); done ) ;; \
         esac; done; \
         /bin/rmdir $names; n=$((n + {BATCH})); done; :",
        parent.folder().display()
    );
    let outside = Group::new("maker");
    let load = Load::shell(&outside, &script);
    load.wait_for_end();
    assert!(fs::read_dir(parent.folder()).is_ok_and(|mut entries| {
        entries.all(|e| e.is_ok_and(|e| e.file_type().is_ok_and(|t| t.is_file())))
    }));
    load
}

/// Runs two shells at the same time. Each starts one process per group of [`group_count`].
fn storm(group: &Group) {
    let count = group_count();
    let script = format!("i=0; while [ $i -lt {count} ]; do i=$((i + 1)); ( : ); done; :");
    let mut loads = [0, 1].map(|_| Load::shell(group, &script));
    for load in &mut loads {
        load.wait_for_end();
        load.reap();
    }
}

const MAPS: [&str; 3] = ["waits", "blames", "settled"];

fn entries(reading: &Reading) -> [f64; 3] {
    MAPS.map(|map| {
        let value = reading.value("noctule_self_map_entries", &[("map", map)]);
        value.unwrap_or_else(|| panic!("no entries of {map}"))
    })
}

/// Returns all counters, by name and labels.
fn counters(samples: &[Sample]) -> BTreeMap<String, f64> {
    let counter = |s: &&Sample| s.name.ends_with("_total") || s.name.ends_with("_bucket");
    let key = |s: &Sample| format!("{} {:?}", s.name, s.labels);
    let counters = samples.iter().filter(counter);
    counters.map(|s| (key(s), s.value)).collect()
}

/// Asserts that no value is absurd and no counter decreased.
#[track_caller]
fn assert_sane(before: &Reading, after: &Reading) {
    let absurd = |s: &&Sample| {
        let time = s.name.contains("_seconds_total");
        let most = if time { 1e7 } else { 1e13 };
        !(0.0..most).contains(&s.value) && !s.name.ends_with("remainder_seconds")
    };
    assert_eq!(after.samples.iter().find(absurd), None);
    let now = counters(&after.samples);
    for (series, value) in counters(&before.samples) {
        let later = now.get(&series);
        let back = later.is_some_and(|later| *later < value);
        assert!(!back, "{series} went from {value} to {later:?}");
    }
}

/// Asserts that used, idle and unaccounted time add up to the elapsed time.
#[track_caller]
fn assert_closed(before: &Reading, after: &Reading) {
    let names = [
        "noctule_node_cpu_seconds_total",
        "noctule_node_cpu_idle_seconds_total",
        "noctule_node_cpu_remainder_seconds",
    ];
    let value = |reading: &Reading, name: &str| reading.value(name, &[]).expect("it is there");
    let grown = names.map(|name| value(after, name) - value(before, name));
    let cpus = oracle::cpus_online() as f64;
    let elapsed = after.taken.0 - before.taken.0;
    let unsure = (after.taken.1 - after.taken.0) + (before.taken.1 - before.taken.0);
    let sum: f64 = grown.iter().sum();
    assert_close(
        "used, idle, neither",
        sum,
        elapsed * cpus,
        0.001,
        unsure * cpus,
    );
    // Steal time in a virtual machine counts as unaccounted time.
    let most = 0.1 * sum + support::stolen();
    assert!(grown[2] < most, "{names:?}: {grown:?}, not {most}");
}

#[test]
fn short_lived_groups_and_processes_leave_nothing_behind() {
    let _machine = support::alone();
    needs!("cpu_waits");
    // How long removed groups are listed and named.
    let config = configuration(
        "[collect]\ndead_cgroup_memory_seconds = 1.0\n[metrics]\ngrace_seconds = 5.0\n\
         [verdicts]\nwindow_seconds = 1.0\nbaseline_seconds = 6.0\n",
    );
    let arguments = ["--config", path(&config), "--interval", "500ms"];
    let (_heavy, agent) = Agent::start_heavy(&arguments);
    let parent = Group::new("churn").heavy();
    // A warm-up run, so that one-time allocations are done.
    storm(&parent);
    let first = Reading::fresh(&agent);
    let (baseline, memory) = (entries(&first), oracle::resident_mib(agent.pid()));
    let mut maker = make_groups(&parent);
    maker.reap();
    let between = Reading::fresh(&agent);
    assert_sane(&first, &between);
    let below = Below::new(&format!("{}/storm", &parent.path()[1..]));
    storm(&below.group);
    drop(below);
    let mut last = Reading::fresh(&agent);
    assert_sane(&between, &last);
    // Other groups of the machine may be created during the test.
    wait_until("the kernel side has as many rows as before", || {
        last = Reading::fresh(&agent);
        let now = entries(&last);
        (0..MAPS.len()).all(|i| now[i] <= baseline[i] + 8.0)
    });
    println!("rows: {MAPS:?} {baseline:?}, then {:?}", entries(&last));
    assert_sane(&between, &last);
    assert_closed(&first, &last);
    assert_eq!(last.losses(), []);
    let gone = format!("{}/", parent.path());
    wait_until("groups that are gone are listed no more", || {
        let reading = Reading::fresh(&agent);
        let listed = |s: &Sample| s.labels.values().any(|value| value.starts_with(&gone));
        !reading.samples.iter().any(listed)
    });
    let mut now = oracle::resident_mib(agent.pid());
    println!("memory: {memory:.1} MiB, then {now:.1} MiB");
    wait_until("memory is back at what it was before", || {
        now = oracle::resident_mib(agent.pid());
        now < memory + SLACK_MIB
    });
    println!("and {now:.1} MiB");
}
