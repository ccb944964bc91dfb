//! Builds the record of a packet on the stack from the packet's headers.
//!
//! The helper `bpf_skb_load_bytes` copies the bytes of the packet. The helper reads all fragments
//! of a packet and fails past its end. The record of a truncated packet therefore has only the
//! fields of complete headers.

use super::{Emitter, Place, frame};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Width};
use crate::probe::{Link, NO_ADDRESS, PacketField, Probe, RECORD_SIZE};

/// Offsets in `struct __sk_buff`.
mod skb {
    pub(super) const LEN: i16 = 0;
    pub(super) const PKT_TYPE: i16 = 4;
    pub(super) const MARK: i16 = 8;
    pub(super) const PROTOCOL: i16 = 16;
    pub(super) const VLAN_PRESENT: i16 = 20;
    pub(super) const VLAN_TCI: i16 = 24;
    pub(super) const IFINDEX: i16 = 40;
}

const IPV4: i32 = 0x0800;
const IPV6: i32 = 0x86dd;
const VLAN: i32 = 0x8100;
const QINQ: i32 = 0x88a8;
/// Maximum number of VLAN tags that are parsed in the packet, not counting one that the kernel has
/// removed.
const TAGS: usize = 2;
/// Maximum number of IPv6 extension headers that are skipped. By default, Linux itself accepts
/// eight options in one header (`max_dst_opts_number`).
const EXTENSIONS: i32 = 8;

const TCP: i32 = 6;
const ICMP: i32 = 1;
const ICMPV6: i32 = 58;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: the headers of these protocols begin with both ports.
const WITH_PORTS: [i32; 5] = [TCP, 17, 33, 132, 136];
const FRAGMENT: i32 = 44;
const AUTHENTICATION: i32 = 51;
/// Hop-by-hop options, routing, destination options, mobility, HIP, Shim6: these headers begin with
/// a next header and a length.
const EXTENSION_HEADERS: [i32; 6] = [0, 43, 60, 135, 139, 140];

/// Buffer for copied bytes. The buffer shares the area of the new row, which is built later.
const SCRATCH: i16 = frame::ROW;
/// 0 if offsets count from the start of the program's data; otherwise they count from the Ethernet
/// header.
const START: i16 = frame::CELL;
/// `BPF_HDR_START_MAC`.
const FROM_MAC_HEADER: i32 = 0;

impl Emitter {
    /// Fills the record that R6 points to. Expects the context in R1 and R9. R7 holds the offset of
    /// the current header, R8 its protocol.
    pub(super) fn packet(&mut self, link: Link) {
        self.empty_record();
        self.socket_buffer();
        self.asm.mov(Reg::R7, link.header());
        if link == Link::None {
            self.find_tags();
        }
        let (ipv4, ipv6) = (self.asm.label(), self.asm.label());
        let (transport, end) = (self.asm.label(), self.asm.label());
        self.tags();
        self.put(PacketField::EthType, Reg::R8);
        self.asm.jump(Jump::Eq, Reg::R8, IPV4, ipv4);
        self.asm.jump(Jump::Eq, Reg::R8, IPV6, ipv6);
        self.always(end);
        self.asm.bind(ipv4);
        self.ipv4(transport, end);
        self.asm.bind(ipv6);
        self.ipv6(transport, end);
        self.asm.bind(transport);
        self.transport(end);
        self.asm.bind(end);
    }

    fn empty_record(&mut self) {
        for at in (8..RECORD_SIZE).step_by(8) {
            let at = i16::try_from(at).unwrap_or(0);
            self.asm.store(Width::B8, Reg::R6, at, 0);
        }
        for address in [PacketField::IpSource, PacketField::IpDestination] {
            for (at, word) in (0..).step_by(8).zip(NO_ADDRESS.as_chunks().0) {
                let none = i64::from_ne_bytes(*word) as i32;
                let (offset, _) = place(address);
                self.asm.store(Width::B8, Reg::R6, offset + at, none);
            }
        }
    }

