//! One snapshot of everything that is counted.

use std::sync::Arc;

use crate::{
    AgentCost, BlameRow, Blocked, ByPackage, CgroupId, Comm, Counter, Counters, CpuRow,
    DestinationRow, Energy, EventCounters, Feature, Histogram, Joules, Loss, Measured, Owner,
    PackageRow, ProcessId, QuotaRow, Sockets, SubjectRow, ThreadRoom, WaitRow, Waiting,
    ZoneAccount,
};

/// So many are kept of those who had a CPU in batches that readers do not get.
const MOST_HELD: usize = 64;

/// Everything that the sources knew at one moment.
///
/// Counters are absolute and only go up; they start at 0 when the agent starts (or when the
/// process does, if later). A sink that misses a batch loses resolution, never truth.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Number of the batch since the agent started.
    pub sequence: u64,
    /// Wall-clock time of the snapshot, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// `CLOCK_MONOTONIC` of the snapshot, nanoseconds.
    pub taken_ns: u64,
    /// Wall-clock time of boot, nanoseconds since 1970: turns [`ProcessId::start_ns`] into a date.
    pub boot_unix_ns: u64,
    /// The machine as a whole.
    pub node: Node,
    /// Its packages (sockets), of which the sum is the node. There is at least one, but in a batch
    /// that no source of CPU accounts made.
    pub packages: Vec<PackageRow>,
    /// Each CPU that is online, in ascending order.
    pub cpus: Vec<CpuRow>,
    /// Which counters mean anything.
    pub measured: Measured,
    /// Every process that is alive, zombies included, and those whose end is not reported yet.
    pub processes: Vec<ProcessRow>,
    /// Processes whose end was reported since the batch before this one.
    pub exited: Vec<ProcessRow>,
    /// Processes that the agent follows have ended, and their last figures are still to come.
    pub followed_pending: bool,
    /// Every cgroup that ran something or has events, dead ones included until what they used is settled.
    pub cgroups: Vec<CgroupRow>,
    /// The distribution of the waits of each group; empty when waits are not measured.
    pub waits: Vec<WaitRow>,
    /// The waits of all groups together, those that are gone for long included.
    pub all_waits: Histogram,
    /// How long it took each group to connect, from the call to the handshake's end; empty when TCP
    /// is not measured.
    pub connects: Vec<WaitRow>,
    /// The same of all groups together, those that are gone for long included.
    pub all_connects: Histogram,
    /// Where the connections of each group go. A destination that the source forgets is added to the
    /// group's row without one.
    pub destinations: Vec<DestinationRow>,
    /// The matrix of victims and culprits.
    pub blames: Vec<BlameRow>,
    /// Groups with a CPU quota, those that were throttled among them.
    pub quotas: Vec<QuotaRow>,
    /// Containers, units and other groups; filled by `Rollup` of noctule-analysis.
    pub subjects: Vec<SubjectRow>,
    /// What the meters of energy read. `None`: the machine has none, and the operator gave no model.
    pub energy: Option<Energy>,
    /// Where the energy of each zone went, in the order of its zones; filled by `Attribution` of
    /// noctule-analysis, and empty without a meter.
    pub zone_accounts: Vec<ZoneAccount>,
    /// Status of each feature.
    pub features: Arc<[Feature]>,
    /// What was lost since the agent started; kinds that lost nothing are listed with 0.
    pub losses: Vec<Loss>,
    /// Cost of the agent itself.
    pub agent: AgentCost,
}

impl Batch {
    /// A copy without single processes: much smaller.
    #[must_use]
    pub fn without_processes(&self) -> Self {
        Self {
            processes: Vec::new(),
            exited: Vec::new(),
            subjects: Vec::new(),
            packages: self.packages.clone(),
            cpus: self.cpus.clone(),
            cgroups: self.cgroups.clone(),
            waits: self.waits.clone(),
            all_waits: self.all_waits.clone(),
            connects: self.connects.clone(),
            all_connects: self.all_connects.clone(),
            destinations: self.destinations.clone(),
            blames: self.blames.clone(),
            quotas: self.quotas.clone(),
            energy: self.energy.clone(),
            zone_accounts: self.zone_accounts.clone(),
            features: self.features.clone(),
            losses: self.losses.clone(),
            agent: self.agent.clone(),
            ..*self
        }
    }

    /// Adds who had each CPU up to the batch before, which readers of this one do not get: [`CpuRow::holders`]
    /// are the only figures that are no counters.
    pub fn add_holders(&mut self, skipped: &Self) {
        for row in &mut self.cpus {
            let earlier = skipped.cpus.iter().filter(|it| it.cpu == row.cpu);
            for &(group, ns) in earlier.flat_map(|it| &it.holders) {
                match row.holders.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, sum)) => *sum += ns,
                    None => row.holders.push((group, ns)),
                }
            }
            row.holders
                .sort_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
        }
    }

    /// Who had each CPU most, and nothing else, of a batch that readers do not get and of those skipped before it: for
    /// [`Batch::add_holders`] of the next. There can be many of them, where a disk hangs.
    #[must_use]
    pub fn holders_since(&self, skipped: &Self) -> Self {
        let mut held = Self {
            cpus: self.cpus.clone(),
            ..Self::default()
        };
        held.add_holders(skipped);
        let lists = held.cpus.iter_mut().map(|row| &mut row.holders);
        lists.for_each(|holders| holders.truncate(MOST_HELD));
        held
    }
}

