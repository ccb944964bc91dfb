//! Tests of selecting rows and events by name.

use std::fs;
use std::os::unix::fs::symlink;

use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::stream::Stream;
use super::support::{self, noctule};

/// Returns the paths of the rows.
fn paths(args: &[&str]) -> Vec<String> {
    let answer = support::json(&[args, &["--json", "--for", "1s"]].concat());
    let rows = answer["rows"].as_array().expect("rows").iter();
    let path = |row: &serde_json::Value| row["process.linux.cgroup"].as_str().map(str::to_owned);
    rows.filter_map(path).collect()
}

#[test]
fn only_selected_rows_are_shown() {
    let _machine = support::shared();
    needs!("cpu_time", "cpu_waits");
    let (wanted, other) = (Group::new("chosen"), Group::new("not-chosen"));
    let unit = Below::new(&format!(
        "{}/chosen.service",
        wanted.path().trim_start_matches('/')
    ));
    let loads = [&unit.group, &other].map(|group| Load::own(group, "bursts 2000 50000"));
    let pid = loads[0].pid().to_string();
    let (above, own) = (wanted.path(), unit.group.path());
    let glob = format!("{above}/*.service");
    let filters: [&[&str]; 8] = [
        &["chosen"],
        &[above.trim_start_matches('/')],
        &["--cgroup", &above],
        &["--cgroup", &glob],
        &["--unit", "chosen"],
        &["--unit", "ch*n.service", "--cgroup", &above],
        &["--pid", &pid],
        &["--pid", &pid, "--unit", "chosen"],
    ];
    for filter in filters {
        for command in [
            &["stat", "--by", "process"][..],
            &["stat", "--by", "cgroup"],
        ] {
            let found = paths(&[command, filter].concat());
            assert_eq!(found, [own.as_str()], "{command:?} {filter:?}");
        }
        let found = paths(&[&["waits", "--by", "cgroup"], filter].concat());
        assert_eq!(found, [own.as_str()], "waits {filter:?}");
    }
}

#[test]
fn unknown_name_is_answered_with_the_closest_ones() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("near");
    let unit = Below::new(&format!(
        "{}/nearest.service",
        group.path().trim_start_matches('/')
    ));
    let _load = Load::shell(&unit.group, "read line");
    let bare = noctule(&["stat", "--for", "1s", "true"]);
    let said = String::from_utf8_lossy(&bare.stderr);
    assert_eq!(bare.status.code(), Some(2), "it is no command: {said}");
    let expected = "true: no group has that name; `--` goes before a command; known names";
    assert!(said.contains(expected), "{said}");
    // Only `events` accepts an unknown unit, because the unit may still appear.
    for (command, status) in [("stat", 2), ("waits", 2), ("top", 2), ("events", 0)] {
        let output = noctule(&[command, "--for", "1s", "--unit", "naerest"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{command}: {said}");
        let expected =
            "--unit naerest: no unit has that name; known names, closest first: nearest.service";
        assert!(said.contains(expected), "{command}: {said}");
    }
}

#[test]
fn events_of_a_restarted_unit_are_seen() {
    let _machine = support::shared();
    needs!("process_events", "cgroup_events");
    let group = Group::new("again");
    let path = format!("{}/again.service", group.path().trim_start_matches('/'));
    let first = Below::new(&path);
    let stream = Stream::start(&["--unit", "again", "--kind", "process"]);
    drop(first);
    // A new group with the same name as the first.
    let second = Below::new(&path);
    let id = second.group.id();
    support::wait_until("its events are seen", || {
        let mut load = Load::shell(&second.group, ":");
        load.wait_for_end();
        load.reap();
        !stream.of(|e| e["cgroup.id"] == id).is_empty()
    });
}

#[test]
fn process_is_looked_up_in_the_host_procfs() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("looked-for");
    let load = Load::shell(&group, "read x");
    let pid = load.pid().to_string();
    // A copy of the host's procfs without this process.
    let folder = tempfile::tempdir().expect("a folder");
    let proc = folder.path().join("proc");
    fs::create_dir(&proc).expect("a folder");
    for entry in fs::read_dir("/proc").expect("procfs").flatten() {
        if entry.file_name() != pid.as_str() {
            symlink(entry.path(), proc.join(entry.file_name())).expect("a link");
        }
    }
    let config = folder.path().join("noctule.toml");
    let text = format!("[host]\nproc = \"{}\"\n", proc.display());
    fs::write(&config, text).expect("a file");
    let config = config.to_str().expect("text");
    let args = [
        "--config", config, "events", "--pid", &pid, "--for", "100ms",
    ];
    let output = noctule(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    let missing = format!("--pid {pid}: no such process");
    assert!(said.contains(&missing), "{said}");
    symlink(format!("/proc/{pid}"), proc.join(&pid)).expect("a link");
    let output = noctule(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
