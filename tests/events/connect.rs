//! Tests of connecting in every way, and of the owner of each connection.

use libbpf_rs::ProgramType;
use serde_json::Value;

use super::support;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::netns::{Link, Namespace};
use super::support::stream::{Stream, is};
use super::{end, number, port, was_skipped};

const KINDS: [&str; 2] = ["--kind", "tcp"];

/// Returns whether connect(2) and accept(2) are traced. Tracing them requires fexit. Every kernel
/// with fexit also has the traced functions.
pub(super) fn calls_are_seen() -> bool {
    let answer = support::json(&["doctor", "--json"]);
    let features = answer["features"].as_array().expect("features");
    let feature = features.iter().find(|f| f["name"] == "tcp_calls");
    let feature = feature.expect("doctor lists tcp_calls");
    let fexit = ProgramType::Tracing.is_supported();
    let fexit = fexit.expect("the kernel can be asked");
    let expected = if fexit { "on" } else { "degraded" };
    assert_eq!(feature["state"], expected, "{feature}");
    fexit
}

/// Connects with a blocking or non-blocking call. Returns the local address or the error.
fn connect(load: &mut Load, address: &str, waits: bool) -> String {
    if waits {
        return load.ask(&format!("connect {address}"));
    }
    match load.ask(&format!("begin {address}")) {
        answer if answer == "begun" => load.ask("settle"),
        error => error,
    }
}

#[test]
fn connections_of_every_kind_are_reported_from_both_ends() {
    let _machine = support::shared();
    needs!("tcp_events");
    let (servers, clients) = (Group::new("server"), Group::new("client"));
    let stream = Stream::start(&KINDS);
    // The address of the listener, the client's destination, and the expected address and family.
    let cases = [
        ("127.0.0.1:0", "127.0.0.1", "127.0.0.1", "ipv4"),
        ("[::1]:0", "[::1]", "::1", "ipv6"),
        ("[::]:0", "127.0.0.1", "127.0.0.1", "ipv4"),
        ("[::]:0", "[::1]", "::1", "ipv6"),
        ("127.0.0.1:0", "[::ffff:127.0.0.1]", "127.0.0.1", "ipv4"),
        ("[::]:0", "[::ffff:127.0.0.1]", "127.0.0.1", "ipv4"),
    ];
    for (listen, to, address, family) in cases {
        for waits in [true, false] {
            let what = format!("{listen} {to} {waits}");
            let mut server = Load::own(&servers, "sockets");
            let mut client = Load::own(&clients, "sockets");
            let (s, c) = (server.pid(), client.pid());
            let at = port(&server.ask(&format!("listen {listen}")));
            let own = port(&connect(&mut client, &format!("{to}:{at}"), waits));
            assert_eq!(port(&server.ask("accept")), own);
            client.ask("send 10");
            server.ask("receive 10");
            end(&mut client);
            end(&mut server);
            let told = stream.wait_for(&what, |e| is(e, "tcp.connect", c));
            let accept = stream.wait_for(&what, |e| is(e, "tcp.accept", s));
            for event in [&told, &accept] {
                assert_eq!(event["network.type"], family, "{what}: {event}");
                assert_eq!(event["network.peer.address"], address, "{what}: {event}");
                assert_eq!(event["network.local.address"], address, "{what}: {event}");
            }
            assert_eq!(
                (number(&told, "network.local.port"), at),
                (own, number(&told, "network.peer.port"))
            );
            assert_eq!(
                (number(&accept, "network.peer.port"), at),
                (own, number(&accept, "network.local.port"))
            );
            let seconds = told["duration_seconds"].as_f64().expect("a duration");
            assert!(seconds > 0.0, "{what}: {told}");
            let close = stream.wait_for(&what, |e| is(e, "tcp.close", c));
            assert_eq!(number(&close, "bytes_sent"), 10, "{what}: {close}");
            stream.wait_for(&what, |e| is(e, "tcp.listen_close", s));
            // The close is reported once the client has acknowledged it.
            stream.wait_for(&what, |e| is(e, "tcp.close", s));
            let names = |pid| {
                let all = stream.of(|e| e["process.pid"] == pid);
                let mut names: Vec<_> = all.iter().map(|e| e["event.name"].clone()).collect();
                names.sort_by_key(Value::to_string);
                names
            };
            assert_eq!(names(c), ["tcp.close", "tcp.connect"], "{what}");
            let both = ["tcp.accept", "tcp.close", "tcp.listen", "tcp.listen_close"];
            assert_eq!(names(s), both, "{what}");
        }
    }
}

