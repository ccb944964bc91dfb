//! Tests events as JSON and as lines: each kind against golden files, and hostile bytes.

mod fixture;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use fixture::{HOSTILE, SECOND, container, owner, unit};
use noctule_model::{
    CgroupId, CloseReason, Comm, ConnectError, DnsAnswer, DnsQuery, DnsQuestion, Event,
    EventProcess, ExecContext, ExitStatus, FileChange, FilePath, Namespace, Origin, Owner, Parent,
    ProcessId, Socket, TcpChange, UdpFlow, What,
};
use noctule_schema::event::EventKind;
use noctule_schema::{Type, Value as Fact};
use noctule_sinks::events::{EventLine, Tone, event_json, event_line};
use noctule_text::escape;
use serde_json::Value;

const MILLISECOND: u64 = 1_000_000;
const AT: u64 = 1_700_000_000 * SECOND + 123 * MILLISECOND;

fn process(comm: &[u8], owner: Option<Owner>) -> EventProcess {
    EventProcess {
        id: ProcessId {
            pid: 4711,
            start_ns: 5 * SECOND,
        },
        start_unix_ns: AT - SECOND,
        comm: Comm::new(comm),
        thread: None,
        cgroup: owner.as_ref().map_or(CgroupId(9), |owner| owner.cgroup),
        owner: owner.map(Arc::new),
    }
}

fn event(what: What) -> Event {
    Event {
        time_unix_ns: AT,
        process: Some(process(b"curl", Some(unit(72, "cron.service")))),
        origin: Origin::Seen,
        what,
    }
}

fn path(bytes: &[u8]) -> FilePath {
    FilePath {
        bytes: bytes.to_vec(),
        ..FilePath::default()
    }
}

fn exec(args: &[&[u8]]) -> What {
    What::ProcessExec {
        path: path(b"/usr/bin/curl"),
        args: args.iter().map(|arg| arg.to_vec()).collect(),
        args_truncated: false,
        uid: 1000,
        context: Box::new(context()),
    }
}

fn parent() -> Parent {
    Parent {
        id: ProcessId {
            pid: 4710,
            start_ns: 4 * SECOND,
        },
        start_unix_ns: AT - 2 * SECOND,
        comm: Comm::new(b"sh"),
    }
}

fn context() -> ExecContext {
    let namespace = |kind, inode, of_host| Namespace {
        kind,
        inode,
        of_host,
    };
    ExecContext {
        parent: Some(parent()),
        ancestors: vec![Comm::new(b"sshd"), Comm::new(b"systemd")],
        effective_uid: 0,
        gid: 1000,
        effective_gid: 1001,
        capabilities: 0x1ff_ffff_ffff,
        login_uid: Some(1000),
        audit_session: None,
        tty: Some(Comm::new(b"pts0")),
        namespaces: vec![
            namespace("mnt", 4_026_531_841, Some(true)),
            namespace("net", 4_026_532_000, Some(false)),
        ],
        directory: path(b"/srv/\xff"),
    }
}

fn exit(status: ExitStatus, oom_killed: bool) -> What {
    What::ProcessExit {
        status: Some(status),
        oom_killed,
        core_dumped: status == ExitStatus::Signal(11),
        parent: Some(parent()),
        duration_ns: Some(1_234 * MILLISECOND),
        cpu_ns: Some(15 * MILLISECOND),
        rss_peak_bytes: Some(12_345_678),
    }
}

fn open(flags: u32, error: Option<i32>) -> What {
    let path = path(b"/etc/hosts");
    What::FileOpen { path, flags, error }
}

fn udp_socket(peer: &str) -> Socket {
    Socket {
        id: 0,
        local: address("10.0.0.1", 4242),
        peer: address(peer, 53),
        netns_cookie: Some(1),
        multipath: false,
    }
}

/// `answer` is the response code and the number of records.
fn dns(name: &[u8], answer: Option<(u8, u16)>, attempts: u32) -> What {
    What::DnsQuery(Box::new(DnsQuery {
        socket: udp_socket("10.0.0.2"),
        question: DnsQuestion {
            name: name.to_vec(),
            truncated: attempts == 3,
            kind: 28,
        },
        attempts,
        answer: answer.map(|(code, records)| DnsAnswer {
            code,
            records,
            duration_ns: 15 * MILLISECOND,
        }),
        unread: name == b"unread",
    }))
}

fn address(ip: &str, port: u16) -> Option<SocketAddr> {
    let ip: IpAddr = ip.parse().expect("an address");
    Some(SocketAddr::new(ip, port))
}

