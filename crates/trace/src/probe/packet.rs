//! The record of a packet, which the program builds from the packet's headers.

use crate::format::EventFormat;

/// The first header of a packet, as the program of a packet socket sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// An Ethernet header, as on Ethernet and loopback.
    Ethernet,
    /// No link-layer header: the packet starts with the network-layer header.
    None,
}

impl Link {
    /// Returns the number of bytes before the network-layer header.
    pub const fn header(self) -> i32 {
        match self {
            Self::Ethernet => 14,
            Self::None => 0,
        }
    }
}

/// A field of a packet's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketField {
    Len,
    IfIndex,
    EthType,
    Vlan,
    PortSource,
    PortDestination,
    IpVersion,
    IpProto,
    Ttl,
    TcpFlags,
    PktType,
    Tos,
    FragmentOffset,
    IpSource,
    IpDestination,
    IcmpType,
    IcmpCode,
    MoreFragments,
    Mark,
}

/// Size of the record in bytes, a multiple of eight.
pub(crate) const RECORD_SIZE: usize = 72;

/// Name, declared type, offset and size of each field.
const FIELDS: [(PacketField, &str, &str, u32, u32); 19] = [
    (PacketField::Len, "len", "u32", 8, 4),
    (PacketField::IfIndex, "ifindex", "u32", 12, 4),
    (PacketField::EthType, "eth_type", "u16", 16, 2),
    (PacketField::Vlan, "vlan", "u16", 18, 2),
    (PacketField::PortSource, "port_src", "u16", 20, 2),
    (PacketField::PortDestination, "port_dst", "u16", 22, 2),
    (PacketField::IpVersion, "ip_version", "u8", 24, 1),
    (PacketField::IpProto, "ip_proto", "u8", 25, 1),
    (PacketField::Ttl, "ttl", "u8", 26, 1),
    (PacketField::TcpFlags, "tcp_flags", "u8", 27, 1),
    (PacketField::PktType, "pkt_type", "u8", 28, 1),
    (PacketField::Tos, "tos", "u8", 29, 1),
    (PacketField::FragmentOffset, "frag_offset", "u16", 30, 2),
    (PacketField::IpSource, "ip_src", IP_ADDRESS, 32, 16),
    (PacketField::IpDestination, "ip_dst", IP_ADDRESS, 48, 16),
    (PacketField::IcmpType, "icmp_type", "u8", 64, 1),
    (PacketField::IcmpCode, "icmp_code", "u8", 65, 1),
    (PacketField::MoreFragments, "frag_more", "u8", 66, 1),
    (PacketField::Mark, "mark", "u32", 68, 4),
];

/// Declared type of an IP address. IPv4 addresses are mapped (`::ffff:10.0.0.1`).
pub(crate) const IP_ADDRESS: &str = "ip_address";

/// The value of a missing address: all bits set, an address that no packet has.
pub(crate) const NO_ADDRESS: [u8; 16] = [0xff; 16];

/// Names of values, in the syntax of an event's print format.
const NAMES: &str = "__print_symbolic(REC->eth_type, {0x0800, \"ipv4\"}, {0x0806, \"arp\"}, \
    {0x86dd, \"ipv6\"}, {0x8100, \"vlan\"}, {0x88a8, \"qinq\"}, {0x8847, \"mpls\"}, {0x88cc, \"lldp\"}), \
    __print_symbolic(REC->ip_proto, {0, \"none\"}, {1, \"icmp\"}, {2, \"igmp\"}, {4, \"ipip\"}, {6, \"tcp\"}, \
    {17, \"udp\"}, {33, \"dccp\"}, {41, \"ipv6\"}, {47, \"gre\"}, {50, \"esp\"}, {51, \"ah\"}, \
    {58, \"icmpv6\"}, {89, \"ospf\"}, {112, \"vrrp\"}, {132, \"sctp\"}, {136, \"udplite\"}), \
    __print_flags(REC->tcp_flags, \"|\", {0x01, \"fin\"}, {0x02, \"syn\"}, {0x04, \"rst\"}, \
    {0x08, \"psh\"}, {0x10, \"ack\"}, {0x20, \"urg\"}, {0x40, \"ece\"}, {0x80, \"cwr\"}), \
    __print_symbolic(REC->pkt_type, {0, \"host\"}, {1, \"broadcast\"}, {2, \"multicast\"}, \
    {3, \"otherhost\"}, {4, \"outgoing\"}, {5, \"loopback\"})";

impl PacketField {
    /// Returns offset and size of the field.
    pub(crate) fn place(self) -> (u32, u32) {
        let found = FIELDS.iter().find(|(field, ..)| *field == self);
        found.map_or((0, 0), |(_, _, _, offset, size)| (*offset, *size))
    }

    /// Describes the record in the form of a format file.
    pub fn format() -> EventFormat {
        let mut text = "name: socket\nID: 0\nformat:\n".to_owned();
        for (_, name, declared, offset, size) in FIELDS {
            text +=
                &format!("\tfield:{declared} {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        }
        text += &format!("\nprint fmt: \"%s %s %s %s\", {NAMES}\n");
        EventFormat::parse(&text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FieldKind;
    use crate::print::Print;

    #[test]
    fn fields_are_in_order_and_aligned() {
        let mut end = 8;
        for (_, name, declared, offset, size) in FIELDS {
            assert!(
                offset >= end && offset.is_multiple_of(size.min(8)),
                "{name}"
            );
            end = offset + size;
            assert_eq!(declared == IP_ADDRESS, size == 16, "{name}");
        }
        assert!(end as usize <= RECORD_SIZE);
    }

    #[test]
    fn the_format_parses() {
        let format = PacketField::format();
        assert_eq!(format.fields.len(), FIELDS.len());
        assert_eq!(format.field("ip_src").unwrap().kind, FieldKind::Address);
        assert_eq!(format.field("vlan").unwrap().kind, FieldKind::Number);
        let tables = Print::parse(&format).unwrap().tables();
        let named: Vec<_> = tables.iter().map(|table| table.field.as_str()).collect();
        assert_eq!(named, ["eth_type", "ip_proto", "tcp_flags", "pkt_type"]);
    }
}
