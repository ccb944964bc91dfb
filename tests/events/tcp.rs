//! Tests of TCP connections from both ends.

use serde_json::Value;

use super::connect::calls_are_seen;
use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::expect::loses;
use super::support::load::Load;
use super::support::netns::{Link, Namespace};
use super::support::reading::Reading;
use super::support::stream::{Stream, is};
use super::{end, number, port, was_skipped};

const KINDS: [&str; 2] = ["--kind", "tcp"];

#[test]
fn both_ends_of_a_connection_are_reported() {
    let _machine = support::shared();
    needs!("tcp_events");
    let (server, client) = (Group::new("server"), Group::new("client"));
    let stream = Stream::start(&KINDS);
    // The address of the listener, the client's destination, and the expected family.
    let cases = [
        ("127.0.0.1:0", "127.0.0.1", "ipv4"),
        ("[::1]:0", "[::1]", "ipv6"),
        ("[::]:0", "127.0.0.1", "ipv4"),
    ];
    for (listen, to, family) in cases {
        let mut server_load = Load::own(&server, "sockets");
        let mut client_load = Load::own(&client, "sockets");
        let (s, c) = (server_load.pid(), client_load.pid());
        let listens = server_load.ask(&format!("listen {listen}"));
        let port = listens.rsplit_once(':').expect("a port").1.to_owned();
        let from = client_load.ask(&format!("connect {to}:{port}"));
        let own_port: u64 = from
            .rsplit_once(':')
            .expect("a port")
            .1
            .parse()
            .expect("a number");
        assert_eq!(
            server_load
                .ask("accept")
                .rsplit_once(':')
                .expect("a port")
                .1,
            own_port.to_string()
        );
        client_load.ask("send 1000");
        server_load.ask("receive 1000");
        server_load.ask("send 50");
        client_load.ask("receive 50");
        end(&mut client_load);
        end(&mut server_load);

        let listen = stream.wait_for("it listens", |e| is(e, "tcp.listen", s));
        assert_eq!(number(&listen, "network.local.port").to_string(), port);
        assert_eq!(listen["network.peer.address"], Value::Null);
        let connect = stream.wait_for("it connects", |e| is(e, "tcp.connect", c));
        let accept = stream.wait_for("it accepts", |e| is(e, "tcp.accept", s));
        assert_eq!(connect["network.type"], family, "{connect}");
        assert_eq!(connect["network.peer.address"], to.trim_matches(['[', ']']));
        assert_eq!(number(&connect, "network.peer.port").to_string(), port);
        assert_eq!(number(&connect, "network.local.port"), own_port);
        assert_eq!(number(&accept, "network.peer.port"), own_port);
        assert_eq!(number(&accept, "network.local.port").to_string(), port);
        let seconds = connect["duration_seconds"].as_f64().expect("a duration");
        assert!(seconds > 0.0 && seconds < 5.0, "{connect}");
        assert_eq!(connect["process.linux.cgroup"], client.path());
        assert_eq!(accept["process.linux.cgroup"], server.path());
        for (pid, sent, received) in [(c, 1000, 50), (s, 50, 1000)] {
            let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", pid));
            assert_eq!(number(&close, "bytes_sent"), sent, "{close}");
            assert_eq!(number(&close, "bytes_received"), received, "{close}");
            assert!(close["rtt_seconds"].as_f64().expect("a time") > 0.0);
        }
        stream.wait_for("it listens no more", |e| is(e, "tcp.listen_close", s));
        for name in ["tcp.listen", "tcp.accept", "tcp.close", "tcp.listen_close"] {
            assert_eq!(stream.of(|e| is(e, name, s)).len(), 1, "{name}");
        }
        assert_eq!(
            stream.of(|e| is(e, "tcp.connect_failed", c)),
            Vec::<Value>::new()
        );
    }
}

