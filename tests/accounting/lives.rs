//! Tests of processes with unusual lives: older than the agent, replaced by exec, killed, or with a
//! reused pid.

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::window::Window;
use super::support::{self, oracle};
use super::{agent, assert_exact};

/// Interval of the batches, long enough for many processes to start and end between two batches.
const RARELY: f64 = 1.0;

fn process(agent: &Agent, pid: u32) -> f64 {
    Reading::fresh_with(agent, "the process is listed", |r| r.process_seconds(pid))
}

/// Returns the CPU time of a process that has ended. A killed thread leaves `/proc` before its last
/// switch. Until that switch, the agent repeats the previous value. On a busy machine that lasts a
/// batch or two.
fn at_the_end(agent: &Agent, pid: u32, expected: f64) -> f64 {
    let mut last = 0.0;
    for _ in 0..3 {
        last = process(agent, pid);
        if (last - expected).abs() < 0.001 {
            break;
        }
    }
    last
}

#[test]
fn process_older_than_the_agent_counts_only_its_growth() {
    let _machine = support::shared();
    needs!("cpu_time");
    for name in ["sampler", "threads", "leader-ends"] {
        let group = Group::new("older");
        let load = Load::own(&group, name);
        load.burn_to(0.8);
        load.stop();
        let (before, group_before) = (oracle::process_seconds(load.pid()), group.usage_seconds());
        let switches = oracle::switches(load.pid());
        let agent = agent(RARELY);
        load.continue_running();
        load.burn_to(1.6);
        load.stop();
        let growth = oracle::process_seconds(load.pid()) - before;
        let group_growth = group.usage_seconds() - group_before;
        let said = Reading::fresh_with(&agent, "the load is listed", |reading| {
            Some((
                reading.process_seconds(load.pid())?,
                reading.group_seconds(&group)?,
                reading.of_process("sched_switches_total", load.pid(), &[])?,
            ))
        });
        assert_exact(&format!("{name}: growth"), said.0, growth);
        assert_exact(&format!("{name}: group"), said.1, group_growth);
        if name != "threads" {
            let now = oracle::switches(load.pid());
            let growth = now[0] + now[1] - switches[0] - switches[1];
            assert_eq!(said.2, growth as f64, "{name}: switches");
        }
    }
}

#[test]
fn a_killed_process_counts_once_with_all_its_threads() {
    let _machine = support::shared();
    needs!("cpu_time");
    for older in [false, true] {
        let what = if older { "older" } else { "younger" };
        let group = Group::new("killed");
        let first = (!older).then(|| agent(RARELY));
        let mut load = Load::own(&group, "threads");
        load.next_message();
        let mut before = 0.0;
        let agent = first.unwrap_or_else(|| {
            load.stop();
            before = oracle::process_seconds(load.pid());
            let agent = agent(RARELY);
            load.continue_running();
            agent
        });
        // The threads are on the CPUs when they are killed.
        load.burn_to(before + 1.5);
        load.kill();
        let pid = load.pid();
        let zombie = oracle::process_seconds(pid) - before;
        let said = at_the_end(&agent, pid, zombie);
        assert_exact(&format!("{what}: zombie"), said, zombie);
        assert_exact(&format!("{what}: again"), process(&agent, pid), zombie);
        let reaped = load.reap() - before;
        let said = at_the_end(&agent, pid, reaped);
        assert_exact(&format!("{what}: reaped"), said, reaped);
        assert_exact(&format!("{what}: still"), process(&agent, pid), reaped);
    }
}

