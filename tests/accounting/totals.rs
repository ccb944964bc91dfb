//! Tests of total use of processes that started while the agent ran.

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, oracle};
use super::{agent, assert_exact};

struct Case {
    name: &'static str,
    program: Program,
    /// Whether some threads end before the comparison. The load reports the CPU time of these
    /// threads.
    threads_end: bool,
    /// Whether the load requests a real-time priority.
    realtime: bool,
    /// CPU time in seconds after which the load is stopped.
    seconds: f64,
}

enum Program {
    Shell(&'static str),
    Own(&'static str),
}

const CASES: &[Case] = &[
    Case {
        name: "one busy thread",
        program: Program::Shell("while :; do :; done"),
        threads_end: false,
        realtime: false,
        seconds: 1.0,
    },
    Case {
        name: "a thread that sleeps and wakes all the time",
        program: Program::Own("sleeper"),
        threads_end: false,
        realtime: false,
        seconds: 0.3,
    },
    Case {
        name: "eight threads of which four end",
        program: Program::Own("threads"),
        threads_end: true,
        realtime: false,
        seconds: 2.0,
    },
    Case {
        name: "a thread whose leader has ended",
        program: Program::Own("leader-ends"),
        threads_end: false,
        realtime: false,
        seconds: 0.5,
    },
    Case {
        name: "a thread that hardly ever leaves its CPU",
        program: Program::Own("realtime-sampler"),
        threads_end: false,
        realtime: true,
        seconds: 1.0,
    },
];

#[test]
fn totals_equal_the_kernels_while_stopped_and_at_the_end() {
    let _machine = support::alone();
    needs!("cpu_time");
    let agent = agent(0.25);
    for case in CASES {
        let group = Group::new("total");
        if case.realtime {
            group.allow_realtime_throughout();
        }
        let mut load = match case.program {
            Program::Shell(script) => Load::shell(&group, script),
            Program::Own(name) => Load::own(&group, name),
        };
        let ended: f64 = if case.threads_end {
            load.next_message().parse().expect("a number")
        } else {
            0.0
        };
        load.burn_to(case.seconds);
        load.stop();
        stopped(&agent, case, &group, &load, ended);
        load.kill();
        at_the_end(&agent, case, &group, &mut load);
    }
    assert_eq!(Reading::fresh(&agent).losses(), []);
}

/// The figures that noctule reports for a load and its group.
struct ReportedTotals {
    seconds: f64,
    group_seconds: f64,
    switches: [f64; 2],
}

impl ReportedTotals {
    fn of(agent: &Agent, pid: u32, group: &Group) -> Self {
        Reading::fresh_with(agent, "the load is listed", |reading| {
            let switches =
                |kind| reading.of_process("sched_switches_total", pid, &[("kind", kind)]);
            Some(Self {
                seconds: reading.process_seconds(pid)?,
                group_seconds: reading.group_seconds(group)?,
                // The kernel counts throttled switches as preempted.
                switches: [
                    switches("voluntary")?,
                    switches("preempted")? + switches("throttled").unwrap_or(0.0),
                ],
            })
        })
    }
}

fn stopped(agent: &Agent, case: &Case, group: &Group, load: &Load, ended: f64) {
    let name = case.name;
    let pid = load.pid();
    let said = ReportedTotals::of(agent, pid, group);
    assert_exact(name, said.seconds, oracle::process_seconds(pid));
    let schedstat = oracle::schedstat_seconds(pid) + ended;
    assert_exact(&format!("{name}: schedstat"), said.seconds, schedstat);
    assert_exact(
        &format!("{name}: group"),
        said.group_seconds,
        group.usage_seconds(),
    );
    if !case.threads_end {
        let switches = oracle::switches(pid).map(|count| count as f64);
        assert_eq!(said.switches, switches, "{name}: voluntary, preempted");
    }
}

/// Compares the figure while the process is a zombie and after it is reaped. The figure must appear
/// once and must not change.
fn at_the_end(agent: &Agent, case: &Case, group: &Group, load: &mut Load) {
    let name = case.name;
    let pid = load.pid();
    let zombie = ReportedTotals::of(agent, pid, group);
    assert_exact(
        &format!("{name}: zombie"),
        zombie.seconds,
        oracle::process_seconds(pid),
    );
    let reaped = load.reap();
    // The final figures of a process with several threads arrive when the kernel frees its leader.
    for _ in 0..3 {
        let said = ReportedTotals::of(agent, pid, group);
        assert_exact(&format!("{name}: reaped"), said.seconds, reaped);
        assert_exact(
            &format!("{name}: group at the end"),
            said.group_seconds,
            group.usage_seconds(),
        );
    }
}