/// With a SYN cookie the kernel does not remember when it sent the SYN-ACK. After a retransmission
/// neither side can tell which copy was acknowledged.
#[test]
fn a_handshake_that_was_not_timed_leaves_no_round_trip_time() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    let stream = Stream::start(&KINDS);
    let connect = |is_answer_lost: bool, is_timed: [bool; 2]| {
        let mut server = Load::in_namespace(&link.near, "sockets");
        let mut client = Load::in_namespace(&link.far, "sockets");
        let ids = [&server, &client].map(Load::pid);
        let address = server.ask(&format!("listen {}:0", Link::NEAR));
        let before = link.near.tcp("OutSegs");
        if is_answer_lost {
            link.drop_packets_to(Link::FAR);
        }
        client.say(&format!("connect {address}"));
        if is_answer_lost {
            support::wait_until("it answers", || link.near.tcp("OutSegs") > before);
            link.restore();
        }
        client.next_message();
        server.ask("accept");
        end(&mut client);
        end(&mut server);
        for (id, is_timed) in ids.into_iter().zip(is_timed) {
            let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
            assert_eq!(close.get("rtt_seconds").is_some(), is_timed, "{close}");
        }
    };
    connect(false, [true, true]);
    connect(true, [false, false]);
    link.near.set("ipv4/tcp_syncookies", "2");
    connect(false, [false, true]);
}

#[test]
fn a_failure_has_its_reason() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    link.near.set("ipv4/tcp_syn_retries", "1");
    let stream = Stream::start(&KINDS);
    let cases = [
        (
            format!("connect {}:9", Link::FAR),
            "error 111",
            "refused",
            "ECONNREFUSED",
        ),
        (
            format!("try {}:9 400", Link::SILENT),
            "error TimedOut",
            "abandoned",
            "",
        ),
        (
            format!("connect {}:9", Link::SILENT),
            "error 110",
            "timeout",
            "ETIMEDOUT",
        ),
        (
            format!("connect {}:9", Link::UNREACHABLE),
            "error 113",
            "unreachable",
            "EHOSTUNREACH",
        ),
    ];
    for (words, answer, reason, _) in &cases {
        let (id, failed) = support::wait_for("a failure that no program missed", || {
            let before = stream.lost("skipped");
            let mut load = Load::in_namespace(&link.near, "sockets");
            let id = load.pid();
            assert_eq!(load.ask(words), *answer, "{words}");
            end(&mut load);
            let failed = stream.wait_for("it fails", |e| is(e, "tcp.connect_failed", id));
            (!was_skipped(&stream, &failed, before)).then_some((id, failed))
        });
        assert_eq!(failed["error.type"], *reason, "{failed}");
        assert_eq!(number(&failed, "network.peer.port"), 9);
        let all = stream.of(|e| e["process.pid"] == id && e["event.name"] != "tcp.retransmit");
        assert_eq!(all.len(), 1, "{all:?}");
    }
}

/// After the attempts, the kernel reports the last ICMP error of the path instead of a timeout.
#[test]
fn a_connection_to_a_missing_host_times_out() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    // Three seconds for the retries, and one for resolving the hardware address.
    link.near.set("ipv4/tcp_retries2", "3");
    link.near.set("ipv4/neigh/link0/mcast_solicit", "1");
    let stream = Stream::start(&KINDS);
    let mut server = Load::in_namespace(&link.far, "sockets");
    let mut client = Load::in_namespace(&link.near, "sockets");
    let address = server.ask(&format!("listen {}:0", Link::FAR));
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    link.far.ip(&["address", "flush", "dev", "link0"]);
    link.near.ip(&["neighbour", "flush", "dev", "link0"]);
    assert_eq!(client.ask("send 100"), "100");
    assert_eq!(client.ask("drain"), "error 113");
    let id = client.pid();
    end(&mut client);
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
    assert_eq!(close["tcp.close.reason"], "timeout", "{close}");
    assert_eq!(close["tcp.closed_by"], Value::Null, "{close}");
}

/// The start is unknown, so the duration is unknown, too.
#[test]
fn a_failure_that_began_before_the_agent_has_no_duration() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    link.near.set("ipv4/tcp_syn_retries", "5");
    let mut load = Load::in_namespace(&link.near, "sockets");
    let id = load.pid();
    assert_eq!(load.ask(&format!("begin {}:9", Link::SILENT)), "begun");
    let stream = Stream::start(&KINDS);
    // From now on, the kernel gives up at the next attempt.
    link.near.set("ipv4/tcp_syn_retries", "1");
    assert_eq!(load.ask("settle"), "error 110");
    end(&mut load);
    let failed = stream.wait_for("it fails", |e| is(e, "tcp.connect_failed", id));
    assert_eq!(failed["error.type"], "timeout", "{failed}");
    assert_eq!(failed["network.peer.address"], Link::SILENT, "{failed}");
    assert_eq!(failed["duration_seconds"], Value::Null, "{failed}");
}

