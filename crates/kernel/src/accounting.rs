//! The accounts of CPU use: loads the objects switch, softirq and pagecache, which share the
//! threads' accounts, and reads what they hold.

use std::cell::RefCell;

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use noctule_model::{
    Blame, BlockClass, Cause, Counter, Counters, Feature, FeatureId, FeatureState, Group, IdMap,
    IdSet, Loss, MapFill, Measured, Preemptor,
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

mod features;
mod object;
mod orphans;
mod past;
mod places;
mod reaped;
mod side;
mod waits;
mod wakeups;
mod walk;

use object::Asked;
use orphans::Orphans;
use places::Places;
use reaped::Reaped;
use side::{Accounts, Side};
pub use waits::WaitCounts;
use wakeups::{Need, Wakeups};
use walk::Walk;

/// How often a moment is set at most, and how long that may take, with each CPU.
const MOMENT_TRIES: u32 = 5;
const MOMENT_NS: u64 = 300_000;
const MOMENT_CPU_NS: u64 = 20_000;

/// The loaded and attached accounts. Dropping it detaches everything.
pub struct Accounting {
    // Links come first: they must be gone before the objects that they hold.
    _links: Vec<Link>,
    walk: Walk,
    sides: Vec<Side>,
    ring: RingBuffer<'static>,
    exits: Rc<RefCell<Exits>>,
    ended_later: Vec<TaskSample>,
    orphans: Orphans,
    /// The moment of the last snapshot; that of the start before the first.
    last_ns: u64,
    switch: SwitchSkel<'static>,
    hardware: Hardware,
    hardware_map: MapHandle,
    possible_cpus: u32,
    reaped: Reaped,
    places: Places,
    waits: bool,
    wakeups: Wakeups,
    scheduler: Scheduler,
    features: Vec<Feature>,
    measured: Measured,
}

/// What the ring had.
#[derive(Default)]
struct Exits {
    ended: Vec<TaskSample>,
    late: Vec<LateSettle>,
}

impl Exits {
    /// A record that is too short for a sample only wakes.
    fn take(&mut self, record: &[u8]) {
        let Some(sample) = abi::plain::<TaskSample>(record) else {
            return;
        };
        if sample.is(sample_flag::LATE) {
            self.late.extend(abi::plain::<LateSettle>(record));
        } else {
            self.ended.push(sample);
        }
    }
}

/// Cgroup, position of the package, and what was settled there.
type SettledRows = Vec<(u64, u32, Counters)>;

/// What the accounts held at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The moment of the snapshot (`CLOCK_MONOTONIC`, nanoseconds): CPU time is that of this moment.
    pub taken_ns: u64,
    /// Every CPU that is online, with its slot, in ascending order.
    pub cpus: Vec<(u32, CpuSlot)>,
    /// Who had each of them since the last snapshot, where waits are measured. Of a CPU that switches all the
    /// time no more than the last 1.3 s are known.
    pub holders: Vec<(u32, Vec<(Group, u64)>)>,
    /// What the thread running on a CPU added to the hardware counters since it got there, in
    /// ascending order.
    pub running: Vec<(u32, Vec<(Counter, u64)>)>,
    /// What ended and moved threads left to each cgroup, with the position of the package on which
    /// they used it.
    pub settled: Vec<(u64, u32, Counters)>,
    /// CPU time in these that came after the moment, in the same order.
    pub settled_later_ns: Vec<u64>,
    /// The same for the cgroups that found no room.
    pub overflow: Counters,
    /// How long the waits of each group were.
    pub waits: Vec<WaitCounts>,
    /// Who waited for whom: victim, culprit.
    pub blames: Vec<(Group, Group, Blame)>,
    /// Threads, each with what it used since it was read before, and what ended threads and earlier
    /// groups left to processes (`CARRIED`). Who has not run since is not among them.
    pub tasks: Vec<TaskSample>,
    /// What processes used besides, and only this snapshot has to add: threads that were settled
    /// before they were read.
    pub late: Vec<TaskSample>,
    /// The processes that are there, by thread-group id and start, where that was looked at.
    pub living: Option<IdSet<(u32, u64)>>,
    /// The threads that are there, among those that were blocked when they were last read, and others;
    /// `None` where that was not looked at. Where every snapshot reads every thread it is empty.
    pub living_threads: Option<IdSet<u32>>,
    /// Threads that have gone since they were read, and were blocked then.
    pub gone_threads: Vec<u32>,
    /// Processes that ended since the last snapshot.
    pub ended: Vec<TaskSample>,
    /// Followed processes that were not reported as ended before the tasks were read, and those of
    /// which the end is reported by the next snapshot. More than there are among the tasks: some have
    /// ended, and their last figures are still to come.
    pub followed: u64,
}

