//! Tests random packets, whole and truncated: the record that a program fills must equal the result
//! of a dissector that was written from the standards alone.

use super::evaluate::Table;
use super::machine;
use super::maps::Maps;
use super::world::{Random, World};
use crate::emit::emit;
use crate::identity::Identity;
use crate::parse;
use crate::print::Print;
use crate::probe::{Link, PacketField, Probe};
use crate::program::{Number, Program};
use crate::resolve::{self, Fits, Groups, Scope};

const PACKETS: u64 = 15_000;

/// Resolves no cgroup, because packets belong to no thread.
struct NoGroups;

impl Groups for NoGroups {
    fn current(&self) -> Result<Number, String> {
        Err("no group".to_owned())
    }

    fn fitting(&self, _: Identity, _: Fits) -> Vec<u64> {
        Vec::new()
    }
}

/// Compiles a histogram over packets.
pub(super) fn compile(link: Link, trigger: &str) -> Program {
    let format = PacketField::format();
    let tables = Print::parse(&format).unwrap().tables();
    let (tree, problems) = parse::hist(trigger);
    assert_eq!(problems, [], "{trigger}");
    let scope = Scope {
        probe: Probe::Packet(link),
        format: &format,
        tables: &tables,
        function: &|_| None,
        groups: &NoGroups,
        cpus: 2,
    };
    resolve::hist(&tree, &scope).unwrap().0
}

/// A packet and the kernel's metadata of it.
struct Packet {
    /// Network-layer protocol, which the packet itself does not contain if it has no Ethernet
    /// header.
    protocol: u16,
    tag: Option<u16>,
    kind: u32,
    /// The whole packet, starting with the Ethernet header.
    whole: Vec<u8>,
    /// The part that the program can read.
    bytes: Vec<u8>,
}

