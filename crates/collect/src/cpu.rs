//! Builds batches from the CPU accounts of the kernel side.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noctule_kernel::{Accounting, Error, Facts, ProgramHandle, Snapshot, TaskSample, sample_flag};
use noctule_model::{Batch, CgroupId, Counter, Counters, Feature, FeatureId, Loss, Node, Waiting};

use crate::agent::Agent;
use crate::clock::wall_clock;

mod blocked;
mod by_package;
mod cgroups;
mod features;
mod hidden;
mod node;
mod processes;
mod waits;

use blocked::BlockedThreads;
use cgroups::Cgroups;
use features::Features;
use hidden::Hidden;
use node::NodeTime;
use processes::{ENDED_ROWS, Processes};
use waits::Waits;

/// How long processes and cgroups are kept after they have disappeared.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// Grace period of a process that is no longer listed and whose exit was not reported. The
    /// record may come about 100 ms late, or never if it was lost.
    pub process: Duration,
    /// Grace period of a cgroup that was released.
    pub cgroup: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            process: Duration::from_secs(5),
            cgroup: Duration::from_secs(60),
        }
    }
}

impl Grace {
    /// Returns the default, with a limit for cgroups. The grace period of cgroups is never shorter
    /// than the grace period of processes, so that a released cgroup can still receive late
    /// figures.
    pub fn at_most(limit: Duration) -> Self {
        let usual = Self::default();
        Self {
            cgroup: usual.cgroup.min(limit).max(usual.process),
            ..usual
        }
    }
}

pub struct CpuSource {
    kernel: Accounting,
    processes: Processes,
    hidden: Hidden,
    cgroups: Cgroups,
    waits: Waits,
    blocked: BlockedThreads,
    node: NodeTime,
    agent: Agent,
    features: Features,
    nominal_hertz: Option<u64>,
    sequence: u64,
}

impl CpuSource {
    /// Sets the status of a feature, starting with the next batch.
    pub fn set_feature(&mut self, feature: &Feature) {
        self.features.set(feature);
    }

    /// Creates a source that reads these accounts. The cost of `other_programs` is measured
    /// together with the cost of the accounts, and `other_features` are listed in each batch.
    /// `unmeasured` is the status to report if the user has chosen not to measure the cost of
    /// programs.
    pub fn new(
        kernel: Accounting,
        facts: &Facts,
        grace: Grace,
        other_programs: Vec<ProgramHandle>,
        other_features: &[Feature],
        unmeasured: Option<Feature>,
    ) -> Self {
        let mut programs = kernel.programs();
        programs.extend(other_programs);
        let agent = match unmeasured {
            None => Agent::new(programs),
            Some(_) => Agent::default(),
        };
        let mut features = [kernel.features(), other_features].concat();
        features.push(unmeasured.unwrap_or_else(|| self_cost(&agent)));
        let packages = kernel.topology().packages().len();
        Self {
            processes: Processes::new(packages, grace.process),
            hidden: Hidden::new(facts),
            cgroups: Cgroups::new(packages, grace.cgroup, kernel.cgroup_rows()),
            waits: Waits::new(grace.cgroup, kernel.blame_rows()),
            blocked: BlockedThreads::default(),
            node: NodeTime::new(kernel.started_ns(), kernel.scheduler()),
            agent,
            features: Features::new(features, facts.roots.sys.clone()),
            nominal_hertz: facts.nominal_hertz,
            sequence: 0,
            kernel,
        }
    }

