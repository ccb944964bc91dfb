//! Tests of deletes, renames, links and mode changes of files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::support;
use super::support::agent::Agent;
use super::support::bpf;
use super::support::stream::{Stream, is};

/// A change, made by a shell script in a directory, and the expected event with paths below that
/// directory.
struct Case {
    script: &'static str,
    name: &'static str,
    path: &'static str,
    more: &'static [(&'static str, &'static str)],
}

const fn case(
    script: &'static str,
    name: &'static str,
    path: &'static str,
    more: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        script,
        name,
        path,
        more,
    }
}

/// A value that starts with `@` is a path below the directory.
const CASES: [Case; 11] = [
    case("rm file", "file.delete", "file", &[]),
    case("cd sub; rm ../file", "file.delete", "file", &[]),
    case(
        "rmdir empty",
        "file.delete",
        "empty",
        &[("file.directory", "true")],
    ),
    case(
        "rmdir sub",
        "file.delete",
        "sub",
        &[("error.type", "ENOTEMPTY")],
    ),
    case(
        "mv file sub/other",
        "file.rename",
        "file",
        &[("file.new_path", "@sub/other")],
    ),
    case(
        "mv file old",
        "file.rename",
        "file",
        &[("file.new_path", "@old")],
    ),
    case(
        "cd sub; mv inside ../file",
        "file.rename",
        "sub/inside",
        &[("file.new_path", "@file")],
    ),
    case(
        "ln file name",
        "file.link",
        "file",
        &[("file.new_path", "@name")],
    ),
    case(
        "ln -s ../any/text name",
        "file.link",
        "name",
        &[("file.symbolic_link.target_path", "../any/text")],
    ),
    case(
        "chmod 4750 file",
        "file.chmod",
        "file",
        &[("file.mode", "4750")],
    ),
    case(
        "chmod 600 link",
        "file.chmod",
        "file",
        &[("file.mode", "0600")],
    ),
];