#[test]
fn nonblocking_connect_failure_has_its_reason() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    link.near.set("ipv4/tcp_syn_retries", "1");
    let stream = Stream::start(&KINDS);
    // The destination, the application's next step, its result, and the expected error.
    let cases = [
        (Link::FAR, "settle", "error 111", "refused", Some(111)),
        (Link::SILENT, "close", "done", "abandoned", None),
        (Link::SILENT, "settle", "error 110", "timeout", Some(110)),
        (
            Link::UNREACHABLE,
            "settle",
            "error 113",
            "unreachable",
            Some(113),
        ),
    ];
    for (to, then, answer, reason, errno) in cases {
        let (id, failed) = support::wait_for("a failure that no program missed", || {
            let before = stream.lost("skipped");
            let mut load = Load::in_namespace(&link.near, "sockets");
            let id = load.pid();
            assert_eq!(load.ask(&format!("begin {to}:9")), "begun");
            assert_eq!(load.ask(then), answer, "{to} {then}");
            end(&mut load);
            let failed = stream.wait_for(reason, |e| is(e, "tcp.connect_failed", id));
            (!was_skipped(&stream, &failed, before)).then_some((id, failed))
        });
        assert_eq!(failed["error.type"], reason, "{failed}");
        assert_eq!(failed["error.errno"].as_u64(), errno, "{failed}");
        assert_eq!(failed["network.peer.address"], to, "{failed}");
        assert_eq!(number(&failed, "network.peer.port"), 9);
        let all = stream.of(|e| e["process.pid"] == id && e["event.name"] != "tcp.retransmit");
        assert_eq!(all.len(), 1, "{all:?}");
    }
}