    /// Marks all future children of process `pid` as followed, with their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        self.kernel.follow_children_of(pid);
    }

    /// Starts to measure the releasers of blocked threads at the moment of the next batch.
    pub fn begin_releases(&mut self) {
        self.kernel.begin_releases();
    }

    /// Returns the current status of each feature.
    pub fn features(&self) -> Arc<[Feature]> {
        self.features.all()
    }

    /// Returns a descriptor that is readable when [`CpuSource::drain`] should be called before the
    /// next tick.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.kernel.wake_fd()
    }

    /// Drains the ring of ended processes. The next batch includes them.
    pub fn drain(&mut self) -> Result<(), Error> {
        self.kernel.drain()
    }

    /// Returns whether so many processes ended since the last batch that the next batch could lack
    /// rows for some of them.
    pub fn is_crowded(&self) -> bool {
        self.kernel.ended() > ENDED_ROWS / 2
    }

    /// Takes a batch. `released` lists cgroups whose figures can no longer change. `other_losses`
    /// are added to the losses of this source.
    pub fn collect(
        &mut self,
        released: &[CgroupId],
        other_losses: &[Loss],
    ) -> Result<Batch, Error> {
        let began = Instant::now();
        let mut snapshot = self.kernel.snapshot()?;
        self.features.follow_scheduler();
        let hidden_ns = self.add_up(&snapshot);
        for id in self.cgroups.release(released, &snapshot) {
            self.kernel.forget_cgroup(id.0);
        }
        let settled = self.waits.update(&snapshot, released);
        for group in settled.groups {
            self.kernel.forget_waits(group);
        }
        for (victim, culprit, taken) in settled.cells {
            if let Some(last) = self.kernel.forget_blame(victim, culprit) {
                self.waits.add(victim, culprit, &last.since(&taken));
            }
        }
        for (victim, culprit) in settled.idle {
            if let Some(last) = self.kernel.forget_blame(victim, culprit) {
                self.waits.forget(victim, culprit, last);
            }
        }
        let mut agent = self.agent.cost();
        agent.maps = self.kernel.map_fill(&snapshot);
        agent.collect_ns = began.elapsed().as_nanos() as u64;
        let (time_unix_ns, boot_unix_ns) = wall_clock();
        let (processes, exited) = self.processes.rows(&snapshot.ended, &self.blocked);
        let topology = self.kernel.topology();
        let used = self.cgroups.total();
        let (node, packages) =
            self.node
                .finish(&snapshot, used, hidden_ns, topology, self.nominal_hertz);
        let node = Node {
            outside_unseen: self.hidden.is_in_namespace(),
            ..node
        };
        let cpus = self.node.cpus(&mut snapshot);
        let blames = self.waits.blames();
        let batch = Batch {
            sequence: self.sequence,
            time_unix_ns,
            taken_ns: snapshot.taken_ns,
            boot_unix_ns,
            node,
            packages,
            cpus,
            measured: self.kernel.measured(),
            processes,
            exited,
            followed_pending: snapshot.followed > self.processes.followed(),
            cgroups: self.cgroups.rows(&blames, &self.blocked),
            waits: self.waits.rows(),
            all_waits: self.waits.all(),
            blames,
            releases: snapshot.releases,
            features: self.features.all(),
            losses: merged(self.kernel.losses(), other_losses),
            agent,
            ..Batch::default()
        };
        self.sequence += 1;
        self.agent.tick(self.sequence);
        Ok(batch)
    }

    /// Adds up a snapshot. Returns the CPU time of hidden processes.
    fn add_up(&mut self, snapshot: &Snapshot) -> u64 {
        self.cgroups.begin(snapshot);
        self.processes.begin(snapshot.taken_ns);
        self.blocked.begin(snapshot);
        for sample in &snapshot.tasks {
            if sample.is(sample_flag::CARRIED) {
                self.processes.carry(sample);
                continue;
            }
            let (used, running) = (sample.values(), on_cpu(sample, snapshot));
            self.processes.add(sample, &used, &running);
            self.blocked.read(sample);
            let id = CgroupId(sample.cgroup);
            self.cgroups.add(id, sample.package, &used, &running);
            if sample.waiting_ns > 0 {
                self.cgroups.wait(id, &Waiting::thread(sample.waiting_ns));
            }
        }
        for sample in &snapshot.late {
            self.processes.add_late(sample);
        }
        let hidden_ns = self.add_hidden(snapshot);
        self.processes.settle(snapshot.living.as_ref());
        self.cgroups.settle(&self.blocked);
        hidden_ns
    }

    /// Adds hidden processes. Returns their CPU time since the last snapshot.
    fn add_hidden(&mut self, snapshot: &Snapshot) -> u64 {
        if self.hidden.search(snapshot) {
            self.kernel.list_living();
        }
        let none = Counters::default();
        let mut hidden_ns = 0;
        for sample in self.hidden.read(self.kernel.topology()) {
            let used = sample.values();
            hidden_ns += used[Counter::CpuTime];
            self.processes.add(&sample, &used, &none);
            let id = CgroupId(sample.cgroup);
            self.cgroups.add(id, sample.package, &used, &none);
        }
        if let Some(whom) = self.hidden.changed() {
            self.features.limit(hidden::FEATURE, &whom);
        }
        hidden_ns
    }
}

