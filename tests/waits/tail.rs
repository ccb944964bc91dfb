//! No wait is reported that was none: the longest is not longer than the kernel's own account
//! allows.

use std::thread;
use std::time::Duration;

use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::window::Window;
use super::{number, row_of, support};

/// A bucket of the distribution is told as its middle, off by 1/16 at most.
const ROUNDING: f64 = 17.0 / 16.0;

#[test]
fn the_longest_wait_is_one_of_the_kernels() {
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
fn nobody_waited_since_before_the_agent_started() {
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
