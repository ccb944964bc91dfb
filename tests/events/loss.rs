//! Tests with a stopped reader and a full ring.

use std::collections::HashSet;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::stream::{Stream, is};

/// Writes a configuration with a small ring.
fn small_ring() -> NamedTempFile {
    let mut config = NamedTempFile::new().expect("a file of our own");
    let text = b"[events]\nring_bytes = 65536\n";
    config.write_all(text).expect("it can be written");
    config
}

#[test]
fn stopped_reader_counts_losses_and_reconciles() {
    const COUNT: u64 = 3000;
    let _machine = support::shared();
    needs!("tcp_events");
    needs_all_of!("tcp_sockets");
    let group = Group::new("stopped");
    let config = small_ring();
    let config = config.path().to_str().expect("in UTF-8");
    let stream = Stream::start(&[
        "--config",
        config,
        "--kind",
        "process,tcp",
        "--cgroup",
        &group.path(),
    ]);
    // The victim starts before the loss, so that its end is among the lost events.
    let mut victim = Load::own(&group, "sockets");
    let (v, address) = (victim.pid(), victim.ask("listen 127.0.0.1:0"));
    victim.ask(&format!("connect {address}"));
    stream.wait_for("it connects", |e| is(e, "tcp.connect", v));
    stream.signal(Signal::STOP);
    let script = format!("i=0; while [ $i -lt {COUNT} ]; do i=$((i + 1)); ( : ); done; :");
    let mut load = Load::shell(&group, &script);
    load.wait_for_end();
    load.reap();
    victim.kill();
    victim.reap();
    let survivor = Load::shell(&group, "read word");
    thread::sleep(Duration::from_secs(5));
    stream.signal(Signal::CONT);
    stream.wait_for("there is a gap", |e| e["event.name"] == "gap");
    let end = stream.wait_for("the end of one is found out", |e| is(e, "process.exit", v));
    assert_eq!(end["noctule.origin"], "reconciled", "{end}");
    assert_eq!(end["process.exit.code"], Value::Null);
    for name in ["tcp.close", "tcp.listen_close"] {
        let close = stream.wait_for("its sockets are gone", |e| is(e, name, v));
        assert_eq!(close["noctule.origin"], "reconciled", "{close}");
    }
    let id = survivor.pid();
    let start = stream.wait_for("the start of another is found out", |e| {
        is(e, "process.start", id)
    });
    assert_eq!(start["noctule.origin"], "reconciled", "{start}");
    drop(survivor);
    stream.wait_for("it is followed from then on", |e| is(e, "process.exit", id));
    let (told, _) = stream.end();
    let seen = |name: &str| {
        let of_kernel = |e: &&Value| e["event.name"] == name && e["noctule.origin"].is_null();
        told.iter().filter(of_kernel).count() as u64
    };
    let lost = |name: &str| -> u64 {
        let gaps = told.iter().filter(|e| e["event.name"] == "gap");
        gaps.map(|gap| gap["lost"][name].as_u64().unwrap_or(0))
            .sum()
    };
    assert!(lost("process.start") > COUNT / 2, "the ring was not full");
    // The three loads were moved into the group after their start and ended in it.
    assert_eq!(seen("process.start") + lost("process.start"), COUNT);
    assert_eq!(seen("process.exit") + lost("process.exit"), COUNT + 3);
    // No end is reported twice.
    let mut ends = HashSet::new();
    for end in told.iter().filter(|e| e["event.name"] == "process.exit") {
        let identity = (&end["process.pid"], &end["process.creation.time_unix_nano"]);
        assert!(
            ends.insert((identity.0.as_u64(), identity.1.as_u64())),
            "{end}"
        );
    }
}

/// Makes more events than a small ring holds.
fn flood(group: &Group) {
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); ( : ); done; :";
    let mut load = Load::shell(group, script);
    load.wait_for_end();
    load.reap();
}

#[test]
fn only_missed_events_are_reported_after_a_gap() {
    let _machine = support::shared();
    needs!("tcp_events");
    needs_all_of!("tcp_sockets");
    let group = Group::new("older");
    let mut older = Load::own(&group, "sockets");
    let address = older.ask("listen 127.0.0.1:0");
    older.ask(&format!("connect {address}"));
    older.ask("accept");
    let id = older.pid();
    let config = small_ring();
    let config = config.path().to_str().expect("in UTF-8");
    let arguments = ["--config", config, "--kind", "process,tcp"];
    let stream = Stream::start(&[&arguments[..], &["--cgroup", &group.path()]].concat());
    stream.signal(Signal::STOP);
    flood(&group);
    let missed = Load::shell(&group, "read word");
    stream.signal(Signal::CONT);
    let start = stream.wait_for("the start of one is found out", |e| {
        is(e, "process.start", missed.pid())
    });
    assert_eq!(start["noctule.origin"], "reconciled", "{start}");
    stream.signal(Signal::STOP);
    flood(&group);
    older.kill();
    older.reap();
    stream.signal(Signal::CONT);
    for name in ["tcp.close", "tcp.close", "tcp.listen_close", "process.exit"] {
        let end = stream.wait_for("the ends of the other are found out", |e| is(e, name, id));
        assert_eq!(end["noctule.origin"], "reconciled", "{end}");
    }
    drop(missed);
    let (told, _) = stream.end();
    let own: Vec<_> = told.iter().filter(|e| e["process.pid"] == id).collect();
    assert_eq!(own.len(), 4, "{own:?}");
    let began =
        |e: &&Value| e["noctule.origin"] == "reconciled" && e["event.name"] == "process.start";
    assert_eq!(told.iter().filter(began).count(), 1);
}