#[test]
fn ten_thousand_short_connections_are_all_reported() {
    const COUNT: u64 = 10_000;
    let _machine = support::shared();
    needs!("tcp_events");
    let (server, client) = (Group::new("server"), Group::new("client"));
    let agent = Agent::start(&["--interval", "200ms"]);
    let stream = Stream::start(&KINDS);
    let mut server_load = Load::own(&server, "sockets");
    let mut client_load = Load::own(&client, "sockets");
    let (s, c) = (server_load.pid(), client_load.pid());
    let address = server_load.ask("listen 127.0.0.3:0");
    server_load.ask("serve");
    assert_eq!(client_load.ask(&format!("short {address} {COUNT}")), "done");
    let reported = |name: &str, pid: u32| {
        let events = stream.of(|e| is(e, name, pid) && e["noctule.origin"].is_null());
        events.len() as u64
    };
    // The lost events may be those of other processes.
    let count = |name: &str, pid: u32| reported(name, pid) + stream.lost(name);
    // The kernel skips a program that interrupts itself. Since Linux 7.0 it also skips one whose
    // earlier run was preempted. The skipped program can be the program at the start of a
    // connection.
    let skipped = || stream.lost("skipped");
    support::wait_until("all are closed", || {
        count("tcp.close", c) + count("tcp.close", s) + skipped() >= 2 * COUNT
    });
    let skipped = skipped();
    for (name, pid) in [("tcp.connect", c), ("tcp.accept", s)] {
        let (reported, count) = (reported(name, pid), count(name, pid));
        assert!(
            reported <= COUNT && count + skipped >= COUNT,
            "{reported} of {count} {name}"
        );
    }
    assert_eq!(
        stream
            .of(|e| e["event.name"] == "tcp.connect_failed" && e["process.pid"] == c)
            .len(),
        0
    );
    let value = |reading: &Reading, name: &str, group: &Group, label: &[(&str, &str)]| {
        let path = group.path();
        let labels = [&[("cgroup", path.as_str())], label].concat();
        reading.value(&format!("noctule_cgroup_{name}"), &labels)
    };
    let last = Reading::fresh_with(&agent, "all are counted", |reading| {
        let open = value(reading, "tcp_connections", &client, &[])?;
        let accepts = value(reading, "tcp_accepts_total", &server, &[])?;
        let skipped = reading.value("noctule_self_losses_total", &[("kind", "skipped")])?;
        (open == 0.0 && accepts + skipped >= COUNT as f64).then_some(accepts)
    });
    let reading = Reading::fresh(&agent);
    let skipped = reading.value("noctule_self_losses_total", &[("kind", "skipped")]);
    let skipped = skipped.expect("it is always there");
    let ok = [("result", "ok")];
    let connects = value(&reading, "tcp_connects_total", &client, &ok);
    let times = value(&reading, "tcp_connect_seconds_count", &client, &[]);
    for counted in [Some(last), connects, times] {
        let missing = COUNT as f64 - counted.expect("it is counted");
        assert!(
            missing >= 0.0 && missing <= skipped,
            "{missing} of {skipped}"
        );
    }
    end(&mut client_load);
    end(&mut server_load);
}