/// The machine as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Node {
    /// CPUs that are online now.
    pub cpus: u32,
    /// Time that the online CPUs had since the agent started, summed over them, in nanoseconds.
    pub elapsed_ns: u64,
    /// The part of it in which they were idle. Interrupts that arrive on an idle CPU are in here.
    pub idle_ns: u64,
    /// What interrupts took of it, where the kernel measures it (CONFIG_IRQ_TIME_ACCOUNTING), up to the
    /// last switch of each CPU.
    pub interrupt_ns: Option<u64>,
    /// What the host took of it, where the kernel does not count that as CPU time of who ran
    /// (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    pub steal_ns: Option<u64>,
    /// What the host took of CPUs, up to the last switch of each, where the kernel does count it as CPU time of who
    /// ran, or as idle: it is included in what was used, and in idle time.
    pub steal_included_ns: Option<u64>,
    /// How often a CPU left its idle task.
    pub idle_switches: u64,
    /// Sum over all cgroups, which is the sum over all processes, dead ones included, and (other
    /// than time) what happened on idle CPUs, such as softirqs.
    pub total: Counters,
    /// Events of all cgroups, those that are gone included, and what found no room in the kernel
    /// side.
    pub events: EventCounters,
    /// What is open now.
    pub sockets: Sockets,
    /// Frequency at which the reference cycles count, if the machine has it.
    pub nominal_hertz: Option<u64>,
    /// Only the processes of a pid namespace are seen: what others used is in no row, and in the remainder.
    pub outside_unseen: bool,
}

impl Node {
    /// Elapsed time that is neither idle nor charged to a process: interrupt and steal time that
    /// the kernel keeps apart from tasks, and threads that died while the snapshot was taken
    /// (these are charged one batch later). Elapsed = processes + idle + remainder.
    pub fn remainder_ns(&self) -> u64 {
        self.elapsed_ns
            .saturating_sub(self.idle_ns)
            .saturating_sub(self.total[Counter::CpuTime])
    }
}

impl ProcessRow {
    /// Its counters at the moment of its batch, with the time of blocks that last.
    pub fn counters_at(&self, taken_ns: u64) -> Counters {
        self.blocked.added_to(self.counters, taken_ns)
    }
}

impl CgroupRow {
    /// Its counters at the moment of its batch, with the time of blocks that last.
    pub fn counters_at(&self, taken_ns: u64) -> Counters {
        self.blocked.added_to(self.counters, taken_ns)
    }
}

/// One process, all its threads together.
#[derive(Clone, Debug, Default)]
pub struct ProcessRow {
    /// Who it is.
    pub id: ProcessId,
    /// Thread-group id of its parent now (of the reaper, once the parent is gone).
    pub parent_pid: u32,
    /// Command name of the leader.
    pub comm: Comm,
    /// Group of the leader. Other threads may be in other groups; cgroup figures count those right.
    pub cgroup: CgroupId,
    /// What is known of that group; filled by the identity step.
    pub owner: Option<Arc<Owner>>,
    /// A thread of the kernel.
    pub kernel_thread: bool,
    /// Descends from the command that the agent follows, however it was reparented.
    pub followed: bool,
    /// It is gone, and these are its last figures.
    pub exited: bool,
    /// The kernel does not list it any more, and its end is not reported yet: all this is what was
    /// known of it in the last batch that listed it.
    pub gone: bool,
    /// What it used.
    pub counters: Counters,
    /// The active energy that it is charged with; 0 without a meter.
    pub joules: Joules,
    /// Where it used that.
    pub packages: ByPackage,
    /// Its threads that wait for a CPU now.
    pub waiting: Waiting,
    /// Its threads that are blocked now.
    pub blocked: Blocked,
}

/// One cgroup: the threads that are directly in it, living and dead, not those of groups below.
#[derive(Clone, Debug, Default)]
pub struct CgroupRow {
    /// Which one.
    pub id: CgroupId,
    /// What is known of it; filled by the identity step.
    pub owner: Option<Arc<Owner>>,
    /// What its threads used while they were in it.
    pub counters: Counters,
    /// The active energy that they are charged with; 0 without a meter.
    pub joules: Joules,
    /// Where they used that.
    pub packages: ByPackage,
    /// Its events. A connection belongs to the group that its process was in when it connected or
    /// began to listen.
    pub events: EventCounters,
    /// What it has open now.
    pub sockets: Sockets,
    /// Its threads that wait for a CPU now.
    pub waiting: Waiting,
    /// Its threads that are blocked now.
    pub blocked: Blocked,
    /// Its threads and their CPUs; `None` where that was not read, because hardly any of them waited for another one.
    pub room: Option<ThreadRoom>,
}
