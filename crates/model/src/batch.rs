//! A snapshot of all figures that are counted or measured.

use std::sync::Arc;

use crate::{
    AgentCost, BlameRow, Blocked, ByPackage, CgroupId, Comm, Counter, Counters, CpuRow,
    DestinationRow, Disk, Energy, EventCounters, Feature, Histogram, Joules, Loss, Measured,
    MemoryRow, Owner, PackageRow, ProcessId, QuotaRow, ReleaseRow, Sockets, SubjectRow, ThreadRoom,
    WaitRow, Waiting, ZoneAccount,
};

/// Maximum number of holders of a CPU to carry over from batches that readers skip.
const MOST_HELD: usize = 64;

/// All figures that the sources measured at one moment.
///
/// Counters are absolute and never decrease. Counters start at 0 when the agent starts, or when the
/// process starts if that is later. A sink that misses a batch loses resolution but no counts.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Sequence number since the agent started.
    pub sequence: u64,
    /// Wall-clock time of the snapshot, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// `CLOCK_MONOTONIC` at the snapshot, in nanoseconds.
    pub taken_ns: u64,
    /// Wall-clock time of boot, in nanoseconds since 1970. This time converts
    /// [`ProcessId::start_ns`] to a date.
    pub boot_unix_ns: u64,
    /// The whole machine.
    pub node: Node,
    /// Packages (sockets), whose sum is the node. The list is empty only in a batch without CPU
    /// accounts.
    pub packages: Vec<PackageRow>,
    /// CPUs that are online, in ascending order.
    pub cpus: Vec<CpuRow>,
    /// The set of counters that are measured.
    pub measured: Measured,
    /// All live processes, including zombies, and processes whose exit has not been reported yet.
    pub processes: Vec<ProcessRow>,
    /// Processes whose exit was reported since the previous batch.
    pub exited: Vec<ProcessRow>,
    /// Whether final figures of exited processes that the agent follows are still to arrive.
    pub followed_pending: bool,
    /// All cgroups that used a CPU or have events. A removed cgroup stays until its use is settled.
    pub cgroups: Vec<CgroupRow>,
    /// Histogram of waits for each group; empty if waits are not measured.
    pub waits: Vec<WaitRow>,
    /// Histogram of waits of all groups, including groups that no longer have a row.
    pub all_waits: Histogram,
    /// Histogram of connect times for each group, from the call to the end of the handshake. The
    /// histogram is empty if TCP is not measured.
    pub connects: Vec<WaitRow>,
    /// Histogram of connect times of all groups, including groups that no longer have a row.
    pub all_connects: Histogram,
    /// Connections of each group by destination. A destination that the source drops is added to
    /// the group's row without a destination.
    pub destinations: Vec<DestinationRow>,
    /// Waits by victim and culprit.
    pub blames: Vec<BlameRow>,
    /// The processes that ended the blocks of each group; `None` if that is not measured.
    pub releases: Option<Vec<ReleaseRow>>,
    /// Block devices that had requests; `None` if they are not measured.
    pub disks: Option<Vec<Disk>>,
    /// Groups with a CPU quota, whether or not they were throttled.
    pub quotas: Vec<QuotaRow>,
    /// Memory figures of groups and their ancestors.
    pub memory: Vec<MemoryRow>,
    /// Containers, units and other groups, filled by `Rollup` of noctule-analysis.
    pub subjects: Vec<SubjectRow>,
    /// Readings of the energy meters. `None` means that the machine has no meter and the
    /// configuration has no power model.
    pub energy: Option<Energy>,
    /// Attribution of each zone's energy, in the order of the zones. The list is filled by
    /// `Attribution` of noctule-analysis, and is empty without a meter.
    pub zone_accounts: Vec<ZoneAccount>,
    /// Status of each feature.
    pub features: Arc<[Feature]>,
    /// Losses since the agent started. Kinds without losses are listed with 0.
    pub losses: Vec<Loss>,
    /// Cost of the agent itself.
    pub agent: AgentCost,
}

impl Batch {
    /// Returns a copy without single processes, which is much smaller.
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
            releases: self.releases.clone(),
            disks: self.disks.clone(),
            quotas: self.quotas.clone(),
            memory: self.memory.clone(),
            energy: self.energy.clone(),
            zone_accounts: self.zone_accounts.clone(),
            features: self.features.clone(),
            losses: self.losses.clone(),
            agent: self.agent.clone(),
            ..*self
        }
    }

    /// Adds the CPU holders of the previous batch, which readers did not receive. Only
    /// [`CpuRow::holders`] needs this, because it is not a counter.
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

    /// Combines the largest CPU holders of this batch, which readers do not receive, with the
    /// holders of `skipped`, the batch before it. The result is passed to [`Batch::add_holders`] of
    /// the next batch. Many batches can be skipped while a disk hangs.
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

