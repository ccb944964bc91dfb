//! Tests of `noctule hist socket:INTERFACE` with packets that the test itself sends, counted
//! exactly.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use serde_json::{Value, json};

use super::hist::{Hist, refused};
use super::support;
use super::support::netns::Namespace;

/// Creates a namespace in which frames go only from `a` to `b`.
fn wire() -> Namespace {
    let namespace = Namespace::new("wire");
    namespace.set("ipv6/conf/default/disable_ipv6", "1");
    let names = ["name", "a", "type", "veth", "peer", "name", "b"];
    namespace.ip(&[&["link", "add"][..], &names].concat());
    for name in ["a", "b"] {
        namespace.ip(&["link", "set", "dev", name, "up"]);
    }
    namespace
}

/// Sends complete frames.
struct Sender(OwnedFd, libc::sockaddr_ll);

/// Returns the address of an interface.
fn sockaddr(interface: &str, socket: &OwnedFd) -> libc::sockaddr_ll {
    #[allow(
        unsafe_code,
        reason = "no safe function supports packet socket addresses"
    )]
    // SAFETY: all bytes may be zero.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let index = name_to_index(socket, interface).expect("it was made");
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index.cast_signed();
    address
}

impl Sender {
    fn new(interface: &str) -> Self {
        let socket = socket(AddressFamily::PACKET, SocketType::RAW, None).expect("root");
        let address = sockaddr(interface, &socket);
        Self(socket, address)
    }

    fn send(&self, frame: &[u8]) {
        let mut to = self.1;
        to.sll_protocol = u16::from_ne_bytes([frame[12], frame[13]]);
        #[allow(
            unsafe_code,
            reason = "no safe function supports packet socket addresses"
        )]
        // SAFETY: both objects live for the whole call, and have the given sizes.
        let sent = unsafe {
            libc::sendto(
                self.0.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of_val(&to) as libc::socklen_t,
            )
        };
        let error = io::Error::last_os_error();
        assert_eq!(sent, frame.len().cast_signed(), "{error}");
    }
}