    /// Copies the kernel's metadata of the packet. Leaves the network-layer protocol in R8.
    fn socket_buffer(&mut self) {
        for (offset, field) in [
            (skb::LEN, PacketField::Len),
            (skb::PKT_TYPE, PacketField::PktType),
            (skb::MARK, PacketField::Mark),
            (skb::IFINDEX, PacketField::IfIndex),
        ] {
            self.asm.load(Width::B4, Reg::R2, Reg::R9, offset);
            self.put(field, Reg::R2);
        }
        // A tag that the network card or the kernel removed from the packet.
        let untagged = self.asm.label();
        self.asm
            .load(Width::B4, Reg::R2, Reg::R9, skb::VLAN_PRESENT);
        self.asm.jump(Jump::Eq, Reg::R2, 0, untagged);
        self.asm.load(Width::B4, Reg::R2, Reg::R9, skb::VLAN_TCI);
        self.asm.alu(Alu::And, Reg::R2, 0xfff);
        self.put(PacketField::Vlan, Reg::R2);
        self.asm.bind(untagged);
        self.asm.load(Width::B4, Reg::R8, Reg::R9, skb::PROTOCOL);
        self.asm.network_16(Reg::R8);
    }

    /// Selects where the offsets of a tagged packet start. If the program's data starts after the
    /// Ethernet header, some kernels include the VLAN tags in the data and others do not, because
    /// `packet_parse_headers` moves the network header since Linux 6.5. A tagged packet is
    /// therefore read from its Ethernet header, which always exists.
    fn find_tags(&mut self) {
        let (tagged, done) = (self.asm.label(), self.asm.label());
        self.asm.store(Width::B8, Reg::R10, START, 0);
        self.asm.jump(Jump::Eq, Reg::R8, VLAN, tagged);
        self.asm.jump(Jump::Ne, Reg::R8, QINQ, done);
        self.asm.bind(tagged);
        self.asm.store(Width::B8, Reg::R10, START, 1);
        self.asm.mov(Reg::R7, Link::Ethernet.header());
        self.asm.bind(done);
    }

    /// Skips tags that are still in the packet. The outermost VLAN is recorded.
    fn tags(&mut self) {
        let done = self.asm.label();
        for _ in 0..TAGS {
            let (tag, known) = (self.asm.label(), self.asm.label());
            self.asm.jump(Jump::Eq, Reg::R8, VLAN, tag);
            self.asm.jump(Jump::Ne, Reg::R8, QINQ, done);
            self.asm.bind(tag);
            self.copy(0, 4, done);
            self.get(PacketField::Vlan, Reg::R2);
            self.asm.jump(Jump::Ne, Reg::R2, 0, known);
            self.copied_16(Reg::R2, 0);
            self.asm.alu(Alu::And, Reg::R2, 0xfff);
            self.put(PacketField::Vlan, Reg::R2);
            self.asm.bind(known);
            self.copied_16(Reg::R8, 2);
            self.asm.alu(Alu::Add, Reg::R7, 4);
        }
        self.asm.bind(done);
    }

    fn ipv4(&mut self, transport: Label, end: Label) {
        self.copy(0, 20, end);
        self.copied(Width::B1, Reg::R1, 0);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu(Alu::Rsh, Reg::R2, 4);
        self.asm.jump(Jump::Ne, Reg::R2, 4, end);
        self.asm.alu(Alu::And, Reg::R1, 15);
        self.asm.alu(Alu::Lsh, Reg::R1, 2);
        self.asm.jump(Jump::Lt, Reg::R1, 20, end);
        self.asm.alu(Alu::Add, Reg::R7, Reg::R1);
        self.put(PacketField::IpVersion, Reg::R2);
        for (at, field) in [
            (1, PacketField::Tos),
            (8, PacketField::Ttl),
            (9, PacketField::IpProto),
        ] {
            self.copied(Width::B1, Reg::R8, at);
            self.put(field, Reg::R8);
        }
        for (at, address) in [
            (12, PacketField::IpSource),
            (16, PacketField::IpDestination),
        ] {
            let (offset, _) = place(address);
            self.asm.store(Width::B8, Reg::R6, offset, 0);
            let mapped = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
            self.asm.store(Width::B4, Reg::R6, offset + 8, mapped);
            self.copied(Width::B4, Reg::R1, at);
            self.asm.store(Width::B4, Reg::R6, offset + 12, Reg::R1);
        }
        // The fragment offset in units of eight bytes, after three flag bits.
        self.copied_16(Reg::R1, 6);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu(Alu::Rsh, Reg::R2, 13);
        self.asm.alu(Alu::And, Reg::R2, 1);
        self.put(PacketField::MoreFragments, Reg::R2);
        self.asm.alu(Alu::And, Reg::R1, 0x1fff);
        self.asm.alu(Alu::Lsh, Reg::R1, 3);
        self.put(PacketField::FragmentOffset, Reg::R1);
        // Only the first fragment has the transport header.
        self.asm.jump(Jump::Ne, Reg::R1, 0, end);
        self.always(transport);
    }

