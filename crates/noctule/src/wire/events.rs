//! The events of the pipeline: their filters, the times at which they are read, and their
//! reconciliation with snapshots.

use std::collections::hash_map::Entry;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use noctule_analysis::Selection;
use noctule_collect::EventSource;
use noctule_identity::Registry;
use noctule_kernel::{FileEvents, ProgramHandle, UdpEvents};
use noctule_model::{Batch, CgroupId, Event, IdMap, Owner, ProcessId, ProcessRow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::select;

/// Maximum number of searches through a process tree. A search that finds no new member ends them
/// earlier.
const TREE_LOOKS: u32 = 16;

/// The processes whose events are selected.
enum Whose {
    All,
    Tree,
    Groups(IdMap<CgroupId, Arc<Owner>>),
}

/// The event source, with its filter and timing.
pub(super) struct EventStream {
    pub(super) source: EventSource,
    whose: Whose,
    /// Selects the groups.
    selection: Selection,
    /// Whether more groups are selected than the kernel's table can hold.
    full: bool,
    latency: Duration,
    /// When the ring will be read; `None` if neither the ring nor the reordering buffer contains
    /// events.
    due: Option<Instant>,
}

impl EventStream {
    /// Returns the programs of all event sources.
    pub(super) fn programs(&self) -> Vec<ProgramHandle> {
        let files = self.source.files().map(FileEvents::programs);
        let udp = self.source.udp().map(UdpEvents::programs);
        let mut programs = self.source.kernel().programs();
        programs.extend(files.into_iter().chain(udp).flatten());
        programs
    }

    pub(super) fn new(source: EventSource, latency: Duration) -> Self {
        Self {
            source,
            whose: Whose::All,
            selection: Selection::default(),
            full: false,
            latency,
            due: None,
        }
    }

    /// Returns the rings to poll. The result is empty if a read is already scheduled.
    pub(super) fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let rings = self.due.is_none().then(|| self.rings());
        rings.into_iter().flatten()
    }

    fn rings(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.source.files().map(FileEvents::wake_fd);
        let udp = self.source.udp().map(UdpEvents::wake_fd);
        let others = files.into_iter().chain(udp);
        std::iter::once(self.source.kernel().wake_fd()).chain(others)
    }

    /// Returns when the ring must be read.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Schedules a read if a ring contains events. Events that arrive before the read are included.
    pub(super) fn schedule_read(&mut self) {
        let rings = self.rings();
        let mut fds: Vec<_> = rings
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let waiting = matches!(poll(&mut fds, Some(&now)), Ok(1..));
        drop(fds);
        if self.due.is_none() && waiting {
            self.due = Some(Instant::now() + self.latency);
        }
    }

    /// Returns the pending events.
    pub(super) fn drain(&mut self) -> Result<Vec<Event>> {
        self.due = None;
        let events = self.source.collect()?;
        self.wait_for_order();
        Ok(events)
    }

    /// Schedules a read for events that are held back to be reordered.
    fn wait_for_order(&mut self) {
        if let Some(waits) = self.source.waits() {
            self.due = Some(Instant::now() + waits.max(self.latency));
        }
    }

    /// Determines what changed during a gap.
    pub(super) fn reconcile(&mut self, batch: &Batch, names: &mut Registry) -> Result<()> {
        self.look_at(batch, names, EventSource::reconcile)
    }

    /// Registers existing objects, and reports them if `reported`.
    pub(super) fn list_existing(
        &mut self,
        batch: &Batch,
        names: &mut Registry,
        reported: bool,
    ) -> Result<()> {
        self.look_at(batch, names, |source, batch, whose| {
            source.existing(batch, whose, reported)
        })
    }

    fn look_at(
        &mut self,
        batch: &Batch,
        names: &mut Registry,
        look: impl FnOnce(
            &mut EventSource,
            &Batch,
            &dyn Fn(&ProcessRow) -> bool,
        ) -> Result<(), noctule_kernel::Error>,
    ) -> Result<()> {
        let Self { source, whose, .. } = self;
        // Only the kernel side knows the members of a tree.
        let followed: Vec<ProcessId> = match whose {
            Whose::Tree => {
                let all = batch.processes.iter().map(|row| row.id);
                all.filter(|id| source.kernel().follows(*id)).collect()
            }
            Whose::All | Whose::Groups(_) => Vec::new(),
        };
        let groups: Vec<String> = match whose {
            // A batch contains only groups with their own processes, not parents of such groups.
            Whose::Groups(wanted) => {
                let paths = wanted.keys().map(|id| names.owner(*id).path.clone());
                paths.collect()
            }
            Whose::All | Whose::Tree => Vec::new(),
        };
        let wanted = |row: &ProcessRow| match whose {
            Whose::All => true,
            Whose::Tree => followed.contains(&row.id),
            Whose::Groups(_) => {
                let path = row.owner.as_ref().map_or("", |owner| owner.path.as_str());
                groups.iter().any(|group| is_below(path, group))
            }
        };
        look(source, batch, &wanted)?;
        self.wait_for_order();
        Ok(())
    }

    /// Restricts events to groups that match the selection.
    pub(super) fn want_groups(&mut self, selection: Selection, names: &Registry) -> Result<()> {
        self.whose = Whose::Groups(IdMap::default());
        self.selection = selection;
        self.want_fitting(names)
    }

    /// Adds matching groups that were created, or whose names arrived, since the last call.
    pub(super) fn want_more(&mut self, names: &Registry) {
        let wanted = self.want_fitting(names);
        let full = wanted.is_err();
        if let Err(error) = wanted
            && !self.full
        {
            tracing::warn!("events of new cgroups are missing: {error:#}");
        }
        self.full = full;
    }

    fn want_fitting(&mut self, names: &Registry) -> Result<()> {
        let Self {
            source,
            whose: Whose::Groups(wanted),
            selection,
            ..
        } = self
        else {
            return Ok(());
        };
        // A removed group would occupy an entry of the kernel's table forever.
        let owners = names.living_owners();
        for owner in tops(owners.filter(|owner| selection.fits(owner))) {
            if let Entry::Vacant(place) = wanted.entry(owner.cgroup) {
                source.kernel().want_cgroup(owner.cgroup)?;
                place.insert(owner.clone());
            }
        }
        Ok(())
    }

    /// Returns whether the event belongs to a matching group.
    pub(super) fn is_of_wanted_group(&self, event: &Event) -> bool {
        let owner = event.process.as_ref().and_then(|it| it.owner.as_ref());
        match (&self.whose, owner) {
            (Whose::Groups(wanted), Some(owner)) => {
                self.selection.fits(owner) || lacks_names(owner, wanted.values())
            }
            _ => true,
        }
    }

    /// Removes groups that no longer exist from the kernel's table.
    pub(super) fn forget_removed_groups(&mut self, gone: &[CgroupId]) {
        if let Whose::Groups(wanted) = &mut self.whose {
            let kernel = self.source.kernel();
            for id in gone.iter().filter(|id| wanted.remove(id).is_some()) {
                kernel.forget_cgroup(*id);
            }
        }
    }

    /// Restricts events to a process and its descendants. `look` takes a batch; children that start
    /// in the meantime appear in the next batch.
    pub(super) fn want_tree(
        &mut self,
        root: u32,
        proc: &Path,
        mut look: impl FnMut() -> Result<Batch>,
    ) -> Result<()> {
        self.whose = Whose::Tree;
        for _ in 0..TREE_LOOKS {
            let batch = look()?;
            let row = batch.processes.iter().find(|row| row.id.pid == root);
            let Some(row) = row else {
                return Err(select::unseen(root, proc));
            };
            if !self.source.follow_tree(row.id, &batch)? {
                break;
            }
        }
        Ok(())
    }

    /// Restricts events to a command that noctule starts.
    pub(super) fn want_children(&mut self) {
        self.whose = Whose::Tree;
        self.source.follow_children_of(std::process::id());
    }
}

