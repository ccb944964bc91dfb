//! Builds the report of `waits`: which groups waited for the CPU between two batches, and which
//! causes and groups were responsible.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{
    Batch, Blame, BlameRow, BlockClass, Cause, CgroupId, CgroupRow, Counter, Counters, Feature,
    Group, Histogram, IdMap, IdSet, Level, Loss, Measured, MemoryUse, Owner, Preemptor, QuotaRow,
    QuotaUse, Settings, ThreadRoom, VerdictKind, Waiting,
};

use self::around::CpuOfAll;
use self::memory::Memories;
use self::quota::{Member, Throttled};
use self::released::Releases;
use crate::disk_report::{self, DiskReport};
use crate::gone::Gone;
use crate::party::{Party, is_below};
use crate::report::{Key, Row, owner_of};
use crate::{Baseline, Evidence, ReportBuilder, Stalls, Thresholds};

pub use self::around::{OwnWaits, Surroundings};
pub use self::released::{Released, ReleasedBy};

/// A party that made a group wait.
#[derive(Clone, Debug)]
pub struct Culprit {
    pub party: Party,
    /// How long the group waited while this party had the CPU, and how often this party preempted
    /// it. Preemptions by kernel threads are only in [`WaitReportRow::preemptions`].
    pub blame: Blame,
}

/// The waits of one group in the window.
#[derive(Clone, Debug)]
pub struct WaitReportRow {
    /// The group that waited.
    pub party: Party,
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Histogram of the lengths of the group's waits, in nanoseconds.
    pub histogram: Histogram,
    /// Wait by index of [`Cause`], in nanoseconds. The sum is the total wait.
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Time for which the group's threads were blocked, by index of [`BlockClass`], in nanoseconds.
    pub blocked_ns: [u64; BlockClass::COUNT],
    /// The parties that ended the group's blocks, by class, in descending order of blocked time;
    /// `None` if that is not measured.
    pub released: Option<Vec<Released>>,
    /// The other group that used the same disk most, and that group's share of the disk's time.
    /// `None` if no thread of this group waited for a disk, or disks are not measured.
    pub disk_rival: Option<(Party, f64)>,
    /// Threads that were still waiting at the end of the window.
    pub waiting: Waiting,
    /// Other parties that had the CPU during the wait, most to blame first. The sum of their parts
    /// is the wait for neighbours and kernel threads.
    pub culprits: Vec<Culprit>,
    /// Preemptions by index of [`Preemptor`].
    pub preemptions: [u64; Preemptor::ALL.len()],
    /// Number of switches because a quota ran out.
    pub throttles: u64,
    /// The quota that throttled the group most: its own, or the quota of an ancestor or a
    /// descendant. If several quotas bind, this is the innermost of them. `None` if no quota held
    /// the group back, or if quotas cannot be read.
    pub quota: Option<QuotaUse>,
    /// How memory held the group back; `None` if not known.
    pub memory: Option<MemoryUse>,
    /// Waits that the group caused to others.
    pub hurts: Hurts,
    /// The CPUs that the group may use, and what ran on them.
    pub around: Surroundings,
    /// Limits of the group. The caller reads them from the kernel's files.
    pub settings: Settings,
    pub verdict: Verdict,
}

/// Waits that a group caused to others: the opposite of [`WaitReportRow::culprits`].
#[derive(Clone, Debug, Default)]
pub struct Hurts {
    /// Sum over all victims, in nanoseconds.
    pub wait_ns: u64,
    /// The victim that waited longest, and how long.
    pub most: Option<(Party, u64)>,
}

/// A verdict with its evidence.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub kind: VerdictKind,
    /// The party to blame, if any: the first culprit, or several culprits with a common ancestor.
    pub culprit: Option<Party>,
    /// The figures that the verdict is based on.
    pub evidence: Evidence,
}

impl Verdict {
    /// Returns the time on which the verdict is based, in nanoseconds.
    pub fn hurt_ns(&self) -> u64 {
        self.evidence.hurt_ns(self.kind)
    }
}

