//! Tests of threads that are on a CPU while they are counted. The sampler reports how much it has
//! used at any moment.

use super::agent;
use super::support::cgroup::Group;
use super::support::history::History;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::window::{Seen, Window};
use super::support::{self, wait_until};

const SHARE: f64 = 0.001;
const SLACK: f64 = 0.001;

/// Fails unless a figure lies between a minimum and a maximum, within the limits and allowing for
/// steal time.
#[track_caller]
fn assert_between(what: &str, actual: f64, (least, most): (f64, f64)) {
    let slack = SLACK + support::stolen();
    support::assert_close(what, actual, actual.clamp(least, most), SHARE, slack);
}

struct Case {
    name: &'static str,
    load: &'static str,
    realtime: bool,
}

const CASES: [Case; 2] = [
    Case {
        name: "one busy thread",
        load: "sampler",
        realtime: false,
    },
    Case {
        name: "a thread that never leaves its CPU",
        load: "realtime-sampler",
        realtime: true,
    },
];

fn start(case: &Case) -> (Group, Load) {
    let group = Group::new("running");
    if case.realtime {
        group.allow_realtime_throughout();
    }
    let load = Load::own(&group, case.load);
    (group, load)
}

#[test]
fn batch_includes_the_use_of_running_threads() {
    let _machine = support::alone();
    needs!("cpu_time");
    for case in &CASES {
        let agent = agent(0.1);
        let (_group, mut load) = start(case);
        let pid = load.pid();
        let mut readings: Vec<(Reading, f64, f64)> = Vec::new();
        wait_until("there are thirty batches", || {
            let reading = Reading::of(&agent);
            let known = readings
                .last()
                .is_some_and(|(last, ..)| reading.taken.0 <= last.taken.1);
            if let Some(seconds) = reading.process_seconds(pid).filter(|_| !known) {
                let switches = reading.of_process("sched_switches_total", pid, &[]);
                readings.push((reading, seconds, switches.expect("switches")));
            }
            readings.len() == 30
        });
        let history = History::of(&mut load);
        let mut compared = 0;
        for (reading, seconds, _) in &readings {
            let first = history.used(reading.taken.0);
            let last = history.used(reading.taken.1);
            if let (Some(first), Some(last)) = (first, last) {
                assert_between(case.name, *seconds, (first.0, last.1));
                compared += 1;
            }
        }
        assert!(compared > 20, "only {compared} batches can be compared");
        // In the second case, the thread must run across batches without a switch.
        let steps = readings
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1, pair[1].2 - pair[0].2));
        let steps: Vec<(f64, f64)> = steps.collect();
        let stayed = steps
            .iter()
            .filter(|(used, left)| *left == 0.0 && *used > 0.05);
        assert!(
            !case.realtime || stayed.count() > 5,
            "it left its CPU all the time: seconds and switches of each batch: {steps:?}"
        );
    }
}

/// Returns the minimum and maximum use of the sampler in the window, over all possible starts of
/// the window.
fn used(history: &History, seen: &Seen) -> (f64, f64) {
    let length = seen.answer["window_seconds"]
        .as_f64()
        .expect("window_seconds");
    let (earliest, latest) = seen.began;
    let steps = ((latest - earliest) / 0.0001) as u32 + 1;
    let mut range = (f64::MAX, f64::MIN);
    for step in 0..=steps {
        let began = earliest + (latest - earliest) * f64::from(step) / f64::from(steps);
        let known = "the sampler ran before and after the window";
        let at_begin = history.used(began).expect(known);
        let at_end = history.used(began + length).expect(known);
        range.0 = range.0.min(at_end.0 - at_begin.1);
        range.1 = range.1.max(at_end.1 - at_begin.0);
    }
    range
}

#[test]
fn window_includes_the_use_of_running_threads() {
    let _machine = support::alone();
    needs!("cpu_time");
    for case in &CASES {
        let (group, mut load) = start(case);
        let mut windows = Vec::new();
        for level in ["process", "cgroup"] {
            let window = Window::open(level);
            let before = support::oracle::process_seconds(load.pid());
            load.burn_to(before + 1.0);
            let seen = window.close();
            let after = support::oracle::process_seconds(load.pid());
            load.burn_to(after + 0.1);
            let rows = support::rows(&seen.answer, |row| match level {
                "process" => row["process.pid"] == load.pid(),
                _ => row["cgroup.id"] == group.id(),
            });
            assert_eq!(rows.len(), 1, "{}: {rows:?}", case.name);
            let seconds = support::cpu_seconds(&rows);
            windows.push((level, seen, seconds));
        }
        let history = History::of(&mut load);
        for (level, seen, seconds) in &windows {
            let what = format!("{} by {level}", case.name);
            assert_between(&what, *seconds, used(&history, seen));
        }
    }
}
