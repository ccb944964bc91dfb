//! Tests of what the binary prints about itself: completions, manual pages, feature status.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

use super::{NOCTULE, ended, support, verdicts};

const COMMANDS: &[&str] = &["run", "stat", "top", "doctor", "completions", "man"];

fn stdout_of(args: &[&str]) -> String {
    let output = ended(Command::new(NOCTULE).args(args));
    assert!(output.status.success(), "{args:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn completions_include_every_command_and_option() {
    let _machine = support::shared();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout_of(&["completions", shell]);
        for word in COMMANDS
            .iter()
            .chain(&["by", "json", "interval", "process-metrics"])
        {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
    }
    // The script completes a command.
    let script = format!(
        "source <({NOCTULE} completions bash); COMP_WORDS=(noctule st); COMP_CWORD=1; \
         _noctule noctule st noctule; echo ${{COMPREPLY[@]}}"
    );
    let output = ended(Command::new("bash").args(["-c", &script]));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "stat");
}

#[test]
fn manual_pages_are_valid() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    stdout_of(&["man", folder.path().to_str().expect("UTF-8")]);
    let page = |name: &str| {
        let file = folder.path().join(format!("{name}.1"));
        fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    };
    let names = COMMANDS.iter().map(|command| format!("noctule-{command}"));
    for name in names.chain(["noctule".to_owned()]) {
        let text = page(&name);
        for part in [".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(text.contains(part), "{name}: no {part}");
        }
    }
    assert_eq!(stdout_of(&["man"]), page("noctule"));
}

#[test]
fn every_program_works_without_tracefs() {
    let _machine = support::shared();
    let answer = support::json(&["doctor", "--json"]);
    let feature = |name: &str| {
        let features = answer["features"].as_array().expect("features");
        let found = features.iter().find(|f| f["name"] == name);
        found
            .unwrap_or_else(|| panic!("no verdict on {name}"))
            .clone()
    };
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    let mounted = mounts
        .lines()
        .any(|line| line.split(' ').nth(2) == Some("tracefs"));
    let tracefs = feature("tracefs");
    let expected = if mounted { "on" } else { "degraded" };
    assert_eq!(tracefs["state"], expected, "{tracefs}");
    assert_eq!(tracefs["mend"].as_str().is_some(), !mounted, "{tracefs}");
    // No feature needs tracefs, whether tracefs is mounted or not. tracefs is not mounted on the
    // development machines.
    for name in [
        "cpu_time",
        "cgroup_moves",
        "cgroup_events",
        "softirqs",
        "cgroup_paths",
    ] {
        assert_eq!(
            feature(name)["state"],
            support::expect::state(name),
            "{name}"
        );
    }
}

const SWITCHED_OFF: &str = "[collect]\nwaits = false\nhardware_counters = false\n\
    page_cache = false\nsoftirqs = false\n[events]\nprocesses = false\ntcp = false\n";

#[test]
fn doctor_separates_switched_off_from_unavailable() {
    let _machine = support::shared();
    let mut config = NamedTempFile::new().expect("a file of our own");
    config.write_all(SWITCHED_OFF.as_bytes()).expect("text");
    let all = verdicts(&mut Command::new(NOCTULE));
    let few = verdicts(Command::new(NOCTULE).arg("--config").arg(config.path()));
    assert_eq!(
        few.keys().collect::<Vec<_>>(),
        all.keys().collect::<Vec<_>>()
    );
    let word = |name: &str, key: &str| few[name][key].as_str().unwrap_or_default();
    for name in [
        "cpu_waits",
        "cycles",
        "page_cache_reads",
        "softirqs",
        "process_events",
    ] {
        assert_eq!(word(name, "state"), "off", "{name}");
        assert_eq!(
            word(name, "reason"),
            "switched off in the configuration",
            "{name}"
        );
        assert!(word(name, "mend").contains("the configuration"), "{name}");
    }
    let mut needy = 0;
    for name in few.keys() {
        let needed = word(name, "reason").strip_prefix("needs ");
        let Some(needed) = needed.and_then(|words| words.strip_suffix(", which is off")) else {
            continue;
        };
        assert_eq!(word(needed, "state"), "off", "{name} needs {needed}");
        needy += 1;
    }
    // Two features need waits, one blocked time, three TCP, five processes, and one file opens.
    assert_eq!(needy, 12, "{few:?}");
}

/// The event file belongs to the agent. A command without its own event file must not use the ring,
/// because the command would not read it.
#[test]
fn command_ignores_the_agents_event_file() {
    let _machine = support::shared();
    needs!("process_events");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (config, events, answer) = (path("config"), path("events"), path("answer"));
    let text = format!("[events]\nfile = \"{events}\"\nring_bytes = 4096\n");
    fs::write(&config, text).expect("a file");
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i + 1)); (:); done";
    let args = ["stat", "--json", "--config", &config, "-o", &answer, "--"];
    let output = support::noctule(&[&args[..], &["sh", "-c", script]].concat());
    assert!(output.status.success(), "{output:?}");
    let answer = fs::read_to_string(&answer).expect("an answer");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    // Other loads can cause lost wait starts, for example a sleeper that migrates.
    let losses = answer["losses"].as_object().expect("what was lost");
    let lost: Vec<_> = losses.keys().filter(|kind| *kind != "wait_start").collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(!fs::exists(&events).expect("its folder is there"));
}

/// Returns the names of the features that a command reports.
fn judged(args: &[&str]) -> BTreeSet<String> {
    let answer = support::json(args);
    let features = answer["features"].as_array().expect("features").iter();
    let names = features.map(|feature| feature["name"].as_str().expect("a name").to_owned());
    names.collect()
}

#[test]
fn command_loads_only_features_it_shows() {
    let _machine = support::shared();
    let events = ["process_events", "oom_events", "tcp_events", "tcp_calls"];
    let beside_waits = ["page_cache_reads", "page_cache_writes", "softirqs"];
    let stat = judged(&["stat", "--json", "--for", "50ms"]);
    for name in events.iter().chain(&beside_waits).chain(&["cpu_waits"]) {
        assert!(stat.contains(*name), "stat: {name}");
    }
    let waits = judged(&["waits", "--json", "--for", "50ms"]);
    for name in events.iter().chain(&beside_waits) {
        assert!(!waits.contains(*name), "waits: {name}");
    }
    for name in ["cpu_time", "cpu_waits", "cgroup_events"] {
        assert!(waits.contains(name), "waits: {name}");
    }
    // The table has no waits. The kernel verifies `process_free` after `sched_migrate_task`.
    let mut table = Command::new(NOCTULE);
    table.args(["stat", "--for", "10s"]).stdout(Stdio::null());
    let mut table = table.spawn().expect("it starts");
    let loaded = support::wait_for("the programs of the table", || {
        let loaded = support::bpf::verified(&support::bpf::held_by(table.id()));
        loaded.contains_key("process_free").then_some(loaded)
    });
    table.kill().expect("it runs");
    table.wait().expect("it ends");
    assert!(loaded.contains_key("sched_switch"), "{loaded:?}");
    assert!(!loaded.contains_key("sched_migrate_t"), "{loaded:?}");
}
