//! Groups clients that share a limit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Prefix length of an IPv6 network. A client that has one address of a network can use all of its
/// addresses.
const NETWORK_BITS: u32 = 64;

/// Clients that share a limit: an IPv4 address, an IPv6 network, or this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(IpAddr);

impl Peer {
    /// Returns the peer of a client address.
    pub fn from_address(from: IpAddr) -> Self {
        let from = from.to_canonical();
        if from.is_loopback() {
            return Self(Ipv4Addr::LOCALHOST.into());
        }
        Self(match from {
            IpAddr::V6(from) => {
                let network = u128::MAX << (Ipv6Addr::BITS - NETWORK_BITS);
                Ipv6Addr::from_bits(from.to_bits() & network).into()
            }
            from => from,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_share_a_limit() {
        let same = |one: &str, other: &str| {
            let of = |text: &str| Peer::from_address(text.parse().expect("an address"));
            of(one) == of(other)
        };
        assert!(same("127.0.0.1", "127.9.9.9") && same("127.0.0.1", "::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }
}