fn connection(change: TcpChange, own: &str, peer: &str) -> What {
    let socket = Socket {
        id: 7,
        local: address(own, 4242),
        peer: address(peer, 80),
        netns_cookie: Some(1),
        multipath: false,
    };
    What::Tcp { change, socket }
}

fn tcp(change: TcpChange) -> What {
    connection(change, "10.0.0.1", "10.0.0.2")
}

fn failed(reason: ConnectError, errno: i32) -> What {
    tcp(TcpChange::ConnectFailed {
        reason,
        errno,
        duration_ns: Some(1_200_000),
    })
}

fn closed(duration_ns: Option<u64>, rtt_us: Option<u32>) -> What {
    tcp(TcpChange::Close {
        bytes_sent: Some(12_345),
        bytes_received: Some(1_100_000),
        duration_ns,
        reason: rtt_us.map(|_| CloseReason::Reset),
        closed_here: rtt_us.map(|_| false),
        retransmits: Some(0),
        rtt_us,
    })
}

fn processes() -> Vec<Event> {
    let mut cut = exec(&[b"curl", b"-s", b"http://example.com/a b", b""]);
    if let What::ProcessExec {
        path,
        args_truncated,
        ..
    } = &mut cut
    {
        (path.truncated, *args_truncated) = (true, true);
        (path.deleted, path.unreachable) = (true, true);
    }
    let start = |parent| What::ProcessStart {
        parent_pid: 4710,
        parent,
    };
    vec![
        event(start(Some(parent()))),
        Event {
            origin: Origin::Existing,
            process: Some(process(b"cartd", Some(container(71, Some("cart"))))),
            ..event(start(None))
        },
        event(exec(&[b"curl", b"-s", b"http://example.com/"])),
        event(cut),
        event(What::ProcessExecFailed {
            path: path(b"/usr/local/bin/\xffx"),
            uid: 1000,
            parent: Some(parent()),
            errno: 2,
        }),
        event(exit(ExitStatus::Code(0), false)),
        event(exit(ExitStatus::Code(3), false)),
        event(exit(ExitStatus::Signal(11), false)),
        Event {
            process: Some(EventProcess {
                thread: Some(Comm::new(b"hog-worker")),
                ..process(b"hog", Some(container(71, None)))
            }),
            ..event(exit(ExitStatus::Signal(9), true))
        },
        Event {
            origin: Origin::Reconciled,
            process: Some(process(b"lost", None)),
            ..event(What::ProcessExit {
                status: None,
                oom_killed: false,
                core_dumped: false,
                parent: None,
                duration_ns: None,
                cpu_ns: None,
                rss_peak_bytes: None,
            })
        },
        event(What::ProcessSignal {
            signal: 15,
            code: 0,
            sender: Some(parent()),
        }),
        event(What::ProcessSignal {
            signal: 17,
            code: 1,
            sender: None,
        }),
        event(What::OomKill {
            rss_bytes: Some(48_000_000),
            limit_bytes: Some(50_000_000),
        }),
        event(What::OomKill {
            rss_bytes: Some(48_000_000),
            limit_bytes: None,
        }),
    ]
}

fn sockets() -> Vec<Event> {
    let took = Some(1_200_000);
    let listens = Socket {
        id: 0,
        local: address("::", 80),
        peer: None,
        netns_cookie: None,
        multipath: true,
    };
    let half = Socket {
        id: 8,
        local: None,
        peer: address("2001:db8::1", 443),
        netns_cookie: Some(u64::MAX),
        multipath: false,
    };
    let listen = |change| What::Tcp {
        change,
        socket: listens,
    };
    let unowned = Event {
        process: None,
        origin: Origin::Existing,
        ..event(tcp(TcpChange::Connect { duration_ns: None }))
    };
    // The connection began before the agent started, and the agent found its end later.
    let late = What::Tcp {
        change: TcpChange::ConnectFailed {
            reason: ConnectError::Other,
            errno: 0,
            duration_ns: None,
        },
        socket: Socket { peer: None, ..half },
    };
    let given_up = What::Tcp {
        change: TcpChange::ConnectFailed {
            reason: ConnectError::Abandoned,
            errno: 0,
            duration_ns: Some(3 * SECOND),
        },
        socket: half,
    };
    vec![
        event(listen(TcpChange::Listen)),
        event(listen(TcpChange::ListenClose)),
        event(tcp(TcpChange::Connect { duration_ns: took })),
        event(connection(
            TcpChange::Connect { duration_ns: took },
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.2",
        )),
        event(connection(TcpChange::Accept, "::1", "::1")),
        unowned,
        event(failed(ConnectError::Refused, 111)),
        event(failed(ConnectError::Timeout, 110)),
        event(given_up),
        event(late),
        event(failed(ConnectError::Unreachable, 113)),
        event(failed(ConnectError::Other, 4000)),
        event(tcp(TcpChange::Retransmit {
            segments: 1,
            failed: 0,
        })),
        event(tcp(TcpChange::Retransmit {
            segments: 5,
            failed: 2,
        })),
        event(closed(Some(2_100 * MILLISECOND), Some(100))),
        event(closed(None, None)),
    ]
}

