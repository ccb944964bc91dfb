//! Tests of `noctule diff`, which compares two recordings.

use serde_json::Value;

use super::support::burner::Burner;
use super::support::{self, json, noctule};

const NAME: &str = "diff-burner";
/// Process name of the load in another test, which runs at the same time.
const STAR: &str = "diff-began";

/// Records some seconds in which a process of that name runs.
fn record(tape: &str) {
    let burner = Burner::named(NAME.as_bytes()).first();
    let output = noctule(&["record", "-o", tape, "--for", "3s"]);
    assert!(output.status.success(), "{output:?}");
    drop(burner);
}

fn row<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut rows = answer["rows"].as_array().expect("rows").iter();
    rows.find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
fn recording_equals_itself_and_differs_from_another() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (with, without) = (at("with"), at("without"));
    record(&with);
    let output = noctule(&["record", "-o", &without, "--for", "3s"]);
    assert!(output.status.success(), "{output:?}");

    let same = json(&["diff", &with, &with, "--by", "process", "--json"]);
    for row in same["rows"].as_array().expect("rows") {
        assert_eq!(row["before"], row["after"], "{row}");
        assert_eq!(row["changed"], false, "{row}");
    }
    // diff uses only whole blocks, so stat over the same time reports at least as much.
    let used = row(&same, NAME)["before"]["cpu.seconds"]
        .as_f64()
        .expect("seconds");
    let stat = json(&["stat", "--by", "process", "--json", "--from", &with]);
    let rows = stat["rows"].as_array().expect("rows").iter();
    let all: f64 = rows
        .filter(|row| row["process.executable.name"] == NAME)
        .filter_map(|row| row["cpu.seconds"].as_f64())
        .sum();
    assert!(used > 0.2 && used <= all + 0.001, "{used} of {all}");

    let gone = json(&["diff", &with, &without, "--by", "process", "--json"]);
    let gone = row(&gone, NAME);
    assert_eq!(gone["before"]["cpu.seconds"], used, "{gone}");
    assert_eq!(gone["after"]["cpu.seconds"], 0.0, "{gone}");
    // A period of three blocks is not tested.
    assert!(gone["cpu"].get("p_value").is_none(), "{gone}");

    let waits = json(&["diff", &with, &without, "--by", "cgroup", "--json"]);
    let rows = waits["rows"].as_array().expect("rows");
    assert!(
        rows.iter()
            .any(|row| row["before"]["waits"].as_u64() > Some(0))
    );
    let table = noctule(&["diff", &with, &without, "--by", "process"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let line = table.lines().find(|line| line.starts_with(NAME));
    assert!(line.is_some_and(|line| line.ends_with("gone")), "{table}");
    assert!(
        table.contains("too short to tell changes from noise"),
        "{table}"
    );

    // A period of one block is compared, but not tested. The period starts and ends between two
    // batches.
    let short = noctule(&["diff", &format!("{with}@-2500ms+1s"), &without]);
    let short = String::from_utf8_lossy(&short.stdout).into_owned();
    assert!(
        short.contains("too short to tell changes from noise"),
        "{short}"
    );
}

#[test]
fn new_load_is_marked_with_a_star() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (before, after) = (at("before"), at("after"));
    let record = |tape: &str, time: &str| {
        let output = noctule(&["record", "-o", tape, "--for", time]);
        assert!(output.status.success(), "{output:?}");
    };
    record(&before, "12s");
    let burner = Burner::named(STAR.as_bytes()).first();
    record(&after, "12s");
    drop(burner);
    let changed = json(&["diff", &before, &after, "--by", "process", "--json"]);
    let cpu = &row(&changed, STAR)["cpu"];
    assert_eq!(cpu["changed"], true, "{cpu}");
    assert!(cpu["p_value"].as_f64().expect("a test") < 0.001, "{cpu}");
    let table = noctule(&["diff", &before, &after, "--by", "process"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let line = table.lines().find(|line| line.starts_with(STAR));
    assert!(line.is_some_and(|line| line.contains('*')), "{table}");
}
