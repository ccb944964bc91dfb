//! Tests of event files that other users could read or replace, and of outputs that no process
//! reads.

use std::fs::{self, Permissions};
use std::io::{PipeReader, PipeWriter, Write as _, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::{NOCTULE, assert_says, ended, failure, support, wait_for_end};
use crate::support::agent::Agent;
use crate::support::http::request;
use crate::support::wait_until;

#[test]
fn event_file_is_private_to_its_owner() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let made = at("made");
    fs::write(&made, "old").expect("our file");
    fs::write(at("open"), "").expect("our file");
    fs::set_permissions(at("open"), Permissions::from_mode(0o666)).expect("our file");
    symlink(&made, at("link")).expect("our folder");
    let run = [
        "run",
        "--listen",
        "127.0.0.1:0",
        "--for",
        "50ms",
        "--events",
    ];
    for (name, words) in [("open", "chmod 600"), ("link", "symbolic link")] {
        let file = at(name);
        let (code, said) = failure(&[&run[..], &[file.as_str()]].concat());
        assert_eq!(code, 1, "{said}");
        assert_says(&said, &[&file, words]);
    }
    // A command creates its output file anew, whatever already exists under that name.
    for name in ["open", "link"] {
        let file = at(name);
        let output = ended(Command::new(NOCTULE).args(["events", "-o", &file, "--", "true"]));
        assert!(output.status.success());
        let found = fs::symlink_metadata(&file).expect("it was made");
        assert!(found.is_file(), "{name}");
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::read_to_string(&made).expect("our file"), "old");
}

#[test]
fn signal_ends_a_command_with_unread_output() {
    let _machine = support::shared();
    let (_reader, writer) = pipe().expect("a pipe");
    let mut child = Command::new(NOCTULE)
        .args(["trace", "sched:sched_switch"])
        .stdin(Stdio::null())
        .stdout(writer.try_clone().expect("a descriptor"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary can be started");
    wait_until("the pipe is full", || {
        let mut room = [PollFd::new(&writer, PollFlags::OUT)];
        poll(&mut room, Some(&Timespec::default())).expect("a pipe") == 0
    });
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).expect("our child");
    assert_eq!(wait_for_end(&mut child).code(), Some(1));
}

#[test]
fn well_known_secrets_in_arguments_are_not_shown() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    let cases = [
        ("redacted", "<redacted>"),
        ("full", "hunter2"),
        ("off", "truncated"),
    ];
    for (value, shown) in cases {
        fs::write(&config, format!("[events]\nargs = \"{value}\"\n")).expect("our file");
        let output = ended(Command::new(NOCTULE).arg("--config").arg(&config).args([
            "events",
            "--json",
            "--",
            "true",
            "--password=hunter2",
        ]));
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(said.contains(shown), "{value}: {said}");
        assert_eq!(said.contains("hunter2"), value == "full", "{value}: {said}");
    }
}

#[test]
fn moved_file_is_reopened_and_hangup_is_ignored() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events");
    let agent = Agent::start(&["--events", file.to_str().expect("UTF-8")]);
    let has = |marker: &str| fs::read_to_string(&file).is_ok_and(|text| text.contains(marker));
    let run = |marker: &str| {
        let ran = Command::new("true").arg(marker).status();
        assert!(ran.expect("true").success());
        wait_until("the event is in the file", || has(marker));
    };
    run("noctule-test-first");
    fs::rename(&file, folder.path().join("moved")).expect("our file");
    run("noctule-test-second");
    agent.signal(Signal::HUP);
    fs::remove_file(&file).expect("our file");
    run("noctule-test-third");
    assert_eq!(agent.get("/readyz", "*/*").0, 200);
}

#[test]
fn file_at_its_size_limit_costs_only_events() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events");
    let agent = Agent::start(&["--events", file.to_str().expect("UTF-8")]);
    let pid = Pid::from_raw(agent.pid().cast_signed());
    let limit = Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    prlimit(pid, Resource::Fsize, limit).expect("our child");
    wait_until("events are lost", || {
        let _ = Command::new("true").status();
        let lost = agent.value("noctule_self_losses_total", &[("kind", "event_file")]);
        lost.is_some_and(|lost| lost > 0.0)
    });
    assert_eq!(agent.get("/readyz", "*/*").0, 200);
}

/// Creates a full pipe that no process reads.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("its flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("its flags");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("its flags");
    (reader, writer)
}

/// The agent once waited for a reader forever: every scrape got status 503, and SIGTERM did not end
/// the agent.
#[test]
fn unread_outputs_block_neither_figures_nor_exit() {
    let _machine = support::shared();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let address = free.expect("a free port").to_string();
    let (_unread, out) = full_pipe();
    let (_unread_too, errors) = full_pipe();
    let mut child = Command::new(NOCTULE)
        .args(["--log", "debug", "run", "--listen", &address])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .expect("the binary can be started");
    wait_until("it is ready", || {
        TcpStream::connect(&address).is_ok()
            && request(&address, "GET", "/readyz", None).status == 200
    });
    let pid = Pid::from_raw(child.id().cast_signed()).expect("not 0");
    kill_process(pid, Signal::TERM).expect("our child");
    assert!(wait_for_end(&mut child).success());
}
