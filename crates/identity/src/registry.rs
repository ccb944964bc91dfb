//! All known cgroups, including recently removed ones, with their owners.

mod claims;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use noctule_model::{Batch, CgroupEvent, CgroupId, IdMap, Owner, shrink_sparse};

use crate::config::{Config, Stats};
use crate::group::{Group, Life, RETRY, Search, YOUNG, keep_names, wants_names};
use crate::labels::Names;
use crate::lookup::{Asked, Lane, Lookups, Reply};
use crate::names::{Answer, Finder, Query};
use crate::walk::walk;
use crate::{mount_note, trust};
use claims::Claims;

/// The tree is walked again if there are this many more groups than after the last walk. Only
/// unreported removals can accumulate to such a number.
const SURPLUS: usize = 4096;

/// Factor by which walks are less frequent if there is hardly any room for groups. A user who
/// creates tens of thousands of groups makes each walk slow.
const CROWDED: u32 = 30;

/// Time without a response after which a file system counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps the owner of every cgroup. The registry receives the kernel's events and the time as
/// arguments, and reads files in its own threads. Except for [`Registry::catch_up`], calls do not
/// block except on cgroupfs.
///
/// Times are `CLOCK_MONOTONIC` in nanoseconds and never decrease. An earlier time counts as the
/// latest one so far.
pub struct Registry {
    config: Config,
    now_ns: u64,
    groups: IdMap<CgroupId, Group>,
    claims: Claims,
    /// Memory of `groups`, in bytes.
    bytes: usize,
    /// Removal times of groups. An entry that does not match the state of its group is stale.
    dead: VecDeque<(u64, CgroupId)>,
    /// Times of the next search for names, by lane.
    due: [BTreeSet<(u64, CgroupId)>; Lane::ALL.len()],
    lookups: [Option<Asking>; Lane::ALL.len()],
    walked_ns: Option<u64>,
    walked_groups: usize,
    /// Whether the mount shows only a subtree of the hierarchy. If so, the mount's paths differ
    /// from the paths in the kernel's events, and a group that the mount does not show may still
    /// exist.
    partial: bool,
    nobody: Arc<Owner>,
    /// Whether owners were found or named since the last call of [`Registry::take_changed`].
    changed: bool,
    stats: Stats,
}

/// A thread that looks up names.
struct Asking {
    lookups: Lookups,
    /// When the thread last replied, or received a query while it had no other.
    moved_ns: u64,
    /// Whether the hang was logged.
    hangs: bool,
}

impl Registry {
    /// Walks the hierarchy once and starts the threads that look up names. If either fails, the
    /// error is logged, and owners have no path or no names.
    pub fn new(config: Config) -> Self {
        let finder = || {
            let mut finder = Finder::new(&config.root, &config.cgroup_mount);
            move |query: &Query, fresh| finder.find(query, fresh)
        };
        let finders = Lane::ALL.map(|_| finder());
        Self::with_finders(config, finders)
    }

    fn with_finders<F>(config: Config, finders: [F; Lane::ALL.len()]) -> Self
    where
        F: FnMut(&Query, bool) -> Answer + Send + 'static,
    {
        let mut lanes = Lane::ALL.into_iter();
        let lookups = finders.map(|find| {
            let spawned = Lookups::spawn(lanes.next()?, config.on_thread, find);
            let lookups = spawned
                .inspect_err(|error| {
                    tracing::warn!(%error, "cannot start the name lookup thread: \
                    containers and pods are shown by id");
                })
                .ok()?;
            Some(Asking {
                lookups,
                moved_ns: 0,
                hangs: false,
            })
        });
        let note = mount_note(&config.cgroup_mount);
        if let Some(note) = &note {
            tracing::warn!("{note}");
        }
        let mut registry = Self {
            config,
            now_ns: 0,
            groups: IdMap::default(),
            claims: Claims::default(),
            bytes: 0,
            dead: VecDeque::new(),
            due: Default::default(),
            lookups,
            walked_ns: None,
            walked_groups: 0,
            partial: note.is_some(),
            nobody: Arc::new(Owner::unknown(CgroupId(0))),
            changed: false,
            stats: Stats::default(),
        };
        registry.walk();
        // The time of this walk is unknown, so it does not delay the next one.
        registry.walked_ns = None;
        registry.ask();
        registry
    }