impl Snapshot {
    /// Takes out of sums what came after the moment. Records of threads that were settled late are compared
    /// with the sums before that.
    fn take_out_later(&mut self) {
        let taken_ns = self.taken_ns;
        let carried = self.tasks.iter_mut();
        carried
            .filter(|row| row.is(sample_flag::CARRIED))
            .for_each(|row| row.take_out_later(taken_ns));
        for ((_, _, row), later_ns) in self.settled.iter_mut().zip(&self.settled_later_ns) {
            row[Counter::CpuTime] = row[Counter::CpuTime].saturating_sub(*later_ns);
        }
    }

    /// Adds what threads used that were settled before the walk came to them.
    fn add_late(&mut self, late: &[LateSettle]) {
        if late.is_empty() {
            return;
        }
        // With what was in the row when it was read.
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
                // The row was read after it was settled.
                Some(_) if read > late.row_before => {}
                // Other words of the row can have been read after it.
                Some((_, _, row)) => row[Counter::CpuTime] += used[Counter::CpuTime],
                None => self.settled.push((id, package, used)),
            }
            let process = (late.sample.tgid, late.sample.process_start, package);
            let read = carried.get(&process).copied().unwrap_or(0);
            // What used no CPU time does not say whether it was carried before the read: it is
            // not there twice, but perhaps with the next snapshot.
            if used[Counter::CpuTime] > 0 && read <= late.process_before {
                self.late.push(late.sample);
            }
        }
    }
}

