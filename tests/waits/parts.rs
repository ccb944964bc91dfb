//! Tests that the components of each row add up, and that waits are divided in proportion to CPU
//! time.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::cgroup::Group;
use super::support::load::Load;
use super::{CAUSES, assert_close, cause, number, row_of, support, waited, waits};

/// Rounding error of a sum of a few numbers, in seconds.
const ROUNDING: f64 = 1e-9;

/// Asserts that all components of a row add up.
#[track_caller]
pub(super) fn assert_adds_up(row: &Value) {
    let causes = CAUSES.iter().map(|name| cause(row, name));
    assert!(causes.clone().all(|seconds| seconds >= 0.0), "{row}");
    assert_close("causes", causes.sum(), waited(row), 0.0, ROUNDING);
    let culprits = row["culprits"].as_array().expect("culprits");
    let sum = |key: &str| culprits.iter().map(|c| number(&c[key])).sum::<f64>();
    let others = cause(row, "neighbour") + cause(row, "kernel");
    assert_close(
        &format!("{row}: culprits"),
        sum("seconds"),
        others,
        0.0,
        ROUNDING,
    );
    if others > 0.0 {
        assert_close(&format!("{row}: shares"), sum("share"), 1.0, 0.0, 1e-6);
    }
    if row["wait"]["count"] != 0 {
        let at = |key: &str| number(&row["wait"][key]);
        let steps = ["p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"].map(at);
        assert!(steps.is_sorted(), "{row}");
    }
}

#[test]
fn causes_and_culprits_add_up_at_every_level() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let groups = ["victim", "hog", "limited"].map(|name| Group::new(name).heavy());
    groups[2].limit(0.3);
    let loads = ["bursts 3000 1000", "spin 2", "spin 2"];
    let _running: Vec<Load> = groups
        .iter()
        .zip(loads)
        .map(|(group, load)| Load::own(group, load))
        .collect();
    let _others = Load::own(&groups[0], "bursts 300 700");
    for level in ["cgroup", "container", "pod", "unit"] {
        let answer = support::json(&["waits", "--json", "--by", level, "--for", "1s"]);
        for row in support::rows(&answer, |_| true) {
            assert_adds_up(row);
        }
        for group in &groups {
            let rows = support::rows(&answer, |row| row["name"] == group.path().as_str());
            assert_eq!(rows.len(), 1, "{}: {answer}", group.path());
            assert!(number(&rows[0]["wait"]["count"]) > 0.0, "{}", rows[0]);
        }
    }
}

/// A group and its weight.
struct Rival {
    weight: u64,
    group: Group,
    _load: Load,
}

impl Rival {
    fn new(weight: u64) -> Self {
        let group = Group::new(&format!("weight-{weight}"));
        group.weigh(weight * 1250);
        let load = Load::own(&group, "spin 1");
        Self {
            weight,
            group,
            _load: load,
        }
    }
}

#[test]
fn culprits_are_blamed_in_proportion_to_their_weights() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let victim = Group::new("victim");
    victim.weigh(2500);
    let _load = Load::own(&victim, "spin 1");
    let rivals = [1, 2, 4].map(Rival::new);
    // Gives the scheduler time to even out the head start of new groups.
    thread::sleep(Duration::from_millis(500));
    let answer = waits("4s");
    let row = row_of(&answer, &victim);
    let culprits = row["culprits"].as_array().expect("culprits");
    for rival in &rivals {
        let path = rival.group.path();
        let found = culprits.iter().find(|c| c["name"] == path.as_str());
        let share = number(&found.unwrap_or_else(|| panic!("{path}: {row}"))["share"]);
        println!("weight {}: {share}", rival.weight);
        let what = format!("weight {}", rival.weight);
        let expected = rival.weight as f64 / 7.0;
        // Time that the host takes is charged to the group that has the CPU.
        let allowed = 0.05 + support::stolen() / number(&row["wait"]["seconds"]);
        assert!(
            (share - expected).abs() < allowed,
            "{what}: {share}, not {expected}"
        );
    }
    assert_adds_up(row);
}