#[test]
fn a_killed_process_is_one_row_of_the_window() {
    let _machine = support::shared();
    needs!("cpu_time");
    // The kernel frees a reaped leader one grace period later, and the window ends before that.
    for (name, reaped) in [("sampler", false), ("threads", false), ("threads", true)] {
        let group = Group::new("zombie");
        let mut load = Load::own(&group, name);
        load.burn_to(0.5);
        load.stop();
        let before = oracle::process_seconds(load.pid());
        let window = Window::open("process");
        load.continue_running();
        load.burn_to(before + 0.5);
        load.kill();
        let used = match reaped {
            true => load.reap(),
            false => oracle::process_seconds(load.pid()),
        };
        let answer = window.close().answer;
        let rows = support::rows(&answer, |row| row["process.pid"] == load.pid());
        assert_eq!(rows.len(), 1, "{name}: {rows:?}");
        let what = format!("{name}, reaped: {reaped}, losses {}", answer["losses"]);
        assert_exact(&what, support::cpu_seconds(&rows), used - before);
        assert!(rows[0]["exited"] == true || !reaped, "{what}: {rows:?}");
        // A window that opens after the end of the process does not include the process.
        let answer = Window::open("process").close().answer;
        let rows = support::rows(&answer, |row| row["process.pid"] == load.pid());
        assert_eq!(rows.len(), 0, "{name}: {rows:?}");
    }
}

#[test]
fn exec_by_thread_keeps_the_cpu_time() {
    let _machine = support::shared();
    needs!("cpu_time");
    for older in [false, true] {
        let what = if older { "older" } else { "younger" };
        let group = Group::new("exec");
        let first = (!older).then(|| agent(RARELY));
        let mut load = Load::own(&group, "exec-from-thread");
        let mut before = 0.0;
        let agent = first.unwrap_or_else(|| {
            load.burn_to(0.2);
            load.stop();
            before = oracle::process_seconds(load.pid());
            let agent = agent(RARELY);
            load.continue_running();
            agent
        });
        let pid = load.pid();
        let mut last = process(&agent, pid);
        load.burn_to(before + 1.5);
        load.say("exec");
        assert_eq!(load.next_message(), "shell");
        for _ in 0..2 {
            let now = process(&agent, pid);
            assert!(now >= last, "{what}: {now} after {last}");
            last = now;
        }
        load.stop();
        let used = oracle::process_seconds(pid) - before;
        assert_exact(&format!("{what}: stopped"), process(&agent, pid), used);
        load.kill();
        let used = load.reap() - before;
        assert_exact(
            &format!("{what}: reaped"),
            at_the_end(&agent, pid, used),
            used,
        );
    }
}

const WAITS_AND_BURNS: &str = "read line; while :; do :; done";

#[test]
fn two_processes_with_one_pid_are_two_rows() {
    let _machine = support::alone();
    needs!("cpu_time");
    let group = Group::new("reuse");
    let agent = agent(RARELY);
    let mut first = Load::shell(&group, "while :; do :; done");
    first.burn_to(0.3);
    first.kill();
    let pid = first.pid();
    let mut expected = vec![first.reap()];
    let mut second = Load::shell_with_pid(&group, WAITS_AND_BURNS, pid);
    second.say("go");
    second.burn_to(0.6);
    second.kill();
    expected.push(second.reap());
    let mut third = Load::shell_with_pid(&group, WAITS_AND_BURNS, pid);
    third.say("go");
    third.burn_to(0.9);
    third.stop();
    expected.push(oracle::process_seconds(pid));

    let pid = pid.to_string();
    let mut found = Reading::fresh_with(&agent, "all three are listed", |reading| {
        let rows = reading.samples.iter().filter(|sample| {
            // Another process may have had the pid in between.
            let ours = sample.labels.get("cgroup") == Some(&group.path());
            let name = sample.name == "noctule_process_cpu_seconds_total";
            name && ours && sample.labels["pid"] == pid
        });
        let rows: Vec<_> = rows.map(|s| (s.labels["start"].clone(), s.value)).collect();
        (rows.len() >= 3).then_some(rows)
    });
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(found.len(), 3, "{found:?}");
    for ((start, found), expected) in found.iter().zip(expected) {
        assert_exact(start, *found, expected);
    }
}