fn other_events() -> Vec<Event> {
    let mut cut = open(0o2_000_000, Some(2));
    if let What::FileOpen { path, .. } = &mut cut {
        path.truncated = true;
    }
    let mut gone = open(0o1, None);
    if let What::FileOpen { path, .. } = &mut gone {
        (path.deleted, path.unreachable) = (true, true);
    }
    let change = |change, error| {
        event(What::FileChange {
            path: path(b"/srv/\x1bold"),
            change,
            error,
        })
    };
    let to = || path(b"/srv/new\n");
    let deleted = FilePath {
        deleted: true,
        ..path(b"/srv/gone")
    };
    let lost = vec![("file.open", 120), ("process.exec", 3)];
    vec![
        event(open(0o101, None)),
        event(cut),
        event(gone),
        event(open(0x4000_0000, Some(4000))),
        change(FileChange::Delete { directory: false }, None),
        change(FileChange::Delete { directory: true }, Some(39)),
        change(
            FileChange::Rename {
                to: to(),
                exchanged: false,
            },
            None,
        ),
        change(
            FileChange::Rename {
                to: to(),
                exchanged: true,
            },
            None,
        ),
        change(FileChange::HardLink { to: to() }, Some(1)),
        change(FileChange::SymbolicLink { target: to() }, None),
        change(FileChange::Chmod { mode: 0o4755 }, None),
        event(What::FileChange {
            path: deleted,
            change: FileChange::Chmod { mode: 0o600 },
            error: None,
        }),
        event(dns(b"www.example.org", Some((0, 2)), 1)),
        event(dns(b"a\x1b\\.b", Some((3, 0)), 2)),
        event(dns(b"gone", None, 3)),
        event(dns(b"unread", None, 1)),
        event(What::UdpFlow(UdpFlow {
            socket: udp_socket("10.0.0.2"),
            bytes_sent: 4_000_000,
            bytes_received: 0,
            packets_sent: 3000,
            packets_received: 0,
            duration_ns: 1_234 * MILLISECOND,
            closed: true,
        })),
        Event {
            process: None,
            ..event(What::Gap {
                lost,
                since_unix_ns: None,
            })
        },
        Event {
            process: None,
            ..event(What::Gap {
                lost: Vec::new(),
                since_unix_ns: Some(AT - 90 * SECOND),
            })
        },
    ]
}

fn all() -> Vec<Event> {
    [processes(), sockets(), other_events()].concat()
}

fn shown(line: &EventLine) -> String {
    let EventLine {
        time,
        kind,
        who,
        place,
        what,
        tone,
    } = line;
    format!("{time} | {kind} | {who} | {place} | {what} | {tone:?}\n")
}

#[test]
fn event_output_matches_the_golden_files() {
    let json = |event: &Event| format!("{}\n", event_json(event));
    let line = |event: &Event| shown(&event_line(event, 0));
    let cases: [(&str, String); 2] = [
        ("events.jsonl", all().iter().map(json).collect()),
        ("events.txt", all().iter().map(line).collect()),
    ];
    for (file, text) in cases {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(file);
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, golden, "{file}; NOCTULE_BLESS=1 writes it anew");
    }
}

#[test]
fn values_have_their_documented_type() {
    for event in all() {
        for field in EventKind::of(&event.what).fields.iter().copied().flatten() {
            let Some(value) = (field.get)(&event.what) else {
                continue;
            };
            let fits = matches!(
                (field.value_type, &value),
                (Type::Flag, Fact::Flag(_))
                    | (Type::Mark, Fact::Flag(true))
                    | (Type::Integer, Fact::Unsigned(_) | Fact::Signed(_))
                    | (Type::Number, Fact::Number(_))
                    | (Type::Text, Fact::Text(_) | Fact::Bytes(_))
                    | (Type::Texts, Fact::Texts(_))
                    | (Type::Counts, Fact::Counts(_))
            );
            assert!(fits, "{}: {value:?}", field.key);
        }
    }
}