/// Waits of all groups between two batches.
#[derive(Clone, Debug)]
pub struct WaitReport {
    /// Length of the window in nanoseconds of `CLOCK_MONOTONIC`.
    pub window_ns: u64,
    /// Start of the window, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End of the window, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// CPUs online at the end of the window.
    pub cpus: u32,
    /// Whether the window is still shorter than its full length, so that the verdicts may change.
    pub provisional: bool,
    /// Groups that ran or waited, in descending order of waiting time.
    pub rows: Vec<WaitReportRow>,
    /// Block devices that were used, in descending order of use; `None` if devices are not
    /// measured.
    pub disks: Option<Vec<DiskReport>>,
    /// Counters that are measured. The wait for a cause that is not measured is 0 in every row.
    pub measured: Measured,
    /// Losses in the window.
    pub losses: Vec<Loss>,
    /// Status of each feature.
    pub features: Arc<[Feature]>,
}

impl WaitReport {
    /// Yields every party that a verdict other than quiet may name: victims and culprits.
    pub fn blamed(&self) -> impl Iterator<Item = &Party> {
        let hurt = self.rows.iter().filter(|row| row.is_hurt());
        hurt.flat_map(|row| {
            let culprits = row.culprits.iter().map(|culprit| &culprit.party);
            let first = row.verdict.culprit.iter();
            std::iter::once(&row.party).chain(first).chain(culprits)
        })
    }

    /// Like [`Self::blamed`], for setting names that arrive late.
    pub fn blamed_mut(&mut self) -> impl Iterator<Item = &mut Party> {
        let hurt = self.rows.iter_mut().filter(|row| row.is_hurt());
        hurt.flat_map(|row| {
            let culprits = row.culprits.iter_mut().map(|culprit| &mut culprit.party);
            let first = row.verdict.culprit.iter_mut();
            std::iter::once(&mut row.party).chain(first).chain(culprits)
        })
    }
}

impl WaitReportRow {
    /// Returns the row of a party that neither ran nor waited.
    pub fn quiet(party: Party) -> Self {
        Self {
            party,
            cpu_ns: 0,
            histogram: Histogram::default(),
            wait_ns: Default::default(),
            blocked_ns: Default::default(),
            released: None,
            disk_rival: None,
            waiting: Waiting::default(),
            culprits: Vec::new(),
            preemptions: Default::default(),
            throttles: 0,
            quota: None,
            memory: None,
            hurts: Hurts::default(),
            around: Surroundings::default(),
            settings: Settings::default(),
            verdict: Verdict::default(),
        }
    }

    fn is_hurt(&self) -> bool {
        self.verdict.kind != VerdictKind::Quiet
    }

    /// Returns whether any of the group's threads ever became runnable: it got a CPU, immediately
    /// or later, or is still waiting.
    pub fn waited(&self) -> bool {
        !self.histogram.is_empty() || self.total_ns() > 0 || self.waiting.threads > 0
    }

    /// Returns whether any of the group's threads ran or waited for a CPU.
    pub fn was_runnable(&self) -> bool {
        self.waited() || self.cpu_ns > 0
    }

    /// Returns whether any of the group's threads ran, waited for a CPU or was stalled.
    pub fn is_active(&self) -> bool {
        self.was_runnable() || self.stalled_ns() > 0
    }

    /// Returns whether any of the group's threads waited for another thread. False if the releasers
    /// of blocks are not measured.
    fn awaits_threads(&self) -> bool {
        self.released.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Returns the time for which the group's threads were stalled by something other than the CPU,
    /// in nanoseconds.
    pub fn stalled_ns(&self) -> u64 {
        let stalls = BlockClass::ALL.into_iter().filter(|class| class.is_stall());
        stalls.fold(0, |sum, class| {
            sum.saturating_add(self.blocked_ns[class as usize])
        })
    }

    /// Returns the time for which the group's threads ran, waited for a CPU or were blocked, in
    /// nanoseconds.
    pub fn threads_ns(&self) -> u64 {
        let busy = self.cpu_ns.saturating_add(self.total_ns());
        self.blocked_ns
            .iter()
            .fold(busy, |sum, ns| sum.saturating_add(*ns))
    }

    fn waited_for_disk(&self) -> bool {
        let classes = [BlockClass::Disk, BlockClass::Writeback];
        classes.iter().any(|&it| self.blocked_ns[it as usize] > 0)
    }

    /// Returns the total wait of the group, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        let parts = self.wait_ns.iter().copied();
        parts.fold(0, u64::saturating_add)
    }

