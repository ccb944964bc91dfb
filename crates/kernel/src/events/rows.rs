//! Counts by cgroup and destination.

use std::net::SocketAddr;

use libbpf_rs::{MapCore, MapFlags};
use noctule_model::CgroupId;

use super::record;
use crate::abi::{Plain, plain};
use crate::error::Error;
use crate::skel::tcp::{TcpSkel, types as tcp};
use crate::table::entries;

/// Process event counts of a cgroup (`struct process_row`).
pub type ProcessCounts = crate::skel::lifecycle::types::process_row;
/// TCP counts of a cgroup (`struct tcp_row`).
pub type TcpCounts = tcp::tcp_row;
/// Histogram of the time to connect (`struct connect_times`), in the buckets of
/// [`noctule_model::Histogram`], modulo 2^32.
pub type ConnectTimes = tcp::connect_times;

// SAFETY: integers only, all of 8 bytes.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for ProcessCounts {}
// SAFETY: integers only, all of 8 bytes.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for TcpCounts {}
// SAFETY: integers only, all of 4 bytes.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for ConnectTimes {}
// SAFETY: integers only; the assertion in abi.h rules out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for tcp::destination_key {}
// SAFETY: integers only, all of 8 bytes.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for tcp::destination_row {}

/// Returns the rows of a table by cgroup; the overflow row has the key `None`.
pub(super) fn by_cgroup<T: Plain>(
    table: &impl MapCore,
    overflow: Option<T>,
) -> Result<Vec<(Option<CgroupId>, T)>, Error> {
    let rows = entries(table, "a table of events")?;
    let named = rows.iter().filter_map(|(key, row)| {
        let id = u64::from_ne_bytes(key.try_into().ok()?);
        Some((Some(CgroupId(id)), plain(row)?))
    });
    Ok(named.chain(overflow.map(|row| (None, row))).collect())
}

/// Removes and returns a row. Before Linux 5.14 this takes two steps.
pub(super) fn take<T: Plain>(table: &impl MapCore, key: &[u8]) -> Option<T> {
    take_bytes(table, key).and_then(|bytes| plain(&bytes))
}

/// Like [`take`], but returns the bytes.
pub(super) fn take_bytes(table: &impl MapCore, key: &[u8]) -> Option<Vec<u8>> {
    let row = table.lookup_and_delete(key).or_else(|_| {
        let row = table.lookup(key, MapFlags::ANY);
        table.delete(key).and(row)
    });
    row.ok().flatten()
}

/// All counts of one cgroup; `None` if it has no row.
#[derive(Clone, Debug, Default)]
pub struct CgroupCounts {
    /// Process events.
    pub processes: Option<ProcessCounts>,
    pub tcp: Option<TcpCounts>,
    /// Histogram of the time to connect.
    pub connect_times: Option<ConnectTimes>,
}

/// Traffic of a cgroup with one destination (`struct destination_row`).
#[derive(Clone, Debug)]
pub struct DestinationCounts {
    key: Vec<u8>,
    /// The cgroup; `None` for the overflow row.
    pub cgroup: Option<CgroupId>,
    /// The peer; `None` for the sum of the cgroup's destinations that did not fit into the table.
    pub destination: Option<SocketAddr>,
    pub counts: tcp::destination_row,
}

impl DestinationCounts {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns a copy with other counts.
    pub(super) fn with(&self, counts: tcp::destination_row) -> Self {
        Self {
            counts,
            ..self.clone()
        }
    }
}

pub(super) fn destinations(tcp: &TcpSkel<'static>) -> Result<Vec<DestinationCounts>, Error> {
    let named = entries(&tcp.maps.destinations, "reading the table of destinations")?;
    let named = named.iter().filter_map(|(bytes, row)| {
        let key: tcp::destination_key = plain(bytes)?;
        Some(DestinationCounts {
            cgroup: Some(CgroupId(key.cgroup)),
            destination: Some(record::peer(key.family, &key.address, key.port)),
            counts: plain(row)?,
            key: bytes.to_owned(),
        })
    });
    let others = entries(
        &tcp.maps.other_destinations,
        "reading the overflow table of destinations",
    )?;
    let others = others.iter().filter_map(|(bytes, row)| {
        Some(DestinationCounts {
            cgroup: Some(CgroupId(u64::from_ne_bytes(bytes.try_into().ok()?))),
            destination: None,
            counts: plain(row)?,
            key: bytes.to_owned(),
        })
    });
    let overflow = tcp.maps.bss_data.as_deref();
    let overflow = overflow.map(|bss| DestinationCounts {
        key: Vec::new(),
        cgroup: None,
        destination: None,
        counts: bss.destination_overflow,
    });
    Ok(named.chain(others).chain(overflow).collect())
}