    /// Applies changes of the tree, in the kernel's order, and performs all work that is due.
    pub fn apply(&mut self, events: &[CgroupEvent], now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        for event in events {
            match event {
                CgroupEvent::Made { id, path } => self.put(*id, path),
                CgroupEvent::Renamed { id, path } => self.rename(*id, path),
                CgroupEvent::Removed { id } | CgroupEvent::Released { id } => self.bury(*id),
            }
        }
        self.tick(now_ns);
    }

    /// Performs all work that is due: takes names that were found, submits queries, and drops
    /// groups removed long ago. [`Registry::apply`] and [`Registry::join`] include this work.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        for lane in Lane::ALL {
            while let Some(reply) = self.reply(lane, Lookups::reply) {
                self.take(reply);
            }
            self.watch(lane);
        }
        self.forget();
        let expected = self.walked_groups + self.dead.len();
        if self.groups.len() > 2 * expected + SURPLUS && self.may_walk() {
            self.walk();
        }
        self.ask();
    }

    /// Returns when the next search for names is due, if there is one. [`Registry::tick`] should be
    /// called then.
    pub fn due_ns(&self) -> Option<u64> {
        let lanes = self.lookups.iter().zip(&self.due);
        let due = lanes.filter(|(asking, _)| asking.is_some());
        due.filter_map(|(_, due)| due.first().map(|&(at, _)| at))
            .min()
    }

    /// Completes pending searches, for a command that prints only one report. For groups that are
    /// only seconds old, searches the files once more, because the files may have appeared since.
    /// Takes at most `limit`.
    pub fn catch_up(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        self.await_replies(end);
        let now = self.now_ns;
        let young =
            |group: &Group| group.seen_ns != 0 && now < group.seen_ns.saturating_add(nanos(YOUNG));
        let is_young = |id: &CgroupId| self.groups.get(id).is_some_and(young);
        let due = self.due.iter().flatten().map(|&(_, id)| id);
        for id in due.filter(is_young).collect::<Vec<_>>() {
            self.cancel(id);
            self.schedule(id, now);
        }
        self.ask();
        self.await_replies(end);
    }

    fn await_replies(&mut self, end: Instant) {
        for lane in Lane::ALL {
            while self.open(lane) > 0
                && let Some(reply) = self.reply(lane, |lookups| lookups.reply_until(end))
            {
                self.take(reply);
            }
        }
    }

    fn open(&self, lane: Lane) -> usize {
        let asking = self.lookups[lane as usize].as_ref();
        asking.map_or(0, |asking| asking.lookups.open())
    }

    fn reply(
        &mut self,
        lane: Lane,
        get: impl FnOnce(&mut Lookups) -> Option<Reply>,
    ) -> Option<Reply> {
        let asking = self.lookups[lane as usize].as_mut()?;
        let reply = get(&mut asking.lookups)?;
        asking.moved_ns = self.now_ns;
        asking.hangs = false;
        Some(reply)
    }

    /// Logs once if a thread does not respond.
    fn watch(&mut self, lane: Lane) {
        let now = self.now_ns;
        let Some(asking) = &mut self.lookups[lane as usize] else {
            return;
        };
        let waited = now.saturating_sub(asking.moved_ns);
        if asking.lookups.open() > 0 && !asking.hangs && waited >= nanos(PATIENCE) {
            asking.hangs = true;
            self.stats.hangs += 1;
            let whose = match lane {
                Lane::Machine => "from container runtimes",
                Lane::Users => "of rootless containers (perhaps a FUSE mount)",
            };
            tracing::warn!(
                "a file system does not respond: names {whose} are missing until it does"
            );
        }
    }

    /// Returns the owner of a group.
    ///
    /// An unknown id causes a walk of the hierarchy, unless there was one within
    /// [`Config::walk_interval`] before the current time. An id that no walk finds has
    /// [`Owner::unknown`], and is not searched for again for [`Config::remember`]. Looking up a
    /// known id does not allocate.
    ///
    /// Names are missing at first, so callers should call this method again rather than keep the
    /// result.
    pub fn owner(&mut self, id: CgroupId) -> Arc<Owner> {
        if let Some(group) = self.groups.get_mut(&id)
            && group.life != Life::Unseen
        {
            group.asked_ns = self.now_ns.max(1);
            return Arc::clone(&group.owner);
        }
        self.owner_of_unknown(id)
    }

    /// Yields the owners of all known groups in any order, including recently removed ones.
    pub fn owners(&self) -> impl Iterator<Item = &Arc<Owner>> {
        let seen = self
            .groups
            .values()
            .filter(|group| group.life != Life::Unseen);
        seen.map(|group| &group.owner)
    }

    /// Yields the owners of live groups.
    pub fn living_owners(&self) -> impl Iterator<Item = &Arc<Owner>> {
        let groups = self.groups.values();
        let living = groups.filter(|group| group.life == Life::Live);
        living.map(|group| &group.owner)
    }

    /// Sets the owner of each process and cgroup of a batch. Unknown groups have no owner until a
    /// walk is permitted. The time of the batch becomes the current time.
    pub fn join(&mut self, batch: &mut Batch) {
        self.tick(batch.taken_ns);
        for row in batch.processes.iter_mut().chain(&mut batch.exited) {
            row.owner = self.owner_if_searched(row.cgroup);
        }
        for row in &mut batch.cgroups {
            row.owner = self.owner_if_searched(row.id);
            let group = self.groups.get(&row.id);
            row.removed = group.is_some_and(|group| matches!(group.life, Life::Dead(_)));
        }
    }

    fn owner_if_searched(&mut self, id: CgroupId) -> Option<Arc<Owner>> {
        let owner = self.owner(id);
        let group = self.groups.get(&id);
        let searched = group.is_none_or(|group| group.life != Life::Unseen);
        searched.then_some(owner)
    }

    /// Reconciles all groups with the hierarchy, for a caller that noticed lost events. Does
    /// nothing if there was a walk within [`Config::walk_interval`].
    pub fn resync(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.may_walk() {
            self.walk();
        }
        self.tick(now_ns);
    }

    /// Returns whether owners were found or named since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub fn stats(&self) -> Stats {
        Stats {
            groups: self.groups.len(),
            searching: Lane::ALL.map(|lane| self.open(lane)).iter().sum(),
            ..self.stats
        }
    }

    fn owner_of_unknown(&mut self, id: CgroupId) -> Arc<Owner> {
        // The process's group was not recorded. No directory has this inode.
        if id.0 == 0 {
            return Arc::clone(&self.nobody);
        }
        if !self.groups.contains_key(&id) {
            let mut unseen = Group::new(Owner::unknown(id), Life::Unseen);
            unseen.asked_ns = self.now_ns.max(1);
            self.insert(id, unseen);
        }
        if self.may_walk() {
            self.walk();
        }
        match self.groups.get(&id) {
            Some(group) => Arc::clone(&group.owner),
            // The walk did not find the group, and its entry was dropped immediately for lack of
            // room.
            None => Arc::new(Owner::unknown(id)),
        }
    }

    /// Records that a group is at this path.
    fn put(&mut self, id: CgroupId, path: &str) {
        let known = self.groups.get(&id);
        let is_same = |group: &Group| group.life == Life::Live && group.owner.path == path;
        if !known.is_some_and(is_same) {
            self.own(id, path);
        }
    }

    /// Determines the owner of a group from its path.
    fn own(&mut self, id: CgroupId, path: &str) {
        let old = self.groups.get(&id);
        let asked_ns = old.map_or(0, |group| group.asked_ns);
        let old = old.map(|group| Arc::clone(&group.owner));
        self.release(id);
        self.cancel(id);
        let delegated = match self.partial {
            // The mount does not show the position of this group.
            true => None,
            false => trust::delegated(&self.config.cgroup_mount, path),
        };
        let mut owner = self.claim(id, path, delegated.as_ref());
        let named = old.is_some_and(|old| keep_names(&mut owner, &old));
        let search = !named && wants_names(&owner);
        let mut group = Group::new(owner, Life::Live);
        group.walk = self.stats.walks;
        group.seen_ns = self.now_ns;
        group.delegated = delegated;
        group.asked_ns = asked_ns;
        self.insert(id, group);
        self.changed = true;
        if search {
            self.schedule(id, self.now_ns);
        }
    }

    /// Adds a group, and drops others if necessary.
    fn insert(&mut self, id: CgroupId, group: Group) {
        self.bytes += group.bytes();
        if let Some(before) = self.groups.insert(id, group) {
            self.bytes -= before.bytes();
        }
        self.make_room(id);
    }

    /// If memory is short, drops groups until an eighth of the memory is free, because searching
    /// for a single group is not worth the cost. The added group is kept.
    fn make_room(&mut self, added: CgroupId) {
        if self.bytes <= self.config.most_bytes {
            return;
        }
        let enough = self.config.most_bytes / 8 * 7;
        let groups = self.groups.iter().filter(|(id, _)| **id != added);
        let mut groups: Vec<_> = groups.map(|(&id, group)| (group.worth(), id)).collect();
        groups.sort_unstable();
        for (_, id) in groups {
            if self.bytes <= enough {
                return;
            }
            let Some(group) = self.groups.get(&id) else {
                continue;
            };
            let count = match group.life {
                Life::Dead(_) => &mut self.stats.forgotten_early,
                _ if group.asked_ns == 0 => &mut self.stats.left_out,
                _ => &mut self.stats.given_up,
            };
            *count += 1;
            self.remove(id);
        }
    }

    fn remove(&mut self, id: CgroupId) {
        self.cancel(id);
        self.release(id);
        if let Some(group) = self.groups.remove(&id) {
            self.bytes -= group.bytes();
        }
    }

    /// Moves a group and its descendants.
    fn rename(&mut self, id: CgroupId, path: &str) {
        let old = self.groups.get(&id).map(|group| group.owner.path.clone());
        self.put(id, path);
        let Some(old) = old else { return };
        let moved: Vec<(CgroupId, String)> = self
            .groups
            .iter()
            .filter(|(_, group)| group.life == Life::Live)
            .filter_map(|(&below, group)| {
                let rest = group.owner.path.strip_prefix(&old)?;
                rest.starts_with('/')
                    .then(|| (below, format!("{path}{rest}")))
            })
            .collect();
        for (below, path) in moved {
            self.put(below, &path);
        }
    }

    /// Marks a group as removed. Removed groups are remembered for a while.
    fn bury(&mut self, id: CgroupId) {
        let now = self.now_ns;
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        if matches!(group.life, Life::Dead(_)) {
            return;
        }
        group.life = Life::Dead(now);
        // Docker's file outlives the container, so one search is worthwhile. State files do not.
        let hopeless = group.tries > 0 || group.owner.container.is_none();
        if hopeless && group.search != Search::Asked {
            self.cancel(id);
        }
        self.release(id);
        self.dead.push_back((now, id));
        while self.dead.len() > self.config.remember_limit {
            if self.forget_first() {
                self.stats.forgotten_early += 1;
            }
        }
    }

    fn forget(&mut self) {
        let remember = nanos(self.config.remember);
        while let Some(&(since, _)) = self.dead.front()
            && since.saturating_add(remember) <= self.now_ns
        {
            self.forget_first();
        }
        shrink_sparse(&mut self.groups);
        self.claims.shrink();
    }

    /// Drops the group that was removed first. Returns whether the entry was valid rather than
    /// stale.
    fn forget_first(&mut self) -> bool {
        let Some((since, id)) = self.dead.pop_front() else {
            return false;
        };
        let is_dead = |group: &Group| group.life == Life::Dead(since);
        let gone = self.groups.get(&id).is_some_and(is_dead);
        if gone {
            self.remove(id);
        }
        gone
    }

    fn is_full(&self) -> bool {
        self.bytes > self.config.most_bytes / 4 * 3
    }

    fn may_walk(&self) -> bool {
        let interval = nanos(match self.is_full() {
            true => self.config.walk_interval * CROWDED,
            false => self.config.walk_interval,
        });
        self.walked_ns
            .is_none_or(|walked| self.now_ns >= walked.saturating_add(interval))
    }

    /// Walks the hierarchy and reconciles the known groups with it.
    fn walk(&mut self) {
        self.walked_ns = Some(self.now_ns);
        self.stats.walks += 1;
        let mut found = Vec::new();
        let mut count = 0;
        let mut room = (self.config.most_bytes / 4 * 3).saturating_sub(self.bytes);
        let mount = self.config.cgroup_mount.clone();
        let walked = walk(&mount, |id, path| {
            count += 1;
            if self.is_seen(id, path) {
                return;
            }
            if !self.groups.contains_key(&id) {
                let bytes = Group::PLACE + path.len();
                // The room is used up: this group would displace another group.
                if bytes > room {
                    return;
                }
                room -= bytes;
            }
            found.push((id, path.to_owned()));
        });
        let unreadable = walked.unwrap_or_else(|error| {
            let mount = mount.display();
            tracing::warn!(%error, "cannot walk {mount}: cgroups have no path");
            // An incomplete walk must not remove groups.
            1
        });
        let complete = unreadable == 0;
        self.stats.walks_incomplete += u64::from(!complete);
        // Ids are ascending. If two groups claim the same container, the older one gets it.
        found.sort_unstable_by_key(|(id, _)| *id);
        for (id, path) in &found {
            self.put(*id, path);
        }
        self.bury_missing(complete && !self.partial);
        self.walked_groups = count;
    }

    /// Records that the walk found a group. Returns whether the group is otherwise unchanged.
    fn is_seen(&mut self, id: CgroupId, path: &str) -> bool {
        let Some(group) = self.groups.get_mut(&id) else {
            return false;
        };
        // With a partial mount, the path from the kernel's events is complete, so it is kept.
        let is_known = group.life == Life::Live && (self.partial || group.owner.path == path);
        if is_known {
            group.walk = self.stats.walks;
        }
        is_known
    }

    /// Marks groups that the walk did not find as removed. Unseen ids are always marked, and live
    /// groups only if the walk was complete.
    fn bury_missing(&mut self, complete: bool) {
        let walk = self.stats.walks;
        let missing = |group: &Group| match group.life {
            Life::Unseen => true,
            Life::Live => complete && group.walk != walk,
            Life::Dead(_) => false,
        };
        let gone: Vec<CgroupId> = self
            .groups
            .iter()
            .filter(|(_, group)| missing(group))
            .map(|(&id, _)| id)
            .collect();
        for id in gone {
            let unseen = |group: &Group| group.life == Life::Unseen;
            self.stats.unknown += u64::from(self.groups.get(&id).is_some_and(unseen));
            self.bury(id);
        }
    }

    fn schedule(&mut self, id: CgroupId, at_ns: u64) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.search = Search::Due(at_ns);
            let lane = Lane::of(&group.query());
            self.due[lane as usize].insert((at_ns, id));
        }
    }

    /// Removes a search from the schedule.
    fn cancel(&mut self, id: CgroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            if let Search::Due(at) = group.search {
                for due in &mut self.due {
                    due.remove(&(at, id));
                }
            }
            group.search = Search::Over;
        }
    }

    /// Submits the searches that are due, as far as the queues have room.
    fn ask(&mut self) {
        for lane in Lane::ALL {
            self.ask_in(lane as usize);
        }
    }

    fn ask_in(&mut self, lane: usize) {
        let Some(asking) = &mut self.lookups[lane] else {
            return;
        };
        while let Some(&(at, id)) = self.due[lane].first()
            && at <= self.now_ns
        {
            if let Some(group) = self.groups.get_mut(&id) {
                match asking.lookups.ask(id, group.query()) {
                    Asked::Yes => group.search = Search::Asked,
                    Asked::Full => {
                        self.stats.searches_delayed += 1;
                        return;
                    }
                    Asked::Gone => {
                        tracing::warn!(
                            "the name lookup thread has ended: containers and pods are \
                            shown by id"
                        );
                        self.lookups[lane] = None;
                        return;
                    }
                }
                if asking.lookups.open() == 1 {
                    asking.moved_ns = self.now_ns;
                }
            }
            self.due[lane].pop_first();
        }
    }

    fn take(&mut self, reply: Reply) {
        let Some(group) = self.groups.get_mut(&reply.cgroup) else {
            return;
        };
        // The group was moved during the search and will be searched again.
        if group.search != Search::Asked || group.query() != reply.query {
            return;
        }
        group.search = Search::Over;
        match reply.answer {
            Ok(Some(names)) => return self.name(reply.cgroup, names),
            Ok(None) => {}
            Err(why) => {
                self.stats.files_unusable += 1;
                tracing::debug!(%why, "cannot read names");
            }
        }
        group.tries += 1;
        if let (Life::Live, Some(&wait)) = (group.life, RETRY.get(group.tries - 1)) {
            self.schedule(reply.cgroup, self.now_ns.saturating_add(nanos(wait)));
        }
    }

    /// Applies the names from files to a group.
    fn name(&mut self, id: CgroupId, names: Names) {
        let Some(group) = self.groups.get(&id) else {
            return;
        };
        let is_node = names.node && group.delegated.is_none();
        let top = names.top.clone();
        let owner = names.applied(&group.owner, group.delegated.as_ref());
        if let (Some(container), Some(top)) = (&owner.container, top) {
            self.release(id);
            if !self.grants(id, &owner.path, &container.id, &top) {
                return;
            }
        }
        let owner = Arc::new(owner);
        if let Some(group) = self.groups.get_mut(&id) {
            self.bytes -= group.bytes();
            group.owner = Arc::clone(&owner);
            self.bytes += group.bytes();
        }
        self.make_room(id);
        self.changed = true;
        if is_node {
            self.add_node(&owner);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
