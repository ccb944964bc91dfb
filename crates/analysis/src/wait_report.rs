//! Who waited for the CPU between two batches, why, and because of whom: the answer of `waits`.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{
    Batch, Blame, BlameRow, BlockClass, Cause, CgroupId, CgroupRow, Counter, Counters, Feature,
    Group, Histogram, IdMap, IdSet, Level, Loss, Measured, Owner, Preemptor, QuotaRow, QuotaUse,
    Settings, Subject, ThreadRoom, VerdictKind, Waiting,
};

use self::around::CpuOfAll;
use self::quota::{Member, Throttled};
use crate::gone::Gone;
use crate::report::{Key, Row, key, owner_of};
use crate::{Baseline, Evidence, ReportBuilder, Thresholds};

pub use self::around::{OwnWaits, Surroundings};

/// Somebody who waited or who ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// A container, pod, unit or cgroup: the outermost of its groups.
    Group(Arc<Owner>),
    /// Threads of the kernel.
    Kernel,
    /// The command that the agent follows.
    Command,
    /// Many groups below one.
    Below {
        /// Path of that one.
        path: String,
        /// How many.
        groups: usize,
    },
    /// Groups that share a row because the table is full.
    Unnamed,
}

impl Party {
    /// Who the group is.
    pub(crate) fn of(group: Group, owners: &IdMap<CgroupId, Arc<Owner>>) -> Self {
        match group {
            Group::Cgroup(id) => Self::Group(owner_of(owners.get(&id), id)),
            Group::Kernel => Self::Kernel,
            Group::Followed => Self::Command,
            Group::Unnamed => Self::Unnamed,
        }
    }

    /// A name for people. Not escaped.
    pub fn name(&self, level: Level) -> String {
        match self {
            Self::Group(owner) => owner.name(level),
            Self::Kernel => "kernel threads".into(),
            Self::Command => "the command".into(),
            Self::Below { path, groups } => {
                format!("{}/*: {groups} jobs", path.trim_start_matches('/'))
            }
            Self::Unnamed => "others".into(),
        }
    }

    /// Whether it is known where in the tree it is.
    pub(crate) fn has_path(&self) -> bool {
        match self {
            Self::Group(owner) => owner.path.starts_with('/'),
            Self::Below { .. } => true,
            Self::Kernel | Self::Command | Self::Unnamed => false,
        }
    }

    /// Whether it is a group below that path.
    pub(crate) fn is_below(&self, above: &str) -> bool {
        match self {
            Self::Group(owner) => owner.path != above && parent::is_below(&owner.path, above),
            _ => false,
        }
    }

    /// Whether it is many groups below that one.
    fn is_led_by(&self, party: &Self) -> bool {
        match (self, party) {
            (Self::Below { path, .. }, Self::Group(owner)) => owner.path == *path,
            _ => false,
        }
    }

    /// Whether it is many groups of which this is one.
    pub fn has(&self, party: &Self) -> bool {
        match self {
            Self::Below { path, .. } => party.is_below(path),
            _ => false,
        }
    }

    /// What it is, in a word: `container`, `service`, `cgroup`, `cgroups` (many), `kernel`,
    /// `command` or `others`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Group(owner) => match owner.subject() {
                Subject::Container(_) => "container",
                Subject::Unit(_) => "service",
                Subject::Cgroup(_) | Subject::Overflow => "cgroup",
            },
            Self::Kernel => "kernel",
            Self::Command => "command",
            Self::Below { .. } => "cgroups",
            Self::Unnamed => "others",
        }
    }

    /// What is one and the same at a level.
    pub fn key(&self, level: Level) -> Key {
        match self {
            Self::Group(owner) => key(owner, level),
            Self::Kernel => (10, String::new()),
            Self::Command => (11, String::new()),
            Self::Unnamed => (12, String::new()),
            Self::Below { path, .. } => (13, path.clone()),
        }
    }
}