/// A gap must not make existing objects appear as new.
#[test]
fn first_gap_reports_no_existing_objects_as_new() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("elder");
    let mut elder = Load::own(&group, "sockets");
    let id = elder.pid();
    let address = elder.ask("listen 127.0.0.1:0");
    elder.ask(&format!("hold {address} 3"));
    let config = small_ring();
    let config = config.path().to_str().expect("in UTF-8");
    let stream = Stream::start(&["--config", config, "--kind", "process,tcp"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let began = now.expect("after 1970").as_nanos() as u64;
    stream.signal(Signal::STOP);
    flood(&group);
    let missed = Load::shell(&group, "read word");
    stream.signal(Signal::CONT);
    stream.wait_for("the start of one is found out", |e| {
        is(e, "process.start", missed.pid())
    });
    drop(missed);
    let (told, _) = stream.end();
    let reconciled = |e: &&Value| e["noctule.origin"] == "reconciled";
    let older = |e: &&Value| {
        let start = e["process.creation.time_unix_nano"].as_u64();
        start.is_some_and(|start| start + 1_000_000_000 < began)
    };
    let reconciled: Vec<_> = told.iter().filter(reconciled).collect();
    let mut false_starts = reconciled.iter().copied().filter(older);
    let false_start = false_starts.find(|e| e["event.name"] == "process.start");
    assert_eq!(false_start, None);
    let mut own = reconciled.iter().filter(|e| e["process.pid"] == id);
    assert_eq!(own.next(), None);
}

/// After a loss, existing sockets are recounted while others come and go.
#[test]
fn recounted_sockets_have_the_same_number() {
    let _machine = support::shared();
    needs!("tcp_events");
    needs_all_of!("tcp_sockets");
    let group = Group::new("recount");
    let config = small_ring();
    let config = config.path().to_str().expect("in UTF-8");
    let file = NamedTempFile::new().expect("a file of our own");
    let path = file.path().to_str().expect("in UTF-8");
    let arguments = ["--interval", "200ms", "--config", config, "--events", path];
    let agent = Agent::start(&arguments);
    let mut sockets = Load::own(&group, "sockets");
    let address = sockets.ask("listen 127.0.0.1:0");
    sockets.ask("serve");
    sockets.ask(&format!("hold {address} 50"));
    let labels = [("cgroup", group.path())];
    let labels = labels
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let value = |reading: &Reading, name: &str| {
        let value = reading.value(&format!("noctule_cgroup_{name}"), &labels);
        value.unwrap_or(0.0)
    };
    let lost = |reading: &Reading| {
        let losses = reading.losses();
        let starts = losses.iter().filter(|(kind, _)| *kind == "process.start");
        starts.map(|(_, count)| count).sum::<f64>()
    };
    // Both ends of each connection are in the group.
    let mut open = 100.0;
    // Each recount flips the generation.
    for _ in 0..3 {
        let before = lost(&Reading::fresh(&agent));
        agent.signal(Signal::STOP);
        flood(&group);
        sockets.ask("close");
        sockets.ask(&format!("hold {address} 2"));
        open += 2.0;
        agent.signal(Signal::CONT);
        Reading::fresh_with(&agent, "it has lost something", |reading| {
            (lost(reading) > before).then_some(())
        });
        for _ in 0..10 {
            sockets.ask(&format!("short {address} 200"));
            Reading::fresh(&agent);
        }
        Reading::fresh_with(&agent, "those that stay are left", |reading| {
            (value(reading, "tcp_connections") == open).then_some(())
        });
        let reading = Reading::fresh(&agent);
        assert_eq!(value(&reading, "tcp_connections"), open);
        assert_eq!(value(&reading, "tcp_listeners"), 1.0);
    }
    drop(sockets);
    Reading::fresh_with(&agent, "nothing is left", |reading| {
        (value(reading, "tcp_connections") == 0.0 && value(reading, "tcp_listeners") == 0.0)
            .then_some(())
    });
}