#[test]
fn every_object_is_one_line_with_the_common_keys_and_no_null() {
    for event in all() {
        let text = event_json(&event);
        assert!(!text.contains('\n') && !text.contains("null"), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["time_unix_nano"], event.time_unix_ns);
        assert_eq!(value["event.name"], event.what.name());
        let known = value.get("process.pid").is_some();
        assert_eq!(known, event.process.is_some(), "{text}");
    }
}

#[test]
fn every_event_name_has_an_example() {
    let mut names: Vec<&str> = all().iter().map(|event| event.what.name()).collect();
    names.sort_unstable();
    names.dedup();
    let mut known = What::NAMES;
    known.sort_unstable();
    assert_eq!(names, known);
}

/// Undoes the escapes in JSON strings, as docs/json.md describes.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                out.push(u8::from_str_radix(digits, 16).expect("two digits"));
                after
            }
            (byte, after) => {
                out.push(*byte);
                after
            }
        };
    }
    out
}

#[test]
fn untrusted_bytes_are_reported_but_escaped() {
    let every: Vec<u8> = (1..=255).collect();
    let hostile = HOSTILE.iter().map(|name| name.as_bytes());
    for bytes in hostile.chain([&every[..], br"\x41", b"\xff\\xff"]) {
        let name = String::from_utf8_lossy(bytes).into_owned();
        let args = [b"curl".as_slice(), bytes];
        let event = Event {
            process: Some(process(bytes, Some(owner(5, &format!("/{name}"))))),
            ..event(exec(&args))
        };
        let text = event_json(&event);
        assert_eq!(escape(&text).replace(r"\\", r"\"), text, "unseen");
        let value: Value = serde_json::from_str(&text).unwrap();
        let reported = value["process.command_args"][1].as_str().unwrap();
        assert_eq!(bytes_of(reported), bytes);

        let line = event_line(&event, 0);
        for part in [line.who, line.place, line.what] {
            let seen = escape(&part).replace(r"\\", r"\");
            assert_eq!(seen, part, "a terminal would obey it");
        }
    }
}

#[test]
fn call_name_is_shown_if_the_path_differs() {
    let line = |path: &[u8], args: &[&[u8]]| {
        let mut what = exec(args);
        if let What::ProcessExec { path: of, .. } = &mut what {
            of.bytes = path.to_vec();
        }
        event_line(&event(what), 0).what
    };
    let busybox: &[u8] = b"/bin/busybox";
    assert_eq!(
        line(busybox, &[b"sleep", b"0.5"]),
        "exec /bin/busybox (as sleep) 0.5"
    );
    assert_eq!(
        line(busybox, &[b"/sbin/a b"]),
        "exec /bin/busybox (as 'a b')"
    );
    assert_eq!(line(b"/bin/bash", &[b"-bash"]), "exec /bin/bash (as -bash)");
    assert_eq!(
        line(b"/bin/bash", &[b"/usr/bin/bash", b"-c"]),
        "exec /bin/bash -c"
    );
    assert_eq!(line(b"/bin/bash", &[]), "exec /bin/bash");
}

#[test]
fn lines_stay_short_with_long_arguments() {
    let long = [b'a'; 100_000];
    let many: Vec<&[u8]> = (0..50_000).map(|_| b"x y".as_slice()).collect();
    for args in [&[b"curl".as_slice(), &long][..], &many] {
        let line = event_line(&event(exec(args)), 0);
        assert!(line.what.ends_with('…'), "{}", line.what);
        assert!(line.what.chars().count() < 200, "{}", line.what);
    }
}

#[test]
fn event_time_is_local() {
    let line = |ns, offset| {
        let event = Event {
            time_unix_ns: ns,
            ..event(open(0, None))
        };
        event_line(&event, offset).time
    };
    assert_eq!(line(AT, 0), "22:13:20.123");
    assert_eq!(line(AT, 2 * 3600), "00:13:20.123");
    assert_eq!(line(0, -5 * 3600 - 1800), "18:30:00.000");
    assert_eq!(line(86_399_999_999_999, 0), "23:59:59.999");
}

#[test]
fn inferred_events_have_a_quiet_tone() {
    for event in all() {
        let quiet = event_line(&event, 0).tone == Tone::Quiet;
        assert_eq!(quiet, event.origin != Origin::Seen);
    }
}
