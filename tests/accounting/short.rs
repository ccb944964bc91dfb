//! Tests of processes that live for less than a tick.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use rustix::process::{Pid, Signal, kill_process};

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::window::Window;
use super::support::{self, assert_close};
use super::{agent, assert_exact};

const PROCESSES: usize = 2000;

/// Returns a script that runs this many subshells one after another, each with a loop of some
/// milliseconds.
fn burners(count: usize) -> String {
    let rounds = 2000.0 / support::slowness();
    format!(
        "i=0; while [ $i -lt {count} ]; do i=$((i + 1)); \
         ( j=0; while [ $j -lt {rounds:.0} ]; do j=$((j + 1)); done ); done"
    )
}

/// Runs a script in the group until the script ends.
fn run(group: &Group, script: &str) -> Load {
    // The trailing `:` keeps the shell from replacing itself with its last command.
    let load = Load::shell(group, &format!("{script}; :"));
    load.wait_for_end();
    load
}

#[test]
fn two_thousand_short_processes_are_in_the_group_sum() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = Agent::start(&[]);
    let window = Window::open("cgroup");
    let group = Group::new("short");
    let mut load = run(&group, &burners(PROCESSES));
    load.reap();
    let used = group.usage_seconds();
    let answer = window.close().answer;
    let rows = support::rows(&answer, |row| row["cgroup.id"] == group.id());
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_close("stat", support::cpu_seconds(&rows), used, 0.01, 0.0);
    let said = Reading::fresh_with(&agent, "the group is listed", |r| r.group_seconds(&group));
    assert_close("run", said, used, 0.01, 0.0);
    assert_eq!(Reading::fresh(&agent).losses(), []);
}

/// The list of threads is read constantly, so that it includes children whose group is not set yet.
#[test]
fn child_seen_during_a_walk_counts_in_its_group() {
    // The test uses every CPU, so a test of waits would blame this test.
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_time");
    let agent = agent(0.02);
    let groups: Vec<Group> = (0..4).map(|_| Group::new("born").heavy()).collect();
    let script = format!("{}; :", burners(PROCESSES / 4));
    let load = |group| Load::shell(group, &script);
    let mut loads: Vec<Load> = groups.iter().map(load).collect();
    for load in &mut loads {
        load.wait_for_end();
        load.reap();
    }
    for group in &groups {
        let said = |reading: &Reading| reading.group_seconds(group);
        let said = Reading::fresh_with(&agent, "the group is listed", said);
        assert_exact(&group.path(), said, group.usage_seconds());
    }
    assert_eq!(Reading::fresh(&agent).losses(), []);
}

/// The ring has room for a dozen records, and its reader is stopped while the processes end.
#[test]
fn exits_without_records_are_reported_and_sums_close() {
    let _machine = support::alone();
    needs!("cpu_time");
    let mut config = tempfile::NamedTempFile::new().expect("a file of our own");
    let text = b"[collect]\nring_bytes = 4096\n";
    config.write_all(text).expect("it can be written");
    let path = config.path().to_str().expect("in UTF-8");
    let window = Window::of(&["stat", "--by", "process", "--config", path]);
    let signal = |signal| {
        let pid = Pid::from_raw(window.pid().cast_signed()).expect("it runs");
        kill_process(pid, signal).expect("it can be signalled");
    };
    let group = Group::new("unrecorded");
    signal(Signal::STOP);
    let mut load = run(&group, &burners(PROCESSES / 4));
    load.reap();
    let used = group.usage_seconds();
    signal(Signal::CONT);
    let answer = window.close().answer;
    let lost = answer["losses"]["exit_record"].as_f64().expect("a loss");
    assert!(lost > 0.9 * (PROCESSES / 4) as f64, "{lost}");
    let rows = support::rows(&answer, |row| row["cgroup.id"] == group.id());
    let unrecorded = answer["unrecorded_seconds"].as_f64().expect("a number");
    assert!(unrecorded > 0.8 * used, "{unrecorded} of {used}");
    let told = support::cpu_seconds(&rows) + unrecorded;
    assert!(told > 0.9 * used - support::stolen(), "{told} of {used}");
    // Other processes also end without records. The use of these processes must be neither missing
    // nor counted twice.
    let seconds = |name: &str| answer[name].as_f64().expect("a number");
    let all = support::cpu_seconds(&support::rows(&answer, |_| true)) + unrecorded;
    let sum = all + seconds("idle_seconds") + seconds("remainder_seconds");
    let elapsed = seconds("cpus") * seconds("window_seconds");
    let stolen = support::stolen() + 0.01 * seconds("cpus");
    assert_close("rows and unrecorded", sum, elapsed, 0.001, stolen);
    assert!(
        seconds("remainder_seconds") < 0.1 * used + stolen,
        "{answer}"
    );
}