/// Returns the growth of the hardware counters since this thread got on its CPU. If the CPU has
/// switched since the counters were read, the growth is already in the thread's own counters.
fn on_cpu(sample: &TaskSample, snapshot: &Snapshot) -> Counters {
    let mut extra = Counters::default();
    let stays = sample.is(sample_flag::RUNNING) && !sample.is(sample_flag::SWITCHED);
    if !stays {
        return extra;
    }
    if of_cpu(&snapshot.cpus, sample.cpu).is_none_or(|slot| slot.pid != sample.pid) {
        return extra;
    }
    for &(counter, value) in of_cpu(&snapshot.running, sample.cpu).into_iter().flatten() {
        extra[counter] = value;
    }
    extra
}

/// Returns the entry of a CPU. Lists are sorted by CPU. With thousands of CPUs that each run a
/// thread, a linear search took most of a tick.
fn of_cpu<T>(list: &[(u32, T)], cpu: u32) -> Option<&T> {
    let found = list.binary_search_by_key(&cpu, |(cpu, _)| *cpu);
    found.ok().map(|at| &list[at].1)
}

fn self_cost(agent: &Agent) -> Feature {
    let id = FeatureId::SelfCost;
    if agent.measures_programs() {
        return Feature::on(id, "BPF statistics, enabled in one of every thirty ticks");
    }
    Feature::off(
        id,
        "the cost of BPF programs cannot be measured: BPF statistics need CAP_SYS_ADMIN",
    )
    .with_fix("run as root; no other feature needs this capability")
}

fn merged(mut losses: Vec<Loss>, others: &[Loss]) -> Vec<Loss> {
    for other in others {
        match losses
            .iter_mut()
            .find(|l| l.kind == other.kind && l.place == other.place)
        {
            Some(loss) => loss.count += other.count,
            None => losses.push(other.clone()),
        }
    }
    losses
}

#[cfg(test)]
mod tests {
    use noctule_model::Counter;

    use super::*;

    /// Returns a snapshot of 4,096 CPUs, each running a thread; every fourth CPU is offline.
    #[test]
    fn a_running_thread_gets_the_growth_of_its_own_cpu() {
        let online = || (0..4096).filter(|cpu| cpu % 4 != 3);
        let slot = |cpu: u32| noctule_kernel::CpuSlot {
            pid: cpu + 1,
            ..Default::default()
        };
        let snapshot = Snapshot {
            cpus: online().map(|cpu| (cpu, slot(cpu))).collect(),
            running: online()
                .map(|cpu| (cpu, vec![(Counter::Cycles, u64::from(cpu) + 1)]))
                .collect(),
            ..Snapshot::default()
        };
        let added = |cpu: u32, pid: u32| {
            let sample = TaskSample {
                cpu,
                pid,
                flags: sample_flag::RUNNING,
                ..Default::default()
            };
            on_cpu(&sample, &snapshot)[Counter::Cycles]
        };
        for cpu in 0..4096 {
            let expected = if cpu % 4 == 3 { 0 } else { u64::from(cpu) + 1 };
            assert_eq!(added(cpu, cpu + 1), expected, "CPU {cpu}");
            assert_eq!(added(cpu, cpu), 0, "CPU {cpu}: another thread");
        }
        assert_eq!(added(4096, 4097), 0);
    }
}
