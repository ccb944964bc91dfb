//! Tests of DNS queries and UDP flows, against what the other side has recorded.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::number;
use super::support;
use super::support::expect::skip_because;
use super::support::load::{self, Load};
use super::support::netns::Namespace;
use super::support::stream::Stream;

const A: u16 = 1;
const AAAA: u16 = 28;
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;

/// A question with its response, as recorded by the resolver.
#[derive(Clone, Debug)]
struct Noted {
    name: String,
    kind: u16,
    code: u8,
    records: u16,
    /// Time from the arrival of the question to the response.
    held: Duration,
}

/// Starts a resolver at 127.0.0.1 of a namespace. The resolver resolves `www.test` at once and
/// `slow.test` after a while. The resolver never responds to `silent.test`, and reports that other
/// names do not exist. The resolver ends with the process.
fn resolver(namespace: &Namespace) -> Arc<Mutex<Vec<Noted>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let socket = namespace.run(|| UdpSocket::bind("127.0.0.1:53").expect("root"));
    let noted = Arc::clone(&log);
    thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut packet) {
            let came = Instant::now();
            let Some((note, answer)) = answer(&packet[..length]) else {
                continue;
            };
            if note.name == "slow.test" {
                thread::sleep(Duration::from_millis(30));
            }
            // The record is written before the client gets the response, so that a waiting test
            // finds the record.
            noted.lock().expect("no panic").push(Noted {
                held: came.elapsed(),
                ..note
            });
            let _ = socket.send_to(&answer, client);
        }
    });
    log
}

