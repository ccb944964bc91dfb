//! Tests of an event file that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;

/// A small disk, unmounted when dropped.
struct Disk(TempDir);

impl Disk {
    fn new(kilobytes: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={kilobytes}k");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(status.expect("mount").success(), "a tmpfs can be mounted");
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Returns the events of a file that must consist of complete lines.
fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("text");
    assert!(text.ends_with('\n'), "half a line");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Returns the number of events missing at a gap.
fn lacking(event: &Value) -> u64 {
    let Some(counts) = event["lost"]
        .as_object()
        .filter(|_| event["event.name"] == "gap")
    else {
        return 0;
    };
    let counts = counts.values();
    counts.map(|count| count.as_u64().expect("a number")).sum()
}

#[test]
fn full_disk_costs_only_counted_events() {
    let _machine = support::alone();
    needs!("process_events");
    // The space that is freed later must also hold events of other processes on the machine.
    let disk = Disk::new(16 << 10);
    let (file, filler) = (disk.file("events.jsonl"), disk.file("filler"));
    let errors = tempfile::NamedTempFile::new().expect("a file of our own");
    let said = || fs::read_to_string(errors.path()).expect("text");
    let path = file.to_str().expect("in UTF-8");
    let agent = Agent::start_with(
        &["--interval", "200ms", "--events", path],
        Stdio::from(errors.reopen().expect("a file")),
    );
    let lost = |reading: &Reading, kind: &str| {
        let labels = [("kind", kind)];
        let losses = reading.value("noctule_self_losses_total", &labels);
        losses.unwrap_or_else(|| panic!("no losses of {kind}"))
    };
    assert!(
        lost(&Reading::fresh(&agent), "event_file") < 0.5,
        "there is room"
    );
    fs::write(&filler, vec![b'x'; 16 << 20]).expect_err("it takes what is left");
    let group = Group::new("full");
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); ( : ); done; :";
    let mut load = Load::shell(&group, script);
    load.wait_for_end();
    load.reap();
    Reading::fresh_with(&agent, "events are lost", |reading| {
        (lost(reading, "event_file") > 100.0).then_some(())
    });
    let words = said();
    assert!(
        words.contains("No space left") && words.contains(path),
        "{words}"
    );
    assert_eq!(agent.get("/readyz", "*/*").0, 200);

    fs::remove_file(&filler).expect("it is there");
    // There may have been room for one gap event, but none for the events after it.
    let told = support::wait_for("the file says all that it lacks", || {
        let told: u64 = events(&file).iter().map(lacking).sum();
        let all = told as f64 == lost(&Reading::fresh(&agent), "event_file");
        (all && said().contains("writing works again")).then_some(told)
    });
    let reading = Reading::fresh(&agent);
    let all = events(&file);
    let ring: f64 = ["process.start", "process.exec", "process.exit"]
        .map(|kind| lost(&reading, kind))
        .iter()
        .sum();
    assert!(ring < 0.5, "the rings had room");
    // Events before the disk was full, events after it, and the reported losses add up.
    let path = group.path();
    let seen = all.iter().filter(|e| {
        e["event.name"] == "process.exit" && e["process.linux.cgroup"] == path.as_str()
    });
    assert!(seen.count() as u64 + told > 2000, "{told}");
}

#[test]
fn a_restart_leaves_a_gap_for_the_time_between() {
    let _machine = support::shared();
    needs!("process_events");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events.jsonl");
    let path = file.to_str().expect("in UTF-8");
    let arguments = ["--interval", "200ms", "--events", path];
    let mut agent = Agent::start(&arguments);
    support::wait_until("something is in the file", || {
        fs::metadata(&file).is_ok_and(|found| found.len() > 0)
    });
    let gap = |e: &&Value| e["event.name"] == "gap" && !e["gap.since_unix_nano"].is_null();
    assert_eq!(events(&file).iter().find(gap), None, "it begins here");
    agent.signal(Signal::KILL);
    agent.end();
    let text = fs::read_to_string(&file).expect("text");
    let whole = text.rsplit_once('\n').expect("a line").0;
    let last = whole.lines().last().expect("a line");
    let last: Value = serde_json::from_str(last).expect("JSON");
    let count = whole.lines().count();
    let _agent = Agent::start(&arguments);
    let told = support::wait_for("there is a gap", || {
        let all = events(&file);
        let at = all.iter().position(|e| gap(&e))?;
        Some((at, all[at].clone()))
    });
    assert_eq!(told.0, count, "in front of what the new one tells");
    let told = told.1;
    assert_eq!(told["gap.since_unix_nano"], last["time_unix_nano"]);
    let time = |e: &Value| e["time_unix_nano"].as_u64().expect("a time");
    assert!(time(&told) > time(&last), "{told}");
    assert_eq!(told["lost"], Value::Null, "nobody knows how many: {told}");
}
