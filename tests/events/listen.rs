//! Tests of listening sockets: owner, address and end.

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::stream::{Stream, is};
use super::{end, number, port};

const KINDS: [&str; 2] = ["--kind", "tcp"];

/// Waits until the group has `expected` listening sockets.
fn wait_for_gauge(agent: &Agent, group: &Group, expected: f64) {
    let path = group.path();
    Reading::fresh_with(agent, &format!("{expected} listen"), |reading| {
        let listeners = reading.value("noctule_cgroup_tcp_listeners", &[("cgroup", &path)]);
        listeners.filter(|listeners| *listeners == expected)
    });
}

#[test]
fn listeners_sharing_a_port_are_distinguished() {
    let _machine = support::shared();
    needs!("tcp_events");
    let (group, clients) = (Group::new("share"), Group::new("client"));
    let agent = Agent::start(&["--interval", "200ms"]);
    let stream = Stream::start(&KINDS);
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let mut first = Load::own(&group, "sockets");
        let mut second = Load::own(&group, "sockets");
        let mut client = Load::own(&clients, "sockets");
        let ids = [first.pid(), second.pid()];
        let address = first.ask(&format!("share {any}"));
        assert_eq!(second.ask(&format!("share {address}")), address);
        for id in ids {
            let listen = stream.wait_for("it listens", |e| is(e, "tcp.listen", id));
            assert_eq!(number(&listen, "network.local.port"), port(&address));
        }
        wait_for_gauge(&agent, &group, 2.0);

        first.ask("unlisten");
        let over = stream.wait_for("one is closed", |e| is(e, "tcp.listen_close", ids[0]));
        assert_eq!(number(&over, "network.local.port"), port(&address));
        wait_for_gauge(&agent, &group, 1.0);
        client.ask(&format!("connect {address}"));
        second.ask("accept");
        stream.wait_for("the other accepts", |e| is(e, "tcp.accept", ids[1]));
        assert_eq!(stream.of(|e| is(e, "tcp.listen_close", ids[1])).len(), 0);

        second.kill();
        second.reap();
        stream.wait_for("the other is closed", |e| is(e, "tcp.listen_close", ids[1]));
        wait_for_gauge(&agent, &group, 0.0);
        end(&mut first);
        end(&mut client);
        for id in ids {
            assert_eq!(stream.of(|e| is(e, "tcp.listen_close", id)).len(), 1);
        }
    }
}

#[test]
fn killed_listener_is_closed_with_its_address() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("killed");
    let agent = Agent::start(&["--interval", "200ms"]);
    let stream = Stream::start(&KINDS);
    let cases = [
        ("127.0.0.1:0", "127.0.0.1", "ipv4"),
        ("127.9.8.7:0", "127.9.8.7", "ipv4"),
        ("0.0.0.0:0", "0.0.0.0", "ipv4"),
        ("[::1]:0", "::1", "ipv6"),
        ("[::]:0", "::", "ipv6"),
    ];
    for (any, address, family) in cases {
        let mut load = Load::own(&group, "sockets");
        let id = load.pid();
        let at = port(&load.ask(&format!("listen {any}")));
        wait_for_gauge(&agent, &group, 1.0);
        load.kill();
        load.reap();
        stream.wait_for("it is closed", |e| is(e, "tcp.listen_close", id));
        let told = stream.of(|e| e["process.pid"] == id);
        let names: Vec<_> = told.iter().map(|e| &e["event.name"]).collect();
        assert_eq!(names, ["tcp.listen", "tcp.listen_close"], "{any}");
        for event in &told {
            assert_eq!(event["network.local.address"], address, "{event}");
            assert_eq!(number(event, "network.local.port"), at, "{event}");
            assert_eq!(event["network.type"], family, "{event}");
            assert!(event["network.peer.address"].is_null(), "{event}");
            assert_eq!(event["process.linux.cgroup"], group.path());
        }
        wait_for_gauge(&agent, &group, 0.0);
    }
}

#[test]
fn unbound_listener_has_its_assigned_port() {
    let _machine = support::shared();
    needs!("tcp_events");
    let group = Group::new("unbound");
    let stream = Stream::start(&KINDS);
    for (family, address) in [("4", "0.0.0.0"), ("6", "::")] {
        // The socket may be closed before the agent reads it.
        for at_once in [false, true] {
            let mut load = Load::own(&group, "sockets");
            let id = load.pid();
            let at = port(&load.ask(&format!("unbound {family}")));
            if at_once {
                load.ask("unlisten");
            }
            let listen = stream.wait_for("it listens", |e| is(e, "tcp.listen", id));
            assert_eq!(listen["network.local.address"], address, "{listen}");
            assert_eq!(number(&listen, "network.local.port"), at, "{listen}");
            end(&mut load);
            let over = stream.wait_for("it is closed", |e| is(e, "tcp.listen_close", id));
            assert_eq!(number(&over, "network.local.port"), at, "{over}");
        }
    }
}