    /// Returns how long the group waited for its culprits, in nanoseconds.
    pub fn wait_on_others_ns(&self) -> u64 {
        let parts = self.culprits.iter().map(|c| c.blame.wait_ns);
        parts.fold(0, u64::saturating_add)
    }

    /// Returns the party most to blame among those that `is_meant` accepts, and the wait that it
    /// caused. The result is several groups with a common ancestor if they caused `share` of the
    /// wait and no single group caused `one_ns`. Groups without a name do not count as one culprit.
    fn most_to_blame(
        &self,
        share: f64,
        one_ns: f64,
        is_meant: impl Fn(&Party) -> bool,
    ) -> Option<(Party, u64)> {
        let is_one =
            |c: &&Culprit| !matches!(c.party, Party::Unnamed | Party::Kernel) && is_meant(&c.party);
        let top = self.culprits.iter().find(is_one);
        let top = top.map(|c| (c.party.clone(), c.blame.wait_ns));
        let many = parent::of_many(self, share, &is_meant);
        let many = many.filter(|(family, _)| match &top {
            Some((one, ns)) => (*ns as f64) < one_ns || family.consists_of_descendants_of(one),
            None => true,
        });
        many.or(top)
    }

    /// Returns the party with the most time on CPUs that the row's threads could have used, and how
    /// much of `crowded_ns` it caused.
    fn main_occupant(&self, crowded_ns: u64) -> Option<(Party, u64)> {
        let (party, cpu_ns) = self.around.busiest.first()?;
        let part = *cpu_ns as f64 / self.around.others_cpu_ns.max(1) as f64;
        Some((party.clone(), (crowded_ns as f64 * part) as u64))
    }

    fn quota_binds(&self) -> bool {
        self.quota.as_ref().is_some_and(QuotaUse::binds)
    }

    /// Returns whether the culprit is also below the quota that binds the row.
    pub(crate) fn uses_limit(&self, culprit: &Party) -> bool {
        let Some(quota) = self.quota.as_ref().filter(|quota| quota.binds()) else {
            return false;
        };
        let limited = match (&quota.group, &self.party) {
            (Some(group), _) => group,
            (None, Party::Group(owner)) => &owner.path,
            _ => return false,
        };
        culprit.is_inside(limited)
    }

    /// Returns the wait for other groups that cost the row CPU time. `crowded_ns` is the time for
    /// which the row's threads waited for each other because other groups occupied the CPUs.
    fn costly_ns(&self, crowded_ns: u64) -> u64 {
        if !self.quota_binds() {
            return self.wait_ns[Cause::Neighbour as usize] + crowded_ns;
        }
        let costly = self.culprits.iter().filter(|c| self.uses_limit(&c.party));
        costly.map(|c| c.blame.wait_ns).sum()
    }

