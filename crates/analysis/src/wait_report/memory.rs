//! Finds the memory limit that held a row back, and the share of the row's disk reads that read
//! evicted pages again.

use std::collections::{HashMap, HashSet};

use noctule_model::{Batch, MemoryLimit, MemoryRow, MemoryUse};

use super::WaitReportRow;
use super::quota::Member;
use crate::party::{Party, is_below};

/// A reading from shortly before the window (up to 1/EARLIER of the window's length) counts as a
/// reading at its start.
const EARLIER: u64 = 10;

/// The growth of each group's memory figures in a window.
pub(super) struct Memories<'a>(Vec<Growth<'a>>);

/// The growth of a group's figures from the last reading before the window to the last reading in
/// the window.
struct Growth<'a> {
    last: &'a MemoryRow,
    /// Whether nearly all of the growth is in the window. A group is read again only when it waits,
    /// so the reading before the window may be much older than the window.
    is_dated: bool,
    /// `None` if there is no earlier reading, or if the kernel counted something else then.
    hits: Option<u64>,
    reread_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

impl<'a> Memories<'a> {
    /// Compares the rows of the first batch with the last row of each group: its row in the last
    /// batch, or before its removal. `began` returns whether the group was created in the window.
    /// Leaves out rows that were not read in the window.
    pub(super) fn between(
        first: &Batch,
        window_ns: u64,
        last: impl Iterator<Item = &'a MemoryRow>,
        began: impl Fn(&str) -> bool,
    ) -> Self {
        let before: HashMap<_, _> = first.memory.iter().map(|row| (row.cgroup, row)).collect();
        let paths: HashSet<_> = first.memory.iter().map(|row| &*row.path).collect();
        let last = last.filter(|row| row.taken_ns > first.taken_ns);
        let earliest_ns = first.taken_ns.saturating_sub(window_ns / EARLIER);
        let grown = last.map(|row| {
            let known = before.get(&row.cgroup).copied();
            // If another group had the path before, this group was created since.
            let is_new = known.is_none() && (paths.contains(&*row.path) || began(&row.path));
            let since = |of: fn(&MemoryRow) -> Option<u64>| match known {
                Some(known) => of(row)?.checked_sub(of(known)?),
                None => of(row).filter(|_| is_new),
            };
            Growth {
                last: row,
                is_dated: is_new || known.is_some_and(|known| known.taken_ns >= earliest_ns),
                hits: since(|row| row.hits),
                reread_bytes: since(|row| Some(row.reread_bytes)),
                read_bytes: since(|row| row.read_bytes),
            }
        });
        Self(grown.collect())
    }

    /// Returns how memory held back a row with these members; `None` if the row is not a group, or
    /// if nothing is known.
    pub(super) fn of(&self, row: &WaitReportRow, members: &[Member]) -> Option<MemoryUse> {
        let Party::Group(owner) = &row.party else {
            return None;
        };
        let own = &*owner.path;
        let concerns = |it: &&Growth<'_>| {
            let path = &*it.last.path;
            is_below(path, own) || members.iter().any(|member| is_below(&member.path, path))
        };
        let concerned: Vec<&Growth<'_>> = self.0.iter().filter(concerns).collect();
        let reached = concerned.iter().filter(|it| it.is_reached());
        let limit = reached.max_by_key(|it| (it.last.under_oom, it.hits));
        let limit = limit.and_then(|it| {
            Some(MemoryLimit {
                bytes: it.last.limit_bytes?,
                group: (it.last.path != own).then(|| it.last.path.clone()),
                under_oom: it.last.under_oom,
            })
        });
        // The figures of a group include its descendants, so only outermost groups are added up.
        let is_outermost = |path: &str| {
            let mut paths = members.iter().map(|member| &*member.path);
            paths.clone().any(|it| it == path) && !paths.any(|it| it != path && is_below(path, it))
        };
        let accounts = concerned.iter().filter(|it| is_outermost(&it.last.path));
        let accounts =
            accounts.filter_map(|it| Some((it.is_dated, it.reread_bytes?, it.read_bytes)));
        let account = accounts.reduce(|a, b| {
            let read = a.2.zip(b.2).map(|(a, b)| a.saturating_add(b));
            (a.0 && b.0, a.1.saturating_add(b.1), read)
        });
        if limit.is_none() && account.is_none() {
            return None;
        }
        let part = |(_, reread, read): (bool, u64, Option<u64>)| match reread {
            0 => Some(0.0),
            _ => read.map(|read| reread as f64 / read.max(reread) as f64),
        };
        let bytes = |(is_dated, reread, _): (bool, u64, _)| is_dated.then_some(reread);
        Some(MemoryUse {
            limit,
            reread_bytes: account.and_then(bytes),
            reread_part: account.and_then(part),
        })
    }
}

impl Growth<'_> {
    fn is_reached(&self) -> bool {
        let has_limit = self.last.limit_bytes.is_some();
        has_limit && (self.last.under_oom || self.hits.is_some_and(|hits| hits > 0))
    }
}
