//! Every cgroup that is known, living or lately dead, with its owner.

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

/// Groups more than at the last walk, beyond which the tree is walked again without being asked:
/// only removals that were never reported make so many.
const SURPLUS: usize = 4096;

/// Where there is hardly room for groups, walks are so many times rarer: a user who makes tens of thousands of groups
/// makes each of them long.
const CROWDED: u32 = 30;

/// After this time without an answer a file system hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Knows every cgroup's owner. Fed with the kernel's events and with the time; files are read by
/// its own thread. No call but [`Registry::catch_up`] waits for anything but cgroupfs.
///
/// Times are `CLOCK_MONOTONIC` in nanoseconds and never go back: an earlier one counts as the
/// latest one seen.
pub struct Registry {
    config: Config,
    now_ns: u64,
    groups: IdMap<CgroupId, Group>,
    claims: Claims,
    /// The memory that they take.
    bytes: usize,
    /// When groups died; an entry that does not fit the group any more is stale.
    dead: VecDeque<(u64, CgroupId)>,
    /// When names are to be searched, by lane.
    due: [BTreeSet<(u64, CgroupId)>; Lane::ALL.len()],
    lookups: [Option<Asking>; Lane::ALL.len()],
    walked_ns: Option<u64>,
    walked_groups: usize,
    /// The mount shows a part of the hierarchy: its paths are not those of the kernel's events,
    /// and what it does not show may well be alive.
    partial: bool,
    nobody: Arc<Owner>,
    /// Owners were found or named since [`Registry::take_changed`] was called.
    changed: bool,
    stats: Stats,
}

/// A thread that looks names up.
struct Asking {
    lookups: Lookups,
    /// When it last answered, or was asked after it had answered everything.
    moved_ns: u64,
    /// It was said that it hangs.
    hangs: bool,
}