    /// Judges the row. `baseline` holds the usual figures of the group, and `before` is the group's
    /// verdict in the previous window.
    pub fn judge(
        &mut self,
        window_ns: u64,
        baseline: Option<Baseline>,
        before: VerdictKind,
        thresholds: &Thresholds,
    ) {
        let mut evidence = Evidence {
            window_ns,
            cpu_ns: self.cpu_ns,
            wait_ns: self.wait_ns,
            waiting: self.waiting,
            p99_ns: self.histogram.quantile(0.99),
            top_culprit_ns: 0,
            quota_binds: self.quota_binds(),
            costly_ns: 0,
            own_waits: OwnWaits::default(),
            stalls: Stalls::new(&self.blocked_ns, self.memory.as_ref()),
            threads_ns: self.threads_ns(),
            baseline,
        };
        let holders = self.lock_holders();
        evidence.stalls.lock_ns = holders.map(|all| all.iter().map(|(_, ns)| ns).sum());
        let own_ns = evidence.of(Cause::Own);
        evidence.own_waits = self
            .around
            .own_waits(own_ns, evidence.wanted_ns(), window_ns);
        evidence.costly_ns = self.costly_ns(evidence.crowded_ns());
        let share = thresholds.culprit_share;
        let eased = thresholds.culprit_share_after(before);
        let mut one_ns = eased * evidence.blamed_ns() as f64;
        let mut most = match evidence.is_crowded() {
            true => self.main_occupant(evidence.crowded_ns()),
            false => self.most_to_blame(share, one_ns, |_| true),
        };
        evidence.top_culprit_ns = most.as_ref().map_or(0, |(_, ns)| *ns);
        let kind = evidence.verdict(thresholds, before);
        if kind == VerdictKind::QuotaAndNeighbours && evidence.quota_binds {
            one_ns = share * evidence.costly_ns as f64;
            most = self.most_to_blame(share, one_ns, |party| self.uses_limit(party));
            evidence.top_culprit_ns = most.as_ref().map_or(0, |(_, ns)| *ns);
        }
        let culprit = match kind {
            VerdictKind::HurtByKernel => Some(Party::Kernel),
            VerdictKind::HurtByNeighbour | VerdictKind::QuotaAndNeighbours => {
                let is_one = |ns: u64| ns as f64 >= one_ns && self.is_worth_naming(ns);
                let one = most.filter(|(_, ns)| is_one(*ns));
                one.map(|(party, _)| party)
            }
            VerdictKind::HeldByLock => {
                let least_ns = share * evidence.hurt_ns(kind) as f64;
                let holders = self.lock_holders().unwrap_or_default();
                let most = holders.first().filter(|(_, ns)| *ns as f64 >= least_ns);
                most.map(|(party, _)| (*party).clone())
            }
            VerdictKind::HeldByDisk => {
                let rival = self.disk_rival.as_ref();
                let rival = rival.filter(|(_, part)| *part >= share);
                rival.map(|(party, _)| party.clone())
            }
            _ => None,
        };
        self.verdict = Verdict {
            kind,
            culprit,
            evidence,
        };
    }

    /// Returns whether a culprit that caused this much of the wait is named: at least 1%.
    pub(crate) fn is_worth_naming(&self, ns: u64) -> bool {
        ns > 0 && u128::from(ns) * 100 >= u128::from(self.total_ns())
    }
}

/// A row while it is being built.
struct Draft {
    party: Party,
    /// The cgroups of the group, or of its processes. The quotas of these cgroups are looked up
    /// later.
    members: Vec<Member>,
    counters: Counters,
    histogram: Histogram,
    waiting: Waiting,
    room: Option<ThreadRoom>,
    /// Culprits by party number.
    culprits: IdMap<usize, Culprit>,
    own: Blame,
}

impl Draft {
    fn new(party: Party) -> Self {
        Self {
            party,
            members: Vec::new(),
            counters: Counters::default(),
            histogram: Histogram::default(),
            waiting: Waiting::default(),
            room: None,
            culprits: IdMap::default(),
            own: Blame::default(),
        }
    }

    fn add(&mut self, row: &Row) {
        self.counters += &row.counters;
        self.members.push(Member {
            path: row.owner.path.clone(),
            wanted_ns: quota::wanted_ns(row),
        });
    }

    fn blame(&mut self, number: usize, parties: &Parties<'_>, blame: &Blame) {
        let culprit = self.culprits.entry(number).or_insert_with(|| Culprit {
            party: parties.list[number].clone(),
            blame: Blame::default(),
        });
        culprit.blame += blame;
    }