    fn ipv6(&mut self, transport: Label, end: Label) {
        self.copy(0, 40, end);
        self.copied_16(Reg::R1, 0);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu(Alu::Rsh, Reg::R2, 12);
        self.asm.jump(Jump::Ne, Reg::R2, 6, end);
        self.put(PacketField::IpVersion, Reg::R2);
        self.asm.alu(Alu::Rsh, Reg::R1, 4);
        self.asm.alu(Alu::And, Reg::R1, 0xff);
        self.put(PacketField::Tos, Reg::R1);
        self.copied(Width::B1, Reg::R1, 7);
        self.put(PacketField::Ttl, Reg::R1);
        for (at, address) in [(8, PacketField::IpSource), (24, PacketField::IpDestination)] {
            let (offset, _) = place(address);
            for word in [0, 8] {
                self.copied(Width::B8, Reg::R1, at + word);
                self.asm.store(Width::B8, Reg::R6, offset + word, Reg::R1);
            }
        }
        self.copied(Width::B1, Reg::R8, 6);
        self.asm.alu(Alu::Add, Reg::R7, 40);
        self.extensions(transport, end);
    }

    /// Skips IPv6 extension headers, up to a limit that R9 counts.
    fn extensions(&mut self, transport: Label, end: Label) {
        let (top, next) = (self.asm.label(), self.asm.label());
        let (fragment, authentication) = (self.asm.label(), self.asm.label());
        let extension = self.asm.label();
        self.asm.mov(Reg::R9, 0);
        self.asm.bind(top);
        self.put(PacketField::IpProto, Reg::R8);
        self.asm.jump(Jump::Eq, Reg::R9, EXTENSIONS, end);
        self.asm.jump(Jump::Eq, Reg::R8, FRAGMENT, fragment);
        self.asm
            .jump(Jump::Eq, Reg::R8, AUTHENTICATION, authentication);
        for header in EXTENSION_HEADERS {
            self.asm.jump(Jump::Eq, Reg::R8, header, extension);
        }
        self.always(transport);

        self.asm.bind(extension);
        self.copy(0, 2, end);
        self.copied(Width::B1, Reg::R1, 1);
        self.asm.alu(Alu::Add, Reg::R1, 1);
        self.asm.alu(Alu::Lsh, Reg::R1, 3);
        self.always_with(Reg::R2, next);

        self.asm.bind(authentication);
        self.copy(0, 2, end);
        self.copied(Width::B1, Reg::R1, 1);
        self.asm.alu(Alu::Add, Reg::R1, 2);
        self.asm.alu(Alu::Lsh, Reg::R1, 2);
        self.always_with(Reg::R2, next);

        self.asm.bind(fragment);
        self.copy(0, 8, end);
        self.copied_16(Reg::R1, 2);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu(Alu::And, Reg::R2, 1);
        self.put(PacketField::MoreFragments, Reg::R2);
        self.asm.alu(Alu::And, Reg::R1, 0xfff8);
        self.put(PacketField::FragmentOffset, Reg::R1);
        let first = self.asm.label();
        self.asm.jump(Jump::Eq, Reg::R1, 0, first);
        self.copied(Width::B1, Reg::R8, 0);
        self.put(PacketField::IpProto, Reg::R8);
        self.always(end);
        self.asm.bind(first);
        self.asm.mov(Reg::R1, 8);

        self.asm.bind(next);
        self.asm.alu(Alu::Add, Reg::R7, Reg::R1);
        self.copied(Width::B1, Reg::R8, 0);
        self.asm.alu(Alu::Add, Reg::R9, 1);
        self.always(top);
    }