fn answer(question: &[u8]) -> Option<(Noted, Vec<u8>)> {
    let (mut name, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let label = &question[at + 1..=at + usize::from(question[at])];
        name.push(String::from_utf8_lossy(label).into_owned());
        at += 1 + label.len();
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let name = name.join(".");
    let (code, address): (u8, &[u8]) = match (name.as_str(), kind) {
        ("silent.test", _) => return None,
        ("www.test" | "slow.test", A) => (NOERROR, &[192, 0, 2, 1]),
        ("www.test" | "slow.test", _) => (NOERROR, &[]),
        _ => (NXDOMAIN, &[]),
    };
    let records = u16::from(!address.is_empty());
    let mut packet = question[..at + 5].to_vec();
    packet[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    packet[4..12].copy_from_slice(&[0, 1, 0, records as u8, 0, 0, 0, 0]);
    if records > 0 {
        packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        packet.extend(address);
    }
    let noted = Noted {
        name,
        kind,
        code,
        records,
        held: Duration::ZERO,
    };
    Some((noted, packet))
}

fn question(id: u8, labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut packet = vec![0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        packet.push(label.len() as u8);
        packet.extend(*label);
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

/// Labels and type of a question, the expected name and type in the event, and the response code.
type Case = (
    &'static [&'static [u8]],
    u16,
    &'static str,
    &'static str,
    &'static str,
);

#[test]
fn questions_have_the_names_codes_and_latency_of_the_resolver() {
    let _machine = support::shared();
    needs!("udp_events");
    let namespace = Namespace::new("dns");
    let log = resolver(&namespace);
    let stream = Stream::start(&["--kind", "dns"]);
    let client = namespace.run(|| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let port = client.local_addr().expect("bound").port();
    client.connect("127.0.0.1:53").expect("a socket of UDP");
    // This question is sent first, because a missing response is reported only after a timeout.
    let silent = question(1, &[b"silent", b"test"], A);
    client.send(&silent).expect("sent");
    client.send(&silent).expect("sent again");
    let ours = |name: &str, kind: &str| {
        stream.wait_for(name, |e| {
            e["dns.question.name"] == name
                && e["dns.question.type"] == kind
                && e["network.local.port"] == port
        })
    };
    let cases: [Case; 4] = [
        (&[b"www", b"test"], A, "www.test", "A", "NOERROR"),
        (&[b"www", b"test"], AAAA, "www.test", "AAAA", "NOERROR"),
        (&[b"missing"], A, "missing", "A", "NXDOMAIN"),
        (
            &[b"a\x1b[31m", b"test"],
            64_999,
            "a\u{1b}[31m.test",
            "TYPE64999",
            "NXDOMAIN",
        ),
    ];
    for (id, (labels, kind, name, type_name, code)) in (2..).zip(cases) {
        let began = Instant::now();
        client.send(&question(id, labels, kind)).expect("sent");
        client.recv(&mut [0; 512]).expect("an answer");
        let whole = began.elapsed().as_secs_f64();
        let event = ours(name, type_name);
        let log = log.lock().expect("no panic");
        let noted = log.last().expect("it has answered");
        assert_eq!((noted.name.as_str(), noted.kind), (name, kind), "{noted:?}");
        let codes = [(NOERROR, "NOERROR"), (NXDOMAIN, "NXDOMAIN")];
        assert!(codes.contains(&(noted.code, code)), "{noted:?}");
        assert_eq!(event["dns.response_code"], code, "{event}");
        assert_eq!(number(&event, "dns.answer_count"), u64::from(noted.records));
        let took = event["duration_seconds"].as_f64().expect("a number");
        let held = noted.held.as_secs_f64();
        assert!((held..=whole).contains(&took), "{held} {whole}: {event}");
        assert_eq!(event["network.peer.address"], "127.0.0.1", "{event}");
        assert_eq!(event["network.peer.port"], 53, "{event}");
        assert_eq!(event["process.pid"], std::process::id(), "{event}");
    }
    let event = ours("silent.test", "A");
    assert_eq!(event["error.type"], "timeout", "{event}");
    assert_eq!(event["dns.attempts"], 2, "{event}");
    assert_eq!(event["dns.response_code"], Value::Null, "{event}");
}

/// Both questions for a name are sent together from one socket, and the resolver responds to one
/// after the other.
#[test]
fn a_libc_lookup_matches_the_resolvers_log() {
    let _machine = support::shared();
    needs!("udp_events");
    let namespace = Namespace::new("lookup");
    let log = resolver(&namespace);
    let mut settings = tempfile::NamedTempFile::new().expect("a file of our own");
    settings
        .write_all(b"nameserver 127.0.0.1\n")
        .expect("it can be written");
    let stream = Stream::start(&["--kind", "dns"]);
    // `ip netns exec` has its own mount namespace.
    let script = format!(
        "[ -e /etc/resolv.conf ] || : > /etc/resolv.conf
        mount -o bind {} /etc/resolv.conf && exec {}",
        settings.path().display(),
        load::command("lookup").join(" ")
    );
    let mut lookup = Load::of(namespace.command("sh").args(["-c", &script]));
    for (name, found, code) in [
        ("www.test", "192.0.2.1", "NOERROR"),
        ("slow.test", "192.0.2.1", "NOERROR"),
        ("missing.test", "none", "NXDOMAIN"),
    ] {
        let began = Instant::now();
        assert_eq!(lookup.ask(name), found, "{name}");
        let whole = began.elapsed().as_secs_f64();
        let log = log.lock().expect("no panic").clone();
        for (kind, type_name) in [(A, "A"), (AAAA, "AAAA")] {
            let mut noted = log.iter().filter(|n| n.name == name && n.kind == kind);
            let (Some(noted), None) = (noted.next(), noted.next()) else {
                panic!("not one question of {type_name} {name}: {log:?}");
            };
            let ours = |e: &Value| {
                e["process.pid"] == lookup.pid()
                    && e["dns.question.name"] == name
                    && e["dns.question.type"] == type_name
            };
            let event = stream.wait_for(name, ours);
            assert_eq!(event["dns.response_code"], code, "{event}");
            assert_eq!(number(&event, "dns.answer_count"), u64::from(noted.records));
            assert_eq!(event["dns.attempts"], Value::Null, "{event}");
            let took = event["duration_seconds"].as_f64().expect("a number");
            let held = noted.held.as_secs_f64();
            assert!((held..=whole).contains(&took), "{held} {whole}: {event}");
            assert_eq!(stream.of(ours).len(), 1, "{type_name} {name}");
        }
    }
}

/// `dig` adds its own options (EDNS). The query time of `dig` is not a limit: `dig` starts its
/// clock after sending, which is up to 4 ms late on a slow machine.
#[test]
fn dns_events_match_the_output_of_dig() {
    let _machine = support::shared();
    needs!("udp_events");
    if Command::new("dig").arg("-v").output().is_err() {
        skip_because("no dig (package bind9-dnsutils)");
        return;
    }
    let namespace = Namespace::new("dig");
    let log = resolver(&namespace);
    let stream = Stream::start(&["--kind", "dns"]);
    for (name, kind, type_name, code) in [
        ("www.test", A, "A", "NOERROR"),
        ("slow.test", A, "A", "NOERROR"),
        ("www.test", AAAA, "AAAA", "NOERROR"),
        ("missing.test", A, "A", "NXDOMAIN"),
    ] {
        let args = ["@127.0.0.1", "+tries=1", "-t", type_name, "-q", name];
        let began = Instant::now();
        let output = namespace.command("dig").args(args).output().expect("dig");
        let whole = began.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let between = |from: &str, to: &str| {
            let rest = said.split_once(from)?.1;
            rest.split_once(to).map(|(found, _)| found.to_owned())
        };
        let said_code = between("status: ", ",").unwrap_or_else(|| panic!("{output:?}"));
        let said_count = between("ANSWER: ", ",").expect("a count");
        let ours = |e: &Value| {
            e["dns.question.name"] == name
                && e["dns.question.type"] == type_name
                && e["process.executable.name"] == "dig"
        };
        let event = stream.wait_for(name, ours);
        assert_eq!(said_code, code, "{said}");
        assert_eq!(event["dns.response_code"], code, "{event}");
        let count = number(&event, "dns.answer_count");
        assert_eq!(count.to_string(), said_count, "{said} {event}");
        let log = log.lock().expect("no panic").clone();
        let noted = log.iter().find(|n| n.name == name && n.kind == kind);
        let held = noted.expect("it has noted it").held.as_secs_f64();
        let took = event["duration_seconds"].as_f64().expect("a number");
        assert!((held..=whole).contains(&took), "{held} {whole} {event}");
        assert_eq!(stream.of(ours).len(), 1, "{type_name} {name}");
    }
}

#[test]
fn question_is_identified_by_id_name_and_type() {
    let _machine = support::shared();
    needs!("udp_events");
    let namespace = Namespace::new("number");
    let server = namespace.run(|| UdpSocket::bind("127.0.0.1:53").expect("root"));
    let stream = Stream::start(&["--kind", "dns"]);
    let client = namespace.run(|| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let own = client.local_addr().expect("bound");
    client.connect("127.0.0.1:53").expect("a socket of UDP");
    // A zone update is not a question.
    let mut update = question(7, &[b"update", b"test"], A);
    update[2] = 5 << 3;
    let first = question(7, &[b"first", b"test"], A);
    let second = question(7, &[b"first", b"test"], AAAA);
    let third = question(7, &[b"third", b"test"], AAAA);
    for packet in [&update, &first, &second, &second, &third] {
        client.send(packet).expect("sent");
    }
    let answer = |packet: &[u8], code| {
        let mut packet = packet.to_vec();
        packet[2..4].copy_from_slice(&[0x81, 0x80 | code]);
        server.send_to(&packet, own).expect("sent");
        client.recv(&mut [0; 512]).expect("an answer");
    };
    // A late response, a response in capital letters, and a response without the question.
    answer(&second, NOERROR);
    answer(&question(7, &[b"THIRD", b"TEST"], AAAA), NXDOMAIN);
    client.send(&question(8, &[b"last"], A)).expect("sent");
    answer(&[0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 2);
    let ours = |e: &Value| e["network.local.port"] == own.port();
    stream.wait_for("the last one", |e| {
        ours(e) && e["dns.question.name"] == "last"
    });
    let told: Vec<String> = stream
        .of(ours)
        .iter()
        .map(|e| {
            let keys = ["name", "type"].map(|key| e[format!("dns.question.{key}")].clone());
            let [name, kind] = keys;
            let (code, error) = (&e["dns.response_code"], &e["error.type"]);
            format!("{name} {kind} {code} {error} {}", e["dns.attempts"])
        })
        .collect();
    let expected = [
        "\"first.test\" \"A\" null \"timeout\" null",
        "\"first.test\" \"AAAA\" null \"timeout\" 2",
        "\"third.test\" \"AAAA\" \"NXDOMAIN\" null null",
        "\"last\" \"A\" \"SERVFAIL\" null null",
    ];
    assert_eq!(told, expected);
}

#[test]
fn open_flows_are_reported_at_the_end() {
    let _machine = support::shared();
    needs!("udp_events");
    let namespace = Namespace::new("end");
    let silent = namespace.run(|| UdpSocket::bind("127.0.0.1:53").expect("root"));
    let stream = Stream::start(&["--kind", "dns,udp"]);
    let client = namespace.run(|| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let port = client.local_addr().expect("bound").port();
    let packet = question(1, &[b"last", b"test"], A);
    client.send_to(&packet, "127.0.0.1:53").expect("sent");
    let (told, _) = stream.end();
    drop((silent, client));
    let ours = |name: &str| {
        let of = |e: &&Value| e["event.name"] == name && e["network.local.port"] == port;
        let all: Vec<&Value> = told.iter().filter(of).collect();
        assert_eq!(all.len(), 1, "{name}: {told:?}");
        all[0]
    };
    let query = ours("dns.query");
    assert_eq!(query["dns.question.name"], "last.test", "{query}");
    assert_eq!(query["error.type"], "timeout", "{query}");
    let flow = ours("udp.flow");
    assert_eq!(flow["udp.closed"], false, "{flow}");
    assert_eq!(number(flow, "bytes_sent"), packet.len() as u64, "{flow}");
    assert_eq!(number(flow, "packets_sent"), 1, "{flow}");
}

#[test]
fn a_flow_has_the_bytes_and_packets_of_both_sides() {
    let _machine = support::shared();
    needs!("udp_events");
    let namespace = Namespace::new("flow");
    let stream = Stream::start(&["--kind", "udp"]);
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let [server, client] =
            [(); 2].map(|()| namespace.run(|| UdpSocket::bind(loopback).expect("a socket")));
        let address = server.local_addr().expect("bound");
        let own = client.local_addr().expect("bound");
        let mut buffer = [0; 512];
        for size in [100, 200, 0] {
            client.send_to(&buffer[..size], address).expect("sent");
            server.recv_from(&mut buffer).expect("it came");
        }
        // A peek at a packet does not receive the packet.
        server.send_to(&buffer[..50], own).expect("sent");
        client.peek_from(&mut buffer).expect("it came");
        client.peek_from(&mut []).expect("it came");
        client.recv_from(&mut buffer).expect("it came");
        // This packet is sent but never received.
        client.send_to(&buffer[..7], address).expect("sent");
        drop((client, server));
        // Local side, peer, bytes and packets sent, bytes and packets received.
        let sides = [
            (own, address, [307, 4], [50, 1]),
            (address, own, [50, 1], [300, 3]),
        ];
        for (local, peer, sent, taken) in sides {
            let event = stream.wait_for("the end of a flow", |e| {
                e["network.local.port"] == local.port()
                    && e["network.local.address"] == local.ip().to_string().as_str()
            });
            assert_eq!(event["event.name"], "udp.flow", "{event}");
            assert_eq!(event["network.peer.port"], peer.port(), "{event}");
            assert_eq!(event["udp.closed"], true, "{event}");
            assert_eq!(event["process.pid"], std::process::id(), "{event}");
            let of = |bytes, packets| [number(&event, bytes), number(&event, packets)];
            assert_eq!(of("bytes_sent", "packets_sent"), sent, "{event}");
            assert_eq!(of("bytes_received", "packets_received"), taken, "{event}");
        }
    }
}

/// If only unsupported kinds are requested, that is an error. Otherwise noctule prints a warning.
#[test]
fn requesting_an_unsupported_kind_is_reported() {
    let _machine = support::shared();
    needs!("process_events");
    let mut config = tempfile::NamedTempFile::new().expect("a file of our own");
    let text = b"[events]\nudp = true\n";
    config.write_all(text).expect("it can be written");
    let path = config.path().to_str().expect("in UTF-8");
    let answer = support::json(&["doctor", "--json", "--config", path]);
    let features = answer["features"].as_array().expect("features");
    let feature = features.iter().find(|it| it["name"] == "udp_events");
    let off = feature.expect("it is listed")["state"] == "off";
    for (kinds, status) in [("dns,udp", if off { 3 } else { 0 }), ("udp,process", 0)] {
        let output = support::noctule(&["events", "--kind", kinds, "--for", "100ms"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{kinds}: {errors}");
        assert_eq!(errors.contains("udp_events is off: "), off, "{errors}");
    }
}
