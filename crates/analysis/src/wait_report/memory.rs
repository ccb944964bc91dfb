//! Finds the memory limit that held a row back, and how much of its disk reads memory caused.

use std::collections::HashMap;

use noctule_model::{MemoryLimit, MemoryRow, MemoryUse};

use super::parent::is_below;
use super::quota::Member;
use super::{Party, WaitReportRow};

/// The growth of each group's account of memory in a window.
pub(super) struct Memories<'a>(Vec<Growth<'a>>);

struct Growth<'a> {
    last: &'a MemoryRow,
    /// `None` if it was not read at the start of the window, or if something else was counted then.
    hits: Option<u64>,
    reread_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

impl<'a> Memories<'a> {
    /// Compares the rows at the start of the window with those at the end, or when their groups were removed. `began`
    /// returns whether the group began in the window.
    pub(super) fn between(
        first: &[MemoryRow],
        last: impl Iterator<Item = &'a MemoryRow>,
        began: impl Fn(&str) -> bool,
    ) -> Self {
        let before: HashMap<_, _> = first.iter().map(|row| (row.cgroup, row)).collect();
        let grown = last.map(|row| {
            let known = before.get(&row.cgroup).copied();
            let since = |of: fn(&MemoryRow) -> Option<u64>| match known {
                Some(known) => of(row)?.checked_sub(of(known)?),
                None => of(row).filter(|_| began(&row.path)),
            };
            Growth {
                last: row,
                hits: since(|row| row.hits),
                reread_bytes: since(|row| Some(row.reread_bytes)),
                read_bytes: since(|row| row.read_bytes),
            }
        });
        Self(grown.collect())
    }

    /// Returns how memory held a row with these members; `None` if the row is not a group, or if nothing is known.
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
        // An account includes the descendants.
        let is_outermost = |path: &str| {
            let mut paths = members.iter().map(|member| &*member.path);
            paths.clone().any(|it| it == path) && !paths.any(|it| it != path && is_below(path, it))
        };
        let accounts = concerned.iter().filter(|it| is_outermost(&it.last.path));
        let accounts = accounts.filter_map(|it| Some((it.reread_bytes?, it.read_bytes)));
        let account = accounts.reduce(|(reread, read), (more_reread, more_read)| {
            let read = read.zip(more_read).map(|(a, b)| a.saturating_add(b));
            (reread.saturating_add(more_reread), read)
        });
        if limit.is_none() && account.is_none() {
            return None;
        }
        let part = |(reread, read): (u64, Option<u64>)| match reread {
            0 => Some(0.0),
            _ => read.map(|read| reread as f64 / read.max(reread) as f64),
        };
        Some(MemoryUse {
            limit,
            reread_bytes: account.map(|(reread, _)| reread),
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