/// Prepends an Ethernet header.
fn frame(protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    frame.extend(protocol.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns an IPv4 packet from 10.0.0.1 to 10.0.0.2. `words` is the length of its header; above
/// five it has options.
fn ipv4(protocol: u8, words: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = 4 * u16::from(words) + payload.len() as u16;
    let mut packet = vec![0x40 | words, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.resize(4 * usize::from(words), 1);
    packet.extend(payload);
    packet
}

/// Returns a segment that has ports, followed by zeros.
fn segment(source: u16, destination: u16, length: usize) -> Vec<u8> {
    let mut bytes = source.to_be_bytes().to_vec();
    bytes.extend(destination.to_be_bytes());
    bytes.resize(length, 0);
    bytes
}

fn syn(destination: u16) -> Vec<u8> {
    let mut bytes = segment(1000, destination, 20);
    bytes[13] = 0x02;
    bytes
}

/// Returns an IPv6 packet from 2001:db8::1 to 2001:db8::2, with hop-by-hop options and the header
/// of a first fragment.
fn ipv6(upper: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 16 + payload.len() as u8, 0, 5];
    for last in [1, 2] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend([44, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend([upper, 0, 0, 1, 0, 0, 0, 7]);
    packet.extend(payload);
    packet
}

/// Returns the frames, each with its count and its expected key.
fn frames() -> Vec<(Vec<u8>, u64, Value)> {
    let mut tagged = vec![0, 100, 8, 0];
    tagged.extend(ipv4(17, 5, 0, &segment(5, 6, 12)));
    let key = |eth, vlan, version, proto, src: Value, dport, flags, offset| {
        json!([eth, vlan, version, proto, src, dport, flags, offset])
    };
    let (four, six) = (json!("10.0.0.1"), json!("2001:db8::1"));
    let none = Value::Null;
    vec![
        (
            frame(0x0800, &ipv4(17, 5, 0, &segment(1000, 53, 28))),
            100,
            key(0x0800, 0, 4, 17, four.clone(), 53, 0, 0),
        ),
        // The header has options, so the ports are at another offset.
        (
            frame(0x0800, &ipv4(6, 8, 0, &syn(80))),
            50,
            key(0x0800, 0, 4, 6, four.clone(), 80, 2, 0),
        ),
        (
            frame(0x0800, &ipv4(1, 5, 0, &[8, 0, 0, 0])),
            30,
            key(0x0800, 0, 4, 1, four.clone(), 0, 0, 0),
        ),
        // The middle of a datagram, which contains no ports.
        (
            frame(0x0800, &ipv4(17, 5, 0x2001, &segment(7, 7, 8))),
            20,
            key(0x0800, 0, 4, 17, four.clone(), 0, 0, 8),
        ),
        (
            frame(0x86dd, &ipv6(6, &syn(443))),
            10,
            key(0x86dd, 0, 6, 6, six, 443, 2, 0),
        ),
        (
            frame(0x8100, &tagged),
            5,
            key(0x0800, 100, 4, 17, four, 6, 0, 0),
        ),
        // The packet ends in the middle of the header.
        (
            frame(0x0800, &ipv4(17, 5, 0, &[])[..10]),
            3,
            key(0x0800, 0, 0, 0, none.clone(), 0, 0, 0),
        ),
        (
            frame(0x0806, &[0; 28]),
            2,
            key(0x0806, 0, 0, 0, none, 0, 0, 0),
        ),
    ]
}

const TRIGGER: &str =
    "keys=eth_type,vlan,ip_version,ip_proto,ip_src,port_dst,tcp_flags,frag_offset:vals=len";

/// Returns the key of a row as a list.
fn key(row: &Value) -> Value {
    let names = TRIGGER.strip_prefix("keys=").expect("it has keys");
    let names = names.split(':').next().expect("it has keys").split(',');
    names.map(|name| row[name].clone()).collect()
}

#[test]
fn packets_are_counted_exactly_on_both_interfaces() {
    let _machine = support::shared();
    needs!("cpu_time");
    let wire = wire();
    let received = || {
        let links = wire.ip_json(&["-s", "link", "show", "dev", "b"]);
        let rx = &links[0]["stats64"]["rx"];
        ["packets", "bytes"].map(|name| rx[name].as_u64().expect("a number"))
    };
    let before = received();
    let answers = wire.run(|| {
        let [out, come_in, any] =
            ["socket:a", "socket:b", "socket:any"].map(|at| Hist::start(at, TRIGGER, &["--json"]));
        let sender = Sender::new("a");
        for (frame, times, _) in frames() {
            (0..times).for_each(|_| sender.send(&frame));
        }
        [out, come_in, any].map(Hist::end_json)
    });
    let after = received();
    let total: u64 = frames().iter().map(|(_, times, _)| times).sum();
    assert_eq!(after[0] - before[0], total, "the kernel's own count");
    for (at, answer) in ["a", "b", "any"].iter().zip(&answers) {
        // With the interface "any", the kernel delivers each frame twice and without its header.
        let seen = if *at == "any" { 2 } else { 1 };
        let header = if *at == "any" { 14 } else { 0 };
        assert_eq!(answer["hits"], seen * total, "{at}: {answer}");
        let rows = answer["rows"].as_array().expect("rows");
        for (frame, times, expected) in frames() {
            let row = rows.iter().find(|row| key(row) == expected);
            let row = row.unwrap_or_else(|| panic!("{at}: {expected}: {answer}"));
            assert_eq!(row["hitcount"], seen * times, "{at}: {row}");
            // The kernel removes a tag from arriving packets.
            let tag = if expected[1] == 0 || *at == "a" { 0 } else { 4 };
            let sum = seen * (frame.len() as u64 - header - tag);
            // Older kernels keep the tag in departing packets.
            let older = sum + if *at == "any" { tag } else { 0 };
            assert!(
                row["len"] == sum * times || row["len"] == older * times,
                "{at}: {row}"
            );
        }
        assert_eq!(rows.len(), frames().len(), "{at}: {answer}");
    }
    let sum = |answer: &Value| -> u64 {
        let rows = answer["rows"].as_array().expect("rows");
        rows.iter().filter_map(|row| row["len"].as_u64()).sum()
    };
    assert_eq!(after[1] - before[1], sum(&answers[0]), "bytes");
}

/// Each connection starts with one SYN, which leaves and arrives on `lo`.
#[test]
fn loopback_connections_match_the_kernels_count() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CONNECTIONS: u64 = 200;
    let namespace = Namespace::new("loopback");
    let (answer, port) = namespace.run(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let to = listener.local_addr().expect("it is bound");
        let trigger = "keys=pkt_type.flags,port_dst if ip_dst == \"127.0.0.0/8\" && \
                       tcp_flags & 2 && !(tcp_flags & 0x10)";
        let hist = Hist::start("socket:lo", trigger, &["--json"]);
        for _ in 0..CONNECTIONS {
            TcpStream::connect(to).expect("it listens");
            listener.accept().expect("it is connected");
        }
        (hist.end_json(), to.port())
    });
    assert_eq!(namespace.tcp("ActiveOpens"), CONNECTIONS);
    assert_eq!(answer["hits"], 2 * CONNECTIONS, "{answer}");
    let rows = answer["rows"].as_array().expect("rows");
    let ways: Vec<_> = rows.iter().map(|row| &row["pkt_type"]["name"]).collect();
    assert_eq!(rows.len(), 2, "{answer}");
    assert!(ways.contains(&&json!("host")) && ways.contains(&&json!("outgoing")));
    for row in rows {
        assert_eq!(row["hitcount"], CONNECTIONS, "{answer}");
        assert_eq!(row["port_dst"], port, "{answer}");
    }
}

#[test]
fn packet_errors_are_reported() {
    let _machine = support::shared();
    let cases = [
        (
            ["socket:no such", "keys=len"],
            "has no interface no such; it has",
        ),
        (["socket:", "keys=len"], "has no interface"),
        (
            ["socket:lo", "keys=comm"],
            "The current thread is unrelated to this event",
        ),
        (
            ["socket:lo", "keys=stacktrace"],
            "The current thread is unrelated to this event",
        ),
        (["socket:lo", "keys=ip_scr"], "help: did you mean `ip_src`?"),
        (
            ["socket:lo", "keys=len if ip_src == \"10.0.0.256\""],
            "Invalid IP address",
        ),
        (
            ["socket:lo", "keys=len:vals=ip_src"],
            "Expecting numeric field",
        ),
    ];
    for (args, words) in cases {
        let (code, errors) = refused(&args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// Returns tcpdump's compilation of a filter for a live interface.
fn classic(expression: &str) -> String {
    let mut command = std::process::Command::new("tcpdump");
    command.args(["-ddd", "-y", "EN10MB", "-i", "b", "--", expression]);
    let output = command.output().expect("tcpdump is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// A socket on `b` with a classic BPF filter in the kernel.
struct Filtered(OwnedFd);

impl Filtered {
    fn new(code: &str) -> Self {
        let socket = socket(AddressFamily::PACKET, SocketType::RAW, None).expect("root");
        let insn = |line: &str| {
            let numbers: Vec<u32> = line
                .split(' ')
                .map(|n| n.parse().expect("a number"))
                .collect();
            libc::sock_filter {
                code: numbers[0] as u16,
                jt: numbers[1] as u8,
                jf: numbers[2] as u8,
                k: numbers[3],
            }
        };
        let mut insns: Vec<_> = code.lines().skip(1).map(insn).collect();
        let program = libc::sock_fprog {
            len: insns.len() as u16,
            filter: insns.as_mut_ptr(),
        };
        let mut to = sockaddr("b", &socket);
        to.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        #[allow(unsafe_code, reason = "no safe call attaches a filter")]
        // SAFETY: both structures live until the calls return, and have the given sizes.
        let results = unsafe {
            [
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ATTACH_FILTER,
                    (&raw const program).cast(),
                    size_of_val(&program) as libc::socklen_t,
                ),
                libc::bind(
                    socket.as_raw_fd(),
                    (&raw const to).cast(),
                    size_of_val(&to) as libc::socklen_t,
                ),
            ]
        };
        assert_eq!(results, [0, 0], "{}", io::Error::last_os_error());
        Self(socket)
    }

    /// Returns the number of packets that passed.
    fn passed(&self) -> u64 {
        // The kernel returns the numbers of received and of dropped packets.
        let mut counts = [0_u32; 2];
        let mut size = size_of_val(&counts) as libc::socklen_t;
        #[allow(unsafe_code, reason = "no safe call reads these")]
        // SAFETY: the kernel writes at most the given size.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        counts[0].into()
    }
}

/// Each filter runs as noctule's instructions and as the kernel's classic BPF, on the same packets.
#[test]
fn tcpdump_filters_agree_with_the_kernel() {
    let _machine = support::shared();
    needs!("cpu_time");
    let cases = [
        ("tcp port 80", 50),
        ("udp and dst port 53", 100),
        ("ip6", 10),
        ("icmp", 30),
        ("vlan 100", 5),
        ("arp or vlan", 7),
        ("ip[6:2] & 0x1fff != 0", 20),
        ("host 10.0.0.1 and not tcp and not vlan", 150),
        ("greater 60", 160),
        ("ether src 02:00:00:00:00:08 and ip[0] & 0xf > 5", 50),
    ];
    let wire = wire();
    wire.run(|| {
        let running = cases.map(|(expression, _)| {
            let code = classic(expression);
            let hist =
                |filter| Hist::start("socket:b", "keys=ip_proto", &["--json", "--filter", filter]);
            (Filtered::new(&code), hist(expression), hist(&code))
        });
        let sender = Sender::new("a");
        for (frame, times, _) in frames() {
            (0..times).for_each(|_| sender.send(&frame));
        }
        for ((expression, expected), (kernel, ours, compiled)) in cases.into_iter().zip(running) {
            let passed = kernel.passed();
            assert_eq!(passed, expected, "{expression}: the kernel's own");
            for answer in [ours, compiled].map(Hist::end_json) {
                assert_eq!(answer["hits"], passed, "{expression}: {answer}");
            }
        }
    });
    let (code, errors) = refused(&["socket:lo", "keys=len", "--filter", "tcp prot 80"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("syntax error"), "{errors}");
    let (code, errors) = refused(&["socket:lo", "keys=len", "--filter", "2,40 0 0 12"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--filter: instruction 1"), "{errors}");
}
