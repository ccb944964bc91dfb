//! Decodes the parts of a key.

use std::net::{IpAddr, Ipv6Addr};

use super::{KeyColumn, KeyShow, Row, Table};
use crate::probe::NO_ADDRESS;

impl Table {
    /// Returns the bytes of a part of the key, possibly fewer if the key is too short.
    pub(super) fn part<'a>(&self, row: &'a Row, index: usize) -> &'a [u8] {
        let before = self.keys.iter().take(index).map(|column| column.size);
        let start = before.fold(0, usize::saturating_add).min(row.key.len());
        let size = self.keys.get(index).map_or(0, |column| column.size);
        let end = start.saturating_add(size).min(row.key.len());
        &row.key[start..end]
    }
}

impl KeyColumn {
    /// Whether the part is text.
    pub(super) fn is_text(&self) -> bool {
        self.show == KeyShow::Text
    }
}

/// Decodes an address, or returns `None` for a packet without one. The key holds IPv4 addresses in
/// mapped form.
pub(super) fn address(part: &[u8]) -> Option<IpAddr> {
    let bytes: [u8; 16] = *part.first_chunk()?;
    let address = Ipv6Addr::from(bytes);
    (bytes != NO_ADDRESS).then(|| {
        address
            .to_ipv4_mapped()
            .map_or(address.into(), IpAddr::from)
    })
}

/// Decodes a number; missing bytes are zero.
pub(super) fn number(part: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, from) in bytes.iter_mut().zip(part) {
        *byte = *from;
    }
    u64::from_ne_bytes(bytes)
}

/// Returns the text before the first NUL.
pub(super) fn text(part: &[u8]) -> &[u8] {
    let end = part.iter().position(|byte| *byte == 0);
    &part[..end.unwrap_or(part.len())]
}