impl Registry {
    /// Walks the hierarchy once and starts the thread that looks names up. Fails at neither: what
    /// does not work is logged, and owners then stay without path or without names.
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
                .inspect_err(|error| tracing::warn!(%error, "no thread for names: ids stay raw"))
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
        // The time of this walk is not known, so it does not delay the next one.
        registry.walked_ns = None;
        registry.ask();
        registry
    }

    /// Takes changes of the tree, in the kernel's order, and does what is due.
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

    /// Does what is due: takes names that were found, asks for more, forgets the long dead.
    /// [`Registry::apply`] and [`Registry::join`] include it.
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

    /// When names are to be searched next, if any are: [`Registry::tick`] is wanted then.
    pub fn due_ns(&self) -> Option<u64> {
        let lanes = self.lookups.iter().zip(&self.due);
        let due = lanes.filter(|(asking, _)| asking.is_some());
        due.filter_map(|(_, due)| due.first().map(|&(at, _)| at))
            .min()
    }

    /// For the last look of a caller that answers once: what is being searched is waited for, and
    /// groups made a moment ago are searched once more, whose files may have come since. Never
    /// longer than `limit`.
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

    /// Says once when a thread gives no answer.
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
                Lane::Machine => "of container runtimes",
                Lane::Users => "of users' own containers (FUSE?)",
            };
            tracing::warn!("a file system does not answer: no names {whose} until it does");
        }
    }

    /// The owner of a group. An unknown id causes a walk of the hierarchy, unless one took place
    /// within [`Config::walk_interval`] before the last time that was passed in; an id that even
    /// a walk does not find has [`Owner::unknown`] and is not searched again for
    /// [`Config::remember`]. Known ids cost one look-up and no allocation.
    ///
    /// Names are missing at first: ask again rather than keep the answer.
    pub fn owner(&mut self, id: CgroupId) -> Arc<Owner> {
        if let Some(group) = self.groups.get_mut(&id)
            && group.life != Life::Unseen
        {
            group.asked_ns = self.now_ns.max(1);
            return Arc::clone(&group.owner);
        }
        self.owner_of_unknown(id)
    }

    /// The owners of all groups that are known, the lately dead included, in no order.
    pub fn owners(&self) -> impl Iterator<Item = &Arc<Owner>> {
        let seen = self
            .groups
            .values()
            .filter(|group| group.life != Life::Unseen);
        seen.map(|group| &group.owner)
    }

    /// The owners of the groups that are there.
    pub fn living_owners(&self) -> impl Iterator<Item = &Arc<Owner>> {
        let groups = self.groups.values();
        let living = groups.filter(|group| group.life == Life::Live);
        living.map(|group| &group.owner)
    }

    /// Sets the owner of each process and cgroup of a batch, but for those of unknown groups while no
    /// walk may take place. The batch's time counts as now.
    pub fn join(&mut self, batch: &mut Batch) {
        self.tick(batch.taken_ns);
        for row in batch.processes.iter_mut().chain(&mut batch.exited) {
            row.owner = self.owner_if_searched(row.cgroup);
        }
        for row in &mut batch.cgroups {
            row.owner = self.owner_if_searched(row.id);
        }
    }

    fn owner_if_searched(&mut self, id: CgroupId) -> Option<Arc<Owner>> {
        let owner = self.owner(id);
        let group = self.groups.get(&id);
        let searched = group.is_none_or(|group| group.life != Life::Unseen);
        searched.then_some(owner)
    }

    /// Compares everything with the hierarchy: for the caller that knows of lost events. Not done
    /// when a walk took place within [`Config::walk_interval`].
    pub fn resync(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.may_walk() {
            self.walk();
        }
        self.tick(now_ns);
    }

    /// Whether owners were found or named since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What it did and holds.
    pub fn stats(&self) -> Stats {
        Stats {
            groups: self.groups.len(),
            searching: Lane::ALL.map(|lane| self.open(lane)).iter().sum(),
            ..self.stats
        }
    }

    fn owner_of_unknown(&mut self, id: CgroupId) -> Arc<Owner> {
        // A process of which the group was not captured; no directory has this inode.
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
            // Buried by the walk and forgotten at once, for want of room.
            None => Arc::new(Owner::unknown(id)),
        }
    }

    /// A group is at this path.
    fn put(&mut self, id: CgroupId, path: &str) {
        let known = self.groups.get(&id);
        let is_same = |group: &Group| group.life == Life::Live && group.owner.path == path;
        if !known.is_some_and(is_same) {
            self.own(id, path);
        }
    }

    /// Reads the owner of the group from its path.
    fn own(&mut self, id: CgroupId, path: &str) {
        let old = self.groups.get(&id);
        let asked_ns = old.map_or(0, |group| group.asked_ns);
        let old = old.map(|group| Arc::clone(&group.owner));
        self.release(id);
        self.cancel(id);
        let delegated = match self.partial {
            // The mount does not show where this group is.
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

    /// Remembers a group, for which others may have to be forgotten.
    fn insert(&mut self, id: CgroupId, group: Group) {
        self.bytes += group.bytes();
        if let Some(before) = self.groups.insert(id, group) {
            self.bytes -= before.bytes();
        }
        self.make_room(id);
    }

    /// Where memory is short, forgets groups until an eighth of it is free: the search for them is not worth it for one.
    /// The group that is added stays.
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

    /// The group and what is below it moved.
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

    /// The group is gone; what was known of it stays for a while.
    fn bury(&mut self, id: CgroupId) {
        let now = self.now_ns;
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        if matches!(group.life, Life::Dead(_)) {
            return;
        }
        group.life = Life::Dead(now);
        // Docker's file outlives the container, so one search is worth it; state files do not.
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

    /// Whether the entry was not stale.
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

    /// Makes what is known agree with the hierarchy.
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
                // It would push another out.
                if bytes > room {
                    return;
                }
                room -= bytes;
            }
            found.push((id, path.to_owned()));
        });
        let unreadable = walked.unwrap_or_else(|error| {
            let mount = mount.display();
            tracing::warn!(%error, "cannot walk {mount}: groups have no path");
            // What it found is not to be taken for the truth.
            1
        });
        let complete = unreadable == 0;
        self.stats.walks_incomplete += u64::from(!complete);
        // Ids grow: of two groups that claim one container, the older one has it.
        found.sort_unstable_by_key(|(id, _)| *id);
        for (id, path) in &found {
            self.put(*id, path);
        }
        self.bury_missing(complete && !self.partial);
        self.walked_groups = count;
    }

    /// Notes that the walk found a group, if that changes nothing.
    fn is_seen(&mut self, id: CgroupId, path: &str) -> bool {
        let Some(group) = self.groups.get_mut(&id) else {
            return false;
        };
        // In a part of the hierarchy, it is known from the kernel's events, by its full path.
        let is_known = group.life == Life::Live && (self.partial || group.owner.path == path);
        if is_known {
            group.walk = self.stats.walks;
        }
        is_known
    }

    /// Buries the groups that the walk did not see: the unseen ones, and the living ones too if
    /// the walk saw everything.
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

    /// Takes a search off the list.
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

    /// Passes on the searches that are due, as far as the queue has room.
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
                        tracing::warn!("the thread for names has ended: ids stay raw");
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
        // The group was moved meanwhile and is asked for again.
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

    /// Takes the names of a group from files.
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