/// Who made a group wait.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// Who.
    pub party: Party,
    /// How long the group waited while it had the CPU, and how often it took the CPU away.
    /// Preemptions by threads of the kernel are in [`WaitReportRow::preemptions`] only.
    pub blame: Blame,
}

/// The waits of one group in the window.
#[derive(Clone, Debug)]
pub struct WaitReportRow {
    /// Who waited.
    pub party: Party,
    /// Time on a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// How long each wait was, nanoseconds.
    pub histogram: Histogram,
    /// How long it waited for each cause, by index of [`Cause`], nanoseconds. The sum is all that
    /// it waited.
    pub wait_ns: [u64; Cause::ALL.len()],
    /// How long its threads were blocked, by index of [`BlockClass`], nanoseconds.
    pub blocked_ns: [u64; BlockClass::COUNT],
    /// Its threads that wait at the end of the window.
    pub waiting: Waiting,
    /// Other groups that had the CPU meanwhile, the most to blame first. Their sum is what was
    /// waited for neighbours and threads of the kernel.
    pub culprits: Vec<Culprit>,
    /// By index of [`Preemptor`].
    pub preemptions: [u64; Preemptor::ALL.len()],
    /// Switches because a quota ran out.
    pub throttles: u64,
    /// The quota that throttled it most, of one of its groups or one above or below; the innermost of those that
    /// bind, if any does; `None` where none did, or where that cannot be read.
    pub quota: Option<QuotaUse>,
    /// What it does to others.
    pub hurts: Hurts,
    /// The CPUs that it may use, and who has them.
    pub around: Surroundings,
    /// Its limits; the caller that reads the files of the kernel fills them in.
    pub settings: Settings,
    /// What is the matter.
    pub verdict: Verdict,
}

/// How long others waited behind a group: the other side of [`WaitReportRow::culprits`].
#[derive(Clone, Debug, Default)]
pub struct Hurts {
    /// All of them together, nanoseconds.
    pub wait_ns: u64,
    /// Who waited most, and how long.
    pub most: Option<(Party, u64)>,
}

/// A verdict with the numbers that made it.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What is the matter.
    pub kind: VerdictKind,
    /// The one to blame, where one is: the first of the culprits, or many of them below one group.
    pub culprit: Option<Party>,
    /// The numbers.
    pub evidence: Evidence,
}

/// Who waited between two batches.
#[derive(Clone, Debug)]
pub struct WaitReport {
    /// Length of the window in nanoseconds of `CLOCK_MONOTONIC`.
    pub window_ns: u64,
    /// When the window began, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// When the window ended, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// CPUs online at its end.
    pub cpus: u32,
    /// The window has not its full length yet: its verdicts may change.
    pub provisional: bool,
    /// Groups that ran or waited, the longest wait first.
    pub rows: Vec<WaitReportRow>,
    /// The counters that mean anything: a cause that is not measured is 0 in every row.
    pub measured: Measured,
    /// What was lost in the window.
    pub losses: Vec<Loss>,
    /// Status of each feature.
    pub features: Arc<[Feature]>,
}

impl WaitReport {
    /// Everybody whom a verdict other than quiet can name: who is hurt, and who did it.
    pub fn blamed(&self) -> impl Iterator<Item = &Party> {
        let hurt = self.rows.iter().filter(|row| row.is_hurt());
        hurt.flat_map(|row| {
            let culprits = row.culprits.iter().map(|culprit| &culprit.party);
            let first = row.verdict.culprit.iter();
            std::iter::once(&row.party).chain(first).chain(culprits)
        })
    }

    /// The same, for names that come late.
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
    fn is_hurt(&self) -> bool {
        self.verdict.kind != VerdictKind::Quiet
    }

    /// Whether it got a CPU, at once or not, or waited in vain.
    pub fn waited(&self) -> bool {
        !self.histogram.is_empty() || self.total_ns() > 0 || self.waiting.threads > 0
    }

