//! Accounts of CPU usage. Loads the objects switch, softirq and pagecache, which share the accounts
//! of threads, and reads their maps.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer};
use noctule_model::{
    Blame, Cause, Counter, Counters, Feature, FeatureId, FeatureState, Group, IdMap, IdSet, Loss,
    MapFill, Measured, ReleaseRow,
};
use rustix::time::{ClockId, clock_gettime};

use crate::abi::{self, CpuSlot, LateSettle, SettledKey, SettledSums, TaskSample, sample_flag};
use crate::cost::ProgramHandle;
use crate::cpu_slots::CpuSlots;
use crate::error::{Context, Error, ErrorKind};
use crate::facts::{self, Facts, Scheduler};
use crate::hardware::Hardware;
use crate::loss;
use crate::plan::{Plan, Wanted};
use crate::skel::switch::SwitchSkel;
use crate::table;
use crate::topology::Topology;

mod exits;
mod features;
mod object;
mod orphans;
mod past;
mod places;
mod reaped;
mod releases;
mod side;
mod waits;
mod wakeups;
mod walk;

use exits::{Exits, empty, exit_ring};
use object::Asked;
use orphans::Orphans;
use places::Places;
use reaped::Reaped;
use side::{Accounts, Side};
pub use waits::WaitCounts;
use wakeups::{Need, Wakeups};
use walk::Walk;

/// Maximum number of attempts to set a moment, and the time allowed for one attempt: a fixed part,
/// and a part for each CPU.
const MOMENT_TRIES: u32 = 5;
const MOMENT_NS: u64 = 300_000;
const MOMENT_CPU_NS: u64 = 20_000;

/// The loaded and attached accounts. Dropping this value detaches all programs.
pub struct Accounting {
    // Links are declared first, because they must be dropped before their objects.
    _links: Vec<Link>,
    walk: Walk,
    sides: Vec<Side>,
    ring: RingBuffer<'static>,
    exits: Rc<RefCell<Exits>>,
    ended_later: Vec<TaskSample>,
    orphans: Orphans,
    /// The moment of the last snapshot; before the first snapshot, the moment of the start.
    last_ns: u64,
    switch: SwitchSkel<'static>,
    hardware: Hardware,
    hardware_map: MapHandle,
    possible_cpus: u32,
    reaped: Reaped,
    places: Places,
    waits: bool,
    releasers: bool,
    wakeups: Wakeups,
    scheduler: Scheduler,
    features: Vec<Feature>,
    measured: Measured,
}

/// Cgroup, index of the package, and the sums settled there.
type SettledRows = Vec<(u64, u32, Counters)>;

/// The state of the accounts at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The moment of the snapshot (`CLOCK_MONOTONIC`, nanoseconds). CPU time is exact for this
    /// moment.
    pub taken_ns: u64,
    /// The slots of all online CPUs, in ascending order.
    pub cpus: Vec<(u32, CpuSlot)>,
    /// The groups that had each CPU since the last snapshot, if waits are measured. For a CPU that
    /// switches all the time, at most the last 1.3 s are known.
    pub holders: Vec<(u32, Vec<(Group, u64)>)>,
    /// Hardware counts of the thread running on each CPU since it got the CPU, in ascending order.
    pub running: Vec<(u32, Vec<(Counter, u64)>)>,
    /// Sums of ended and moved threads by cgroup, with the index of the package.
    pub settled: Vec<(u64, u32, Counters)>,
    /// CPU time in `settled` that was used after the moment, in the same order.
    pub settled_later_ns: Vec<u64>,
    /// Sum over the cgroups that did not fit into the table.
    pub overflow: Counters,
    /// Wait histograms of the groups.
    pub waits: Vec<WaitCounts>,
    /// Victim, culprit, and the waits between them.
    pub blames: Vec<(Group, Group, Blame)>,
    /// The processes that ended the blocks of threads; `None` if that is not measured.
    pub releases: Option<Vec<ReleaseRow>>,
    /// Threads, each with its usage since it was last read, and carried sums of processes
    /// (`CARRIED`). Threads that did not run in that time are left out.
    pub tasks: Vec<TaskSample>,
    /// Usage to add in this snapshot only: threads that were settled before they were read.
    pub late: Vec<TaskSample>,
    /// The living processes, by thread group id and start time, if this snapshot listed them.
    pub living: Option<IdSet<(u32, u64)>>,
    /// The living threads, which include those that were blocked when last read; `None` if this
    /// snapshot did not list them. Empty if every snapshot reads every thread.
    pub living_threads: Option<IdSet<u32>>,
    /// Threads that were blocked when last read and no longer exist.
    pub gone_threads: Vec<u32>,
    /// Processes that ended since the last snapshot.
    pub ended: Vec<TaskSample>,
    /// Number of followed processes whose end was not reported before the tasks were read, plus
    /// those whose end the next snapshot reports. If this exceeds the number of followed tasks,
    /// some processes have ended, but their last counters are still to arrive.
    pub followed: u64,
}

