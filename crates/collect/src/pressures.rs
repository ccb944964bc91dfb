//! Reads the pressure stall information (PSI) of containers and units.

use std::collections::HashMap;
use std::path::PathBuf;

use noctule_model::{Batch, CgroupId, Owner, Stall, Stalls, Subject};

use crate::group_files::{GroupFiles, with_ancestors};

/// Reads the totals of the kernel. They include the descendants of a group.
#[derive(Debug)]
pub struct Pressures {
    files: GroupFiles,
    /// Totals of the groups that existed when the agent started.
    before: HashMap<CgroupId, Stalls>,
}

impl Pressures {
    /// Creates a reader for the hierarchy with this mount point and these groups. Returns `None` if
    /// the hierarchy has no PSI: cgroup v1, or a kernel without it.
    pub fn new<'a>(mount: PathBuf, existing: impl Iterator<Item = &'a Owner>) -> Option<Self> {
        if !mount.join(Stall::CpuSome.file()).exists() {
            return None;
        }
        let mut this = Self {
            files: GroupFiles::new(mount),
            before: HashMap::new(),
        };
        let owned = existing.filter(|owner| owner.container.is_some() || owner.unit.is_some());
        this.before = owned.filter_map(|owner| this.group(owner)).collect();
        Some(this)
    }

    /// Sets the pressure of a batch's subjects since the agent started.
    pub fn read(&self, batch: &mut Batch) {
        for row in &mut batch.subjects {
            if !matches!(row.subject, Subject::Container(_) | Subject::Unit(_)) {
                continue;
            }
            let Some((id, now)) = self.group(&row.owner) else {
                continue;
            };
            let before = self.before.get(&id).copied().unwrap_or_default();
            row.stalls = std::array::from_fn(|at| now[at]?.checked_sub(before[at].unwrap_or(0)));
        }
    }

    /// Returns the group of the owner, and its totals. The group of a container is the outermost
    /// one with the container's id.
    fn group(&self, owner: &Owner) -> Option<(CgroupId, Stalls)> {
        let of_container = owner.container.as_ref().and_then(|container| {
            let mut paths = with_ancestors(&owner.path);
            paths.find(|path| path.contains(container.id.as_str()))
        });
        let folder = self.files.open(of_container.unwrap_or(&owner.path))?;
        let mut stalls = Stalls::default();
        for [some, full] in Stall::ALL.as_chunks().0 {
            let text = folder.text(some.file());
            let total = |stall: Stall| {
                let mut lines = text.as_deref()?.lines();
                let line = lines.find(|line| line.starts_with(stall.name()))?;
                let (_, us) = line.rsplit_once(" total=")?;
                us.parse::<u64>().ok()?.checked_mul(1000)
            };
            for stall in [*some, *full] {
                stalls[stall as usize] = total(stall);
            }
        }
        Some((folder.id()?, stalls))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use noctule_model::SubjectRow;

    use super::*;
    use crate::testing::hierarchy;

    fn line(kind: &str, us: u64) -> String {
        format!("{kind} avg10=1.00 avg60=0.50 avg300=0.10 total={us}\n")
    }

    #[test]
    fn pressure_counts_from_agent_start_if_the_file_has_it() {
        let cpu = line("some", 70);
        let io = line("some", 30) + &line("full", 20);
        let root = hierarchy(&[
            ("cpu.pressure", &cpu),
            ("a.service/cpu.pressure", &cpu),
            ("a.service/io.pressure", &io),
        ]);
        let owner = Arc::new(Owner {
            path: "/a.service".into(),
            unit: Some("a.service".into()),
            ..Owner::unknown(CgroupId(1))
        });
        let mount = || root.path().to_owned();
        let row = SubjectRow::new(owner.subject(), owner.clone());
        let mut batch = Batch {
            subjects: vec![row],
            ..Batch::default()
        };
        // The group is new.
        let later = Pressures::new(mount(), std::iter::empty()).expect("PSI");
        later.read(&mut batch);
        let us = |us: u64| Some(us * 1000);
        let whole = [us(70), None, us(30), us(20), None, None];
        assert_eq!(batch.subjects[0].stalls, whole);
        let pressures = Pressures::new(mount(), std::iter::once(&*owner)).expect("PSI");
        fs::write(root.path().join("a.service/cpu.pressure"), line("some", 75)).expect("our file");
        pressures.read(&mut batch);
        let grown = [us(5), None, us(0), us(0), None, None];
        assert_eq!(batch.subjects[0].stalls, grown);
        fs::remove_file(root.path().join("cpu.pressure")).expect("our file");
        assert!(Pressures::new(mount(), std::iter::empty()).is_none());
    }
}