#[test]
fn a_killed_client_leaves_no_connection() {
    const COUNT: u64 = 500;
    let _machine = support::shared();
    needs!("tcp_events");
    let (server, client) = (Group::new("server"), Group::new("client"));
    let agent = Agent::start(&["--interval", "200ms"]);
    let stream = Stream::start(&KINDS);
    let mut server_load = Load::own(&server, "sockets");
    let mut client_load = Load::own(&client, "sockets");
    let c = client_load.pid();
    let address = server_load.ask("listen 127.0.0.1:0");
    server_load.ask("serve");
    client_load.ask(&format!("hold {address} {COUNT}"));
    let open = |reading: &Reading| {
        let labels = [("cgroup", client.path())];
        let labels = labels.each_ref().map(|(k, v)| (*k, v.as_str()));
        reading.value("noctule_cgroup_tcp_connections", &labels)
    };
    Reading::fresh_with(&agent, "they are open", |r| {
        open(r).filter(|n| *n == COUNT as f64)
    });
    client_load.kill();
    client_load.reap();
    Reading::fresh_with(&agent, "none is open", |r| open(r).filter(|n| *n == 0.0));
    let closed = || stream.of(|e| is(e, "tcp.close", c)).len() as u64;
    // One timer acknowledges all connections in one run. If the timer interrupts a program, the
    // kernel skips that program for hundreds of connections. Each connection is still reported. But
    // where programs can be preempted, the kernel may skip both programs that see an end.
    let skipped = || match loses("skipped") {
        true => stream.lost("skipped"),
        false => 0,
    };
    support::wait_until("all are closed", || closed() + skipped() >= COUNT);
    assert!(closed() <= COUNT, "{} of {COUNT}", closed());
    end(&mut server_load);
}

#[test]
fn inherited_socket_is_closed_by_its_last_owner() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("inherit");
    let stream = Stream::start(&KINDS);
    let mut server = Load::own(&group, "sockets");
    let address = server.ask("listen 127.0.0.1:0");
    let port = address.rsplit_once(':').expect("a port").1.to_owned();
    // The shell opens the connection, and its child keeps it for longer. bash provides /dev/tcp.
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; ( read word; exec 3<&- ) <&0 & exec 3<&-; echo 'load: gone'; wait"
    );
    let mut command = group.command("/bin/bash");
    command.args(["-c", &format!("echo 'load: ready'; {script}")]);
    let mut shell = Load::of(&mut command);
    let id = shell.pid();
    assert_eq!(shell.next_message(), "gone");
    server.ask("accept");
    stream.wait_for("it connects", |e| is(e, "tcp.connect", id));
    assert_eq!(
        stream.of(|e| is(e, "tcp.close", id)).len(),
        0,
        "the child has it open"
    );
    shell.say("close");
    shell.wait_for_end();
    server.ask("close");
    stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
    assert_eq!(stream.of(|e| is(e, "tcp.close", id)).len(), 1);
    end(&mut server);
}

/// Checks the number of retransmitted segments. A flood in another test can fill the ring of this
/// stream. The stream then reports how many records were lost. Each record has at least one
/// segment, possibly of another process.
#[track_caller]
fn assert_all_reported(stream: &Stream, told: u64, kernel: u64) {
    // The filter accepts events of all processes, because an event can lack its process or name
    // another one.
    let again = |e: &Value| e["event.name"] == "tcp.retransmit";
    match stream.lost("tcp.retransmit") {
        0 => assert_eq!(told, kernel, "{:?}", stream.of(again)),
        _ => assert!(told <= kernel, "{told} of {kernel}: {:?}", stream.gaps()),
    }
}

#[test]
fn retransmits_match_the_kernel_count() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    let stream = Stream::start(&KINDS);
    let mut far = Load::in_namespace(&link.far, "sockets");
    let mut near = Load::in_namespace(&link.near, "sockets");
    let id = near.pid();
    let address = far.ask(&format!("listen {}:0", Link::FAR));
    near.ask(&format!("connect {address}"));
    far.ask("accept");
    let before = link.near.retransmits();
    link.drop_packets_to(Link::FAR);
    // The load may have to wait for room until the link is repaired.
    near.say("send 100000");
    support::wait_until("it is sent again", || link.near.retransmits() > before + 2);
    link.restore();
    assert_eq!(far.ask("receive 100000"), "100000");
    assert_eq!(near.next_message(), "100000");
    // Adds a segment that is never acknowledged: a connection request.
    link.near.set("ipv4/tcp_syn_retries", "2");
    near.ask(&format!("connect {}:9", Link::SILENT));
    end(&mut near);
    end(&mut far);
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
    assert_eq!(
        number(&close, "bytes_sent"),
        100_000,
        "each byte counts once"
    );
    let kernel = link.near.retransmits() - before;
    let told = stream.of(|e| is(e, "tcp.retransmit", id));
    let sum: u64 = told.iter().map(|event| number(event, "tcp.segments")).sum();
    assert_all_reported(&stream, sum, kernel);
    assert!(
        told.iter()
            .any(|e| e["network.peer.address"] == Link::SILENT),
        "{told:?}"
    );
    let of_connection = told
        .iter()
        .filter(|e| e["network.peer.address"] == Link::FAR);
    let of_connection: u64 = of_connection
        .map(|event| number(event, "tcp.segments"))
        .sum();
    assert_eq!(number(&close, "retransmits"), of_connection);
}