impl Snapshot {
    /// Subtracts the usage after the moment from the sums. Must be called after `add_late`, which
    /// compares with the unchanged sums.
    fn subtract_later_cpu_time(&mut self) {
        let taken_ns = self.taken_ns;
        let carried = self.tasks.iter_mut();
        carried
            .filter(|row| row.is(sample_flag::CARRIED))
            .for_each(|row| row.subtract_later_cpu_time(taken_ns));
        for ((_, _, row), later_ns) in self.settled.iter_mut().zip(&self.settled_later_ns) {
            row[Counter::CpuTime] = row[Counter::CpuTime].saturating_sub(*later_ns);
        }
    }

    /// Adds the usage of threads that were settled before the walk read them.
    fn add_late(&mut self, late: &[LateSettle]) {
        if late.is_empty() {
            return;
        }
        // Each row with the CPU time that was read from it.
        let rows = self.settled.iter().enumerate();
        let mut rows: IdMap<(u64, u32), (usize, u64)> = rows
            .map(|(at, (id, package, row))| ((*id, *package), (at, row[Counter::CpuTime])))
            .collect();
        let carried = self.tasks.iter().filter(|t| t.is(sample_flag::CARRIED));
        let carried: IdMap<(u32, u64, u32), u64> = carried
            .map(|row| {
                (
                    (row.tgid, row.process_start, row.package),
                    row.values()[Counter::CpuTime],
                )
            })
            .collect();
        for late in late {
            let (id, package) = (late.sample.cgroup, late.sample.package);
            let used = late.sample.values();
            let (at, read) = *rows.entry((id, package)).or_insert((self.settled.len(), 0));
            match self.settled.get_mut(at) {
                // The row was read after the settlement.
                Some(_) if read > late.row_before => {}
                // The CPU time of the row was read before the settlement. Its other counters may
                // have been read after it, so they are not added.
                Some((_, _, row)) => row[Counter::CpuTime] += used[Counter::CpuTime],
                None => self.settled.push((id, package, used)),
            }
            let process = (late.sample.tgid, late.sample.process_start, package);
            let read = carried.get(&process).copied().unwrap_or(0);
            // Usage without CPU time is skipped, because it is unknown whether it was carried
            // before the read. It is thus not counted twice, but may appear only in the next
            // snapshot.
            if used[Counter::CpuTime] > 0 && read <= late.process_before {
                self.late.push(late.sample);
            }
        }
    }
}

