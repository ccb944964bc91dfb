//! Which groups used which block device in a window.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{
    Batch, CgroupId, Cumulative as _, Disk, DiskUse, DiskUser, Group, IdMap, Level, Owner,
};

use crate::gone::{Gone, disk_uses};
use crate::party::Party;
use crate::report::Key;

/// A user of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskParty {
    /// A group whose tasks queued the requests.
    Party(Party),
    /// A user that is not a group.
    Nobody(DiskUser),
}

impl DiskParty {
    /// Returns the name shown to users. The name is not escaped.
    pub fn name(&self, level: Level) -> String {
        let name = match self {
            Self::Party(party) => return party.name(level),
            Self::Nobody(DiskUser::Cgroup(_) | DiskUser::Unknown) => "unknown",
            Self::Nobody(DiskUser::WriteBack) => "write-back",
            Self::Nobody(DiskUser::Journal) => "journal",
            Self::Nobody(DiskUser::Flush) => "flushes",
            Self::Nobody(DiskUser::Kernel) => "kernel threads",
        };
        name.to_owned()
    }

    /// Returns the kind as one word: the kind of the [`Party`], or `write-back`, `journal`,
    /// `flush`, `kernel` or `unknown`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Party(party) => party.kind(),
            Self::Nobody(DiskUser::Cgroup(_) | DiskUser::Unknown) => "unknown",
            Self::Nobody(DiskUser::WriteBack) => "write-back",
            Self::Nobody(DiskUser::Journal) => "journal",
            Self::Nobody(DiskUser::Flush) => "flush",
            Self::Nobody(DiskUser::Kernel) => "kernel",
        }
    }

    /// Returns whether the user is this party.
    pub fn is(&self, party: &Party, level: Level) -> bool {
        matches!(self, Self::Party(own) if own.key(level) == party.key(level))
    }
}

/// A block device in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// Name, such as `sda`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Time during which the device had at least one request, in nanoseconds; `None` if the kernel
    /// does not count it.
    pub busy_ns: Option<u64>,
    /// Users of the device, in descending order of device time.
    pub users: Vec<(DiskParty, DiskUse)>,
}

impl DiskReport {
    /// Returns the use by all users.
    pub fn total(&self) -> DiskUse {
        let mut total = DiskUse::default();
        self.users.iter().for_each(|(_, used)| total += used);
        total
    }

    pub fn of(&self, party: &Party, level: Level) -> DiskUse {
        let mut users = self.users.iter();
        let own = users.find(|(user, _)| user.is(party, level));
        own.map_or_else(DiskUse::default, |(_, used)| *used)
    }
}

/// Finds the device that the party used most. Returns the other group with the most device time on
/// this device, and that group's share of the total device time. Returns `None` if the party used
/// no device.
pub(crate) fn rival(disks: &[DiskReport], party: &Party, level: Level) -> Option<(Party, f64)> {
    let own_ns = |disk: &&DiskReport| {
        let own = disk.of(party, level);
        own.queue_ns + own.device_ns
    };
    let disk = disks.iter().max_by_key(own_ns)?;
    if own_ns(&disk) == 0 {
        return None;
    }
    let total_ns = disk.total().device_ns.max(1) as f64;
    disk.users.iter().find_map(|(user, used)| match user {
        DiskParty::Party(other @ Party::Group(_)) if !user.is(party, level) => {
            Some((other.clone(), used.device_ns as f64 / total_ns))
        }
        _ => None,
    })
}

/// Returns the devices that were used between two batches, the busiest first; `None` if one of the
/// batches did not measure them.
pub(crate) fn between(
    first: &Batch,
    last: &Batch,
    gone: &Gone,
    level: Level,
    owners: &IdMap<CgroupId, Arc<Owner>>,
) -> Option<Vec<DiskReport>> {
    let earlier = first.disks.as_ref()?.iter();
    let earlier: IdMap<_, &Disk> = earlier.map(|disk| (disk.number, disk)).collect();
    // A device that was not used before has no row.
    let busy_ns = |disk: &Disk| match earlier.get(&disk.number) {
        Some(earlier) => Some(disk.busy_ns?.since(&earlier.busy_ns?)),
        None => disk.busy_ns,
    };
    let mut users = users(first, last, gone, level, owners);
    let disks = last.disks.as_ref()?.iter().map(|disk| DiskReport {
        name: disk.name.clone(),
        number: disk.number,
        busy_ns: busy_ns(disk),
        users: users.remove(&disk.number).unwrap_or_default(),
    });
    let was_used = |disk: &DiskReport| !disk.users.is_empty() || disk.busy_ns > Some(0);
    let mut disks: Vec<_> = disks.filter(was_used).collect();
    disks.sort_by_key(|disk| (Reverse(disk.busy_ns), disk.number));
    Some(disks)
}

