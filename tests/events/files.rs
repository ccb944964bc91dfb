//! File opens.

use std::fs;
use std::process::Command;

use super::support;
use super::support::stream::{Stream, is};

/// A shell that does what a case asks for, in a folder.
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
    let _machine = support::machine();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::create_dir(folder.join("below")).expect("a folder");
    fs::write(folder.join("read"), "x").expect("a file");
    let stream = Stream::start(&["--kind", "file", "--reads", "--failures"]);
    // What is done, the path below the folder, some flags, and why it fails.
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
            // A file that could not be opened has the name that was asked for.
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

#[test]
fn reads_failures_and_the_kernels_own_files_are_left_out_unless_asked_for() {
    let _machine = support::machine();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fs::write(folder.join("read"), "x").expect("a file");
    let stream = Stream::start(&["--kind", "file"]);
    // `:` would end the shell where it cannot open a file.
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
fn only_what_is_below_the_prefix_is_told() {
    let _machine = support::machine();
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
fn each_of_many_opens_is_told_or_counted_as_lost() {
    const COUNT: u64 = 50_000;
    let _machine = support::machine();
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
    // At this pace there is room for all.
    stream.wait_for("the last one", |e| e["file.path"] == last);
}