impl Accounting {
    /// Loads and attaches everything in the plan. If a program cannot be attached, only its feature
    /// is turned off. Returns an error only if CPU time itself cannot be counted.
    pub fn load(
        facts: &Facts,
        plan: &Plan,
        wanted: &Wanted,
        cpus: &CpuSlots,
    ) -> Result<Self, Error> {
        let online = facts::online_cpus(&facts.roots.sys);
        let first = online.first().copied().unwrap_or(0);
        let (asked_for_releasers, possible) = (wanted.releasers, releases::possible(wanted, facts));
        let (mut hardware, unavailable) = Hardware::probe(&plan.counters, first);

        let (object::Loaded { switch, iterators }, modest, refused) =
            object::load(&Asked::full(facts, &possible), facts, hardware.mask(), cpus)?;
        let wanted = &modest.wanted;
        let need = Need::new(wanted.waits, facts.scheduler);
        let hardware_map = MapHandle::try_from(&switch.maps.hardware)
            .context("opening the map of hardware counters")?;
        let problems = hardware.follow(&online, &hardware_map);
        let mut places = Places::new(&switch, facts)?;
        places.follow(&online)?;

        if wanted.waits && !facts.task_storage {
            waits::free_rows(&switch, wanted.cgroups)?;
        }
        let exits = Rc::default();
        let ring = exit_ring(&switch, Rc::clone(&exits))?;
        let mut features = features::hardware(&plan.counters, &unavailable, &problems, facts);
        let mut links = attach_lives(&switch)?;
        let mut walk = Walk::attach(&iterators, modest.lists_threads)?;
        // Creates the storage of existing threads.
        walk.begin()?;
        let mut wakeups = Wakeups::new(need);
        let missing = wakeups.attach_always(&switch).err();
        let (switches, moves) = attach_switch(&switch, wanted.waits)?;
        links.extend(switches);
        let missing = missing.as_ref().or(moves.as_ref());
        features.push(match &refused {
            Some(refused) if refused.waits => features::waits_refused(&refused.error),
            _ => features::waits(wanted.waits, missing, facts),
        });
        let list = refused.as_ref().filter(|refused| refused.list);
        features.push(features::cpu_time(facts, list.map(|it| &it.error)));
        features.extend(features::throttle(wanted.waits, facts));
        features.extend(features::blocked(wanted.waits, facts));
        let (releaser, feature) = releases::attach(&switch, wanted, refused.as_ref(), facts);
        features.extend(feature.filter(|_| asked_for_releasers));
        let releasers = releaser.is_some();
        links.extend(releaser);
        features.extend(features::places(facts));
        let moves = attach_moves(&switch, facts).transpose();
        features.push(features::moves(moves.as_ref().err(), facts));
        links.extend(moves.ok().flatten());

        let mut this = Self {
            _links: links,
            walk,
            sides: Vec::new(),
            ring,
            exits,
            ended_later: Vec::new(),
            orphans: Orphans::default(),
            last_ns: now_ns(),
            switch,
            hardware,
            hardware_map,
            possible_cpus: facts.possible_cpus,
            reaped: Reaped {
                same_pids: !facts.pid_namespace,
                possible_cpus: facts.possible_cpus,
            },
            places,
            waits: wanted.waits,
            releasers,
            wakeups,
            scheduler: facts.scheduler,
            features,
            measured: Measured::NONE,
        };
        // Counting begins here. The first walk over the tasks records their earlier usage.
        if let Some(bss) = this.switch.maps.bss_data.as_deref_mut() {
            bss.started_at = now_ns();
        }
        this.walk.begin()?;
        this.follow_quotas();
        // A switch compares the scheduler's clock of its CPU with the monotonic clock. The sleep
        // makes the current CPU switch, because this CPU is about to read the tasks.
        thread::sleep(Duration::from_millis(1));
        let (sides, features) = side::all(&Accounts::of(&this.switch, facts), plan, facts);
        this.sides = sides;
        this.features.extend(features);
        this.features.extend(plan.settled.iter().cloned());
        this.measured = this.count_measured();
        Ok(this)
    }

    fn count_measured(&self) -> Measured {
        use FeatureId::{
            BlockedTime, CacheMisses, CpuTime, CpuWaits, Cycles, Instructions, ReferenceCycles,
            SmtOverlap, WaitThrottle,
        };
        let on = |id| {
            let found = self.features.iter().find(|f| f.id == id);
            found.is_some_and(|f| f.state != FeatureState::Off)
        };
        let measures = |counter: &Counter| match (counter, counter.feature()) {
            (Counter::Wait(Cause::Interrupt), _) => self.waits && self.scheduler.interrupts,
            (Counter::Wait(Cause::Host), _) => self.waits && self.scheduler.host,
            (_, CpuTime) => true,
            (_, CpuWaits | BlockedTime) => self.waits,
            (_, WaitThrottle) => self.waits && on(WaitThrottle),
            (_, Cycles | ReferenceCycles | Instructions | CacheMisses) => {
                self.hardware.counters().any(|open| open == *counter)
            }
            (_, SmtOverlap) => self.places.has_siblings(),
            (_, feature) => on(feature),
        };
        Counter::all().filter(measures).collect()
    }