/// Returns the users of each device, in descending order of device time.
fn users(
    first: &Batch,
    last: &Batch,
    gone: &Gone,
    level: Level,
    owners: &IdMap<CgroupId, Arc<Owner>>,
) -> IdMap<(u32, u32), Vec<(DiskParty, DiskUse)>> {
    let before: IdMap<_, &DiskUse> = disk_uses(first).collect();
    let mut rows: HashMap<((u32, u32), Key), (DiskParty, DiskUse)> = HashMap::new();
    for ((device, user), used) in gone.disks(last) {
        let used = match before.get(&(device, user)) {
            Some(earlier) => used.since(earlier),
            None => used,
        };
        if used == DiskUse::default() {
            continue;
        }
        let (key, party) = match user {
            DiskUser::Cgroup(id) => {
                let party = Party::of(Group::Cgroup(id), owners);
                (party.key(level), DiskParty::Party(party))
            }
            _ => ((u8::MAX, format!("{user:?}")), DiskParty::Nobody(user)),
        };
        let row = rows.entry((device, key));
        row.or_insert((party, DiskUse::default())).1 += &used;
    }
    let mut users: IdMap<(u32, u32), Vec<_>> = IdMap::default();
    for ((device, _), row) in rows {
        users.entry(device).or_default().push(row);
    }
    for list in users.values_mut() {
        list.sort_by_cached_key(|(user, used)| (Reverse(used.device_ns), user.name(level)));
    }
    users
}

#[cfg(test)]
mod tests {
    use noctule_model::{BlockClass, CgroupRow, Counter, VerdictKind};

    use super::*;
    use crate::{ReportBuilder, WaitReportRow};

    const CGROUP: DiskUser = DiskUser::Cgroup(CgroupId(7));

    fn batch(busy_ns: impl Into<Option<u64>>, users: &[(DiskUser, u64)]) -> Batch {
        let used = |(user, ns): &(DiskUser, u64)| {
            let used = DiskUse {
                device_ns: *ns,
                written_bytes: 10 * ns,
                ..DiskUse::default()
            };
            (*user, used)
        };
        Batch {
            disks: Some(vec![Disk {
                number: (8, 0),
                name: "sda".into(),
                busy_ns: busy_ns.into(),
                users: users.iter().map(used).collect(),
            }]),
            ..Batch::default()
        }
    }

    fn report(batches: impl IntoIterator<Item = Batch>) -> Option<Vec<DiskReport>> {
        let mut batches = batches.into_iter();
        let mut builder = ReportBuilder::new(batches.next().expect("one at least"));
        batches.for_each(|batch| builder.add(batch));
        let report = builder.waits(Level::Cgroup, false, &crate::Thresholds::default());
        report.disks
    }

    #[test]
    fn removed_or_restarted_users_keep_their_disk_use() {
        let batches = [
            batch(10, &[(CGROUP, 5), (DiskUser::WriteBack, 1)]),
            batch(30, &[(CGROUP, 9), (DiskUser::WriteBack, 4)]),
            batch(30, &[(DiskUser::WriteBack, 4)]),
            batch(35, &[(CGROUP, 3), (DiskUser::WriteBack, 5)]),
            batch(40, &[(CGROUP, 1), (DiskUser::WriteBack, 5)]),
        ];
        let disks = report(batches).expect("measured");
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].busy_ns, Some(30));
        assert_eq!(disks[0].total().device_ns, 12);
        let used = disks[0].users.iter();
        let used: Vec<_> = used
            .map(|(user, used)| (user.kind(), used.device_ns, used.bytes()))
            .collect();
        assert_eq!(used, [("cgroup", 8, 80), ("write-back", 4, 40)]);
    }

    #[test]
    fn unmeasured_devices_are_none_and_idle_ones_omitted() {
        assert_eq!(report([Batch::default(), Batch::default()]), None);
        for busy_ns in [Some(10), None] {
            let idle = || batch(busy_ns, &[(CGROUP, 5)]);
            assert_eq!(report([idle(), idle()]), Some(Vec::new()));
        }
    }

    #[test]
    fn a_busy_device_without_a_completed_request_is_listed() {
        let stuck = report([batch(10, &[(CGROUP, 5)]), batch(90, &[(CGROUP, 5)])]);
        let stuck = &stuck.expect("measured")[0];
        assert_eq!((stuck.busy_ns, stuck.users.len()), (Some(80), 0));
    }

    #[test]
    fn the_verdict_names_the_other_group_that_took_most_of_the_disk() {
        let other = CgroupId(8);
        let culprit = |own: u64, others: u64, write_back: u64| {
            let group = |id, blocked_ns| {
                let mut row = CgroupRow {
                    id,
                    ..CgroupRow::default()
                };
                row.counters[Counter::Blocked(BlockClass::Disk)] = blocked_ns;
                row
            };
            let users = [
                (CGROUP, own),
                (DiskUser::Cgroup(other), others),
                (DiskUser::WriteBack, write_back),
            ];
            let mut builder = ReportBuilder::new(batch(0, &[]));
            builder.add(Batch {
                taken_ns: 1000,
                cgroups: vec![group(CgroupId(7), 800), group(other, 0)],
                ..batch(900, &users)
            });
            let report = builder.waits(Level::Cgroup, false, &crate::Thresholds::default());
            let held = |row: &&WaitReportRow| row.verdict.kind == VerdictKind::HeldByDisk;
            let row = report.rows.iter().find(held).expect("it waited");
            let shares = report.reason(row, Level::Cgroup).culprits;
            let shares: Vec<f64> = shares.iter().map(|it| it.share).collect();
            (row.verdict.culprit.is_some(), shares)
        };
        assert_eq!(culprit(100, 300, 0), (true, vec![0.75]));
        assert_eq!(culprit(100, 300, 400), (false, vec![]));
        assert_eq!(culprit(300, 100, 0), (false, vec![]));
        assert_eq!(culprit(0, 300, 0), (false, vec![]));
    }

    #[test]
    fn busy_time_that_the_kernel_does_not_count_is_unknown() {
        let disks = report([batch(None, &[]), batch(None, &[(CGROUP, 5)])]);
        assert_eq!(disks.expect("measured")[0].busy_ns, None);
    }
}