#[test]
fn connect_without_route_is_reported_if_calls_are_traced() {
    let _machine = support::shared();
    needs!("tcp_events");
    let seen = calls_are_seen();
    let alone = Namespace::new("alone");
    let stream = Stream::start(&KINDS);
    let cases = [
        ("10.9.9.9", "10.9.9.9"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[::ffff:10.9.9.9]", "10.9.9.9"),
    ];
    for (to, address) in cases {
        for waits in [true, false] {
            let mut load = Load::in_namespace(&alone, "sockets");
            let id = load.pid();
            assert_eq!(connect(&mut load, &format!("{to}:9"), waits), "error 101");
            // Later failures are reported whether or not the calls are traced.
            assert_eq!(connect(&mut load, "127.0.0.1:9", waits), "error 111");
            end(&mut load);
            let refused = |e: &Value| is(e, "tcp.connect_failed", id) && e["error.errno"] == 111;
            stream.wait_for("the other one fails", refused);
            let all = stream.of(|e| e["process.pid"] == id);
            let expected = if seen { 2 } else { 1 };
            assert_eq!(all.len(), expected, "{to}: {all:?}");
            for event in all.iter().filter(|e| !refused(e)) {
                assert_eq!(event["event.name"], "tcp.connect_failed", "{event}");
                assert_eq!(event["error.type"], "unreachable", "{event}");
                assert_eq!(event["error.errno"], 101, "{event}");
                assert_eq!(event["network.peer.address"], address, "{event}");
                assert_eq!(number(event, "network.peer.port"), 9);
            }
        }
    }
}

#[test]
fn accepted_connection_belongs_to_the_accepting_process() {
    let _machine = support::shared();
    needs!("tcp_events");
    let seen = calls_are_seen();
    let (servers, clients) = (Group::new("server"), Group::new("client"));
    let stream = Stream::start(&KINDS);
    let mut server = Load::own(&servers, "sockets");
    let mut client = Load::own(&clients, "sockets");
    let listening = server.pid();
    let address = server.ask("listen 127.0.0.1:0");
    let accepting: u32 = server.ask("lend").parse().expect("a pid");
    client.ask(&format!("connect {address}"));
    client.ask("send 77");
    client.ask("close");
    assert_eq!(server.ask("join"), "exit status: 0");
    let owner = if seen { accepting } else { listening };
    let accept = stream.wait_for("it is accepted", |e| is(e, "tcp.accept", owner));
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", owner));
    assert_eq!(number(&close, "bytes_received"), 77, "{close}");
    let id = &accept["noctule.socket.id"];
    assert_eq!(*id, close["noctule.socket.id"], "{close}");
    assert_eq!(stream.of(|e| e["noctule.socket.id"] == *id).len(), 2);
    end(&mut client);
    end(&mut server);
}

/// The subflow belongs to the connection's owner, whichever process adds the address.
#[test]
fn multipath_subflow_belongs_to_the_connection_owner() {
    const OTHER: &str = "10.77.0.3";
    let _machine = support::shared();
    needs!("tcp_events");
    if std::fs::metadata("/proc/sys/net/mptcp").is_err() {
        return support::expect::skip_because("the kernel has no Multipath TCP");
    }
    let seen = calls_are_seen();
    let link = Link::new();
    link.near
        .ip(&["address", "add", &format!("{OTHER}/24"), "dev", "link0"]);
    for side in [&link.near, &link.far] {
        side.ip(&["mptcp", "limits", "set", "subflows", "2"]);
    }
    let stream = Stream::start(&KINDS);
    let mut server = Load::in_namespace(&link.far, "sockets");
    let address = server.ask(&format!("multipath {}:0", Link::FAR));
    let mut clients = [(); 2].map(|()| Load::in_namespace(&link.near, "sockets"));
    let mut accepting = Vec::new();
    for client in &mut clients {
        accepting.push(server.ask("lend").parse::<u32>().expect("a pid"));
        let own = port(&client.ask(&format!("multiply {address}")));
        // The kernel adds a subflow once it knows that both ends support it.
        client.ask("send 10");
        // Before the accept, the subflow would belong to the listener.
        stream.wait_for("it is accepted", |e| {
            e["event.name"] == "tcp.accept" && e["network.peer.port"].as_u64() == Some(own)
        });
    }
    link.near
        .ip(&["mptcp", "endpoint", "add", OTHER, "dev", "link0", "subflow"]);
    for client in &clients {
        let id = client.pid();
        let goes = |e: &Value| e["network.local.address"] == OTHER && e["process.pid"] == id;
        let connect = stream.wait_for("it connects", |e| {
            e["event.name"] == "tcp.connect" && goes(e)
        });
        assert_eq!(connect["tcp.multipath"], true, "{connect}");
        let port = &connect["network.local.port"];
        let arrives =
            |e: &Value| e["network.peer.address"] == OTHER && e["network.peer.port"] == *port;
        let accept = stream.wait_for("it arrives", |e| {
            e["event.name"] == "tcp.accept" && arrives(e)
        });
        let first = stream.of(|e| {
            let from = e["network.peer.address"] == Link::NEAR;
            e["event.name"] == "tcp.accept" && from && e["process.pid"] == accept["process.pid"]
        });
        assert!(!first.is_empty(), "{accept}");
    }
    let told = stream.of(|e| e["event.name"] == "tcp.accept" && e["network.peer.address"] == OTHER);
    let owners: Vec<u32> = told
        .iter()
        .map(|e| number(e, "process.pid") as u32)
        .collect();
    let mut expected = match seen {
        true => accepting,
        false => vec![server.pid(); 2],
    };
    expected.sort_unstable();
    let mut owners = owners;
    owners.sort_unstable();
    assert_eq!(owners, expected, "{told:?}");
    for client in &mut clients {
        client.ask("close");
    }
    for _ in &clients {
        server.ask("join");
    }
    let of_others = stream.of(|e| e["process.executable.name"] == "ip");
    assert_eq!(of_others, Vec::<Value>::new());
    for client in &mut clients {
        end(client);
    }
    end(&mut server);
}