    /// Returns the package and core of each CPU.
    pub fn topology(&self) -> &Topology {
        self.places.topology()
    }

    /// Returns which times and states the scheduler of this kernel records.
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler
    }

    /// Returns the status of each feature of these objects.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Returns which counters are measured.
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// Returns the start of counting (`CLOCK_MONOTONIC`, nanoseconds).
    pub fn started_ns(&self) -> u64 {
        self.switch
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.started_at)
    }

    /// Starts to follow the future children of the process `pid`, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.follow_children_of = pid;
        }
        self.walk.always();
    }

    /// Makes the next snapshot list the living processes.
    pub fn list_living(&mut self) {
        self.walk.now();
    }

    /// Returns a descriptor that becomes readable when [`Accounting::drain`] should not wait for a
    /// snapshot. The descriptor becomes readable if the ring buffer of ended processes is a quarter
    /// full, or if a queue was throttled although no quota was known.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Reads everything. All CPU time, of threads and idle, is exact for one moment, however long
    /// the reading takes. Other counters have the values at the time at which they were read. A
    /// thread that ends or moves during the reading sends a record with its usage. If the ring
    /// buffer has no room for it, the usage is missing from this snapshot and complete in the next.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let online = self.places.online_now();
        if online.is_empty() {
            let words =
                "cannot read the online CPUs from devices/system/cpu/online in the host's sysfs";
            return Err(Error::new(ErrorKind::Other, words));
        }
        for (cpu, error) in self.hardware.follow(&online, &self.hardware_map) {
            tracing::debug!(cpu, %error, "cannot open the hardware counters of a CPU");
        }
        self.places.follow(&online)?;
        let read = self
            .begin_moment(&online)
            .and_then(|begun| self.read(begun))
            .and_then(|snapshot| self.complete(snapshot));
        // Cleared only after the ring buffer was read, because the record of a process reports
        // whether it ended after the moment.
        self.set_moment(0);
        self.follow_quotas();
        let (mut snapshot, unseen) = read?;
        let taken_ns = snapshot.taken_ns;
        if self.orphans.has_missing() {
            self.walk.hurry();
        }
        // Nothing below fails, so everything taken is reported.
        self.last_ns = taken_ns;
        let exits = self.exits.take();
        for ended in &exits.ended {
            self.orphans.reported(ended);
        }
        // A process that ended after the moment counts as living in this snapshot, with its usage
        // at that time.
        let (later, ended): (Vec<_>, Vec<_>) = exits
            .ended
            .into_iter()
            .partition(|ended| ended.grew_after(taken_ns));
        snapshot.tasks.extend(later.iter().map(|ended| TaskSample {
            flags: sample_flag::CARRIED,
            ..*ended
        }));
        let followed_later = later.iter().filter(|ended| ended.is(sample_flag::FOLLOWED));
        snapshot.followed += followed_later.count() as u64;
        snapshot.ended = std::mem::replace(&mut self.ended_later, later);
        snapshot.ended.extend(ended);
        reaped::take_rest(&self.switch, &mut snapshot);
        let mut late = exits.late;
        late.retain(|late| late.at == taken_ns);
        if !late.is_empty() {
            snapshot.add_late(&late);
        }
        snapshot.subtract_later_cpu_time();
        snapshot.ended.extend(unseen);
        Ok(snapshot)
    }

    /// Reads the data that must be read after the threads. Returns the ended processes that no
    /// program saw. After an error the threads are kept for the next snapshot.
    fn complete(&mut self, mut snapshot: Snapshot) -> Result<(Snapshot, Vec<TaskSample>), Error> {
        match self.read_remaining(&mut snapshot) {
            Ok(unseen) => Ok((snapshot, unseen)),
            Err(error) => {
                self.walk.keep_rows_for_next(snapshot.tasks);
                Err(error)
            }
        }
    }

    fn read_remaining(&mut self, snapshot: &mut Snapshot) -> Result<Vec<TaskSample>, Error> {
        // Called after the walk, which charges the waits in progress.
        if self.waits {
            snapshot.waits = waits::counts(&self.switch)?;
            snapshot.blames = waits::blames(&self.switch)?;
            let (cpus, until) = (&snapshot.cpus, snapshot.taken_ns);
            snapshot.holders = past::holders(&self.switch, cpus, self.last_ns, until)?;
        }
        if self.releasers {
            snapshot.releases = Some(releases::read(&self.switch, snapshot.taken_ns)?);
        }
        let blames_fit = snapshot.blames.len() < self.switch.maps.blames.max_entries() as usize;
        if let (true, Some(bss)) = (blames_fit, self.switch.maps.bss_data.as_deref_mut()) {
            bss.blames_full = 0;
        }
        empty(&self.ring)?;
        let living = snapshot.living.as_ref();
        self.orphans.take(&self.switch, living, snapshot.taken_ns)
    }

    /// Starts a snapshot at the current moment, and reads the CPUs with their hardware counters.
    /// Hardware counters must be read right after the moment, and a switch that happens before the
    /// programs see the moment saves no values. Both steps are therefore repeated if the agent was
    /// preempted between them.
    fn begin_moment(&mut self, online: &[u32]) -> Result<Snapshot, Error> {
        let allowed = MOMENT_NS + MOMENT_CPU_NS * online.len() as u64;
        let begins_releases = self.begins_releases();
        let mut snapshot = Snapshot::default();
        for _ in 0..MOMENT_TRIES {
            snapshot.taken_ns = now_ns();
            self.set_moment(snapshot.taken_ns);
            if begins_releases {
                self.count_releases_from(snapshot.taken_ns);
            }
            snapshot.cpus = self.cpus(online)?;
            snapshot.running = snapshot
                .cpus
                .iter()
                .filter(|(_, slot)| slot.pid != 0)
                .map(|(cpu, slot)| (*cpu, self.since_switch(*cpu, slot, &snapshot)))
                .collect();
            if now_ns().saturating_sub(snapshot.taken_ns) < allowed {
                break;
            }
        }
        Ok(snapshot)
    }

    /// Returns the counts of the thread running on the CPU since the last switch there.
    fn since_switch(
        &mut self,
        cpu: u32,
        slot: &CpuSlot,
        snapshot: &Snapshot,
    ) -> Vec<(Counter, u64)> {
        let mut added = self.hardware.since_switch(cpu, slot);
        let busy = self
            .places
            .sibling_busy(cpu, &snapshot.cpus, snapshot.taken_ns);
        added.extend(busy.map(|ns| (Counter::SiblingBusy, ns)));
        added
    }

    /// Attaches the program at wake-ups while groups have quotas, if the kernel needs it.
    fn follow_quotas(&mut self) {
        if let Err(error) = self.wakeups.follow_quotas(&mut self.switch) {
            warn_of_missing_wakeups(&error);
        }
    }

    /// Sets the moment for which the programs keep values; 0 for none.
    fn set_moment(&mut self, ns: u64) {
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.sample_at = ns;
        }
    }

    fn read(&mut self, begun: Snapshot) -> Result<Snapshot, Error> {
        let (settled, settled_later_ns) = self.settled(begun.taken_ns)?;
        let bss = self.switch.maps.bss_data.as_deref();
        let overflow = bss.map(|b| abi::counters(&b.overflow));
        let followed = bss.map_or(0, |b| {
            let ended = b.followed_reported + self.orphans.followed();
            b.followed_started.saturating_sub(ended)
        });
        let (switch, empty_ring) = (&mut self.switch, || empty(&self.ring));
        let mut read = self.walk.read(switch, begun.taken_ns, &empty_ring)?;
        match self.read_reaped(&read.rows, begun.taken_ns) {
            Ok(sums) => read.rows.extend(sums),
            Err(error) => {
                self.walk.keep_rows_for_next(read.rows);
                return Err(error);
            }
        }
        let living = read.living.map(|it| (it.processes, it.threads)).unzip();
        let (living, living_threads) = living;
        Ok(Snapshot {
            settled,
            settled_later_ns,
            overflow: overflow.unwrap_or_default(),
            tasks: read.rows,
            living,
            living_threads,
            gone_threads: read.gone,
            followed,
            ..begun
        })
    }

    fn read_reaped(
        &mut self,
        rows: &[TaskSample],
        taken_ns: u64,
    ) -> Result<Vec<TaskSample>, Error> {
        self.reaped.await_last_switches(&self.switch)?;
        self.reaped.sums(&mut self.switch, rows, taken_ns)
    }

    /// Reads all records of ended processes from the ring buffer into the next snapshot. If a quota
    /// was found, also attaches the program at wake-ups.
    pub fn drain(&mut self) -> Result<(), Error> {
        empty(&self.ring)?;
        if let Err(error) = self.wakeups.follow_found(&self.switch) {
            warn_of_missing_wakeups(&error);
        }
        Ok(())
    }

    /// Returns how many processes ended since the last snapshot, as far as the ring was drained.
    pub fn ended(&self) -> usize {
        self.exits.borrow().ended.len()
    }

    /// Deletes the sums of a cgroup that no longer exists. The caller has added them up.
    pub fn forget_cgroup(&self, id: u64) {
        for package in 0..self.topology().packages().len() as u64 {
            let key = [id, package].map(u64::to_ne_bytes);
            // Most cgroups have few rows, and another reader may already have deleted them.
            let _ = self.switch.maps.settled.delete(key.as_flattened());
        }
    }

    /// Deletes the waits of a group that no longer exists.
    pub fn forget_waits(&self, group: Group) {
        waits::forget_waits(&self.switch, group);
    }

    /// Returns the capacity of the table of cgroups, which has a row for each cgroup and package.
    pub fn cgroup_rows(&self) -> usize {
        self.switch.maps.settled.max_entries() as usize
    }

    /// Returns the capacity of the blame matrix in cells.
    pub fn blame_rows(&self) -> usize {
        self.switch.maps.blames.max_entries() as usize
    }

    /// Deletes a cell of the blame matrix and returns its value, which can be larger than in the
    /// last snapshot. Called if the victim or culprit no longer exists, or if the cell does not
    /// grow. A charge by another CPU during these 100 ns is lost, or goes to the cell that reuses
    /// the slot.
    pub fn forget_blame(&mut self, victim: Group, culprit: Group) -> Option<Blame> {
        let last = waits::forget_blame(&self.switch, victim, culprit)?;
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.blames_full = 0;
        }
        Some(last)
    }

    /// Returns the losses so far, with every kind listed.
    pub fn losses(&self) -> Vec<Loss> {
        let switch = self.switch.maps.bss_data.as_deref().map(|b| b.losses);
        loss::named(
            switch
                .into_iter()
                .chain(self.sides.iter().map(Side::losses)),
        )
    }

    /// Returns the fill level of the maps that can be full.
    pub fn map_fill(&self, snapshot: &Snapshot) -> Vec<MapFill> {
        let fill = |name, map: &dyn MapCore, entries: usize| MapFill {
            name,
            entries: entries as u64,
            capacity: map.max_entries().into(),
        };
        [
            fill("settled", &self.switch.maps.settled, snapshot.settled.len()),
            fill("carried", &self.switch.maps.carried, self.orphans.rows()),
        ]
        .into_iter()
        .chain(
            self.waits
                .then(|| {
                    // `waits` includes the overflow row, which is not in the map.
                    let rows = snapshot.waits.len().saturating_sub(1);
                    [
                        fill("waits", &self.switch.maps.wait_rows, rows),
                        fill("blames", &self.switch.maps.blames, snapshot.blames.len()),
                    ]
                })
                .into_iter()
                .flatten(),
        )
        .collect()
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        let progs = &self.switch.progs;
        let own = [
            ProgramHandle::of("sched_switch", &progs.sched_switch),
            ProgramHandle::of("sched_wakeup", &progs.sched_wakeup),
            ProgramHandle::of("sched_wakeup_new", &progs.sched_wakeup_new),
            ProgramHandle::of("sched_waking", &progs.sched_waking),
            ProgramHandle::of("sched_migrate_task", &progs.sched_migrate_task),
            ProgramHandle::of("sched_process_free", &progs.process_free),
            // Only one of these two programs is loaded, and both do the same work.
            ProgramHandle::of("cgroup_attach_task", &progs.cgroup_attach_task),
            ProgramHandle::of("cgroup_attach_task", &progs.attach_task_older),
        ];
        let own = own.into_iter().flatten().chain(self.walk.programs());
        own.chain(self.sides.iter().flat_map(Side::programs))
            .collect()
    }

    /// Returns the rows of cgroups, and for each row the CPU time that was used after the moment.
    fn settled(&self, taken_ns: u64) -> Result<(SettledRows, Vec<u64>), Error> {
        let rows = table::entries(&self.switch.maps.settled, "reading the table of cgroups")?;
        let row = |(key, value): (&[u8], &[u8])| {
            let key: SettledKey = abi::plain(key)?;
            let sums: SettledSums = abi::plain(value)?;
            let later_ns = match sums.later_than == taken_ns as u32 {
                true => sums.later_ns,
                false => 0,
            };
            let counters = abi::counters(&sums.counters);
            Some(((key.cgroup, key.package as u32, counters), later_ns))
        };
        Ok(rows.iter().filter_map(row).unzip())
    }

    /// Returns the slots of the CPUs. A slot can be written during a read, so it is read until two
    /// readings agree. For a CPU that switches all the time the last reading is used, which is off
    /// by one switch at most.
    fn cpus(&self, online: &[u32]) -> Result<Vec<(u32, CpuSlot)>, Error> {
        let read = |cpu: u32| {
            let bytes = self
                .switch
                .maps
                .cpus
                .lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
            bytes
                .context("reading the state of a CPU")
                .map(Option::unwrap_or_default)
        };
        let mut slots = Vec::with_capacity(online.len());
        for &cpu in online.iter().filter(|&&cpu| cpu < self.possible_cpus) {
            let mut bytes = read(cpu)?;
            for _ in 0..3 {
                let again = read(cpu)?;
                let same = again == bytes;
                bytes = again;
                if same {
                    break;
                }
            }
            slots.extend(abi::plain::<CpuSlot>(&bytes).map(|slot| (cpu, slot)));
        }
        Ok(slots)
    }
}