/// Returns whether the names of a group may still be missing. The kernel passes events of groups
/// below a selected one. Such a group counts as unnamed if only its id is known. A group with the
/// container id of a selected group also counts as unnamed, because names of containers arrive
/// later than ids. Other containers and units have their final names.
fn lacks_names<'a>(owner: &Owner, mut wanted: impl Iterator<Item = &'a Arc<Owner>>) -> bool {
    let Some(own) = &owner.container else {
        return !owner.is_known();
    };
    wanted.any(|of| of.container.as_ref().is_some_and(|it| it.id == own.id))
}

/// Returns the groups that are not below another one, because the kernel also checks ancestors. A
/// removed group can have the same path as a newly created group, which is not below it.
fn tops<'a>(groups: impl Iterator<Item = &'a Arc<Owner>>) -> Vec<&'a Arc<Owner>> {
    let mut groups: Vec<&Arc<Owner>> = groups.collect();
    groups.sort_unstable_by_key(|owner| owner.path.len());
    let mut tops: Vec<&Arc<Owner>> = Vec::new();
    for owner in groups {
        let above = |top: &&Arc<Owner>| top.path != owner.path && is_below(&owner.path, &top.path);
        if !tops.iter().any(above) {
            tops.push(owner);
        }
    }
    tops
}

/// Returns whether a path equals `top` or is below it.
fn is_below(path: &str, top: &str) -> bool {
    let rest = path.strip_prefix(top.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_prefix_ends_at_a_slash() {
        let cases = [
            ("/a", "/a", true),
            ("/a/b", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("/", "/", true),
        ];
        for (path, top, below) in cases {
            assert_eq!(is_below(path, top), below, "{path} {top}");
        }
    }

    #[test]
    fn recreated_group_is_wanted_with_the_removed_one() {
        let owner = |id, path: &str| {
            Arc::new(Owner {
                path: path.into(),
                ..Owner::unknown(CgroupId(id))
            })
        };
        let groups = [
            owner(1, "/a/web.service"),
            owner(2, "/a/web.service/worker"),
            owner(3, "/a/web.service"),
            owner(4, "/a/web.services"),
        ];
        for turned in 0..groups.len() {
            let (first, last) = groups.split_at(turned);
            let found = tops(last.iter().chain(first));
            let mut ids: Vec<u64> = found.iter().map(|owner| owner.cgroup.0).collect();
            ids.sort_unstable();
            assert_eq!(ids, [1, 3, 4], "{turned}");
        }
    }

    #[test]
    fn unnamed_group_in_a_wanted_container_is_wanted() {
        let owner = |path: &str| Arc::new(noctule_identity::classify(CgroupId(1), path));
        let [outer, inner] = ["a", "b"].map(|digit| digit.repeat(64));
        let wanted = [owner(&format!("/docker/{outer}"))];
        let lacks = |path: &str| lacks_names(&owner(path), wanted.iter());
        assert!(lacks(&format!("/docker/{outer}/init.scope")));
        assert!(lacks(&format!("/docker/{outer}/docker/{inner}")));
        assert!(!lacks(&format!("/docker/{inner}")));
        assert!(!lacks("/system.slice/web.service"));
        assert!(lacks_names(&Owner::unknown(CgroupId(7)), wanted.iter()));
    }
}
