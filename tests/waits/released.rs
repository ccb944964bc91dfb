//! Tests of the releasers of blocked threads.

use std::sync::Mutex;
use std::time::Duration;
use std::{fs, thread};

use serde_json::Value;

use super::support::cgroup::Group;
use super::support::expect;
use super::support::load::Load;
use super::{number, row_of, support};

/// The classes in which the threads of the load wait for another thread.
const CLASSES: [&str; 5] = ["lock", "pipe", "unix", "loopback", "child"];

#[test]
fn blocked_time_is_charged_to_the_group_that_ended_it() {
    let _machine = support::shared();
    if expect::lacks_part_of("blocked_time") {
        return;
    }
    let (victim, holder) = (Group::new("waits-for"), Group::new("releases"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{path}/fifo"))
        .status();
    assert!(made.expect("mkfifo").success());
    fs::write(folder.path().join("enter"), holder.enter()).expect("room");
    let mut releases = Load::own(&holder, &format!("releases {path}"));
    let mut waits_for = Load::own(&victim, &format!("waits-for {path}"));
    let older = Older::begin();
    let args = [
        "waits",
        "--blocked",
        "--json",
        "--by",
        "cgroup",
        "--for",
        "2s",
    ];
    let answer = older.during(|| support::json(&args));
    let why = support::json(&["why", &victim.path(), "--json", "--for", "1s"]);
    waits_for.say("end");
    releases.say("end");
    releases.wait_for_end();
    let row = row_of(&answer, &victim);
    for class in CLASSES {
        check(class, &released(row, class), &holder, releases.pid());
    }
    check("lock", &released(&why, "lock"), &holder, releases.pid());
    let own = released(row_of(&answer, &holder), "lock");
    assert!(
        number(&own["nobody_seconds"]) > 0.5 * number(&answer["window_seconds"]),
        "timeouts: {own}"
    );
    older.check(&answer);
    releases.reap();
    waits_for.kill();
}

/// Three threads that block before the window. During the window, one thread is released, one stays
/// blocked, and one moves to another group.
struct Older {
    loads: Mutex<[Load; 3]>,
    group: Group,
    left: Group,
    entered: Group,
}

impl Older {
    fn begin() -> Self {
        let (group, left) = (Group::new("older"), Group::new("left"));
        let reader = |group| Load::shell(group, "exec head -n 1");
        let loads = Mutex::new([&group, &group, &left].map(reader));
        Self {
            loads,
            group,
            left,
            entered: Group::new("entered"),
        }
    }

    fn during(&self, measure: impl FnOnce() -> Value) -> Value {
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_secs(2));
                let mut loads = self.loads.lock().expect("not poisoned");
                loads[0].say("end");
                self.entered.add(loads[2].pid());
            });
            measure()
        })
    }

    /// Checks that each block counts from the start of the window. A block counts as not released
    /// yet if it lasts beyond the window or its thread left the group.
    fn check(&self, answer: &Value) {
        let it = released(row_of(answer, &self.group), "pipe");
        let part = |it: &Value, key: &str| number(&it[key]);
        let (open, window) = (part(&it, "open_seconds"), part(answer, "window_seconds"));
        assert!(open > window - 0.001, "{it}");
        assert!(part(&it, "unknown_seconds") < 0.001, "{it}");
        // The row is absent if the thread left before the window.
        for row in support::rows(answer, |row| row["cgroup.id"] == self.left.id()) {
            let it = released(row, "pipe");
            let (all, open) = (part(&it, "seconds"), part(&it, "open_seconds"));
            assert!(all - open < 0.001, "{it}");
        }
    }
}

fn released(row: &Value, class: &str) -> Value {
    let all = row["released"].as_array().expect("it is measured");
    let found = all.iter().find(|it| it["class"] == class);
    found.unwrap_or_else(|| panic!("{class}: {row}")).clone()
}

/// Checks that the holder ended nearly all blocks that ended, and that the times add up.
fn check(class: &str, it: &Value, holder: &Group, pid: u32) {
    let part = |key: &str| number(&it[key]);
    let by = it["by"].as_array().expect("an array");
    let named: f64 = by.iter().map(|by| number(&by["seconds"])).sum();
    let all = part("seconds");
    let sum = named + part("nobody_seconds") + part("open_seconds") + part("unknown_seconds");
    assert!((sum - all).abs() < 1e-6, "{class}: {it}");
    let first = &by[0];
    assert_eq!(first["cgroup.id"], holder.id(), "{class}: {it}");
    let ended = all - part("open_seconds");
    let seconds = number(&first["seconds"]);
    assert!(seconds >= 0.95 * ended && seconds > 0.0, "{class}: {it}");
    if class != "child" {
        assert_eq!(first["process"]["process.pid"], pid, "{class}: {it}");
    }
}