/// Of the two programs that see moves between cgroups, attaches the one that was loaded, if any.
fn attach_moves(
    switch: &SwitchSkel<'static>,
    facts: &Facts,
) -> Option<Result<Link, libbpf_rs::Error>> {
    let program = match features::walks_over_threads(facts) {
        true => &switch.progs.cgroup_attach_task,
        false => &switch.progs.attach_task_older,
    };
    facts
        .hooks
        .contains(features::MOVES)
        .then(|| program.attach())
}

/// Logs that the program at wake-ups is needed but could not be attached.
fn warn_of_missing_wakeups(error: &libbpf_rs::Error) {
    tracing::warn!(%error, "cannot attach to sched_wakeup: in waits that begin with a wake-up, \
        throttled time counts as contention");
}

/// Attaches the programs that give a new thread an account from its start.
fn attach_lives(switch: &SwitchSkel<'static>) -> Result<Vec<Link>, Error> {
    let progs = &switch.progs;
    let wakeup_new = progs.sched_wakeup_new.attach();
    let process_free = progs.process_free.attach();
    Ok(vec![
        wakeup_new.context("attaching to sched_wakeup_new")?,
        process_free.context("attaching to sched_process_free")?,
    ])
}

/// Returns the links, and the error if migrations are not seen.
fn attach_switch(
    switch: &SwitchSkel<'static>,
    waits: bool,
) -> Result<(Vec<Link>, Option<libbpf_rs::Error>), Error> {
    let progs = &switch.progs;
    let mut links = Vec::new();
    let mut missing = None;
    if waits {
        match progs.sched_migrate_task.attach() {
            Ok(link) => links.push(link),
            Err(error) => missing = Some(error),
        }
    }
    let switches = progs.sched_switch.attach();
    links.push(switches.context("attaching to sched_switch")?);
    Ok((links, missing))
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds, the clock of `bpf_ktime_get_ns`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