impl Accounting {
    /// Loads what the plan names and attaches it. What cannot be attached turns off its own
    /// feature; an error means that CPU time itself cannot be counted.
    pub fn load(
        facts: &Facts,
        plan: &Plan,
        wanted: &Wanted,
        cpus: &CpuSlots,
    ) -> Result<Self, Error> {
        let online = facts::online_cpus(&facts.roots.sys);
        let first = online.first().copied().unwrap_or(0);
        let (mut hardware, unavailable) = Hardware::probe(&plan.counters, first);

        let (object::Loaded { switch, iterators }, modest, refused) =
            object::load(&Asked::most(facts, wanted), facts, hardware.mask(), cpus)?;
        let wanted = &modest.wanted;
        let need = Need::new(wanted.waits, facts.scheduler);
        let hardware_map =
            MapHandle::try_from(&switch.maps.hardware).context("the map of hardware counters")?;
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
        // Makes storage for the threads that are there.
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
            wakeups,
            scheduler: facts.scheduler,
            features,
            measured: Measured::NONE,
        };
        // Counting begins here; the first pass over the tasks notes what each did before.
        if let Some(bss) = this.switch.maps.bss_data.as_deref_mut() {
            bss.started_at = now_ns();
        }
        this.walk.begin()?;
        this.follow_quotas();
        // A switch compares the clocks of the CPU; the one that reads the tasks must have done it.
        thread::sleep(Duration::from_millis(1));
        let (sides, features) = side::all(&Accounts::of(&this.switch, facts), plan, facts);
        this.sides = sides;
        this.features.extend(features);
        this.features.extend(plan.settled.iter().cloned());
        this.measured = this.count_measured();
        Ok(this)
    }

    fn count_measured(&self) -> Measured {
        use Counter::{CpuTime, SwitchesPreempted, SwitchesVoluntary};
        let on = |id| {
            let found = self.features.iter().find(|f| f.id == id);
            found.is_some_and(|f| f.state != FeatureState::Off)
        };
        let mut all = vec![CpuTime, SwitchesVoluntary, SwitchesPreempted];
        if self.waits {
            let throttle = [Counter::SwitchesThrottled, Counter::Wait(Cause::Throttle)];
            all.extend(Cause::ALL.map(Counter::Wait));
            let unknown = [
                (Cause::Interrupt, self.scheduler.interrupts),
                (Cause::Host, self.scheduler.host),
            ];
            for (cause, _) in unknown.into_iter().filter(|(_, known)| !known) {
                all.retain(|counter| *counter != Counter::Wait(cause));
            }
            all.push(Counter::SwitchesThrottled);
            all.retain(|counter| on(FeatureId::WaitThrottle) || !throttle.contains(counter));
            all.extend(Preemptor::ALL.map(Counter::PreemptedBy));
            all.extend(BlockClass::ALL.map(Counter::Blocked));
        }
        all.extend(self.hardware.counters());
        all.extend(self.places.has_siblings().then_some(Counter::SiblingBusy));
        all.extend(on(FeatureId::PageCacheReads).then_some(Counter::PageReads));
        all.extend(on(FeatureId::PageCacheWrites).then_some(Counter::PageWrites));
        if on(FeatureId::Softirqs) {
            all.extend((0..noctule_model::SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq));
        }
        Measured::from_iter(all)
    }

    /// Where the CPUs are.
    pub fn topology(&self) -> &Topology {
        self.places.topology()
    }

    /// What the scheduler of this kernel records.
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler
    }

    /// Status of each feature that these objects feed.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The counters that mean anything.
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// `CLOCK_MONOTONIC` from which the counters count, nanoseconds.
    pub fn started_ns(&self) -> u64 {
        self.switch
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.started_at)
    }

    /// From now on the children of the process `pid` are followed, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.follow_children_of = pid;
        }
        self.walk.always();
    }

    /// The next snapshot lists the processes that are alive.
    pub fn list_living(&mut self) {
        self.walk.now();
    }

    /// Readable when [`Accounting::drain`] should not wait for a snapshot: the ring of ended processes is a quarter
    /// full, or a queue is throttled although no quota was known.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Takes everything. CPU time, of threads and idle, is that of one moment, however long the
    /// reading takes; other counters are as old as their reading. A thread that ends meanwhile,
    /// or moves, reports what it used by a record; where the ring has no room for that, it is missing
    /// from this snapshot and whole in the next.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let online = self.places.online_now();
        if online.is_empty() {
            let words =
                "the list of CPUs (devices/system/cpu/online in the host's sysfs) cannot be read";
            return Err(Error::new(ErrorKind::Other, words));
        }
        for (cpu, error) in self.hardware.follow(&online, &self.hardware_map) {
            tracing::debug!(cpu, %error, "hardware counters of a CPU");
        }
        self.places.follow(&online)?;
        let read = self
            .begin_moment(&online)
            .and_then(|begun| self.read(begun))
            .and_then(|snapshot| self.complete(snapshot));
        // Not before the ring was read: the record of a process says whether it ended after the moment.
        self.set_moment(0);
        self.follow_quotas();
        let (mut snapshot, unseen) = read?;
        let taken_ns = snapshot.taken_ns;
        if self.orphans.has_missing() {
            self.walk.hurry();
        }
        // From here on nothing fails: what is taken is reported.
        self.last_ns = taken_ns;
        let exits = self.exits.take();
        for ended in &exits.ended {
            self.orphans.reported(ended);
        }
        // Who ended after the moment is among the tasks of this one, as it was then.
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
        let mut late = exits.late;
        late.retain(|late| late.at == taken_ns);
        if !late.is_empty() {
            snapshot.add_late(&late);
        }
        snapshot.take_out_later();
        snapshot.ended.extend(unseen);
        Ok(snapshot)
    }

    /// Reads what is read after the threads; gives back the ends that nobody saw. After an error the next
    /// snapshot has the threads.
    fn complete(&mut self, mut snapshot: Snapshot) -> Result<(Snapshot, Vec<TaskSample>), Error> {
        match self.read_the_rest(&mut snapshot) {
            Ok(unseen) => Ok((snapshot, unseen)),
            Err(error) => {
                self.walk.give_back(snapshot.tasks);
                Err(error)
            }
        }
    }

    fn read_the_rest(&mut self, snapshot: &mut Snapshot) -> Result<Vec<TaskSample>, Error> {
        // After the walk, which charges the waits that go on.
        if self.waits {
            snapshot.waits = waits::counts(&self.switch)?;
            snapshot.blames = waits::blames(&self.switch)?;
            let (cpus, until) = (&snapshot.cpus, snapshot.taken_ns);
            snapshot.holders = past::holders(&self.switch, cpus, self.last_ns, until)?;
        }
        let blames_fit = snapshot.blames.len() < self.switch.maps.blames.max_entries() as usize;
        if let (true, Some(bss)) = (blames_fit, self.switch.maps.bss_data.as_deref_mut()) {
            bss.blames_full = 0;
        }
        self.ring.consume().context("the ring of ended processes")?;
        let living = snapshot.living.as_ref();
        self.orphans.take(&self.switch, living, snapshot.taken_ns)
    }

    /// Makes this the moment of a snapshot, and reads the CPUs, with their hardware counters: these
    /// are as old as their reading, and must not be later than CPU time. What switches before the
    /// kernel side knows of the moment keeps nothing. So both are tried again where the agent lost
    /// its CPU in between.
    fn begin_moment(&mut self, online: &[u32]) -> Result<Snapshot, Error> {
        let allowed = MOMENT_NS + MOMENT_CPU_NS * online.len() as u64;
        let mut snapshot = Snapshot::default();
        for _ in 0..MOMENT_TRIES {
            snapshot.taken_ns = now_ns();
            self.set_moment(snapshot.taken_ns);
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

    /// What the thread that runs on the CPU added to counters since the last switch there.
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

    /// Attaches the hook at wake-ups while groups have quotas, where that is needed.
    fn follow_quotas(&mut self) {
        if let Err(error) = self.wakeups.follow_quotas(&mut self.switch) {
            told_as_contention(&error);
        }
    }

    /// The moment of which the kernel side keeps what was; 0 for none.
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
        let mut read = self.walk.read(&mut self.switch, begun.taken_ns)?;
        match self.read_reaped(&read.rows, begun.taken_ns) {
            Ok(sums) => read.rows.extend(sums),
            Err(error) => {
                self.walk.give_back(read.rows);
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

    /// Empties the ring of ended processes into the next snapshot, and sees wake-ups from now on if a quota was
    /// found.
    pub fn drain(&mut self) -> Result<(), Error> {
        self.ring.consume().context("the ring of ended processes")?;
        if let Err(error) = self.wakeups.follow_found(&self.switch) {
            told_as_contention(&error);
        }
        Ok(())
    }

    /// Forgets what a cgroup left that is gone for good; the caller has added it up.
    pub fn forget_cgroup(&self, id: u64) {
        for package in 0..self.topology().packages().len() as u64 {
            let key = [id, package].map(u64::to_ne_bytes);
            // Most have few of them, and another reader may have been first.
            let _ = self.switch.maps.settled.delete(key.as_flattened());
        }
    }

    /// Forgets the waits of a group that is gone for good.
    pub fn forget_waits(&self, group: Group) {
        waits::forget_waits(&self.switch, group);
    }

    /// For how many cgroups, each on each package, there are rows.
    pub fn cgroup_rows(&self) -> usize {
        self.switch.maps.settled.max_entries() as usize
    }

    /// For how many cells the matrix has room.
    pub fn blame_rows(&self) -> usize {
        self.switch.maps.blames.max_entries() as usize
    }

    /// Forgets a cell of the matrix; the value is what was in it, which can be more than in the last
    /// snapshot. Victim or culprit is gone for good, or the cell does not grow: what another CPU charges to it
    /// within these 100 ns is in no cell, or in that which takes the place.
    pub fn forget_blame(&mut self, victim: Group, culprit: Group) -> Option<Blame> {
        let last = waits::forget_blame(&self.switch, victim, culprit)?;
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.blames_full = 0;
        }
        Some(last)
    }

    /// What was lost so far, by kind; every kind is listed.
    pub fn losses(&self) -> Vec<Loss> {
        let switch = self.switch.maps.bss_data.as_deref().map(|b| b.losses);
        loss::named(
            switch
                .into_iter()
                .chain(self.sides.iter().map(Side::losses)),
        )
    }

    /// How full the maps are that can be full.
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
                    // The overflow row is in the list, and in no map.
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

    /// The programs, for measuring what they cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        let progs = &self.switch.progs;
        let own = [
            ProgramHandle::of("sched_switch", &progs.sched_switch),
            ProgramHandle::of("sched_wakeup", &progs.sched_wakeup),
            ProgramHandle::of("sched_wakeup_new", &progs.sched_wakeup_new),
            ProgramHandle::of("sched_migrate_task", &progs.sched_migrate_task),
            ProgramHandle::of("sched_process_free", &progs.process_free),
            // One of both is loaded, and they do the same.
            ProgramHandle::of("cgroup_attach_task", &progs.cgroup_attach_task),
            ProgramHandle::of("cgroup_attach_task", &progs.attach_task_older),
        ];
        let own = own.into_iter().flatten().chain(self.walk.programs());
        own.chain(self.sides.iter().flat_map(Side::programs))
            .collect()
    }

    /// The rows of cgroups, and for each the CPU time in it that came after the moment.
    fn settled(&self, taken_ns: u64) -> Result<(SettledRows, Vec<u64>), Error> {
        let rows = table::entries(&self.switch.maps.settled, "the table of cgroups")?;
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

    /// The slots of the CPUs. A slot is written while it is read, so it is read until two readings
    /// agree; on a CPU that switches all the time the last one is taken, off by one switch at most.
    fn cpus(&self, online: &[u32]) -> Result<Vec<(u32, CpuSlot)>, Error> {
        let read = |cpu: u32| {
            let bytes = self
                .switch
                .maps
                .cpus
                .lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
            bytes
                .context("the slot of a CPU")
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

/// Threads are seen to move by that of the two programs which is loaded, if any is.
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

fn exit_ring(
    switch: &SwitchSkel<'static>,
    exits: Rc<RefCell<Exits>>,
) -> Result<RingBuffer<'static>, Error> {
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        exits.borrow_mut().take(record);
        0
    };
    builder
        .add(&switch.maps.exits, take)
        .context("the ring of ended processes")?;
    builder.build().context("the ring of ended processes")
}

/// The hook at wake-ups is needed, and could not be attached.
fn told_as_contention(error: &libbpf_rs::Error) {
    tracing::warn!(%error, "sched_wakeup: throttled time counts as contention in waits that begin with a wake-up");
}

/// A thread that starts from here on has an account from its first moment.
fn attach_lives(switch: &SwitchSkel<'static>) -> Result<Vec<Link>, Error> {
    let progs = &switch.progs;
    let wakeup_new = progs.sched_wakeup_new.attach();
    let process_free = progs.process_free.attach();
    Ok(vec![
        wakeup_new.context("attaching to sched_wakeup_new")?,
        process_free.context("attaching to sched_process_free")?,
    ])
}

/// The links, and why moves to other CPUs are not seen.
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

/// `CLOCK_MONOTONIC` in nanoseconds, the clock of `bpf_ktime_get_ns`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