    fn finish(self) -> WaitReportRow {
        // The blame matrix lists neighbours by name. The neighbour counter has the same sum, so it
        // is not added.
        let mut wait_ns = Cause::ALL.map(|cause| self.counters[Counter::Wait(cause)]);
        wait_ns[Cause::Neighbour as usize] = 0;
        wait_ns[Cause::Own as usize] += self.own.wait_ns;
        let mut preemptions =
            Preemptor::ALL.map(|preemptor| self.counters[Counter::PreemptedBy(preemptor)]);
        preemptions[Preemptor::Neighbour as usize] = 0;
        preemptions[Preemptor::Own as usize] += self.own.preemptions;
        for culprit in self.culprits.values() {
            let (cause, by) = match culprit.party {
                Party::Kernel => (Cause::Kernel, Preemptor::Kernel),
                _ => (Cause::Neighbour, Preemptor::Neighbour),
            };
            wait_ns[cause as usize] += culprit.blame.wait_ns;
            preemptions[by as usize] += culprit.blame.preemptions;
        }
        let kernel = Blame {
            wait_ns: self.counters[Counter::Wait(Cause::Kernel)],
            preemptions: 0,
        };
        let mut culprits: Vec<Culprit> = self.culprits.into_values().collect();
        if kernel.wait_ns > 0 {
            let known = culprits.iter_mut().find(|c| c.party == Party::Kernel);
            match known {
                Some(culprit) => culprit.blame += &kernel,
                None => culprits.push(Culprit {
                    party: Party::Kernel,
                    blame: kernel,
                }),
            }
        }
        culprits.sort_by(|a, b| {
            let order = b.blame.wait_ns.cmp(&a.blame.wait_ns);
            order.then_with(|| {
                a.party
                    .name(Level::Cgroup)
                    .cmp(&b.party.name(Level::Cgroup))
            })
        });
        WaitReportRow {
            cpu_ns: self.counters[Counter::CpuTime],
            histogram: self.histogram,
            wait_ns,
            blocked_ns: BlockClass::ALL.map(|class| self.counters[Counter::Blocked(class)]),
            waiting: self.waiting,
            culprits,
            preemptions,
            throttles: self.counters[Counter::SwitchesThrottled],
            ..WaitReportRow::quiet(self.party)
        }
    }
}

/// The parties of a level, by number. There may be tens of thousands of pairs of groups, and each
/// group's key is built only once.
struct Parties<'a> {
    level: Level,
    owners: &'a IdMap<CgroupId, Arc<Owner>>,
    groups: IdMap<Group, usize>,
    numbers: HashMap<Key, usize>,
    list: Vec<Party>,
}

impl<'a> Parties<'a> {
    fn new(level: Level, owners: &'a IdMap<CgroupId, Arc<Owner>>) -> Self {
        Self {
            level,
            owners,
            groups: IdMap::default(),
            numbers: HashMap::new(),
            list: Vec::new(),
        }
    }

    fn number(&mut self, group: Group) -> usize {
        if let Some(number) = self.groups.get(&group) {
            return *number;
        }
        let party = Party::of(group, self.owners);
        let number = *self
            .numbers
            .entry(party.key(self.level))
            .or_insert_with(|| {
                self.list.push(party);
                self.list.len() - 1
            });
        self.groups.insert(group, number);
        number
    }
}

/// Growth of the blame matrix and the wait histograms in a window, including rows that appeared or
/// disappeared in it.
struct Growth<'a> {
    first: &'a Batch,
    last: &'a Batch,
    gone: &'a Gone,
}

impl Growth<'_> {
    /// Yields the pairs that grew. In a large matrix most pairs do not grow.
    fn blames(&self) -> impl Iterator<Item = BlameRow> {
        let before: IdMap<(Group, Group), Blame> = self
            .first
            .blames
            .iter()
            .map(|row| ((row.victim, row.culprit), row.blame))
            .collect();
        let cells = self.gone.blames(self.last);
        let rows = cells.into_iter().map(move |(key, blame)| BlameRow {
            victim: key.0,
            culprit: key.1,
            blame: blame.since(before.get(&key).unwrap_or(&Blame::default())),
        });
        rows.filter(|row| row.blame != Blame::default())
    }

    fn waits(&self) -> impl Iterator<Item = (Group, Histogram)> {
        let before: IdMap<_, _> = self.first.waits.iter().map(|r| (r.group, r)).collect();
        let rows = self.gone.waits(self.last);
        rows.map(move |(group, histogram)| match before.get(&group) {
            Some(earlier) => (group, histogram.since(&earlier.histogram)),
            None => (group, histogram.into_owned()),
        })
    }

    /// Returns the cgroups that waited for a CPU in the window.
    fn waited(&self) -> IdSet<CgroupId> {
        let waits = self.waits().filter(|(_, waits)| waits.count() > 0);
        let blames = self.blames().filter(|row| row.blame != Blame::default());
        let groups = waits.map(|(group, _)| group);
        let groups = groups.chain(blames.map(|row| row.victim));
        let cgroups = groups.filter_map(|group| match group {
            Group::Cgroup(id) => Some(id),
            _ => None,
        });
        cgroups.collect()
    }

    fn owners(&self) -> IdMap<CgroupId, Arc<Owner>> {
        let rows = self.gone.cgroups(self.last);
        rows.map(|row| (row.id, owner_of(row.owner.as_ref(), row.id)))
            .collect()
    }
}