    fn transport(&mut self, end: Label) {
        let (ports, icmp) = (self.asm.label(), self.asm.label());
        for protocol in WITH_PORTS {
            self.asm.jump(Jump::Eq, Reg::R8, protocol, ports);
        }
        for protocol in [ICMP, ICMPV6] {
            self.asm.jump(Jump::Eq, Reg::R8, protocol, icmp);
        }
        self.always(end);

        self.asm.bind(ports);
        self.copy(0, 4, end);
        for (at, field) in [
            (0, PacketField::PortSource),
            (2, PacketField::PortDestination),
        ] {
            self.copied_16(Reg::R1, at);
            self.put(field, Reg::R1);
        }
        self.asm.jump(Jump::Ne, Reg::R8, TCP, end);
        self.copy(13, 1, end);
        self.copied(Width::B1, Reg::R1, 0);
        self.put(PacketField::TcpFlags, Reg::R1);
        self.always(end);

        self.asm.bind(icmp);
        self.copy(0, 2, end);
        for (at, field) in [(0, PacketField::IcmpType), (1, PacketField::IcmpCode)] {
            self.copied(Width::B1, Reg::R1, at);
            self.put(field, Reg::R1);
        }
    }

    /// Copies bytes of the packet that are `skip` bytes after the start of the header. Jumps to
    /// `end` if the packet is shorter.
    fn copy(&mut self, skip: i32, bytes: i32, end: Label) {
        self.load_context(Reg::R1);
        self.asm.mov(Reg::R2, Reg::R7);
        self.asm.alu(Alu::Add, Reg::R2, skip);
        self.address(Reg::R3, Place::stack(SCRATCH));
        self.asm.mov(Reg::R4, bytes);
        if self.probe == Probe::Packet(Link::None) {
            let (data, copied) = (self.asm.label(), self.asm.label());
            self.asm.load(Width::B8, Reg::R5, Reg::R10, START);
            self.asm.jump(Jump::Eq, Reg::R5, 0, data);
            self.asm.mov(Reg::R5, FROM_MAC_HEADER);
            self.asm.call(Helper::SkbLoadBytesRelative);
            self.always(copied);
            self.asm.bind(data);
            self.asm.call(Helper::SkbLoadBytes);
            self.asm.bind(copied);
        } else {
            self.asm.call(Helper::SkbLoadBytes);
        }
        self.asm.jump(Jump::Ne, Reg::R0, 0, end);
    }

    /// Loads copied bytes as a number in host byte order.
    fn copied(&mut self, width: Width, dst: Reg, at: i16) {
        self.asm.load(width, dst, Reg::R10, SCRATCH + at);
    }

    /// Loads two copied bytes as a number in network byte order.
    fn copied_16(&mut self, dst: Reg, at: i16) {
        self.copied(Width::B2, dst, at);
        self.asm.network_16(dst);
    }

    fn put(&mut self, field: PacketField, src: Reg) {
        let (offset, width) = place(field);
        self.asm.store(width, Reg::R6, offset, src);
    }

    fn get(&mut self, field: PacketField, dst: Reg) {
        let (offset, width) = place(field);
        self.asm.load(width, dst, Reg::R6, offset);
    }
}

/// Returns the offset of a field and the width of its numbers.
fn place(field: PacketField) -> (i16, Width) {
    let (offset, size) = field.place();
    let offset = i16::try_from(offset).unwrap_or(0);
    (offset, Width::of(size).unwrap_or(Width::B8))
}
