//! CPU quotas of groups, and the kernel's account of them, from the files of the hierarchy.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use noctule_model::{Batch, Cause, CgroupId, Counter, QuotaRow};

/// After so many batches groups that are throttled are looked at again: a quota can be set on a group
/// above them.
const AGAIN: u64 = 32;

/// Groups with a quota. Looked for are the groups that are there at the beginning and those that are
/// throttled, with the groups above.
#[derive(Debug)]
pub struct Quotas {
    mount: PathBuf,
    /// By path.
    known: BTreeMap<String, CgroupId>,
    /// Throttled groups of which the quota was looked for.
    asked: HashSet<CgroupId>,
}

impl Quotas {
    /// Of the hierarchy with this mount, in which nothing was looked for yet.
    pub fn new(mount: PathBuf) -> Self {
        Self {
            mount,
            known: BTreeMap::new(),
            asked: HashSet::new(),
        }
    }

    /// Looks whether these groups have a quota.
    pub fn look<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        for path in paths.filter(|path| path.starts_with('/')) {
            let folder = self.folder(path);
            if quota(&folder).is_some()
                && let Ok(metadata) = fs::metadata(&folder)
            {
                let id = CgroupId(metadata.ino());
                self.known.insert(path.to_owned(), id);
            }
        }
    }

    /// Fills in the quotas of a batch whose groups have owners.
    pub fn read(&mut self, batch: &mut Batch) {
        if batch.sequence.is_multiple_of(AGAIN) {
            self.asked.clear();
        }
        let throttled = batch.cgroups.iter().filter(|row| {
            row.counters[Counter::Wait(Cause::Throttle)] > 0 && !self.asked.contains(&row.id)
        });
        let throttled: Vec<(CgroupId, String)> = throttled
            .filter_map(|row| Some((row.id, row.owner.as_ref()?.path.clone())))
            .collect();
        for (id, path) in throttled {
            self.asked.insert(id);
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
            let above: Vec<&str> = ends.map(|at| &path[..at]).collect();
            self.look(above.into_iter().chain([path.as_str()]));
        }
        let mount = &self.mount;
        batch.quotas.clear();
        self.known.retain(|path, id| {
            let row = row(mount, path, *id);
            let there = row.is_some();
            batch.quotas.extend(row);
            there
        });
    }

    fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }
}

fn row(mount: &Path, path: &str, cgroup: CgroupId) -> Option<QuotaRow> {
    let folder = mount.join(path.trim_start_matches('/'));
    let cpus = quota(&folder)?;
    let stat = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let value = |name: &str| stat.lines().find_map(|line| figure(line, name));
    Some(QuotaRow {
        cgroup,
        path: path.to_owned(),
        cpus,
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled_ns: value("throttled_usec")
            .map(|us| us * 1000)
            // v1 has nanoseconds.
            .or_else(|| value("throttled_time"))?,
    })
}

fn figure(line: &str, name: &str) -> Option<u64> {
    let value = line.strip_prefix(name)?.strip_prefix(' ')?;
    value.trim().parse().ok()
}

/// CPUs that the group may use; `None` without a limit.
fn quota(folder: &Path) -> Option<f64> {
    let read = |file| fs::read_to_string(folder.join(file)).ok();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n > 0.0);
    if let Some(both) = read("cpu.max") {
        let (quota, period) = both.split_once(' ')?;
        return Some(number(quota)? / number(period)?);
    }
    // v1: -1 is none.
    Some(number(&read("cpu.cfs_quota_us")?)? / number(&read("cpu.cfs_period_us")?)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{CgroupRow, Owner};

    use super::*;
    use crate::testing::hierarchy;

    fn throttled(path: &str) -> Batch {
        let owner = Owner {
            path: path.to_owned(),
            ..Owner::unknown(CgroupId(7))
        };
        let mut row = CgroupRow {
            id: CgroupId(7),
            owner: Some(Arc::new(owner)),
            ..CgroupRow::default()
        };
        row.counters[Counter::Wait(Cause::Throttle)] = 1;
        Batch {
            cgroups: vec![row],
            sequence: 1,
            ..Batch::default()
        }
    }

    #[test]
    fn quotas_of_both_versions_are_read_where_groups_are_throttled() {
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
        fs::remove_dir_all(root.path().join("a/b")).expect("it can be removed");
        quotas.look(["/other", "/gone", "#7"].into_iter());
        quotas.read(&mut batch);
        assert_eq!(batch.quotas.len(), 1, "{:?}", batch.quotas);
    }
}
