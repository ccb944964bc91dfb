//! Decides which groups lose destinations when the table of the kernel side is full.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use noctule_model::CgroupId;

/// Destinations of each group, and the groups for which there was no room since the last check.
#[derive(Debug, Default)]
pub(super) struct Shares {
    held: HashMap<CgroupId, Vec<(u64, SocketAddr)>>,
    wanting: HashSet<CgroupId>,
}

/// The rows to drop, and the groups that get no more rows.
#[derive(Debug, Default)]
pub(super) struct Excess {
    pub(super) rows: HashSet<(CgroupId, SocketAddr)>,
    pub(super) groups: HashSet<CgroupId>,
}

impl Shares {
    /// Records a destination of the group and when it was last used.
    pub(super) fn holds(&mut self, group: CgroupId, address: SocketAddr, used_ns: u64) {
        self.held.entry(group).or_default().push((used_ns, address));
    }

    /// Records that there was no room for a destination of the group.
    pub(super) fn wants(&mut self, group: CgroupId) {
        self.wanting.insert(group);
    }

    /// Returns the rows that groups hold beyond their share of three quarters of the table, in
    /// order of last use, and the groups at or above their share. Returns nothing if every group
    /// without room already has its share.
    pub(super) fn excess(mut self, capacity: u64) -> Excess {
        let held = |group: &CgroupId| self.held.get(group).map_or(0, Vec::len);
        let without = self.wanting.iter().filter(|group| held(group) == 0).count();
        let groups = (self.held.len() + without).max(1);
        let share = usize::try_from(capacity * 3 / 4).unwrap_or(usize::MAX) / groups;
        if !self.wanting.iter().any(|group| held(group) < share) {
            return Excess::default();
        }
        let mut excess = Excess::default();
        for (group, rows) in &mut self.held {
            let Some(beyond) = rows.len().checked_sub(share) else {
                continue;
            };
            rows.sort_unstable();
            let rows = rows.iter().take(beyond);
            excess
                .rows
                .extend(rows.map(|(_, address)| (*group, *address)));
            excess.groups.insert(*group);
        }
        excess
    }
}

/// How long a group stays bounded after another group was last short of room.
const BOUNDED_NS: u64 = 60_000_000_000;

/// Groups that get no more rows of a full table.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// When each group last exceeded its share while another group was short of room.
    over_ns: HashMap<CgroupId, u64>,
    latest: Vec<CgroupId>,
}

impl Bounds {
    /// Bounds `groups`, and returns the groups whose bound has ended.
    pub(super) fn renew(&mut self, groups: &HashSet<CgroupId>, now_ns: u64) -> Vec<CgroupId> {
        self.latest.clear();
        for id in groups {
            if self.over_ns.insert(*id, now_ns).is_none() {
                self.latest.push(*id);
            }
        }
        let over = |over_ns: &mut u64| now_ns - *over_ns > BOUNDED_NS;
        let free = self.over_ns.extract_if(|_, over_ns| over(over_ns));
        free.map(|(id, _)| id).collect()
    }

    /// Returns the number of bounded groups.
    pub(super) fn count(&self) -> usize {
        self.over_ns.len()
    }

    /// Returns the groups that were not bounded before the last call of [`Self::renew`].
    pub(super) fn latest(&self) -> &[CgroupId] {
        &self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 80))
    }

    fn held(groups: &[(u64, u16)]) -> Shares {
        let mut shares = Shares::default();
        for (group, count) in groups {
            for n in 0..*count {
                shares.holds(CgroupId(*group), address(n), u64::from(n));
            }
        }
        shares
    }

    #[test]
    fn full_group_gives_up_rows_to_a_new_group() {
        let mut shares = held(&[(1, 4000), (2, 90)]);
        shares.wants(CgroupId(3));
        let Excess {
            rows: excess,
            groups,
        } = shares.excess(4096);
        // Three groups share 3072 rows.
        assert_eq!(excess.len(), 4000 - 1024);
        assert_eq!(groups, [CgroupId(1)].into());
        assert!(excess.iter().all(|(group, _)| *group == CgroupId(1)));
        assert!(excess.contains(&(CgroupId(1), address(0))));
        assert!(!excess.contains(&(CgroupId(1), address(3999))));
    }

    #[test]
    fn a_group_without_room_beyond_its_share_removes_no_rows() {
        let mut alone = held(&[(1, 4096)]);
        alone.wants(CgroupId(1));
        for nobody in [alone, held(&[(1, 4000), (2, 90)])] {
            let excess = nobody.excess(4096);
            assert!(excess.rows.is_empty() && excess.groups.is_empty());
        }
    }

    #[test]
    fn bounded_group_is_new_again_only_after_a_minute() {
        let (one, none) = ([CgroupId(1)].into(), HashSet::new());
        let mut bounds = Bounds::default();
        assert!(bounds.renew(&one, 5).is_empty());
        assert_eq!(bounds.latest(), [CgroupId(1)]);
        // The group stays bounded.
        assert!(bounds.renew(&one, 9).is_empty());
        assert!(bounds.latest().is_empty());
        assert!(bounds.renew(&none, 9 + BOUNDED_NS).is_empty());
        assert_eq!(bounds.count(), 1);
        assert_eq!(bounds.renew(&none, 10 + BOUNDED_NS), [CgroupId(1)]);
        assert_eq!(bounds.count(), 0);
        assert!(bounds.latest().is_empty());
        bounds.renew(&one, 11 + BOUNDED_NS);
        assert_eq!(bounds.latest(), [CgroupId(1)]);
    }
}