    /// How long its threads were stalled by something other than the CPU, nanoseconds.
    pub fn stalled_ns(&self) -> u64 {
        let stalls = BlockClass::ALL.into_iter().filter(|class| class.is_stall());
        stalls.fold(0, |sum, class| {
            sum.saturating_add(self.blocked_ns[class as usize])
        })
    }

    /// How long its threads ran, waited for a CPU or were stalled, nanoseconds.
    pub fn active_ns(&self) -> u64 {
        let active = self.cpu_ns.saturating_add(self.total_ns());
        active.saturating_add(self.stalled_ns())
    }

    /// How long its threads ran, waited for a CPU or were blocked, nanoseconds.
    pub fn threads_ns(&self) -> u64 {
        let busy = self.cpu_ns.saturating_add(self.total_ns());
        self.blocked_ns
            .iter()
            .fold(busy, |sum, ns| sum.saturating_add(*ns))
    }

    /// All that it waited, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        let parts = self.wait_ns.iter().copied();
        parts.fold(0, u64::saturating_add)
    }

    /// What it waited for others, of which the culprits have their shares.
    pub fn others_ns(&self) -> u64 {
        let parts = self.culprits.iter().map(|c| c.blame.wait_ns);
        parts.fold(0, u64::saturating_add)
    }

    /// Who of those that are meant is to blame most, and for how long: a group, or many below one, which caused
    /// `share` of it, where the one group did not cause `one_ns`. Groups without a name are no single culprit.
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
            Some((one, ns)) => (*ns as f64) < one_ns || family.is_led_by(one),
            None => true,
        });
        many.or(top)
    }

    /// Who had most of the CPUs that its threads could have used, and the part of `crowded_ns` that is put down to it.
    fn most_around(&self, crowded_ns: u64) -> Option<(Party, u64)> {
        let (party, cpu_ns) = self.around.busiest.first()?;
        let part = *cpu_ns as f64 / self.around.others_cpu_ns.max(1) as f64;
        Some((party.clone(), (crowded_ns as f64 * part) as u64))
    }

    fn quota_binds(&self) -> bool {
        self.quota.as_ref().is_some_and(QuotaUse::binds)
    }

    /// Whether this other one uses up the quota that binds the row, too.
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

    /// What it waited for other groups that cost it something. `crowded_ns`: for its own threads, because others had
    /// the CPUs.
    fn costly_ns(&self, crowded_ns: u64) -> u64 {
        if !self.quota_binds() {
            return self.wait_ns[Cause::Neighbour as usize] + crowded_ns;
        }
        let costly = self.culprits.iter().filter(|c| self.uses_limit(&c.party));
        costly.map(|c| c.blame.wait_ns).sum()
    }

    /// Judges the row. `baseline` is what is usual for it, `before` its verdict in the window before.
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
            baseline,
        };
        let own_ns = evidence.of(Cause::Own);
        evidence.own_waits = self
            .around
            .own_waits(own_ns, evidence.wanted_ns(), window_ns);
        evidence.costly_ns = self.costly_ns(evidence.crowded_ns());
        let share = thresholds.culprit_share;
        let eased = thresholds.culprit_share_after(before);
        let mut one_ns = eased * evidence.blamed_ns() as f64;
        let mut most = match evidence.is_crowded() {
            true => self.most_around(evidence.crowded_ns()),
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
            _ => None,
        };
        self.verdict = Verdict {
            kind,
            culprit,
            evidence,
        };
    }

    /// Whether somebody who caused that much of the wait is named for it: from 1% on.
    pub(crate) fn is_worth_naming(&self, ns: u64) -> bool {
        ns > 0 && u128::from(ns) * 100 >= u128::from(self.total_ns())
    }
}

