//! Tests that a recording gives the same output as the live system gave.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::support::agent::Agent;
use super::support::{self, NOCTULE, json, noctule};

/// Starts short-lived processes and makes connections.
const CHURN: &str = "for i in $(seq 40); do sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; sleep 0.1; done";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

/// Sorts the rows by their text, because rows that are equal in the sort column have no defined
/// order. Removes the advice: a recording contains neither weights nor CPU affinities.
fn sorted(mut answer: Value) -> Value {
    let rows = answer["rows"].as_array_mut().expect("rows");
    assert!(!rows.is_empty(), "it has rows");
    for row in &mut *rows {
        if let Some(verdict) = row.get_mut("verdict").and_then(Value::as_object_mut) {
            verdict.remove("next_step");
        }
    }
    rows.sort_by_key(Value::to_string);
    answer
}

/// Runs `what` while processes are being started.
fn with_churn<T>(what: impl FnOnce() -> T) -> T {
    let mut churn = Command::new("sh")
        .args(["-c", CHURN])
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell");
    let result = what();
    churn.wait().expect("it ends");
    result
}

#[test]
fn a_window_of_a_recording_equals_the_live_answer() {
    let _machine = support::shared();
    let cases: [&[&str]; 6] = [
        &["stat", "--by", "process"],
        &["stat"],
        &["stat", "--by", "cgroup"],
        &["stat", "--by", "unit"],
        &["waits", "--by", "cgroup"],
        &["waits"],
    ];
    for case in cases {
        let folder = folder();
        let folder = text(folder.path());
        let live = [case, &["--for", "2s", "--json", "--tape", &folder]].concat();
        let live = with_churn(|| json(&live));
        let from = json(&[case, &["--json", "--from", &folder]].concat());
        assert_eq!(sorted(from), sorted(live), "{case:?}");
    }
}

#[test]
fn the_recording_of_a_command_equals_its_live_answer() {
    let _machine = support::shared();
    let folder = folder();
    let folder = text(folder.path());
    let live = json(&["stat", "--json", "--tape", &folder, "--", "sh", "-c", CHURN]);
    assert_eq!(
        sorted(json(&["stat", "--json", "--from", &folder])),
        sorted(live)
    );
}

#[test]
fn a_recording_has_the_events_that_were_shown() {
    let _machine = support::shared();
    let folder = folder();
    let tape = text(&folder.path().join("tape"));
    let out = text(&folder.path().join("live"));
    let args = [
        "events", "--json", "-o", &out, "--tape", &tape, "--", "sh", "-c", CHURN,
    ];
    let output = noctule(&args);
    assert!(output.status.success(), "{output:?}");
    let live = fs::read_to_string(&out).expect("a file");
    assert!(live.lines().count() > 40, "{live}");
    let from = noctule(&["events", "--json", "--from", &tape]);
    assert_eq!(String::from_utf8_lossy(&from.stdout), live);
    // The BPF programs apply this filter on a live system.
    let exits = noctule(&["events", "--json", "--kind", "oom", "--from", &tape]);
    assert_eq!(String::from_utf8_lossy(&exits.stdout), "");
}

#[test]
fn a_recording_of_everything_answers_every_question() {
    let _machine = support::shared();
    let folder = folder();
    let tape = text(&folder.path().join("tape"));
    let output = with_churn(|| noctule(&["record", "-o", &tape, "--for", "4s"]));
    assert!(output.status.success(), "{output:?}");
    let info = json(&["tape", "info", "--json", &tape]);
    let span = &info["spans"][0];
    assert!(
        span["batches"].as_u64().is_some_and(|batches| batches >= 4),
        "{info}"
    );
    assert_eq!(info["damages"], Value::Array(Vec::new()));
    assert!(
        span["events"].as_u64().is_some_and(|events| events > 40),
        "{info}"
    );
    for question in [["stat", "--by", "process"], ["waits", "--by", "cgroup"]] {
        let whole = json(&[&question[..], &["--json", "--from", &tape]].concat());
        let window = whole["window_seconds"].as_f64().expect("a window");
        assert!((3.0..60.0).contains(&window), "{window}");
        // The window consists of the batches in the last two seconds.
        let end = json(&[&question[..], &["--json", "--from", &tape, "--for", "2.5s"]].concat());
        let part = end["window_seconds"].as_f64().expect("a window");
        assert!(part < window, "{part} of {window}");
        let at = ["--json", "--from", &tape, "--at", "-3s", "--for", "2s"];
        json(&[&question[..], &at].concat());
    }
    let lines = noctule(&["events", "--json", "--from", &tape]);
    let lines = String::from_utf8_lossy(&lines.stdout).lines().count() as u64;
    // On a busy machine few of the processes finish in time.
    assert!(lines > 3, "{lines}");
}