/// Returns whether this kernel hides a process, and its interrupts, from tracing programs.
fn hides_processes() -> bool {
    let answer = support::json(&["doctor", "--json"]);
    let features = answer["features"].as_array().expect("features");
    let feature = features.iter().find(|it| it["name"] == "all_processes");
    feature.expect("doctor lists all_processes")["state"] != "on"
}

/// A full queue refuses segments, and the kernel retries. None of the refused segments reaches the
/// peer twice.
#[test]
fn locally_dropped_segments_are_marked_as_failed() {
    const BYTES: u64 = 2_000_000;
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    link.narrow();
    let stream = Stream::start(&KINDS);
    let mut far = Load::in_namespace(&link.far, "sockets");
    let mut near = Load::in_namespace(&link.near, "sockets");
    let id = near.pid();
    let address = far.ask(&format!("listen {}:0", Link::FAR));
    let before = (link.near.retransmits(), link.near.netstat("TCPRetransFail"));
    near.ask(&format!("connect {address}"));
    far.ask("accept");
    far.say(&format!("receive {BYTES}"));
    assert_eq!(near.ask(&format!("send {BYTES}")), BYTES.to_string());
    assert_eq!(far.next_message(), BYTES.to_string());
    end(&mut near);
    end(&mut far);
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", id));
    assert_eq!(number(&close, "bytes_sent"), BYTES, "{close}");
    let kernel = link.near.retransmits() - before.0;
    let failed = link.near.netstat("TCPRetransFail") - before.1;
    assert!(kernel > 0, "the queue was never full");
    let told = stream.of(|e| is(e, "tcp.retransmit", id));
    let sum = |key: &str| -> u64 { told.iter().filter_map(|e| e[key].as_u64()).sum() };
    assert_all_reported(&stream, sum("tcp.segments"), kernel);
    let told_failed = sum("tcp.segments_failed");
    if told_failed != failed {
        // The result of an attempt that no program saw is unknown.
        let lost = stream.lost("tcp.retransmit") > 0;
        assert!(lost || hides_processes(), "{told_failed} of {failed}");
        let expected = failed / 2..=failed;
        assert!(expected.contains(&told_failed), "{told_failed} of {failed}");
    }
    assert_eq!(number(&close, "retransmits"), kernel);
}

#[test]
fn equal_addresses_in_two_namespaces_are_never_mixed() {
    let _machine = support::shared();
    needs!("tcp_events");
    let stream = Stream::start(&KINDS);
    let mut cookies = Vec::new();
    let namespaces = [Namespace::new("one"), Namespace::new("other")];
    let mut loads = namespaces
        .each_ref()
        .map(|ns| Load::in_namespace(ns, "sockets"));
    for (load, bytes) in loads.iter_mut().zip([10, 20]) {
        load.ask("listen 127.0.0.1:4242");
        load.ask("connect 127.0.0.1:4242");
        load.ask(&format!("send {bytes}"));
    }
    for (load, bytes) in loads.iter_mut().zip([10, 20]) {
        let id = load.pid();
        end(load);
        let connect = stream.wait_for("it connects", |e| is(e, "tcp.connect", id));
        let closes = stream.wait_for_all("it is closed", 2, |e| is(e, "tcp.close", id));
        let sent: u64 = closes.iter().map(|close| number(close, "bytes_sent")).sum();
        assert_eq!(sent, bytes);
        let cookie = number(&connect, "netns.cookie");
        let all = stream.of(|e| e["process.pid"] == id);
        assert!(
            all.iter()
                .all(|event| number(event, "netns.cookie") == cookie)
        );
        cookies.push(cookie);
    }
    assert_ne!(cookies[0], cookies[1]);
}

