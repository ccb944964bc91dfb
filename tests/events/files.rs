//! Tests of file opens.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::expect::skip_because;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::stream::{Stream, is};
use super::support::uring::{By, Ring};

/// Runs the script of a case in a shell, in a directory.
fn shell(folder: &std::path::Path, script: &str) -> u32 {
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(folder)
        .spawn()
        .expect("a shell");
    let id = child.id();
    child.wait().expect("our own child");
    id
}

#[test]
fn opens_have_full_paths_flags_and_results() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::create_dir(folder.join("below")).expect("a folder");
    fs::write(folder.join("read"), "x").expect("a file");
    let stream = Stream::start(&["--kind", "file", "--reads", "--failures"]);
    // The script, the path below the directory, some flags, and the expected error.
    let cases: [(&str, &str, &[&str], Option<&str>); 5] = [
        (
            ": > made",
            "made",
            &["O_WRONLY", "O_CREAT", "O_TRUNC"],
            None,
        ),
        (
            ": >> made",
            "made",
            &["O_WRONLY", "O_CREAT", "O_APPEND"],
            None,
        ),
        (": < read", "read", &["O_RDONLY"], None),
        ("cd below; : <> ../read", "read", &["O_RDWR"], None),
        (": < missing", "missing", &["O_RDONLY"], Some("ENOENT")),
    ];
    for (script, path, flags, error) in cases {
        let id = shell(&folder, script);
        let full = folder.join(path);
        let full = full.to_str().expect("in UTF-8");
        let event = stream.wait_for(script, |e| {
            // The event of a failed open has the requested name.
            let name = if error.is_some() { path } else { full };
            is(e, "file.open", id) && e["file.path"] == name
        });
        let told = event["file.flags"].as_array().expect("flags");
        for flag in flags {
            assert!(told.iter().any(|told| told == flag), "{script}: {event}");
        }
        assert_eq!(event["error.type"].as_str(), error, "{event}");
    }
}

/// The kernel first tries each open without blocking. If data is not cached, a kernel worker thread
/// of the process opens it. Either way there is one event.
#[test]
fn opens_by_io_uring_belong_to_the_process() {
    let _machine = support::shared();
    // A trace of system call exits does not see these opens.
    needs_all_of!("file_opens");
    let Some(mut ring) = Ring::new() else {
        return skip_because("this kernel has no io_uring, or refuses it");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::write(folder.join("there"), "x").expect("a file");
    let below = folder.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", below, "--reads", "--failures"]);
    let cases = [
        ("there", libc::O_RDONLY, "O_RDONLY", None),
        ("there", libc::O_RDWR, "O_RDWR", None),
        ("made", libc::O_WRONLY | libc::O_CREAT, "O_CREAT", None),
        ("missing", libc::O_RDONLY, "O_RDONLY", Some("ENOENT")),
    ];
    let mut told = 0;
    for (name, flags, flag, error) in cases {
        for by in [By::Itself, By::Worker] {
            let path = folder.join(name);
            let opened = ring.open(&path, flags, by);
            assert_eq!(opened.is_err(), error.is_some(), "{name}: {opened:?}");
            told += 1;
            support::wait_until("it is reported", || stream.events_so_far().len() >= told);
            let all = stream.events_so_far();
            assert_eq!(all.len(), told, "one for each: {all:#?}");
            let event = &all[told - 1];
            assert!(is(event, "file.open", std::process::id()), "{event}");
            assert_eq!(
                event["file.path"].as_str(),
                path.to_str(),
                "{by:?}: {event}"
            );
            assert_eq!(event["error.type"].as_str(), error, "{event}");
            let flags = event["file.flags"].as_array().expect("flags");
            let has = |wanted: &str| flags.iter().any(|told| told == wanted);
            // The flag of the kernel's non-blocking attempt is not reported.
            assert!(has(flag) && !has("O_NONBLOCK"), "{event}");
        }
    }
}

#[test]
fn reads_failures_and_kernel_files_are_opt_in() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::write(folder.join("read"), "x").expect("a file");
    let stream = Stream::start(&["--kind", "file"]);
    // `:` is a special builtin, so a failed redirection would end the shell.
    let script = "true < read; true < missing; true > /dev/null; true > /proc/self/comm; : > last";
    let id = shell(&folder, script);
    let last = folder.join("last");
    let last = last.to_str().expect("in UTF-8");
    stream.wait_for("the last one", |e| {
        is(e, "file.open", id) && e["file.path"] == last
    });
    assert_eq!(stream.of(|e| e["process.pid"] == id).len(), 1);
}

#[test]
fn only_opens_below_the_prefix_are_reported() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    for name in ["in", "in-not"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    let prefix = folder.join("in");
    let prefix = prefix.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", prefix]);
    let id = shell(
        &folder,
        ": > outside; : > in-not/file; : > in/file; : > in/last",
    );
    let last = format!("{prefix}/last");
    stream.wait_for("the last one", |e| e["file.path"] == last.as_str());
    assert_eq!(stream.of(|e| e["process.pid"] == id).len(), 2);
}

#[test]
fn every_open_is_reported_or_counted_as_lost() {
    const COUNT: u64 = 50_000;
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let stream = Stream::start(&["--path", folder.to_str().expect("in UTF-8")]);
    let script =
        format!("i=0; while [ $i -lt {COUNT} ]; do i=$((i + 1)); : > file; done; : > last");
    shell(&folder, &script);
    let last = folder.join("last");
    let last = last.to_str().expect("in UTF-8");
    let count = || {
        let told = stream.of(|e| e["event.name"] == "file.open").len() as u64;
        let gaps = stream.of(|e| e["event.name"] == "gap");
        let lost = gaps
            .iter()
            .map(|gap| gap["lost"]["file.open"].as_u64().unwrap_or(0));
        told + lost.sum::<u64>()
    };
    support::wait_until("all are told or lost", || count() > COUNT);
    assert_eq!(count(), COUNT + 1);
    // A shell opens files slowly enough that the ring has room for the last event.
    stream.wait_for("the last one", |e| e["file.path"] == last);
}

