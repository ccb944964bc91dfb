//! Reads the CPU quotas of groups, and the kernel's statistics about them, from the cgroup
//! hierarchy.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use noctule_model::{Batch, Cause, CgroupId, CgroupRow, Counter, Owner, QuotaRow};

use crate::group_files::{GroupFiles, GroupFolder, value, with_ancestors};

/// Number of batches after which groups that are throttled or wait are checked again. In the
/// meantime, a quota may have been set on the group or on an ancestor.
const AGAIN: u64 = 32;

/// Groups with a quota. The agent checks the groups that exist at the start, containers, groups
/// that are throttled or wait for a CPU, and the ancestors of all of these.
#[derive(Debug)]
pub struct Quotas {
    files: GroupFiles,
    /// Paths of groups with a quota.
    known: BTreeSet<String>,
    /// Groups that were checked for a quota.
    asked: HashSet<CgroupId>,
}

impl Quotas {
    /// Creates an empty list for the hierarchy with this mount point.
    pub fn new(mount: PathBuf) -> Self {
        Self {
            files: GroupFiles::new(mount),
            known: BTreeSet::new(),
            asked: HashSet::new(),
        }
    }

    /// Checks whether these groups have a quota.
    pub fn search<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        for path in paths {
            let folder = self.files.open(path);
            if folder.is_some_and(|folder| Quota::read(&folder).is_some()) {
                self.known.insert(path.to_owned());
            }
        }
    }

    /// Sets the quotas in a batch. The groups of the batch must have owners, and thread rooms if
    /// they wait.
    pub fn read(&mut self, batch: &mut Batch) {
        if batch.sequence.is_multiple_of(AGAIN) {
            self.asked.clear();
        }
        let may_have_one = |row: &CgroupRow, owner: &Owner| {
            let waits = row.room.is_some() || row.counters[Counter::Wait(Cause::Throttle)] > 0;
            waits || owner.container.is_some()
        };
        let mut paths = BTreeSet::new();
        for row in &batch.cgroups {
            let Some(owner) = row.owner.as_deref() else {
                continue;
            };
            if may_have_one(row, owner) && self.asked.insert(row.id) {
                paths.extend(with_ancestors(&owner.path));
            }
        }
        self.search(paths.into_iter());
        let files = &self.files;
        let mut rows = Vec::new();
        self.known.retain(|path| {
            let row = row(files, path);
            let there = row.is_some();
            rows.extend(row);
            there
        });
        // Processes outside of the PID namespace are not listed, so it is unknown which groups are
        // empty.
        if !rows.is_empty() && !batch.node.outside_unseen {
            let populated = populated(batch);
            for row in &mut rows {
                row.ended = !populated.contains(row.path.as_str());
            }
        }
        batch.quotas = rows;
    }
}

/// Returns the paths of groups that have processes, and of their ancestors.
fn populated(batch: &Batch) -> HashSet<&str> {
    let alive = batch.processes.iter().filter(|row| !row.gone);
    let owners = alive.filter_map(|row| Some((row.cgroup, row.owner.as_ref()?)));
    let owners: HashMap<CgroupId, &Arc<Owner>> = owners.collect();
    let paths = owners
        .values()
        .flat_map(|owner| with_ancestors(&owner.path));
    paths.collect()
}

fn row(files: &GroupFiles, path: &str) -> Option<QuotaRow> {
    let folder = files.open(path)?;
    let quota = Quota::read(&folder)?;
    let stat = folder.text("cpu.stat")?;
    let value = |name: &str| value(&stat, name);
    Some(QuotaRow {
        cgroup: folder.id()?,
        path: path.to_owned(),
        cpus: quota.cpus(),
        period_ns: (quota.period_us * 1e3) as u64,
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled_ns: value("throttled_usec")
            .map(|us| us * 1000)
            // cgroup v1 reports nanoseconds.
            .or_else(|| value("throttled_time"))?,
        ended: false,
    })
}

pub(crate) struct Quota {
    quota_us: f64,
    period_us: f64,
}