#[test]
fn a_gigabyte_by_sendfile_is_counted_to_the_byte() {
    const SIZE: u64 = 1 << 30;
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("sendfile");
    let file = tempfile::NamedTempFile::new().expect("a file of our own");
    file.as_file().set_len(SIZE).expect("a hole");
    let stream = Stream::start(&KINDS);
    let mut server = Load::own(&group, "sockets");
    let mut client = Load::own(&group, "sockets");
    let (s, c) = (server.pid(), client.pid());
    let address = server.ask("listen 127.0.0.1:0");
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    server.say("drain");
    let path = file.path().to_str().expect("in UTF-8");
    assert_eq!(client.ask(&format!("sendfile {path}")), SIZE.to_string());
    client.ask("finish");
    assert_eq!(server.next_message(), SIZE.to_string());
    end(&mut client);
    end(&mut server);
    let sent = stream.wait_for("it is closed", |e| is(e, "tcp.close", c));
    let received = stream.wait_for("it is closed", |e| is(e, "tcp.close", s));
    assert_eq!(number(&sent, "bytes_sent"), SIZE);
    assert_eq!(number(&received, "bytes_received"), SIZE);
}

#[test]
fn existing_connections_are_reported_immediately() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("before");
    let mut server = Load::own(&group, "sockets");
    let mut client = Load::own(&group, "sockets");
    let (s, c) = (server.pid(), client.pid());
    let address = server.ask("listen 127.0.0.1:0");
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    client.ask("send 300");
    server.ask("receive 300");
    let stream = Stream::start(&["--kind", "tcp", "--existing"]);
    for (name, pid) in [("tcp.listen", s), ("tcp.accept", s), ("tcp.connect", c)] {
        let event = stream.wait_for("it is listed", |e| is(e, name, pid));
        assert_eq!(event["noctule.origin"], "existing", "{event}");
        assert_eq!(event["process.linux.cgroup"], group.path());
    }
    let others = stream.of(|e| e["event.name"] == "process.start");
    assert_eq!(others, Vec::<Value>::new(), "nobody asked for them");
    let agent = Agent::start(&["--interval", "200ms"]);
    let path = group.path();
    let value =
        |r: &Reading, name: &str| r.value(&format!("noctule_cgroup_{name}"), &[("cgroup", &path)]);
    let open = Reading::fresh_with(&agent, "it is counted", |r| value(r, "tcp_connections"));
    assert_eq!(open, 2.0);
    let listeners = Reading::fresh_with(&agent, "it is counted", |r| value(r, "tcp_listeners"));
    assert_eq!(listeners, 1.0);
    end(&mut client);
    end(&mut server);
    stream.wait_for("it is closed", |e| is(e, "tcp.close", c));
    Reading::fresh_with(&agent, "none is open", |r| {
        value(r, "tcp_connections").filter(|n| *n == 0.0)
    });
    Reading::fresh_with(&agent, "nobody listens", |r| {
        value(r, "tcp_listeners").filter(|n| *n == 0.0)
    });
}

#[test]
fn connections_without_a_descriptor_are_reported_immediately() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("queue");
    let mut server = Load::own(&group, "sockets");
    let mut client = Load::own(&group, "sockets");
    let (s, c) = (server.pid(), client.pid());
    let address = server.ask("listen 127.0.0.1:0");
    // One connection waits to be accepted, and one is in transit to another process.
    let server_port = port(&address);
    let waits = port(&client.ask(&format!("connect {address}")));
    let posted = port(&client.ask(&format!("connect {address}")));
    client.ask("post");
    let stream = Stream::start(&["--kind", "tcp", "--existing"]);
    let of = |e: &Value, key: &str, port: u64| e[key].as_u64() == Some(port);
    // If accept(2) is traced, a waiting connection is reported only when it is accepted.
    if calls_are_seen() {
        for _ in [waits, posted] {
            server.ask("accept");
        }
    }
    for port in [waits, posted] {
        let accept = stream.wait_for("it is listed, or told", |e| {
            is(e, "tcp.accept", s) && of(e, "network.peer.port", port)
        });
        assert_eq!(accept["process.linux.cgroup"], group.path());
    }
    stream.wait_for("the other end is listed", |e| {
        is(e, "tcp.connect", c) && of(e, "network.local.port", waits)
    });
    client.ask("send 10");
    end(&mut client);
    let close = stream.wait_for("the one that was posted is closed", |e| {
        let ours = of(e, "network.peer.port", server_port);
        e["event.name"] == "tcp.close" && of(e, "network.local.port", posted) && ours
    });
    assert_eq!(close["process.pid"], Value::Null, "nobody has it: {close}");
    end(&mut server);
}