fn fill(folder: &Path) {
    for name in ["sub", "empty"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    for name in ["file", "old", "sub/inside"] {
        fs::write(folder.join(name), name).expect("a file");
    }
    std::os::unix::fs::symlink("file", folder.join("link")).expect("a link");
}

/// Runs the script of a case in a shell, and returns the shell's pid.
fn run(folder: &Path, script: &str, uid: u32) -> u32 {
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(folder)
        .uid(uid)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("a shell");
    let id = child.id();
    child.wait().expect("our own child");
    id
}

#[test]
fn changes_have_full_paths_and_results() {
    let _machine = support::shared();
    needs!("file_changes");
    let stream = Stream::start(&["--kind", "file,process", "--failures"]);
    for Case {
        script,
        name,
        path,
        more,
    } in &CASES
    {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        fill(&folder);
        let id = run(&folder, script, 0);
        let below = |path: &str| folder.join(path).to_str().expect("in UTF-8").to_owned();
        // The event may belong to the shell or to a child of the shell.
        let family =
            |event: &Value| event["process.pid"] == id || parent(&stream, event) == u64::from(id);
        let event = stream.wait_for(script, |e| {
            e["event.name"] == *name && family(e) && e["file.path"] == below(path).as_str()
        });
        for (key, value) in *more {
            let expected = match value.strip_prefix('@') {
                Some(path) => Value::from(below(path)),
                None if *value == "true" => Value::from(true),
                None => Value::from(*value),
            };
            assert_eq!(event[key], expected, "{script}: {event}");
        }
        let fails = more.iter().any(|(key, _)| *key == "error.type");
        assert_eq!(event["error.errno"].is_number(), fails, "{script}: {event}");
        assert_eq!(event["file.unreachable"], Value::Null, "{script}: {event}");
    }
}

/// Returns the parent of an event's process, from its start event.
fn parent(stream: &Stream, event: &Value) -> u64 {
    let id = event["process.pid"].as_u64().unwrap_or(0) as u32;
    let starts = stream.of(|e| is(e, "process.start", id));
    let parent = starts.first().map(|start| &start["process.parent_pid"]);
    parent.and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn forbidden_change_is_reported_as_failure() {
    const NOBODY: u32 = 65_534;
    let _machine = support::shared();
    needs!("file_changes");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fill(&folder);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&folder, mode).expect("our own");
    let stream = Stream::start(&["--kind", "file", "--failures"]);
    run(&folder, "rm -f file", NOBODY);
    let file = folder.join("file");
    let file = file.to_str().expect("in UTF-8");
    let event = stream.wait_for("a failure", |e| {
        e["event.name"] == "file.delete" && e["file.path"] == file
    });
    assert_eq!(event["error.type"], "EACCES", "{event}");
    assert!(Path::new(file).exists());
}

#[test]
fn a_file_that_was_deleted_can_be_changed() {
    let _machine = support::shared();
    needs!("file_changes");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fill(&folder);
    let prefix = folder.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", prefix]);
    let path = folder.join("file");
    let file = fs::File::open(&path).expect("it was filled");
    let change = |mode| {
        let done = file.set_permissions(fs::Permissions::from_mode(mode));
        done.expect("our own file");
    };
    change(0o640);
    fs::remove_file(&path).expect("our own file");
    change(0o600);
    for (mode, deleted) in [("0640", Value::Null), ("0600", true.into())] {
        let event = stream.wait_for(mode, |e| e["file.mode"] == mode);
        let path = format!("{prefix}/file");
        assert_eq!(event["file.path"], path.as_str(), "{event}");
        assert_eq!(event["file.deleted"], deleted, "{event}");
    }
}

#[test]
fn two_names_of_one_file_are_not_renamed() {
    let _machine = support::shared();
    needs!("file_changes");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fill(&folder);
    let stream = Stream::start(&["--path", folder.to_str().expect("in UTF-8")]);
    let path = |name: &str| folder.join(name);
    fs::hard_link(path("file"), path("name")).expect("one more name");
    fs::rename(path("file"), path("name")).expect("nothing is done");
    assert!(path("file").exists() && path("name").exists());
    // Unlike a rename to another name of the same file, replacing a different file is an event.
    fs::rename(path("name"), path("old")).expect("the name is moved");
    let is_rename = |e: &Value| e["event.name"] == "file.rename";
    let last = path("old");
    let last = last.to_str().expect("in UTF-8");
    stream.wait_for("a rename", |e| is_rename(e) && e["file.new_path"] == last);
    let renames = stream.of(is_rename);
    assert_eq!(renames.len(), 1, "{renames:?}");
}

#[test]
fn unread_events_are_not_traced() {
    let _machine = support::shared();
    needs!("file_changes", "udp_events");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.toml");
    let (config, kept) = (config.to_str().expect("UTF-8"), folder.path().join("kept"));
    let wanted = "[events]\nfiles = true\ndns = true\nudp = true\n";
    fs::write(config, wanted).expect("a file");
    let kept = kept.to_str().expect("UTF-8");
    let only_counts = ["--config", config];
    for (arguments, watched) in [
        (&only_counts[..], false),
        (&[&only_counts[..], &["--events", kept]].concat(), true),
    ] {
        let agent = Agent::start(arguments);
        let programs = bpf::verified(&bpf::held_by(agent.pid()));
        for program in ["path_unlink", "unlink_file", "take_packet"] {
            let there = programs.contains_key(program);
            assert_eq!(there, watched, "{program}: {programs:?}");
        }
    }
}

#[test]
fn only_changes_below_the_prefix_are_reported() {
    let _machine = support::shared();
    needs!("file_changes");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    fill(&folder);
    let prefix = folder.join("sub");
    let prefix = prefix.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", prefix]);
    // Moves files into and out of the directory, and changes files in its parent. Without
    // --failures, failed changes are not reported.
    let script = "mv file sub/moved; mv sub/inside out; chmod 600 old; rm out; rmdir sub; \
        chmod 600 sub/moved; rm sub/moved";
    run(&folder, script, 0);
    let last = format!("{prefix}/moved");
    stream.wait_for("the last one", |e| {
        e["event.name"] == "file.delete" && e["file.path"] == last.as_str()
    });
    let changes = stream.of(|e| e["event.name"] != "file.open");
    let names: Vec<&str> = changes
        .iter()
        .filter_map(|e| e["event.name"].as_str())
        .collect();
    let expected = ["file.rename", "file.rename", "file.chmod", "file.delete"];
    assert_eq!(names, expected, "{changes:?}");
}