#[test]
fn agent_counts_and_reports_configured_opens() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::write(folder.join("read"), "x").expect("a file");
    let (config, file) = (folder.join("config"), folder.join("events"));
    let path = |path: &std::path::Path| path.to_str().expect("in UTF-8").to_owned();
    let script = format!(
        "cd {}; true < read; true < missing; true > /dev/null; true > /proc/self/comm; : > last",
        folder.display()
    );
    for asked in ["", "file_reads", "file_failures", "file_special"] {
        let option = match asked {
            "" => String::new(),
            name => format!("{name} = true\n"),
        };
        fs::write(&config, format!("[events]\nfiles = true\n{option}")).expect("a file");
        let _ = fs::remove_file(&file);
        let agent = Agent::start(&[
            "--interval",
            "200ms",
            "--config",
            &path(&config),
            "--events",
            &path(&file),
        ]);
        let group = Group::new("opens");
        let mut load = Load::shell(&group, &script);
        let id = load.pid();
        load.wait_for_end();
        load.reap();
        let told = || -> Vec<Value> {
            let text = fs::read_to_string(&file).expect("text");
            let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
            let events = whole.map(|line| serde_json::from_str(line).expect("JSON"));
            events.filter(|e| is(e, "file.open", id)).collect()
        };
        let has = |all: &[Value], path: &str| all.iter().any(|e| e["file.path"] == path);
        let last = path(&folder.join("last"));
        support::wait_until("the last one is told", || has(&told(), &last));
        let told = told();
        let read = path(&folder.join("read"));
        assert_eq!(has(&told, &read), asked == "file_reads", "{told:?}");
        assert_eq!(has(&told, "missing"), asked == "file_failures", "{told:?}");
        assert_eq!(has(&told, "/dev/null"), asked == "file_special", "{told:?}");

        // A counter that was not requested must be absent, not 0.
        let cgroup = group.path();
        let value = |reading: &Reading, name: &str, mode: &[(&str, &str)]| {
            let labels = [&[("cgroup", cgroup.as_str())], mode].concat();
            reading.value(&format!("noctule_cgroup_{name}_total"), &labels)
        };
        let reading = Reading::fresh_with(&agent, "the writes are counted", |reading| {
            let writes = value(reading, "file_opens", &[("mode", "write")])?;
            let all = value(reading, "file_opens", &[])?;
            let failures = value(reading, "file_open_failures", &[]);
            (writes >= 1.0).then_some((writes, all > writes, failures.is_some_and(|n| n >= 1.0)))
        });
        let (writes, reads, failures) = reading;
        if asked != "file_special" {
            assert!((writes - 1.0).abs() < 0.5, "{writes} for writing");
        }
        assert_eq!(reads, asked == "file_reads", "{asked}");
        assert_eq!(failures, asked == "file_failures", "{asked}");
        let now = Reading::of(&agent);
        let measured = |name, mode: &[(&str, &str)]| value(&now, name, mode).is_some();
        assert_eq!(
            measured("file_opens", &[("mode", "read")]),
            asked == "file_reads"
        );
        assert_eq!(
            measured("file_open_failures", &[]),
            asked == "file_failures"
        );
    }
}

#[test]
fn file_without_a_name_is_marked() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let stream = Stream::start(&["--kind", "file"]);
    let script = "exec 3> gone; rm gone; : > /proc/self/fd/3; : > last";
    let id = shell(&folder, script);
    let gone = folder.join("gone");
    let gone = gone.to_str().expect("in UTF-8");
    let deleted = stream.wait_for("one that was deleted", |e| {
        is(e, "file.open", id) && e["file.deleted"] == true
    });
    assert_eq!(deleted["file.path"], gone, "{deleted}");
    let before = stream.of(|e| is(e, "file.open", id) && e["file.path"] == gone);
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(before[0]["file.deleted"], Value::Null, "it was there");
    // A memory file is in no directory.
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let memory = rustix::fs::memfd_create("ours", flags).expect("a file");
    let descriptor = rustix::fd::AsRawFd::as_raw_fd(&memory);
    fs::write(format!("/proc/self/fd/{descriptor}"), "x").expect("it can be opened");
    let id = std::process::id();
    let event = stream.wait_for("one of memory", |e| {
        is(e, "file.open", id) && e["file.unreachable"] == true
    });
    assert_eq!(event["file.path"], "/memfd:ours", "{event}");
}

#[test]
fn long_paths_are_complete() {
    let _machine = support::shared();
    needs!("file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let stream = Stream::start(&["--kind", "file"]);
    // One path has many components, and the other has few long ones. Both are as long as a system
    // call accepts.
    let room = 4000 - folder.as_os_str().len();
    let paths = [
        vec!["d"; 300].join("/"),
        vec!["n".repeat(250); room / 251].join("/"),
    ];
    for path in paths {
        let below = folder.join(path);
        fs::create_dir_all(&below).expect("folders");
        let file = below.join("file");
        fs::write(&file, "x").expect("a file");
        let file = file.to_str().expect("in UTF-8");
        let event = stream.wait_for("it is opened", |e| e["file.path"] == file);
        assert_eq!(event["file.path.truncated"], Value::Null);
    }
}
