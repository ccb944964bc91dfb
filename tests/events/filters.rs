//! Tests of event filters, and of errors for invalid ones.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::support::cgroup::{Below, Group};
use super::support::container::hex_id;
use super::support::load::Load;
use super::support::stream::{Stream, is};
use super::support::{self, NOCTULE, noctule};

#[test]
fn group_filter_includes_descendants_only() {
    let _machine = support::shared();
    needs!("process_events");
    let group = Group::new("wanted");
    let stream = Stream::start(&["--cgroup", &group.path()]);
    // This group is created after the stream started.
    let below = Below::new(&format!("{}/below", group.path().trim_start_matches('/')));
    let neighbour = Group::new("wanted-not");
    for place in [&neighbour, &below.group] {
        let mut load = Load::shell(place, "( : ); :");
        load.wait_for_end();
        load.reap();
    }
    let path = below.group.path();
    stream.wait_for("it has ended", |e| {
        e["event.name"] == "process.exit" && e["process.linux.cgroup"] == path.as_str()
    });
    let (told, _) = stream.end();
    assert!(
        told.iter()
            .all(|e| e["process.linux.cgroup"] == path.as_str()),
        "{told:?}"
    );
}

#[test]
fn existing_listener_gets_accept_events() {
    let _machine = support::shared();
    needs!("process_events", "tcp_events");
    let (servers, clients) = (Group::new("server"), Group::new("client"));
    let mut server = Load::own(&servers, "sockets");
    let mut client = Load::own(&clients, "sockets");
    let id = server.pid();
    let address = server.ask("listen 127.0.0.1:0");
    for filter in [["--cgroup", &servers.path()], ["--pid", &id.to_string()]] {
        let stream = Stream::start(&filter);
        client.ask(&format!("connect {address}"));
        server.ask("accept");
        stream.wait_for("it accepts", |e| is(e, "tcp.accept", id));
        server.ask("close");
        client.ask("close");
        stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
        let (told, _) = stream.end();
        assert!(told.iter().all(|e| e["process.pid"] == id), "{told:?}");
    }
}

#[test]
fn short_process_and_its_connection_belong_to_the_group() {
    let _machine = support::shared();
    needs!("process_events", "tcp_events");
    let (servers, group) = (Group::new("server"), Group::new("short"));
    let stream = Stream::start(&[]);
    let mut server = Load::own(&servers, "sockets");
    let address = server.ask("listen 127.0.0.1:0");
    let port = address.rsplit_once(':').expect("a port").1;
    let mut command = group.command("/bin/bash");
    let script = format!("echo 'load: ready'; ( exec 3<>/dev/tcp/127.0.0.1/{port} ); :");
    command.args(["-c", &script]);
    let mut load = Load::of(&mut command);
    load.wait_for_end();
    load.reap();
    let path = group.path();
    for name in ["process.start", "tcp.connect", "process.exit"] {
        let of_group = |e: &serde_json::Value| {
            e["event.name"] == name && e["process.linux.cgroup"] == path.as_str()
        };
        stream.wait_for(name, of_group);
    }
}

#[test]
fn the_processes_of_a_container_have_its_id() {
    let _machine = support::shared();
    needs!("process_events");
    let stream = Stream::start(&["--kind", "process"]);
    let id = hex_id();
    // A process is part of a container as soon as it is in this cgroup.
    let container = Below::new(&format!("docker/{id}"));
    let mut load = Load::shell(&container.group, ":");
    load.wait_for_end();
    load.reap();
    for name in ["process.exec", "process.exit"] {
        stream.wait_for(name, |e| {
            e["event.name"] == name && e["container.id"] == id.as_str()
        });
    }
}

#[test]
fn descendants_of_an_empty_group_are_reported() {
    let _machine = support::shared();
    needs!("process_events");
    let id = hex_id();
    let inner = Below::new(&format!("docker/{id}/inner"));
    let load = Load::shell(&inner.group, "read line");
    let group = format!("/docker/{id}");
    for filter in [["--cgroup", &group], ["--container", &id[..12]]] {
        let stream = Stream::start(&[&filter[..], &["--kind", "process", "--existing"]].concat());
        stream.wait_for("who is there", |e| {
            e["noctule.origin"] == "existing" && is(e, "process.start", load.pid())
        });
        let later = Below::new(&format!("docker/{id}/later"));
        let mut load = Load::shell(&later.group, ":");
        load.wait_for_end();
        load.reap();
        stream.wait_for("who comes", |e| is(e, "process.exit", load.pid()));
    }
}