/// The connection was in transit to another process when the agent started, so only the node counts
/// it.
#[test]
fn connection_without_owner_counts_for_the_node() {
    let _machine = support::alone();
    needs!("tcp_events");
    let nobodys = |reading: &Reading| {
        let all = |rows| reading.value(&format!("noctule_{rows}_tcp_connections"), &[]);
        let rows = ["container", "unit", "cgroup"].map(|rows| all(rows).unwrap_or(0.0));
        all("node").map(|node| node - rows.iter().sum::<f64>())
    };
    let group = Group::new("queue");
    let mut server = Load::own(&group, "sockets");
    let mut client = Load::own(&group, "sockets");
    let address = server.ask("listen 127.0.0.1:0");
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    let path = group.path();
    // Waits until the group's row has all its connections. Afterwards returns the number of
    // connections without owner.
    let with = |agent: &Agent, expected: f64| {
        Reading::fresh_with(agent, "its row is there", |reading| {
            let name = "noctule_cgroup_tcp_connections";
            let open = reading.value(name, &[("cgroup", &path)]);
            (open == Some(expected)).then(|| nobodys(reading)).flatten()
        })
    };
    let before = with(&Agent::start(&["--interval", "200ms"]), 4.0);
    client.ask("post");
    let after = with(&Agent::start(&["--interval", "200ms"]), 3.0);
    assert_eq!(after, before + 1.0);
    end(&mut client);
    end(&mut server);
}

#[test]
fn multipath_connection_belongs_to_its_owner() {
    let _machine = support::shared();
    needs!("tcp_events");
    if std::fs::metadata("/proc/sys/net/mptcp").is_err() {
        return support::expect::skip_because("the kernel has no Multipath TCP");
    }
    let group = Group::new("multipath");
    let mut server = Load::own(&group, "sockets");
    let mut client = Load::own(&group, "sockets");
    let (s, c) = (server.pid(), client.pid());
    let address = server.ask("multipath 127.0.0.1:0");
    let before = port(&client.ask(&format!("multiply {address}")));
    server.ask("accept");
    let stream = Stream::start(&["--kind", "tcp", "--existing"]);
    let after = port(&client.ask(&format!("multiply {address}")));
    server.ask("accept");
    let told = |name: &str, pid: u32, key: &str, port: u64| {
        let event = stream.wait_for(name, |e| is(e, name, pid) && e[key].as_u64() == Some(port));
        assert_eq!(event["tcp.multipath"], true, "{event}");
        assert_eq!(event["process.linux.cgroup"], group.path());
    };
    told("tcp.listen", s, "network.local.port", port(&address));
    for of in [before, after] {
        told("tcp.connect", c, "network.local.port", of);
        told("tcp.accept", s, "network.peer.port", of);
    }
    end(&mut client);
    end(&mut server);
    for of in [before, after] {
        told("tcp.close", c, "network.local.port", of);
        told("tcp.close", s, "network.peer.port", of);
    }
}

#[test]
fn a_close_has_its_reason_and_the_side_that_closed() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("close");
    let stream = Stream::start(&KINDS);
    // The client's action, and the expected event of each side.
    let cases = [
        ("finish", ("fin", "local"), ("fin", "peer")),
        // The client leaves received data unread.
        ("close", ("aborted", "local"), ("reset", "peer")),
    ];
    for (act, here, there) in cases {
        let mut server = Load::own(&group, "sockets");
        let mut client = Load::own(&group, "sockets");
        let (s, c) = (server.pid(), client.pid());
        let address = server.ask("listen 127.0.0.1:0");
        client.ask(&format!("connect {address}"));
        server.ask("accept");
        server.ask("send 10");
        client.ask(act);
        if act == "finish" {
            client.ask("receive 10");
            assert_eq!(server.ask("drain"), "0");
            server.ask("close");
        }
        for (pid, (reason, side)) in [(c, here), (s, there)] {
            let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", pid));
            assert_eq!(close["tcp.close.reason"], reason, "{close}");
            assert_eq!(close["tcp.closed_by"], side, "{close}");
        }
        end(&mut client);
        end(&mut server);
    }
}