impl ReportBuilder {
    /// Returns the waits in the window so far. `level` must not be [`Level::Process`]. Verdicts do
    /// not use the history. With `followed_only`, the report has one row, for the command that the
    /// agent follows.
    pub fn waits(&self, level: Level, followed_only: bool, thresholds: &Thresholds) -> WaitReport {
        let mut report = self.waits_including_sleepers(level, followed_only, thresholds);
        report
            .rows
            .retain(|row| row.is_active() || row.awaits_threads());
        report
    }

    /// Like [`Self::waits`], but includes groups that only slept.
    pub(crate) fn waits_including_sleepers(
        &self,
        level: Level,
        followed_only: bool,
        thresholds: &Thresholds,
    ) -> WaitReport {
        let (first, last) = self.ends();
        let gone = self.gone();
        let growth = Growth { first, last, gone };
        let selected = self.selected_groups();
        let groups = self.inhabited_cgroups(last, level, &growth.waited());
        let drafts = if followed_only {
            vec![self.draft_of_command(&growth, level)]
        } else {
            Self::drafts(&growth, level, &groups, selected.as_ref())
        };
        let window_ns = last.taken_ns.saturating_sub(first.taken_ns);
        let throttled = self.throttled(&groups, window_ns);
        let began = |path: &str| self.began(path);
        let memories = Memories::between(first, window_ns, gone.memory(last), began);
        let has_room = drafts.iter().any(|draft| draft.room.is_some());
        let cpu = has_room.then(|| CpuOfAll::new(&groups, level, &first.node, &last.node));
        let finished = drafts.into_iter().map(|mut draft| {
            let (members, room) = (std::mem::take(&mut draft.members), draft.room);
            let row = draft.finish();
            let around = cpu.as_ref().zip(room);
            let around = around.map(|(cpu, room)| cpu.around(&row.party.key(level), room));
            WaitReportRow {
                quota: throttled.of(&row, &members, window_ns),
                memory: memories.of(&row, &members),
                around: around.unwrap_or_default(),
                ..row
            }
        });
        let mut rows: Vec<WaitReportRow> = finished
            .filter(|row| row.was_runnable() || row.threads_ns() > 0)
            .collect();
        let releases = Releases::of(self, &growth, level);
        let disks = disk_report::between(first, last, gone, level, &growth.owners());
        for row in &mut rows {
            if row.waited_for_disk() {
                let disks = disks.as_deref().unwrap_or_default();
                row.disk_rival = disk_report::rival(disks, &row.party, level);
            }
            row.released = releases.as_ref().map(|releases| releases.of_row(row));
            row.judge(window_ns, None, VerdictKind::default(), thresholds);
        }
        match selected.is_none() && !followed_only {
            true => hurts::of(&rows, level).note(&mut rows, level),
            // Rows that are not selected may also have waited for the selected ones.
            false => {
                let all = Self::drafts(&growth, level, &groups, None).into_iter();
                let all: Vec<WaitReportRow> = all.map(Draft::finish).collect();
                hurts::of(&all, level).note(&mut rows, level);
            }
        }
        rows.sort_by(|a, b| {
            let order = b.total_ns().cmp(&a.total_ns());
            order.then_with(|| {
                a.party
                    .name(Level::Cgroup)
                    .cmp(&b.party.name(Level::Cgroup))
            })
        });
        WaitReport {
            window_ns,
            from_unix_ns: first.time_unix_ns,
            time_unix_ns: last.time_unix_ns,
            cpus: last.node.cpus,
            provisional: false,
            rows,
            disks,
            measured: last.measured,
            losses: self.losses(last),
            features: last.features.clone(),
        }
    }