#[test]
fn nested_container_belongs_to_the_outer_one() {
    let _machine = support::shared();
    needs!("process_events", "cgroup_events");
    let (outer, inner) = (hex_id(), hex_id());
    let inner = Below::new(&format!("docker/{outer}/docker/{inner}"));
    let stream = Stream::start(&["--container", &outer, "--kind", "process"]);
    let mut load = Load::shell(&inner.group, ":");
    load.wait_for_end();
    load.reap();
    stream.wait_for("its event is the outer one's", |e| {
        is(e, "process.exit", load.pid()) && e["container.id"] == outer.as_str()
    });
    stream.end();
}

/// The kernel-side table has room for 1,024 groups.
#[test]
fn removed_groups_free_their_filter_places() {
    let _machine = support::shared();
    needs!("process_events", "cgroup_events");
    let above = Group::new("places");
    let unit = |number: u32| {
        let above = above.path();
        Group::named(&format!("{}/place-{number}.service", &above[1..]))
    };
    let first = unit(0);
    let stream = Stream::start(&["--unit", "place-*", "--kind", "process"]);
    drop(first);
    for round in 0..2 {
        let many: Vec<Group> = (1..=700).map(|n| unit(round * 700 + n)).collect();
        let last = many.last().expect("the last one");
        support::wait_until("events of the last one are seen", || {
            let mut load = Load::shell(last, ":");
            load.wait_for_end();
            load.reap();
            let id = last.id();
            !stream.of(|e| e["cgroup.id"] == id).is_empty()
        });
    }
}

#[test]
fn the_output_of_a_command_is_untouched_and_its_status_passed_on() {
    let _machine = support::shared();
    needs!("process_events");
    let file = tempfile::NamedTempFile::new().expect("a file of our own");
    let path = file.path().to_str().expect("in UTF-8");
    let script = "echo out; ( exit 0 ); exit 7";
    let output = noctule(&[
        "events", "--json", "-o", path, "--", "/bin/sh", "-c", script,
    ]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    let text = fs::read_to_string(path).expect("text");
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let count = |name| events.iter().filter(|e| e["event.name"] == name).count();
    assert_eq!(
        (count("process.start"), count("process.exit")),
        (2, 2),
        "{text}"
    );
}

#[test]
fn reader_may_close_the_pipe() {
    let _machine = support::shared();
    needs!("process_events");
    let mut child = Command::new(NOCTULE)
        .args(["events", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    drop(child.stdout.take());
    support::wait_until("it has ended", || {
        Command::new("/bin/true")
            .status()
            .expect("true is installed");
        child.try_wait().expect("our own child").is_some()
    });
    assert_eq!(child.wait().expect("our own child").code(), Some(0));
}

#[test]
fn invalid_filters_are_user_errors() {
    let _machine = support::shared();
    needs!("process_events");
    let cases: [(&[&str], &str); 3] = [
        (&["--kind", "proces"], "process"),
        (&["--pid", "4194303"], "--pid 4194303: no such process"),
        (&["--path", "/etc", "--kind", "tcp"], "--kind"),
    ];
    for (args, words) in cases {
        let output = noctule(&[&["events", "--for", "1s"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn stream_waits_for_a_group_that_does_not_exist_yet() {
    let _machine = support::shared();
    needs!("process_events");
    let name = format!("noctule-later-{}", std::process::id());
    let mut child = Command::new(NOCTULE)
        .args(["events", "--json", "--cgroup", &format!("/{name}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let expected =
        format!("--cgroup /{name}: no cgroup has that name; known names, closest first: ");
    let waits = said.by_ref().map(|line| line.expect("text"));
    let waits = waits
        .filter(|line| line.contains(&expected))
        .find(|line| line.ends_with("; waiting until one appears"));
    assert!(waits.is_some(), "it ended");
    let group = Group::named(&name);
    let _load = Load::shell(&group, "while :; do ( : ); done");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = lines.next().expect("an event").expect("text");
    let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(event["process.linux.cgroup"], group.path().as_str());
    drop(lines);
    support::wait_until("it has ended", || {
        child.try_wait().expect("our child").is_some()
    });
}

#[test]
fn event_file_is_complete_and_ends_with_a_whole_line() {
    let _machine = support::shared();
    needs!("process_events");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events.jsonl");
    let agent = support::agent::Agent::start(&["--events", file.to_str().expect("in UTF-8")]);
    let group = Group::new("file");
    let mut load = Load::shell(&group, "( exit 3 ); :");
    let id = load.pid();
    load.wait_for_end();
    load.reap();
    let read = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    support::wait_until("the end is in the file", || {
        read().iter().any(|e| is(e, "process.exit", id))
    });
    // The file also lists existing processes, because a reader needs no other file.
    let own = std::process::id();
    let existing = |e: &&serde_json::Value| is(e, "process.start", own);
    assert_eq!(read().iter().filter(existing).count(), 1);
    drop(agent);
    assert!(fs::read_to_string(&file).expect("text").ends_with('\n'));
}