impl Quota {
    /// Reads the quota from the directory of the group; `None` without a limit.
    pub(crate) fn read(folder: &GroupFolder) -> Option<Self> {
        let read = |file| folder.text(file);
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n > 0.0);
        let (quota, period) = match read("cpu.max") {
            Some(both) => {
                let (quota, period) = both.split_once(' ')?;
                (number(quota)?, number(period)?)
            }
            // On cgroup v1, -1 means no quota.
            None => (
                number(&read("cpu.cfs_quota_us")?)?,
                number(&read("cpu.cfs_period_us")?)?,
            ),
        };
        Some(Self {
            quota_us: quota,
            period_us: period,
        })
    }

    /// Returns how many CPUs the group may use.
    pub(crate) fn cpus(&self) -> f64 {
        self.quota_us / self.period_us
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use noctule_model::{Container, ContainerRole, Counters, ProcessRow, Runtime, ThreadRoom};

    use super::*;
    use crate::testing::{batch_of, hierarchy};

    fn throttled(path: &str) -> Batch {
        batch_of(path, Counter::Wait(Cause::Throttle), 1)
    }

    #[test]
    fn quotas_of_both_cgroup_versions_are_read() {
        let v2 = "usage_usec 9\nnr_periods 20\nnr_throttled 18\nthrottled_usec 5\n";
        let v1 = "nr_periods 30\nnr_throttled 3\nthrottled_time 70\n";
        let root = hierarchy(&[
            ("a/cpu.max", "150000 100000\n"),
            ("a/cpu.stat", v2),
            ("a/b/cpu.cfs_quota_us", "20000\n"),
            ("a/b/cpu.cfs_period_us", "100000\n"),
            ("a/b/cpu.stat", v1),
            ("a/b/c/cpu.max", "max 100000\n"),
            ("a/b/c/cpu.stat", v2),
            ("other/cpu.cfs_quota_us", "-1\n"),
        ]);
        let mut quotas = Quotas::new(root.path().to_owned());
        let mut batch = throttled("/a/b/c");
        quotas.read(&mut batch);
        let rows: Vec<_> = batch
            .quotas
            .iter()
            .map(|q| {
                (
                    q.path.as_str(),
                    q.cpus,
                    q.periods,
                    q.throttled_periods,
                    q.throttled_ns,
                )
            })
            .collect();
        assert_eq!(rows, [("/a", 1.5, 20, 18, 5000), ("/a/b", 0.2, 30, 3, 70)]);
        let periods: Vec<u64> = batch.quotas.iter().map(|q| q.period_ns).collect();
        assert_eq!(periods, [100_000_000; 2]);
        fs::remove_dir_all(root.path().join("a/b")).expect("it can be removed");
        quotas.search(["/other", "/gone", "#7"].into_iter());
        quotas.read(&mut batch);
        assert_eq!(batch.quotas.len(), 1, "{:?}", batch.quotas);
        // Another group gets the same path.
        let before = batch.quotas[0].cgroup;
        fs::rename(root.path().join("a"), root.path().join("old")).expect("it can be renamed");
        fs::create_dir(root.path().join("a")).expect("it can be made");
        for (file, text) in [("cpu.max", "150000 100000\n"), ("cpu.stat", v2)] {
            fs::write(root.path().join("a").join(file), text).expect("it can be written");
        }
        quotas.read(&mut batch);
        assert_ne!(batch.quotas[0].cgroup, before);
    }

    #[test]
    fn quota_of_a_group_without_processes_has_ended() {
        let root = hierarchy(&[
            ("a/cpu.cfs_quota_us", "20000\n"),
            ("a/cpu.cfs_period_us", "100000\n"),
            (
                "a/cpu.stat",
                "nr_periods 3\nnr_throttled 3\nthrottled_time 70\n",
            ),
        ]);
        let mut quotas = Quotas::new(root.path().to_owned());
        // The group waits but was never throttled.
        let mut waiting = throttled("/a");
        waiting.cgroups[0].counters = Counters::default();
        quotas.read(&mut waiting);
        assert_eq!(waiting.quotas, []);
        // A container is checked even if it never waits.
        let mut container = waiting.clone();
        let owner = container.cgroups[0].owner.as_mut().expect("one");
        Arc::make_mut(owner).container = Some(Container {
            id: "c".to_owned(),
            runtime: Runtime::Docker,
            role: ContainerRole::Workload,
            name: None,
            image: None,
            chain: Vec::new(),
        });
        let mut others = Quotas::new(root.path().to_owned());
        others.read(&mut container);
        assert_eq!(container.quotas.len(), 1);
        waiting.cgroups[0].room = Some(ThreadRoom::default());
        quotas.read(&mut waiting);
        assert_eq!(waiting.quotas.len(), 1);
        let owner = |path: &str| {
            Some(Arc::new(Owner {
                path: path.to_owned(),
                ..Owner::unknown(CgroupId(7))
            }))
        };
        let process = |path, gone| ProcessRow {
            owner: owner(path),
            gone,
            ..ProcessRow::default()
        };
        let cases = [
            (vec![], false, true),
            (vec![process("/a", false)], false, false),
            (vec![process("/a/b", false)], false, false),
            (vec![process("/a", true)], false, true),
            (vec![process("/ab", false)], false, true),
            (vec![], true, false),
        ];
        for (processes, outside_unseen, ended) in cases {
            let mut batch = Batch {
                processes,
                ..Batch::default()
            };
            batch.node.outside_unseen = outside_unseen;
            quotas.read(&mut batch);
            let read: Vec<bool> = batch.quotas.iter().map(|quota| quota.ended).collect();
            assert_eq!(read, [ended], "{:?}", batch.processes);
        }
    }
}