/// The whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Node {
    /// CPUs online now.
    pub cpus: u32,
    /// Elapsed time of the online CPUs since the agent started, summed over CPUs, in nanoseconds.
    pub elapsed_ns: u64,
    /// How much of the elapsed time the CPU was idle. This includes interrupts that arrive on an
    /// idle CPU.
    pub idle_ns: u64,
    /// Time taken by interrupts, up to the last switch of each CPU. `None` unless the kernel
    /// measures interrupt time (CONFIG_IRQ_TIME_ACCOUNTING).
    pub interrupt_ns: Option<u64>,
    /// Time taken by the host (steal). `None` unless the kernel separates steal time from the CPU
    /// time of the running task (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    pub steal_ns: Option<u64>,
    /// Steal time up to the last switch of each CPU, on kernels that count steal time as CPU time
    /// of the running task or as idle time. Used and idle time include this steal time.
    pub steal_included_ns: Option<u64>,
    /// Number of times that a CPU left its idle task.
    pub idle_switches: u64,
    /// Sum over all cgroups, which equals the sum over all processes, including ended ones.
    /// Counters other than time also include idle CPUs, for example softirqs that run there.
    pub total: Counters,
    /// Events of all cgroups, including removed ones, and events that had no room in the
    /// kernel-side table.
    pub events: EventCounters,
    /// Sockets open now.
    pub sockets: Sockets,
    /// Frequency of the reference cycles, if the machine has them.
    pub nominal_hertz: Option<u64>,
    /// Whether only the processes of a pid namespace are visible. Other processes have no row, and
    /// the remainder contains their use.
    pub outside_unseen: bool,
}

impl Node {
    /// Returns the elapsed time that is neither idle nor charged to a process. This time consists
    /// of interrupt and steal time that the kernel separates from tasks, and of the time of threads
    /// that exited during the snapshot, which is charged one batch later. Elapsed = processes +
    /// idle + remainder.
    pub fn remainder_ns(&self) -> u64 {
        self.elapsed_ns
            .saturating_sub(self.idle_ns)
            .saturating_sub(self.total[Counter::CpuTime])
    }
}

impl ProcessRow {
    /// Returns the counters at the moment of the batch, including the time of blocks in progress.
    pub fn counters_at(&self, taken_ns: u64) -> Counters {
        self.blocked.added_to(self.counters, taken_ns)
    }
}

impl CgroupRow {
    /// Returns the counters at the moment of the batch, including the time of blocks in progress.
    pub fn counters_at(&self, taken_ns: u64) -> Counters {
        self.blocked.added_to(self.counters, taken_ns)
    }
}

/// A process with all its threads.
#[derive(Clone, Debug, Default)]
pub struct ProcessRow {
    pub id: ProcessId,
    /// Thread-group id of the current parent. If the original parent has ended, this is the reaper.
    pub parent_pid: u32,
    /// Command name of the thread group leader.
    pub comm: Comm,
    /// Cgroup of the leader. Other threads may be in other cgroups, to which their use is charged.
    pub cgroup: CgroupId,
    /// The owner of that cgroup, filled in by the identity step.
    pub owner: Option<Arc<Owner>>,
    pub kernel_thread: bool,
    /// Whether the process descends from the command that the agent follows, even if it was
    /// reparented.
    pub followed: bool,
    /// Whether the process has exited, so that this row has its final figures.
    pub exited: bool,
    /// Whether the kernel no longer lists the process, but its exit is not reported yet. The row
    /// then repeats the last batch in which the process was listed.
    pub gone: bool,
    /// The resource use of the process.
    pub counters: Counters,
    /// Active energy charged to the process; 0 if there is no meter.
    pub joules: Joules,
    /// The resource use by package.
    pub packages: ByPackage,
    /// Threads that are waiting for a CPU at the moment of the batch.
    pub waiting: Waiting,
    /// Threads that are blocked at the moment of the batch.
    pub blocked: Blocked,
}

/// A cgroup: its own live and exited threads, excluding the threads of child cgroups.
#[derive(Clone, Debug, Default)]
pub struct CgroupRow {
    pub id: CgroupId,
    /// The owner of the cgroup, filled in by the identity step.
    pub owner: Option<Arc<Owner>>,
    /// Whether the cgroup was removed, filled in by the identity step. Its row stays for a while.
    pub removed: bool,
    /// Resource use of the threads while they were in the cgroup.
    pub counters: Counters,
    /// Active energy charged to these threads; 0 if there is no meter.
    pub joules: Joules,
    /// Resource use of these threads by package.
    pub packages: ByPackage,
    /// Events of the cgroup. A connection belongs to the cgroup of its process when that process
    /// connected or began to listen.
    pub events: EventCounters,
    /// Open sockets of the cgroup at the moment of the batch.
    pub sockets: Sockets,
    /// Threads that are waiting for a CPU at the moment of the batch.
    pub waiting: Waiting,
    /// Threads that are blocked at the moment of the batch.
    pub blocked: Blocked,
    /// The threads of the cgroup and the CPUs that they may use. `None` if they were not read,
    /// because the threads hardly waited for each other.
    pub room: Option<ThreadRoom>,
}
