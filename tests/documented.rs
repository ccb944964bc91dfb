//! Tests that docs/json.md documents exactly the keys that the commands print.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::tempdir;

use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::{self, Part, StopAtEnd};

/// The words of a section of docs/json.md.
struct Section {
    /// All names in backquotes.
    words: BTreeSet<String>,
    /// Names in the first column of tables.
    keys: BTreeSet<String>,
}

/// Objects whose keys are data.
const MAPS: [&str; 4] = [
    "tables",
    "cpu.seconds_by_package",
    "energy.joules",
    "energy.watts",
];

/// Keys that can be missing on some machines or in the test scene, each with the reason.
const ABSENT: [(&str, &str); 28] = [
    ("cpu.cycles", "hardware counters"),
    ("cpu.reference_cycles", "hardware counters"),
    ("cpu.instructions", "hardware counters"),
    ("cpu.cache_misses", "hardware counters"),
    ("cpu.frequency_hertz", "hardware counters"),
    ("cpu.sibling_busy_seconds", "a machine with SMT"),
    ("cpu.seconds_by_package", "a machine with several packages"),
    ("interrupt_seconds", "CONFIG_IRQ_TIME_ACCOUNTING"),
    ("steal_seconds", "CONFIG_PARAVIRT_TIME_ACCOUNTING"),
    ("steal_included_seconds", "a kernel without that"),
    ("container.name", "a runtime that wrote it"),
    ("k8s.pod.uid", "a pod"),
    ("k8s.pod.name", "a pod"),
    ("k8s.namespace.name", "a pod"),
    ("systemd.unit", "systemd"),
    ("file.opens", "file opens are off in stat"),
    ("file.open_failures", "file opens are off in stat"),
    ("switches.throttled", "not every kernel reports it"),
    ("cpu.weight", "cgroup v2"),
    ("cpu.shares", "cgroup v1"),
    ("cpu.idle", "Linux 5.15"),
    ("cpu.pressure", "PSI"),
    ("features[].mend", "a feature that is off"),
    ("meters[].refused", "a meter"),
    ("meters[].covered_by", "a meter"),
    ("meters[].part_of", "a meter"),
    ("meters[].die", "a meter"),
    ("meters[].socket", "a meter"),
];

/// Keys of `doctor` that only a machine with a meter prints.
const METER: &str = "meters[].";

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("a page")
}

/// Returns the words in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn sections(names: &[&str]) -> Section {
    let text = page("json.md");
    let mut section = Section {
        words: BTreeSet::new(),
        keys: BTreeSet::new(),
    };
    let mut within = false;
    // The kinds of losses and features are values, not keys.
    let mut table_of_keys = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            within = names.contains(&title);
        }
        if !within {
            continue;
        }
        section.words.extend(quoted(line));
        if line.starts_with("| ") && !line.starts_with("| `") {
            table_of_keys = line.starts_with("| key ");
        }
        if let Some(row) = line.strip_prefix("| ").filter(|_| table_of_keys) {
            let first = row.split(" | ").next().unwrap_or_default();
            section.keys.extend(quoted(first));
        }
    }
    section
}

/// Collects every key with its parent keys, such as `verdict.kind`. Lists are marked
/// (`features[].name`).
fn paths(value: &Value, above: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = match above {
                    "" => key.clone(),
                    above => format!("{above}.{key}"),
                };
                if !MAPS.contains(&key.as_str()) {
                    paths(value, &path, out);
                }
                out.insert(path);
            }
        }
        Value::Array(values) => {
            let above = format!("{above}[]");
            values.iter().for_each(|value| paths(value, &above, out));
        }
        _ => {}
    }
}

/// Returns whether the path is documented. The documentation may name the last keys of the path, or
/// what it contains.
fn names(path: &str, words: &BTreeSet<String>) -> bool {
    let begins = path.match_indices(['.', ']']).map(|(at, _)| at + 1);
    let ends = std::iter::once(0).chain(begins).map(|at| &path[at..]);
    let known = |end: &str| {
        let within = format!("{end}.");
        words.contains(end) || words.iter().any(|word| word.starts_with(&within))
    };
    ends.map(|end| end.trim_start_matches('.')).any(known)
}