impl Packet {
    fn world(&self) -> World {
        let mut record = vec![0; 192];
        let mut put = |at: usize, value: u32| {
            record[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(0, self.bytes.len() as u32);
        put(4, self.kind);
        put(8, 0x1234_5678);
        put(16, u16::to_be(self.protocol).into());
        put(20, self.tag.is_some().into());
        put(24, self.tag.unwrap_or(0).into());
        put(40, 7);
        World {
            record,
            packet: Some(self.bytes.clone()),
            whole: self.whole.clone(),
            cpu: 1,
            ..World::default()
        }
    }

    /// Returns the expected record.
    fn record(&self, link: Link) -> Vec<u8> {
        let mut record = Record(vec![0; 72]);
        record.address(PacketField::IpSource, &[0xff; 16]);
        record.address(PacketField::IpDestination, &[0xff; 16]);
        record.put(PacketField::Len, self.bytes.len() as u32);
        record.put(PacketField::PktType, self.kind);
        record.put(PacketField::Mark, 0x1234_5678);
        record.put(PacketField::IfIndex, 7);
        record.put(PacketField::Vlan, u32::from(self.tag.unwrap_or(0)) & 0xfff);
        let tail = match (link, self.protocol) {
            (Link::Ethernet, _) | (_, 0x8100 | 0x88a8) => self.whole.get(14..),
            (Link::None, _) => Some(&self.bytes[..]),
        };
        record.network(self.protocol, tail.unwrap_or_default());
        record.0
    }
}

struct Record(Vec<u8>);

impl Record {
    fn put(&mut self, field: PacketField, value: u32) {
        let (at, size) = field.place();
        let place = &mut self.0[at as usize..][..size as usize];
        place.copy_from_slice(&value.to_le_bytes()[..size as usize]);
    }

    fn address(&mut self, field: PacketField, bytes: &[u8; 16]) {
        let (at, _) = field.place();
        self.0[at as usize..][..16].copy_from_slice(bytes);
    }

    fn network(&mut self, mut protocol: u16, mut rest: &[u8]) {
        for _ in 0..2 {
            let (0x8100 | 0x88a8, [a, b, c, d, tail @ ..]) = (protocol, rest) else {
                break;
            };
            let (at, _) = PacketField::Vlan.place();
            if self.0[at as usize..][..2] == [0, 0] {
                self.put(PacketField::Vlan, u32::from(a & 15) << 8 | u32::from(*b));
            }
            protocol = u16::from_be_bytes([*c, *d]);
            rest = tail;
        }
        self.put(PacketField::EthType, protocol.into());
        match protocol {
            0x0800 => self.ipv4(rest),
            0x86dd => self.ipv6(rest),
            _ => {}
        }
    }

    fn ipv4(&mut self, bytes: &[u8]) {
        let Some(header) = bytes.first_chunk::<20>() else {
            return;
        };
        let length = 4 * usize::from(header[0] & 15);
        if header[0] >> 4 != 4 || length < 20 {
            return;
        }
        self.put(PacketField::IpVersion, 4);
        self.put(PacketField::Tos, header[1].into());
        self.put(PacketField::Ttl, header[8].into());
        self.put(PacketField::IpProto, header[9].into());
        let mapped = |at: usize| {
            let mut address = [0; 16];
            address[10..12].fill(0xff);
            address[12..].copy_from_slice(&header[at..at + 4]);
            address
        };
        self.address(PacketField::IpSource, &mapped(12));
        self.address(PacketField::IpDestination, &mapped(16));
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        self.put(PacketField::MoreFragments, u32::from(fragment >> 13 & 1));
        self.put(
            PacketField::FragmentOffset,
            u32::from(fragment & 0x1fff) * 8,
        );
        if fragment & 0x1fff == 0 {
            self.transport(header[9], bytes.get(length..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, bytes: &[u8]) {
        let Some(header) = bytes.first_chunk::<40>() else {
            return;
        };
        if header[0] >> 4 != 6 {
            return;
        }
        self.put(PacketField::IpVersion, 6);
        let class = header[0] << 4 | header[1] >> 4;
        self.put(PacketField::Tos, class.into());
        self.put(PacketField::Ttl, header[7].into());
        self.address(
            PacketField::IpSource,
            header[8..24].first_chunk::<16>().unwrap(),
        );
        self.address(
            PacketField::IpDestination,
            header[24..].first_chunk::<16>().unwrap(),
        );
        let (mut next, mut rest) = (header[6], &bytes[40..]);
        for passed in 0.. {
            self.put(PacketField::IpProto, next.into());
            let length = match (next, rest) {
                (_, _) if passed == 8 => return,
                (0 | 43 | 60 | 135 | 139 | 140, [_, length, ..]) => 8 + 8 * usize::from(*length),
                (51, [_, length, ..]) => 8 + 4 * usize::from(*length),
                (44, [_, _, high, low, _, _, _, _, ..]) => {
                    let word = u16::from_be_bytes([*high, *low]);
                    self.put(PacketField::MoreFragments, u32::from(word & 1));
                    self.put(PacketField::FragmentOffset, u32::from(word & 0xfff8));
                    if word & 0xfff8 != 0 {
                        self.put(PacketField::IpProto, rest[0].into());
                        return;
                    }
                    8
                }
                (0 | 43 | 44 | 51 | 60 | 135 | 139 | 140, _) => return,
                _ => return self.transport(next, rest),
            };
            next = rest[0];
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    fn transport(&mut self, protocol: u8, bytes: &[u8]) {
        match (protocol, bytes) {
            (6 | 17 | 33 | 132 | 136, [a, b, c, d, ..]) => {
                let port = |high: u8, low: u8| u16::from_be_bytes([high, low]).into();
                self.put(PacketField::PortSource, port(*a, *b));
                self.put(PacketField::PortDestination, port(*c, *d));
                if let (6, Some(flags)) = (protocol, bytes.get(13)) {
                    self.put(PacketField::TcpFlags, (*flags).into());
                }
            }
            (1 | 58, [kind, code, ..]) => {
                self.put(PacketField::IcmpType, (*kind).into());
                self.put(PacketField::IcmpCode, (*code).into());
            }
            _ => {}
        }
    }
}

/// Generates a packet whose headers are mostly valid.
fn packet(random: &mut Random, link: Link) -> Packet {
    let mut protocol = random.one_of(&[0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 4]);
    let mut bytes = network(random, protocol);
    let tags = random.one_of(&[0, 0, 0, 1, 2, 3]);
    for _ in 0..tags {
        let mut tag = (random.next() as u16).to_be_bytes().to_vec();
        if random.once_in(3) {
            tag = vec![0xe0, 0];
        }
        tag.extend(protocol.to_be_bytes());
        bytes.splice(0..0, tag);
        protocol = random.one_of(&[0x8100, 0x88a8]);
    }
    let mut header: Vec<u8> = (0..12).map(|_| random.next() as u8).collect();
    header.extend(protocol.to_be_bytes());
    bytes.splice(0..0, header);
    if random.once_in(3) {
        bytes.truncate(usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap());
    }
    if random.once_in(6) && !bytes.is_empty() {
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        bytes[at] = random.next() as u8;
    }
    let begin = match link {
        Link::Ethernet => 0,
        Link::None if random.once_in(2) => 14,
        Link::None => 14 + 4 * tags,
    };
    Packet {
        protocol,
        tag: random.once_in(5).then(|| random.next() as u16),
        kind: random.below(6) as u32,
        bytes: bytes.get(begin..).unwrap_or_default().to_vec(),
        whole: bytes,
    }
}

fn network(random: &mut Random, protocol: u16) -> Vec<u8> {
    let mut noise = |count: u64| -> Vec<u8> { (0..count).map(|_| random.next() as u8).collect() };
    let (mut header, payload) = (noise(60), noise(40));
    let upper = random.one_of(&[6, 17, 1, 58, 132, 136, 33, 47, 255]);
    match protocol {
        0x0800 => {
            let words = random.one_of(&[5, 5, 5, 6, 15, 3]);
            header[0] = 0x40 | words;
            header[9] = upper;
            if !random.once_in(3) {
                header[6..8].copy_from_slice(&random.one_of(&[[0, 0], [0x40, 0], [0x20, 0]]));
            }
            header.truncate(4 * usize::from(words));
        }
        0x86dd => {
            header[0] = 0x60 | header[0] & 15;
            header.truncate(40);
            let count = random.one_of(&[0, 0, 1, 2, 4, 8, 9]);
            let mut next = 6;
            for _ in 0..count {
                let kind = random.one_of(&[0, 43, 60, 44, 51, 135, 139, 140]);
                header[next] = kind;
                next = header.len();
                let mut extension: Vec<u8> = (0..8).map(|_| random.next() as u8).collect();
                let length = random.one_of(&[0, 0, 1, 2]);
                match kind {
                    44 if !random.once_in(4) => extension[2..4].copy_from_slice(&[0, 1]),
                    44 => {}
                    51 => {
                        extension[1] = length;
                        extension.resize(8 + 4 * usize::from(length), 0);
                    }
                    _ => {
                        extension[1] = length;
                        extension.resize(8 + 8 * usize::from(length), 0);
                    }
                }
                header.extend(extension);
            }
            header[next] = upper;
        }
        _ => {}
    }
    header.extend(payload);
    header
}

#[test]
fn random_packets_match_the_dissector() {
    let format = PacketField::format();
    let names: Vec<_> = format.fields.iter().map(|f| f.name.as_str()).collect();
    let trigger = format!("keys={}:vals=len,len.max", names.join(","));
    let (mut ports, mut extensions) = (0, 0);
    for link in [Link::Ethernet, Link::None] {
        let program = compile(link, &trigger);
        let emitted = emit(&program).unwrap();
        for seed in 0..PACKETS {
            let packet = packet(&mut Random(seed << 20), link);
            let mut maps = Maps::new(&emitted, 4);
            machine::run(&emitted, &packet.world(), &mut maps)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            let mut expected = Table::new(&program, 4);
            let record = packet.record(link);
            ports += u64::from(record[20..24] != [0; 4]);
            extensions += u64::from(record[25] == 6 && packet.bytes.len() > 120);
            let seen = World {
                record,
                ..World::default()
            };
            expected.event(&program, &seen);
            let got = maps.table(&program);
            assert!(got == expected, "seed {seed}: {got:x?}\n{expected:x?}");
        }
    }
    // Many packets reach their ports, some of them after long extensions.
    assert!(
        ports > PACKETS / 8 && extensions > PACKETS / 200,
        "{ports} {extensions}"
    );
}

/// Returns the hits of one packet: IPv4, TCP, from 10.0.0.1 port 1000 to 192.168.1.9 port 80.
fn hits(filter: &str) -> u64 {
    let mut bytes = vec![0; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend([10, 0, 0, 1, 192, 168, 1, 9]);
    bytes.extend([3, 232, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12]);
    let packet = Packet {
        protocol: 0x0800,
        tag: None,
        kind: 0,
        whole: bytes.clone(),
        bytes,
    };
    let program = compile(Link::Ethernet, &format!("keys=ip_proto if {filter}"));
    let mut maps = Maps::new(&emit(&program).unwrap(), 4);
    machine::run(&emit(&program).unwrap(), &packet.world(), &mut maps).unwrap();
    let rows = maps.table(&program).rows;
    rows.values().map(|(hits, _)| hits).sum()
}

#[test]
fn compares_addresses_and_prefixes() {
    for (filter, expected) in [
        ("ip_src == \"10.0.0.1\"", 1),
        ("ip_src == \"10.0.0.2\"", 0),
        ("ip_src != \"10.0.0.2\"", 1),
        ("ip_src == \"10.0.0.0/8\"", 1),
        ("ip_dst == \"192.168.0.0/16\" && tcp_flags & 2", 1),
        ("ip_dst == \"192.169.0.0/16\"", 0),
        ("ip_src == \"::ffff:10.0.0.1\"", 1),
        ("ip_src == \"::/1\"", 1),
        ("ip_src == \"8000::/1\"", 0),
        ("ip_src == ip_dst", 0),
        ("ip_src in {\"10.0.0.7\", \"10.0.0.1\"}", 1),
        ("port_dst == 80 && port_src == 1000", 1),
    ] {
        assert_eq!(hits(filter), expected, "{filter}");
    }
}