#[test]
fn two_thousand_short_processes_are_two_thousand_rows() {
    let _machine = support::shared();
    needs!("cpu_time");
    let group = Group::new("short");
    let script = format!("{}; :", burners(PROCESSES));
    let answer = support::json(&[
        "stat",
        "--by",
        "process",
        "--json",
        "--",
        "/bin/sh",
        "-c",
        &group.enter(),
        "/bin/sh",
        "-c",
        &script,
    ]);
    let used = group.usage_seconds();
    let rows = support::rows(&answer, |row| row["exited"] == true);
    let others = support::rows(&answer, |row| {
        row["exited"] != true || row["cgroup.id"] != group.id()
    });
    assert!(others.is_empty(), "not ended in the group: {others:?}");
    let pids: BTreeSet<u64> = rows
        .iter()
        .filter_map(|row| row["process.pid"].as_u64())
        .collect();
    let missing = || {
        let all = pids.first().copied().unwrap_or(0)..pids.last().copied().unwrap_or(0);
        all.filter(|pid| !pids.contains(pid)).collect::<Vec<_>>()
    };
    // The rows include the shell that starts the processes.
    assert_eq!(rows.len(), PROCESSES + 1, "missing: {:?}", missing());
    assert_close("sum", support::cpu_seconds(&rows), used, 0.01, 0.0);
    let least = rows
        .iter()
        .map(|row| row["cpu.seconds"].as_f64().expect("cpu.seconds"));
    let least = least.fold(f64::MAX, f64::min);
    assert!(
        least > 0.0005,
        "each runs for milliseconds, one has {least} s"
    );
}

fn processes(reading: &Reading, group: &Group) -> BTreeMap<BTreeMap<String, String>, f64> {
    let path = group.path();
    let of_group = reading.samples.iter().filter(|sample| {
        sample.name == "noctule_process_cpu_seconds_total"
            && sample.labels.get("cgroup") == Some(&path)
    });
    let rows = of_group.map(|sample| (sample.labels.clone(), sample.value));
    rows.collect()
}

#[test]
fn a_fork_storm_loses_nothing() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = agent(1.0);
    let group = Group::new("storm");
    // A single shell is used, because what a shell uses before it enters the group is only in its
    // own row.
    let forks = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); ( : ); done; echo 'load: done'";
    let mut load = Load::shell(&group, &format!("while read go; do {forks}; done; :"));
    // An ended process is listed for a minute, and a slow machine needs longer for all of them.
    let mut rows = BTreeMap::new();
    for _ in 0..5 {
        assert_eq!(load.ask("go"), "done");
        rows.extend(processes(&Reading::fresh(&agent), &group));
    }
    load.kill();
    load.reap();
    let said = Reading::fresh_with(&agent, "the group is listed", |r| r.group_seconds(&group));
    assert_close("group", said, group.usage_seconds(), 0.01, 0.001);
    let reading = Reading::fresh(&agent);
    assert_eq!(reading.losses(), []);
    rows.extend(processes(&reading, &group));
    assert_eq!(rows.len(), 5001, "with the shell that starts them");
    assert_close("processes", rows.values().sum(), said, 0.01, 0.01);
    let absurd = reading
        .samples
        .iter()
        .find(|sample| !(0.0..1e12).contains(&sample.value));
    assert_eq!(absurd, None);
}

#[test]
fn threads_that_end_together_lose_nothing() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = agent(0.2);
    let group = Group::new("crowd");
    let mut load = Load::own(&group, "crowd");
    load.wait_for_end();
    load.reap();
    let used = group.usage_seconds();
    // The last record of a process is written when the kernel frees its leader, or some seconds
    // later if the agent missed that.
    let all = "all are listed, with the process that starts them";
    let rows = Reading::fresh_with(&agent, all, |reading| {
        let rows = processes(reading, &group);
        (rows.len() == 201).then_some(rows)
    });
    // The row of the load includes what its shell used before it entered the group: about 2 ms,
    // rarely 4 ms.
    let stolen = support::stolen();
    assert_close(
        "processes",
        rows.values().sum(),
        used,
        0.001,
        0.006 + stolen,
    );
    let reading = Reading::fresh(&agent);
    let said = reading.group_seconds(&group).expect("the group is listed");
    assert_close("group", said, used, 0.001, 0.001 + stolen);
    assert_eq!(reading.losses(), []);
}
