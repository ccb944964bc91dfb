//! No wait is reported that was none: the longest is not longer than the kernel's own account
//! allows.

use std::thread;
use std::time::Duration;

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::window::Window;
use super::{number, row_of, support};

/// A bucket of the distribution is told as its middle, off by 1/16 at most.
const ROUNDING: f64 = 17.0 / 16.0;

#[test]
fn the_longest_wait_agrees_with_the_kernel() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    for name in ["storm", "quiet"] {
        // It uses every CPU: the agent must get its part.
        let group = Group::new(name);
        let mut load = Load::own(&group, name);
        let window = Window::of(&["waits", "--by", "cgroup"]);
        thread::sleep(Duration::from_secs(2));
        let answer = window.close().answer;
        load.say("end");
        let said = load.hear();
        let longest = said.strip_prefix("longest ").expect("the longest");
        let most = longest.parse::<u64>().expect("a number") as f64 / 1e9;
        let row = row_of(&answer, &group);
        let max = number(&row["wait"]["max_seconds"]);
        let count = number(&row["wait"]["count"]);
        println!("{name}: longest of {count}: {max} s; the kernel allows {most} s");
        assert!(count > 100.0, "{name}: {row}");
        assert!(max <= most * ROUNDING, "{name}: more than {most} s: {row}");
    }
}

/// What other groups do is not known; but nobody waited for longer than anybody looked.
#[test]
fn no_wait_is_older_than_the_agent() {
    let _machine = support::shared();
    needs!("cpu_waits");
    let group = Group::new("quiet");
    let _load = Load::own(&group, "quiet");
    // The agent is older than this and younger than that.
    let before = support::now();
    let answer = super::waits("2s");
    let age = support::now() - before;
    for row in support::rows(&answer, |row| row["wait"]["count"] != 0) {
        let max = number(&row["wait"]["max_seconds"]);
        assert!(max <= age * ROUNDING, "a wait of {max} s in {age} s: {row}");
    }
}

/// What a group waited, as the agent has it.
fn group_waited(agent: &Agent, group: &Group) -> f64 {
    Reading::fresh_with(agent, "the group is listed", |reading| {
        let labels = [("cgroup", &*group.path())];
        reading.value("noctule_cgroup_sched_wait_seconds_total", &labels)
    })
}

/// From 6.12 on the kernel counts the sleep of a thread as waiting, if the thread is moved when it has
/// just fallen asleep. Nobody waits then, whether it was moved before the agent started or after, and
/// whether wake-ups are seen (while a group has a quota, before 6.18) or not.
#[test]
fn a_sleeping_thread_that_is_moved_does_not_wait() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let limited = Group::new("limited");
    limited.limit(0.5);
    let _limited = Load::own(&limited, "bursts 1000 10000");
    let group = Group::new("asleep");
    let mut load = Load::own(&group, "moved-asleep 10");
    load.ask("sleep");
    let agent = Agent::start(&["--interval", "200ms"]);
    check_woken(&agent, &group, &mut load);
    load.ask("sleep");
    check_woken(&agent, &group, &mut load);
}

fn check_woken(agent: &Agent, group: &Group, load: &mut Load) {
    const SLEEP: Duration = Duration::from_secs(3);
    thread::sleep(SLEEP);
    let before = group_waited(agent, group);
    let kernel = load.ask("wake");
    let told = group_waited(agent, group) - before;
    let each = kernel.split(' ').map(|ns| ns.parse().expect("nanoseconds"));
    let each: Vec<f64> = each.map(|ns: f64| ns * 1e-9).collect();
    println!("{told} s, by the kernel {each:?}");
    // Older ones do so rarely.
    let miscounted = each.iter().any(|s| *s >= SLEEP.as_secs_f64());
    assert!(miscounted || support::kernel() < (6, 12), "{each:?}");
    assert!(told < 0.5 * SLEEP.as_secs_f64(), "{told} s, {each:?}");
}