/// Compares the printed keys with the sections of the documentation. The first section belongs to
/// the command.
fn compare(command: &str, printed: &[Value], documented: &[&str]) {
    let mut found = BTreeSet::new();
    printed
        .iter()
        .for_each(|value| paths(value, "", &mut found));
    let all = sections(documented);
    let missing: Vec<&String> = found.iter().filter(|p| !names(p, &all.words)).collect();
    assert!(
        missing.is_empty(),
        "{command} prints keys missing from docs/json.md: {missing:?}"
    );
    let own = sections(&documented[..1]);
    let ends = |key: &str| {
        let same = |path: &&String| {
            let rest = path.strip_suffix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', ']']))
        };
        found.iter().any(|path| same(&path))
    };
    let excused =
        |key: &str| ABSENT.iter().any(|(absent, _)| *absent == key) || key.starts_with(METER);
    let never: Vec<&String> = own
        .keys
        .iter()
        .filter(|key| !ends(key) && !excused(key))
        .collect();
    assert!(
        never.is_empty(),
        "docs/json.md has keys that {command} does not print: {never:?}"
    );
}

/// Runs `what` while a file is being written to its disk.
fn with_writes<T>(what: impl FnOnce() -> T) -> T {
    let file = tempfile::NamedTempFile::new_in(".").expect("a file of our own");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                file.as_file().write_all_at(b"written", 0).expect("room");
                file.as_file().sync_all().expect("the file is on its disk");
            }
        });
        what()
    })
}

#[test]
fn every_key_is_documented_and_every_documented_key_is_printed() {
    let _machine = support::shared_but(&[Part::LastCpu]);
    needs!("cpu_waits");
    needs!("tcp_sockets");
    let id = format!("{:064x}", std::process::id());
    let container = Below::heavy(&format!("docker/{id}"));
    container.group.limit(0.3);
    let hog = Group::new("hog").heavy();
    let (_load, _other) = (
        Load::own(&container.group, "spin 2"),
        Load::own(&hog, "bursts 300000 300000"),
    );
    let answer = |args: &[&str]| {
        let args = [args, &["--json"]].concat();
        support::json(&args)
    };
    let levels = ["process", "container", "pod", "unit", "cgroup"];
    let rows = ["process", "command", "container", "pod", "unit", "cgroup"];
    let stat = rows.map(|level| answer(&["stat", "--by", level, "--for", "500ms"]));
    compare("stat", &stat, &["stat", "doctor", "energy"]);
    // The command runs briefly at each level. Some levels have no throttled group, or no long wait.
    let waits = levels[1..]
        .iter()
        .map(|level| answer(&["waits", "--by", level, "--for", "1s"]));
    let blocked = with_writes(|| answer(&["waits", "--blocked", "--by", "cgroup", "--for", "1s"]));
    let waits: Vec<Value> = waits.chain([blocked]).collect();
    compare("waits", &waits, &["waits", "stat", "doctor"]);
    let path = container.group.path();
    let why = [path.as_str(), &hog.path()].map(|name| answer(&["why", name, "--for", "1s"]));
    compare("why", &why, &["why", "waits", "stat"]);
    compare("doctor", &[answer(&["doctor"])], &["doctor"]);
    let tape = tempdir().expect("a folder");
    let folder = tape.path().join("tape");
    let folder = folder.to_str().expect("UTF-8");
    let recorded = support::noctule(&["record", "-o", folder, "--for", "2s"]);
    let errors = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success(), "{errors}");
    compare(
        "tape info",
        &[answer(&["tape", "info", folder])],
        &["tape info"],
    );
    let output = support::noctule(&["events", "--json", "--existing", "--for", "1s"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let events = text.lines().map(serde_json::from_str::<Value>);
    let mut found = BTreeSet::new();
    events.for_each(|event| paths(&event.expect("JSON"), "", &mut found));
    let mut documented = sections(&["events", "stat"]);
    documented.words.extend(quoted(&page("event-fields.md")));
    let missing: Vec<&String> = found
        .iter()
        .filter(|p| !names(p, &documented.words))
        .collect();
    assert!(missing.is_empty(), "events: {missing:?}");
}
