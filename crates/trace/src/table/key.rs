//! The parts of a key, read from its bytes.

use std::net::{IpAddr, Ipv6Addr};

use super::{KeyColumn, KeyShow, Row, Table};
use crate::probe::NO_ADDRESS;

impl Table {
    /// The bytes of a part of the key; fewer than the column has if the key is too short.
    pub(super) fn part<'a>(&self, row: &'a Row, index: usize) -> &'a [u8] {
        let before = self.keys.iter().take(index).map(|column| column.size);
        let start = before.fold(0, usize::saturating_add).min(row.key.len());
        let size = self.keys.get(index).map_or(0, |column| column.size);
        let end = start.saturating_add(size).min(row.key.len());
        &row.key[start..end]
    }
}

impl KeyColumn {
    /// The part is text.
    pub(super) fn is_text(&self) -> bool {
        self.show == KeyShow::Text
    }
}

/// The address in a part of the key; `None` for a packet without one. An address of IPv4 is mapped in
/// the key.
pub(super) fn address(part: &[u8]) -> Option<IpAddr> {
    let bytes: [u8; 16] = *part.first_chunk()?;
    let address = Ipv6Addr::from(bytes);
    (bytes != NO_ADDRESS).then(|| {
        address
            .to_ipv4_mapped()
            .map_or(address.into(), IpAddr::from)
    })
}

/// The number in a part of the key; bytes that are missing are zero.
pub(super) fn number(part: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, from) in bytes.iter_mut().zip(part) {
        *byte = *from;
    }
    u64::from_ne_bytes(bytes)
}

/// The text in a part of the key: all before its first NUL.
pub(super) fn text(part: &[u8]) -> &[u8] {
    let end = part.iter().position(|byte| *byte == 0);
    &part[..end.unwrap_or(part.len())]
}