#[test]
fn an_agent_serves_the_figures_of_a_recording() {
    let _machine = support::shared();
    let folder = folder();
    let tape = text(&folder.path().join("tape"));
    let output = with_churn(|| noctule(&["record", "-o", &tape, "--for", "3s"]));
    assert!(output.status.success(), "{output:?}");
    let info = json(&["tape", "info", "--json", &tape]);
    let agent = Agent::start(&["--from", &tape]);
    let api = |resource: &str| -> Value {
        let (status, body) = agent.get(&format!("/api/v1/{resource}"), "*/*");
        assert_eq!(status, 200, "{resource}: {body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let recorded = &api("node")["recorded"];
    for end in ["from_unix_nano", "to_unix_nano"] {
        assert_eq!(recorded[end], info["spans"][0][end], "{recorded}");
    }
    // The last interval, as computed by `stat`.
    let last = [
        "stat", "--by", "process", "--json", "--from", &tape, "--for", "1ms",
    ];
    assert_eq!(sorted(api("processes?limit=10000")), sorted(json(&last)));
    let events = api("events?limit=1000");
    assert!(!events["rows"].as_array().expect("rows").is_empty());
    let owners = api("history?seconds=60")["owners"].clone();
    assert!(
        owners.as_array().is_some_and(|it| !it.is_empty()),
        "{owners}"
    );
    let metrics = agent.metrics();
    let used = metrics
        .iter()
        .filter(|it| it.name.ends_with("_cpu_seconds_total"));
    assert!(used.map(|it| it.value).sum::<f64>() > 0.0);
    // The API stays at the last batch of the recording.
    assert_eq!(api("node")["sequence"], api("node")["sequence"]);
    // The configuration can hide command lines from clients of the address.
    let config = folder.path().join("config.toml");
    fs::write(&config, "[web]\nevents = false\n").expect("a file");
    let silent = Agent::start(&["--from", &tape, "--config", &text(&config)]);
    let (status, body) = silent.get("/api/v1/events?limit=1000", "*/*");
    assert_eq!(status, 503, "{body}");
    assert!(
        body.contains("events is false") && !body.contains("rows"),
        "{body}"
    );
}

#[test]
fn impossible_questions_are_refused_with_a_reason() {
    let _machine = support::shared();
    let folder = folder();
    let tape = text(&folder.path().join("tape"));
    let output = noctule(&["record", "-o", &tape, "--for", "2s"]);
    assert!(output.status.success(), "{output:?}");
    let none = text(folder.path());
    let missing = text(&folder.path().join("missing"));
    let early = format!("{tape}@1990-01-01T00:00");
    let cases: [(&[&str], i32, &str); 10] = [
        (
            &["stat", "--from", &none],
            1,
            "there is no recording in this folder",
        ),
        (
            &["stat", "--from", &tape, "--at", "1h"],
            2,
            "must be a time of day",
        ),
        (
            &["stat", "--from", &tape, "--at", "1990-01-01T00:00"],
            2,
            "nothing was recorded then",
        ),
        (
            &["energy", "--from", &tape],
            1,
            "the recorded machine had no energy meter",
        ),
        (
            &["waits", "--from", &tape, "--pid", "4194305"],
            2,
            "--pid 4194305: no such process was recorded",
        ),
        (
            &["stat", "--from", &tape, "--pid", "4194305"],
            2,
            "--pid 4194305: no such process was recorded",
        ),
        (
            &["diff", &early, &tape],
            2,
            &format!("{early}: nothing was recorded then"),
        ),
        (
            &["tape", "info", &missing],
            2,
            "missing: no such folder; `noctule record",
        ),
        (
            &["stat", "--from", &missing],
            2,
            "missing: no such folder; `noctule record",
        ),
        (
            &["events", "--from", &tape, "--pid", "4194305"],
            2,
            "no such process at the start of the window",
        ),
    ];
    for (args, code, words) in cases {
        let output = noctule(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

#[test]
fn a_second_recording_in_a_folder_is_refused() {
    let _machine = support::shared();
    let folder = folder();
    let tape = text(&folder.path().join("tape"));
    let mut first = Command::new(NOCTULE)
        .args(["record", "-o", &tape])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary can be started");
    support::wait_until("the folder is locked", || {
        folder.path().join("tape/lock").exists()
    });
    let second = noctule(&["record", "-o", &tape, "--for", "1s"]);
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    first.wait().expect("it ends");
    let errors = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("another noctule process writes to this folder"),
        "{errors}"
    );
}

/// Returns the number of lines in the indexes of a tape.
fn flushes(tape: &Path) -> usize {
    let segments = fs::read_dir(tape).into_iter().flatten().flatten();
    let indexes =
        segments.filter_map(|segment| fs::read_to_string(segment.path().join("index")).ok());
    indexes.map(|index| index.lines().count()).sum()
}

#[test]
fn killed_agent_leaves_its_written_data() {
    let _machine = support::shared();
    let folder = folder();
    let place = folder.path().join("tape");
    let tape = text(&place);
    for round in 1..=2 {
        let before = flushes(&place);
        let agent = Agent::start(&["--tape", &tape]);
        // The fifth write comes after some eight seconds.
        support::wait_until("rows are written", || flushes(&place) >= before + 5);
        agent.signal(rustix::process::Signal::KILL);
        drop(agent);
        let info = json(&["tape", "info", "--json", &tape]);
        assert_eq!(info["damages"], Value::Array(Vec::new()));
        // Counters restart, so each run is a separate span.
        assert_eq!(
            info["spans"].as_array().map(Vec::len),
            Some(round),
            "{info}"
        );
        let answer = json(&["stat", "--json", "--by", "process", "--from", &tape]);
        assert!(
            answer["window_seconds"]
                .as_f64()
                .is_some_and(|seconds| seconds > 5.0)
        );
    }
}

/// Result of an agent that recorded onto a small disk until the disk was full.
struct Full {
    /// Whether the oldest segment was removed. If not, the disk is too small for two segments.
    went: bool,
    info: Value,
    errors: String,
}

/// Returns the segments of a recording, oldest first, with the disk space of each in bytes.
fn segments(tape: &Path) -> Vec<(String, u64)> {
    let names = |folder: &Path| -> Vec<_> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let size = |folder: &Path| -> u64 {
        let files = names(folder).into_iter();
        // The file may have been removed.
        let files = files.filter_map(|file| Some(fs::metadata(file).ok()?.blocks() * 512));
        files.sum()
    };
    let folders = names(tape).into_iter().filter(|path| path.is_dir());
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    folders
        .filter_map(|path| Some((name(&path)?, size(&path))))
        .collect()
}

/// Runs an agent that records to a disk of this size in a mount namespace, and fills the disk with
/// short-lived processes.
fn on_a_full_disk(mebibytes: u64) -> Full {
    let folder = folder();
    let config = folder.path().join("noctule.toml");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let tape = text(&disk.join("tape"));
    let words = format!("[tape]\nfolder = \"{tape}\"\nsegment = \"10s\"\n");
    fs::write(&config, words).expect("a file");
    // The script continues when its input ends, even if the test has failed.
    let script = "mount -t tmpfs -o size=$3m none \"$1\" || exit; \
        while :; do /bin/true; sleep 0.005; done & churn=$!; \
        \"$0\" run --listen 127.0.0.1:0 --config \"$2\" > /dev/null & agent=$!; \
        read -r _; kill $agent; wait $agent; echo \"run: $?\"; \
        kill $churn; \"$0\" tape info --json \"$1/tape\"";
    let mut child = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            NOCTULE,
        ])
        .args([&text(&disk), &text(&config), &mebibytes.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare");
    let root = format!("/proc/{}/root{tape}", child.id());
    let went = support::wait_for("the disk is full", || {
        let segments = segments(Path::new(&root));
        if segments.iter().any(|(_, size)| *size > mebibytes << 19) {
            return Some(false);
        }
        let (oldest, _) = segments.first()?;
        (!oldest.starts_with("00000001-")).then_some(true)
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let (run, info) = said.split_once('\n').expect("two lines");
    assert_eq!(run, "run: 0", "{errors}");
    Full {
        went,
        info: serde_json::from_str(info).expect("JSON"),
        errors,
    }
}

#[test]
fn a_full_disk_drops_the_oldest_segment_and_keeps_measuring() {
    let _machine = support::shared();
    // The size of a segment depends on what else runs on the machine, so the disk grows until two
    // segments fit.
    let mut tries = (0..7).map(|power| on_a_full_disk(1 << power));
    let full = tries.find(|full| full.went);
    let Full { info, errors, .. } = full.expect("a disk for two segments");
    assert_eq!(info["damages"], Value::Array(Vec::new()), "{info}");
    assert!(
        info["spans"]
            .as_array()
            .is_some_and(|spans| !spans.is_empty()),
        "{errors}"
    );
}