/// A row in the making.
struct Draft {
    party: Party,
    /// The groups of it, or those of its processes, for their quotas.
    members: Vec<Member>,
    counters: Counters,
    histogram: Histogram,
    waiting: Waiting,
    room: Option<ThreadRoom>,
    /// By number of the party.
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
        // The matrix has the neighbours by name; what the counters call so is the same sum.
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
            party: self.party,
            cpu_ns: self.counters[Counter::CpuTime],
            histogram: self.histogram,
            wait_ns,
            blocked_ns: BlockClass::ALL.map(|class| self.counters[Counter::Blocked(class)]),
            waiting: self.waiting,
            culprits,
            preemptions,
            throttles: self.counters[Counter::SwitchesThrottled],
            quota: None,
            settings: Settings::default(),
            hurts: Hurts::default(),
            around: Surroundings::default(),
            verdict: Verdict::default(),
        }
    }
}

/// The parties of a level by number. There can be tens of thousands of pairs of groups, and a name is made once
/// for each group.
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

/// The growth of the matrix and the distributions in a window: with rows that only its last batch has, and
/// with rows that it has no more.
struct Growth<'a> {
    first: &'a Batch,
    last: &'a Batch,
    gone: &'a Gone,
}

impl Growth<'_> {
    /// The pairs that grew: most of a large matrix did not.
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

    /// Who the groups are.
    fn owners(&self) -> IdMap<CgroupId, Arc<Owner>> {
        let rows = self.gone.cgroups(self.last);
        rows.map(|row| (row.id, owner_of(row.owner.as_ref(), row.id)))
            .collect()
    }
}

impl ReportBuilder {
    /// Who waited in the window so far, at a level other than that of processes; rows are judged
    /// without a history. `followed_only` gives one row, for the command that the agent follows.
    pub fn waits(&self, level: Level, followed_only: bool, thresholds: &Thresholds) -> WaitReport {
        let (first, last) = self.ends();
        let gone = self.gone();
        let growth = Growth { first, last, gone };
        let selected = self.selected_groups();
        let groups = self.cgroups(last);
        let drafts = if followed_only {
            vec![self.draft_of_command(&growth, level)]
        } else {
            Self::drafts(&growth, level, &groups, selected.as_ref())
        };
        let window_ns = last.taken_ns.saturating_sub(first.taken_ns);
        let throttled = self.throttled(&groups, window_ns);
        let has_room = drafts.iter().any(|draft| draft.room.is_some());
        let cpu = has_room.then(|| CpuOfAll::new(&groups, level, &first.node, &last.node));
        let finished = drafts.into_iter().map(|mut draft| {
            let (members, room) = (std::mem::take(&mut draft.members), draft.room);
            let row = draft.finish();
            let around = cpu.as_ref().zip(room);
            let around = around.map(|(cpu, room)| cpu.around(&row.party.key(level), room));
            WaitReportRow {
                quota: throttled.of(&row, &members, window_ns),
                around: around.unwrap_or_default(),
                ..row
            }
        });
        let mut rows: Vec<WaitReportRow> = finished
            .filter(|row| row.waited() || row.active_ns() > 0)
            .collect();
        for row in &mut rows {
            row.judge(window_ns, None, VerdictKind::default(), thresholds);
        }
        match selected.is_none() && !followed_only {
            true => hurts::of(&rows, level).note(&mut rows, level),
            // Others waited behind the chosen rows, too.
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
            measured: last.measured,
            losses: self.losses(last),
            features: last.features.clone(),
        }
    }

    fn throttled(&self, groups: &[Row], window_ns: u64) -> Throttled<'_> {
        let (first, last) = self.ends();
        let gone = self.gone();
        // Its first thread came in the window, to it or to a group below.
        let began = |quota: &QuotaRow| {
            let has_some = |row: &CgroupRow| {
                let owner = row.owner.as_ref();
                owner.is_some_and(|owner| parent::is_below(&owner.path, &quota.path))
            };
            !first.cgroups.iter().any(has_some) && gone.cgroups(last).any(|row| has_some(&row))
        };
        Throttled::between(&first.quotas, gone.quotas(last), began, groups, window_ns)
    }

    /// Rows of the `selected` groups, or of all. `groups`: what all used in the window.
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

/// Threads of two groups of one party. Which CPUs these are is not known: at least as many as one of them may use.
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
mod parent;
mod quota;
#[cfg(test)]
mod tests;
