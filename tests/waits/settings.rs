//! Tests of the `[waits]` section of the configuration, valid and invalid, and of tables that are
//! too small.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::window::Window;
use super::{assert_close, configuration, number, path, support, waited};

#[test]
fn disabled_waits_are_a_configuration_error() {
    let _machine = support::shared();
    needs!("cpu_waits");
    let cases = [
        ("waits = false", &["collect.waits", "false", "true"][..]),
        ("waits = \"full\"", &["line 2", "full", "boolean"]),
        ("blame_rows = 0", &["collect.blame_rows", "between 1 and"]),
    ];
    for (text, words) in cases {
        let config = configuration(&format!("[collect]\n{text}\n"));
        let output = support::noctule(&["waits", "--config", path(&config), "--for", "1s"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {said}");
        for word in words {
            assert!(said.contains(word), "{word:?} is not in: {said}");
        }
    }
}

#[test]
fn disabled_waits_have_no_figures() {
    let _machine = support::shared();
    needs!("cpu_waits");
    let config = configuration("[collect]\nwaits = false\n");
    let args = ["stat", "--json", "--by", "process", "--for", "1s"];
    let answer = support::json(&[&args[..], &["--config", path(&config)]].concat());
    for row in support::rows(&answer, |_| true) {
        for key in ["wait.seconds", "switches.throttled"] {
            assert!(row.get(key).is_none(), "{key}: {row}");
        }
    }
    let agent = Agent::start(&["--config", path(&config)]);
    let waits = |name: &str| name.contains("_wait_") || name.contains("preemptions");
    let named = agent.metrics().into_iter().find(|s| waits(&s.name));
    assert_eq!(named, None);
    support::wait_until("there are figures", || {
        agent.get("/api/v1/node", "application/json").0 == 200
    });
    // Empty rows would claim that no group was hurt.
    for resource in ["now", "waits", "pairs"] {
        let (status, text) = agent.get(&format!("/api/v1/{resource}"), "application/json");
        assert!(status == 503 && text.contains("cpu_waits is off"), "{text}");
    }
    let (_, history) = agent.get("/api/v1/history", "application/json");
    let history: Value = serde_json::from_str(&history).expect("JSON");
    for key in ["waits", "pairs", "now"] {
        assert!(
            history["owners"].is_array() && history.get(key).is_none(),
            "{key}"
        );
    }
}

const TINY: &str = "[collect]\nblame_rows = 1\ncgroup_rows = 2\n";

/// Starts groups that all run on one CPU.
fn start_crowd(groups: usize) -> Vec<(Group, Load)> {
    let member = |i| {
        let group = Group::new(&format!("crowd-{i}")).heavy();
        let load = Load::own(&group, "spin 1");
        (group, load)
    };
    (0..groups).map(member).collect()
}

#[test]
fn waits_without_a_row_count_as_others() {
    // The row of other groups would also contain waits of groups of concurrent tests.
    let _machine = support::alone();
    needs!("cpu_waits");
    let config = configuration(TINY);
    let crowd = start_crowd(6);
    let args = ["waits", "--by", "cgroup", "--config", path(&config)];
    // The kernel updates its accounting of a group when a wait ends, so noctule's reading is
    // between the two readings of the kernel.
    let kernel = || -> f64 {
        let waited = |(_, load): &(Group, Load)| support::oracle::waited_seconds(load.pid());
        crowd.iter().map(waited).sum()
    };
    let earliest = kernel();
    let window = Window::of(&args);
    let first = kernel();
    thread::sleep(Duration::from_secs(2));
    let last = kernel();
    let answer = window.close().answer;
    let latest = kernel();
    let rows = support::rows(&answer, |_| true);
    rows.iter().for_each(|row| assert_adds_up(row));
    let (mut ours, mut unnamed) = (0.0, 0);
    for row in rows {
        let of_crowd = crowd.iter().any(|(g, _)| row["cgroup.id"] == g.id());
        if of_crowd || row["name"] == "others" {
            ours += waited(row);
        }
        let culprits = row["culprits"].as_array().expect("culprits");
        unnamed += culprits.iter().filter(|c| c["name"] == "others").count();
    }
    // An unfinished wait is in neither account. A wait that ends between the two readings can be in
    // only one of them. The row of other groups can contain waits of unrelated processes.
    println!(
        "{ours} s; {} to {} s by the kernel",
        last - first,
        latest - earliest
    );
    assert!(ours >= 0.99 * (last - first), "{ours}: {answer}");
    assert!(unnamed > 0, "nobody is without a name: {answer}");
    let strangers = 0.1 * (latest - earliest);
    assert!(
        ours <= 1.01 * (latest - earliest) + strangers,
        "{ours}: {answer}"
    );
}

#[test]
fn a_small_table_loses_rows_but_no_node_time() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let config = configuration(TINY);
    let _crowd = start_crowd(6);
    let agent = Agent::start(&["--config", path(&config), "--interval", "200ms"]);
    let whole = Agent::start(&["--interval", "200ms"]);
    let value = |agent: &Agent| {
        let reading = Reading::fresh(agent);
        let waits = reading.value("noctule_node_sched_wait_seconds_total", &[]);
        waits.expect("waits of the node")
    };
    let (outer, tiny, inner) = (value(&whole), value(&agent), value(&whole));
    thread::sleep(Duration::from_secs(3));
    let least = value(&whole) - inner;
    let tiny = value(&agent) - tiny;
    let most = value(&whole) - outer;
    println!("{tiny} s of waits; {least} to {most} s with tables that have room");
    assert_close("waits", tiny, tiny.clamp(least, most), 0.01, 0.0);
    let last = Reading::fresh(&agent);
    let lost = last.losses();
    for kind in ["blame_row", "wait_row"] {
        assert!(lost.iter().any(|(k, _)| *k == kind), "{kind}: {lost:?}");
    }
    assert_eq!(Reading::fresh(&whole).losses(), []);
}

/// Returns how long one group waited for another in the window of the verdicts, if the pair has a
/// name.
fn named_pair(agent: &Agent, victim: &Group, culprit: &Group) -> Option<f64> {
    let (status, text) = agent.get("/api/v1/pairs", "application/json");
    // Before the end of the first window there are no pairs.
    if status == 503 {
        return None;
    }
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let pairs = answer["rows"].as_array().expect("rows");
    let is = |pair: &&Value, key: &str, group: &Group| pair[key] == group.path().as_str();
    let mut pairs = pairs
        .iter()
        .filter(|pair| is(pair, "victim", victim) && is(pair, "culprit", culprit));
    pairs.next().map(|pair| number(&pair["wait.seconds"]))
}

#[test]
fn a_new_culprit_gets_the_place_of_an_idle_one() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let config = configuration("[collect]\nblame_rows = 64\n[verdicts]\nwindow_seconds = 3\n");
    let agent = Agent::start(&["--config", path(&config)]);
    // Nine groups make 72 pairs.
    let crowd = start_crowd(9);
    let rows = [("map", "blames")];
    agent.wait_for_value("noctule_self_map_entries", &rows, |taken| taken >= 64.0);
    // The groups are kept, because removing them would also remove their pairs.
    let (_groups, loads): (Vec<Group>, Vec<Load>) = crowd.into_iter().unzip();
    drop(loads);
    let late = ["late-1", "late-2"].map(|name| Group::new(name).heavy());
    let _loads = late.each_ref().map(|group| Load::own(group, "spin 1"));
    let [one, other] = &late;
    let named = || {
        Some([
            named_pair(&agent, one, other)?,
            named_pair(&agent, other, one)?,
        ])
    };
    // Each group has the CPU half of the time.
    let waited = support::wait_for("both have names", || {
        named().filter(|waited| waited.iter().all(|&seconds| seconds > 1.0))
    });
    println!("{waited:?} s in a window of 3 s");
}