    fn throttled(&self, groups: &[Row], window_ns: u64) -> Throttled<'_> {
        let (first, last) = self.ends();
        let gone = self.gone();
        let began = |quota: &QuotaRow| self.began(&quota.path);
        Throttled::between(&first.quotas, gone.quotas(last), began, groups, window_ns)
    }

    /// Returns whether the group with that path, or a descendant, got its first thread in the
    /// window.
    fn began(&self, path: &str) -> bool {
        let (first, last) = self.ends();
        let has_some = |row: &CgroupRow| {
            let owner = row.owner.as_ref();
            owner.is_some_and(|owner| is_below(&owner.path, path))
        };
        let mut rows = self.gone().cgroups(last);
        !first.cgroups.iter().any(has_some) && rows.any(|row| has_some(&row))
    }

    /// Returns the rows of the `selected` groups, or of all groups. `groups` holds the usage of
    /// every group.
    fn drafts(
        growth: &Growth<'_>,
        level: Level,
        groups: &[Row],
        selected: Option<&IdSet<CgroupId>>,
    ) -> Vec<Draft> {
        let owners = growth.owners();
        let wanted = |id: &CgroupId| selected.is_none_or(|ids| ids.contains(id));
        let mut parties = Parties::new(level, &owners);
        let mut drafts: IdMap<usize, Draft> = IdMap::default();
        for row in groups.iter().filter(|row| wanted(&row.owner.cgroup)) {
            let draft = drafts
                .entry(parties.number(Group::Cgroup(row.owner.cgroup)))
                .or_insert_with(|| Draft::new(Party::Group(row.owner.clone())));
            draft.add(row);
            outermost(&mut draft.party, &row.owner);
        }
        for row in growth.last.cgroups.iter().filter(|row| wanted(&row.id)) {
            if let Some(draft) = drafts.get_mut(&parties.number(Group::Cgroup(row.id))) {
                draft.waiting += &row.waiting;
                draft.room = add_rooms(draft.room, row.room);
            }
        }
        let mut overflow = Draft::new(Party::Unnamed);
        for (group, histogram) in growth.waits() {
            match group {
                Group::Cgroup(id) if wanted(&id) => {
                    if let Some(draft) = drafts.get_mut(&parties.number(group)) {
                        draft.histogram += &histogram;
                    }
                }
                Group::Unnamed => overflow.histogram += &histogram,
                Group::Cgroup(_) | Group::Kernel | Group::Followed => {}
            }
        }
        for row in growth.blames() {
            let Group::Cgroup(id) = row.victim else {
                if row.victim == Group::Unnamed {
                    let unnamed = parties.number(Group::Unnamed);
                    overflow.blame(unnamed, &parties, &row.blame);
                }
                continue;
            };
            if !wanted(&id) {
                continue;
            }
            let (victim, culprit) = (parties.number(row.victim), parties.number(row.culprit));
            if let Some(draft) = drafts.get_mut(&victim) {
                if culprit == victim {
                    draft.own += &row.blame;
                } else {
                    draft.blame(culprit, &parties, &row.blame);
                }
            }
        }
        let overflow = selected.is_none().then_some(overflow);
        drafts.into_values().chain(overflow).collect()
    }

    fn draft_of_command(&self, growth: &Growth<'_>, level: Level) -> Draft {
        let owners = growth.owners();
        let mut parties = Parties::new(level, &owners);
        let mut draft = Draft::new(Party::Command);
        for row in self.processes(growth.last, true) {
            draft.add(&row);
        }
        for row in growth.last.processes.iter().filter(|row| row.followed) {
            draft.waiting += &row.waiting;
        }
        for (_, histogram) in growth
            .waits()
            .filter(|(group, _)| *group == Group::Followed)
        {
            draft.histogram += &histogram;
        }
        for row in growth.blames().filter(|row| row.victim == Group::Followed) {
            draft.blame(parties.number(row.culprit), &parties, &row.blame);
        }
        draft
    }
}

/// Combines the threads of two groups of one party. The CPUs of the groups may be the same or
/// different. The party may use at least as many CPUs as each group.
fn add_rooms(a: Option<ThreadRoom>, b: Option<ThreadRoom>) -> Option<ThreadRoom> {
    match (a, b) {
        (Some(a), Some(b)) => Some(ThreadRoom {
            threads: a.threads.saturating_add(b.threads),
            cpus: a.cpus.max(b.cpus),
        }),
        (known, None) | (None, known) => known,
    }
}

fn outermost(party: &mut Party, owner: &Arc<Owner>) {
    if let Party::Group(known) = party
        && owner.path.len() < known.path.len()
    {
        *known = owner.clone();
    }
}

mod around;
mod culprit;
mod hurts;
mod memory;
mod parent;
mod quota;
mod released;
#[cfg(test)]
mod tests;
