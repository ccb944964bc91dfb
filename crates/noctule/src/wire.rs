//! The way of the data, wired: the only place that names concrete parts.
//!
//! kernel side -> source -> identity -> attribution -> rollup -> a batch. Every command drives this pipeline and
//! hands the batches to its sink.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use noctule_analysis::{Attribution, LearnedIdle, Missing, Rollup, Selection};
use noctule_collect::{
    CgroupLife, CpuSource, EventSource, Grace, Meters, Moment, Quotas, Rooms, SettingFiles,
};
use noctule_identity::Registry;
use noctule_kernel::{
    Accounting, CounterSpec, CpuSlots, Error, ErrorKind, Events, EventsWanted, Facts, LoadedEvents,
    Plan, Wanted, beside,
};
use noctule_model::{
    Batch, CgroupEvent, CgroupId, Event, EventKind, EventKinds, Feature, FeatureId, FeatureState,
    Loss, Owner, ProcessRow, UnreadZone,
};
use rustix::thread::CapabilitySet;

use crate::args::Names;
use crate::config::{Arguments, Config, OtlpEvents, RingSize};
use crate::features::{self, When, ZoneWarnings};
use crate::idle_power;
use crate::rights::{self, Reading};
use crate::select;
use crate::stop::{Signals, Woken};

mod events;
mod groups;
mod on_request;

use events::EventStream;
pub(crate) use events::Scope;
use groups::{cgroup_life, mount, quotas, rooms};

/// How often a name is looked for.
const NAME_LOOKS: u32 = 20;
const NAME_STEP: Duration = Duration::from_millis(50);

/// A group whose directory was removed counts as released after that time: page cache that is charged
/// to it can keep the kernel from letting go of it for hours, while no thread can be in it.
const REMOVED_NS: u64 = 5_000_000_000;

/// How long the last batch of a command that answers once may wait for the names of new groups.
const CATCH_UP: Duration = Duration::from_millis(100);
/// Between two searches for names while those before them have not been answered.
const NAMES_STEP: Duration = Duration::from_millis(10);

/// Counters of energy that a virtual machine makes of others have something new once in a second.
pub(crate) const SLOWEST_COUNTER: Duration = Duration::from_millis(1200);

/// How often memory that is free is given back.
const TRIM_NS: u64 = 10_000_000_000;

/// What of everything a command shows. The rest is not loaded, and its features have no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Everything that the configuration switches on.
    All,
    /// No events.
    Use,
    /// CPU time and waits alone.
    Waits,
}

/// Sources, identity and rollup together.
pub(crate) struct Pipeline {
    cpu: CpuSource,
    life: Option<CgroupLife>,
    meters: Meters,
    zone_warnings: ZoneWarnings,
    registry: Registry,
    /// CPU quotas; `None` where waits are not measured.
    quotas: Option<Quotas>,
    /// Threads of groups that wait, and their CPUs; `None` where waits are not measured.
    rooms: Option<Rooms>,
    attribution: Attribution,
    rollup: Rollup,
    released: Vec<CgroupId>,
    /// Groups of which the directory was removed, and when; the oldest first.
    removed: VecDeque<(u64, CgroupId)>,
    events: Option<EventStream>,
    arguments: Arguments,
    /// Where the counted hierarchy is mounted.
    cgroup_mount: PathBuf,
    /// Where the host's procfs is mounted.
    proc: PathBuf,
    /// Processes that ended before a tick that failed, and who had each CPU.
    exited: Vec<ProcessRow>,
    held: Batch,
    /// When memory was given back last.
    trimmed_ns: u64,
}

/// What the page shows of processes.
const OF_PROCESSES: EventKinds = EventKinds::of(&[EventKind::Process, EventKind::Oom]);

impl Pipeline {
    /// Loads and attaches what works here of what is shown.
    pub(crate) fn start(config: &Config, shown: Shown) -> Result<Self> {
        let mut this = Self::load(config, &Scope::default(), shown)?;
        this.narrow(&Scope::default())?;
        Ok(this)
    }

    /// The same of everything, with the events that are kept on disk, sent, or shown by the page.
    pub(crate) fn start_agent(config: &Config) -> Result<Self> {
        let (events, for_page) = (&config.events, config.web.events);
        let sent = config.otlp.wanted_events();
        let to_disk = !events.file.as_os_str().is_empty()
            || config.tape.folder().is_some()
            || sent == OtlpEvents::All;
        let keeps = to_disk || for_page || sent != OtlpEvents::Off;
        let kept = match (to_disk, keeps) {
            (true, _) => events.kinds(),
            (false, true) => events.kinds().and(OF_PROCESSES),
            (false, false) => EventKinds::default(),
        };
        let scope = Scope {
            kinds: kept,
            ..Scope::default()
        };
        let mut this = Self::load(config, &scope, Shown::All)?;
        this.narrow(&scope)?;
        if keeps {
            this.list_existing(to_disk)?;
        }
        Ok(this)
    }

    /// Starts everything, and lists what is there: for a recording. With a command its events are
    /// wanted alone.
    pub(crate) fn start_recorded(config: &Config, command: bool) -> Result<Self> {
        let scope = Scope {
            kinds: config.events.kinds(),
            command,
            ..Scope::default()
        };
        let mut this = Self::load(config, &scope, Shown::All)?;
        this.narrow(&scope)?;
        this.list_existing(!command)?;
        Ok(this)
    }

    /// Starts with the events that `scope` names and no more of the rest than they need.
    pub(crate) fn start_events(config: &Config, scope: &Scope) -> Result<Self> {
        let mut config = config.clone();
        config.collect.waits = false;
        config.collect.hardware_counters = false;
        config.collect.page_cache = false;
        config.collect.softirqs = false;
        config.events.processes = true;
        config.events.exec_failures = scope.kinds.has(EventKind::ExecFailure);
        config.events.tcp = scope.kinds.has(EventKind::Tcp);
        config.events.files = scope.kinds.has(EventKind::File);
        config.events.dns = scope.kinds.has(EventKind::Dns);
        config.events.udp = scope.kinds.has(EventKind::Udp);
        let mut this = Self::load(&config, scope, Shown::All)?;
        let needed = features::need_kinds(&this.cpu.features(), scope, When::Live);
        needed.map_err(|words| Error::new(ErrorKind::Kernel, words))?;
        this.narrow(scope)?;
        this.list_existing(scope.existing)?;
        Ok(this)
    }

    fn load(config: &Config, scope: &Scope, shown: Shown) -> Result<Self> {
        let reading = reading(config);
        let facts = Facts::probe(&config.host.roots());
        features::warn_of_hidden(&facts);
        let wanted = wanted(config, &facts);
        let mut plan = Plan::new(&facts, &wanted)?;
        if shown == Shown::Waits {
            plan.leave_out_use();
        }
        let cpus = CpuSlots::new(&facts)?;
        let events = (shown == Shown::All).then(|| events_wanted(config, scope, &facts));
        let load = || {
            // It waits for meters that have not counted yet, which takes no CPU from the others.
            let meters = meters(config);
            let wanted = events.as_ref().filter(|_| counts_events(config));
            let loaded = wanted.map(|wanted| LoadedEvents::load(&facts, wanted, &cpus));
            (meters, loaded)
        };
        let ((meters, loaded), (life, names, registry, kernel)) = beside(load, || {
            // The events come first: a group that is made during the walk is in at least one of
            // both.
            let (life, names) = cgroup_life(&facts, wanted.ring_bytes / 4);
            let registry = Registry::new(noctule_identity::Config {
                root: "/".into(),
                cgroup_mount: mount(&facts.hierarchy),
                remember: remembered(config),
                on_thread: rights::read_only,
                ..noctule_identity::Config::default()
            });
            let kernel = Accounting::load(&facts, &plan, &wanted, &cpus);
            (life, names, registry, kernel)
        });
        let kernel = kernel?;
        let mut programs = life
            .as_ref()
            .map(|life| life.kernel().programs())
            .unwrap_or_default();
        let mut others = vec![
            features::hierarchy(&facts),
            names,
            features::processes(&facts),
        ];
        let events = events.and_then(|wanted| {
            let started_ns = kernel.started_ns();
            let loaded = loaded.map(|loaded| {
                loaded.and_then(|loaded| Events::attach(loaded, &facts, &wanted, started_ns))
            });
            event_stream(&facts, config, scope, wanted.stream, loaded, &mut others)
        });
        programs.extend(events.iter().flat_map(EventStream::programs));
        let mut not_tried = features::not_tried(&[kernel.features(), &others].concat());
        not_tried.retain(|feature| shown == Shown::All || !feature.id.is_of_events());
        others.extend(not_tried);
        // The user may have named their folder.
        drop(reading);
        others.push(features::energy(meters.zones(), meters.unread(), &[]));
        let grace = grace(config);
        let isolated = noctule_kernel::isolated_cpus(&config.host.sys);
        let unmeasured = features::programs_unmeasured(config.collect.program_cost, &isolated);
        let cpu = CpuSource::new(kernel, &facts, grace, programs, &others, unmeasured);
        let quotas = config.collect.waits.then(|| quotas(&facts, &registry));
        Ok(Self {
            cpu,
            quotas,
            rooms: config.collect.waits.then(|| rooms(&facts)),
            life,
            meters,
            zone_warnings: ZoneWarnings::default(),
            registry,
            attribution: Attribution::new(config.energy.idle.into())
                .knowing(idle_power::knowledge(config)),
            rollup: rollup(config),
            released: Vec::new(),
            removed: VecDeque::new(),
            events,
            arguments: config.events.args,
            cgroup_mount: mount(&facts.hierarchy),
            proc: facts.roots.proc,
            exited: Vec::new(),
            held: Batch::default(),
            trimmed_ns: now_ns(),
        })
    }

    /// Meters of energy that exist and are not read.
    pub(crate) fn unread_zones(&self) -> &[UnreadZone] {
        self.meters.unread()
    }

    /// What has been learned of the zones of energy.
    pub(crate) fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// Idle power of the zones that were nearly idle.
    pub(crate) fn observed_idle(&self) -> Vec<LearnedIdle> {
        self.attribution.observed_idle(self.meters.zones())
    }

    /// Whether there is a meter of energy, or a model. One that begins to count is waited for.
    pub(crate) fn has_meter(&mut self) -> bool {
        self.meters.listen(SLOWEST_COUNTER);
        !self.meters.zones().is_empty()
    }

    /// The owners of all groups that are known.
    pub(crate) fn owners(&self) -> Vec<Arc<Owner>> {
        self.registry.owners().cloned().collect()
    }

    /// The path of a group in the hierarchy, of one that is given as a path there or of a directory.
    pub(crate) fn group_path(&self, given: &str) -> String {
        let mount = self.cgroup_mount.to_string_lossy();
        let path = given.strip_prefix(mount.as_ref()).unwrap_or(given);
        format!("/{}", path.trim_matches('/'))
    }

    /// The files in which the kernel has what groups are allowed.
    pub(crate) fn setting_files(&self) -> SettingFiles {
        SettingFiles::new(Path::new("/"), &self.cgroup_mount)
    }

    /// Fails where the feature is off, with why.
    pub(crate) fn need(&self, feature: FeatureId) -> Result<()> {
        let needed = features::need_one(&self.cpu.features(), &[feature], When::Live);
        needed.map_err(|words| Error::new(ErrorKind::Kernel, words))?;
        Ok(())
    }

    /// Lets only those through that the scope names, and makes their sockets known. What has a name that is not
    /// there yet is waited for.
    fn narrow(&mut self, scope: &Scope) -> Result<()> {
        let selection = select::selection(&scope.names, &self.cgroup_mount, &self.proc)?;
        if let Some(missing) = self.missing(&selection)? {
            let words = select::nothing_fits(missing).0;
            tracing::warn!("{words}; waiting for one");
        }
        let Some(mut stream) = self.events.take() else {
            return Ok(());
        };
        if selection.has_names() {
            stream.want_groups(selection, &self.registry)?;
        }
        for pid in &scope.names.pid {
            let proc = self.proc.clone();
            stream.want_tree(*pid, &proc, || self.tick())?;
        }
        stream.source.adopt_sockets()?;
        self.events = Some(stream);
        Ok(())
    }

    /// What was chosen by name. A name that nothing has now is an error with those that there are,
    /// but with a command, which may make it.
    pub(crate) fn select(&mut self, names: &Names, command: &[OsString]) -> Result<Selection> {
        let selection = select::selection(names, &self.cgroup_mount, &self.proc)?;
        if command.is_empty()
            && let Some(missing) = self.missing(&selection)?
        {
            return Err(select::nothing_fits(missing).into());
        }
        Ok(selection)
    }

    /// Names that nothing has, if there are any.
    fn missing(&mut self, selection: &Selection) -> Result<Option<Missing>> {
        if !selection.has_names() {
            return Ok(None);
        }
        // The names of containers are read by another thread.
        for look in 0.. {
            self.tick()?;
            let owners: Vec<&Owner> = self.registry.owners().map(|owner| &**owner).collect();
            let found = selection.found_among(&owners);
            let missing = selection.missing(&found, &owners);
            if missing.is_none() || look >= NAME_LOOKS {
                return Ok(missing);
            }
            self.registry.catch_up(NAME_STEP);
            thread::sleep(NAME_STEP);
        }
        Ok(None)
    }

    /// What is there is taken note of, and listed if that is wanted.
    fn list_existing(&mut self, wanted: bool) -> Result<()> {
        let batch = self.tick()?;
        if let Some(stream) = &mut self.events {
            stream.list_existing(&batch, &mut self.registry, wanted)?;
        }
        Ok(())
    }

    /// Names the owner of an event again: its name may be known by now.
    pub(crate) fn name_again(&mut self, event: &mut Event) {
        if let Some(process) = &mut event.process {
            process.owner = Some(self.owner(process.cgroup));
        }
    }

    /// The groups that get no rows for more destinations since the last batch.
    pub(crate) fn newly_bounded(&mut self) -> Vec<Arc<Owner>> {
        let stream = self.events.as_ref();
        let bounded = stream.map_or(&[][..], |stream| stream.source.newly_bounded());
        bounded.iter().map(|id| self.registry.owner(*id)).collect()
    }

    /// What is known of a group now.
    pub(crate) fn owner(&mut self, cgroup: CgroupId) -> Arc<Owner> {
        self.registry.owner(cgroup)
    }

    /// Takes the events that are there, named, in order.
    pub(crate) fn events(&mut self) -> Result<Vec<Event>> {
        self.drain_events()?;
        let Some(stream) = &mut self.events else {
            return Ok(Vec::new());
        };
        let mut events = stream.drain()?;
        for event in &mut events {
            self.arguments.limit(&mut event.what);
        }
        // Groups that were made while the ring was read.
        self.drain_events()?;
        let Some(stream) = &self.events else {
            return Ok(events);
        };
        for process in events.iter_mut().filter_map(|event| event.process.as_mut()) {
            process.owner = Some(self.registry.owner(process.cgroup));
        }
        events.retain(|event| stream.is_of_wanted(event));
        Ok(events)
    }

    /// The same for the last time: with what would be reported only when it has ended.
    pub(crate) fn last_events(&mut self) -> Result<Vec<Event>> {
        if let Some(stream) = &mut self.events {
            stream.source.end()?;
        }
        self.events()
    }

    /// From now on the children of this process are followed.
    pub(crate) fn follow_own_children(&mut self) {
        self.cpu.follow_children_of(std::process::id());
        if let Some(stream) = &mut self.events {
            stream.want_children();
        }
    }

    /// Takes a batch, with names.
    pub(crate) fn tick(&mut self) -> Result<Batch> {
        self.drain_events()?;
        let mut losses: Vec<_> = self.life.iter().map(CgroupLife::loss).collect();
        if let Some(stream) = &self.events {
            losses.extend(stream.source.losses());
        }
        let names = self.registry.stats();
        let of_names = [("names_hang", names.hangs), ("group_name", names.given_up)];
        losses.extend(of_names.map(|(kind, count)| Loss {
            kind,
            place: "names",
            count,
        }));
        self.meters.prepare();
        let mut batch = self.cpu.collect(&self.released, &losses)?;
        batch.energy = self.meters.read(&batch.node, batch.taken_ns);
        if let Some(status) = self.zone_warnings.follow(&mut self.meters, &batch) {
            self.cpu.set_feature(&status);
        }
        if let Some(status) = rights::not_given_up() {
            batch.features = batch.features.iter().cloned().chain([status]).collect();
        }
        batch.exited.splice(0..0, self.exited.drain(..));
        batch.add_holders(&std::mem::take(&mut self.held));
        if let Err(error) = self.complete(&mut batch) {
            // These are in no other batch.
            self.held = batch.holders_since(&Batch::default());
            self.exited = batch.exited;
            return Err(error);
        }
        if batch.taken_ns.saturating_sub(self.trimmed_ns) >= TRIM_NS {
            self.trimmed_ns = batch.taken_ns;
            noctule_kernel::trim_heap();
        }
        Ok(batch)
    }

    /// Takes the first batch of an agent, from which on nothing is loaded any more, and gives up every
    /// capability of this thread without which that works. Measuring the cost of BPF programs needs
    /// CAP_SYS_ADMIN at each window, and so does entering a network namespace, with CAP_SYS_PTRACE for those of
    /// others. Where the kernel wants CAP_BPF for each look into a map (before
    /// Linux 5.19, if unprivileged BPF is off), the batch fails without, and it is kept.
    pub(crate) fn tick_without_rights(&mut self) -> Result<Batch> {
        use FeatureId::{CacheMisses, Cycles, Instructions, ReferenceCycles};
        let features = self.cpu.features();
        let on = |id| {
            let mut all = features.iter();
            all.any(|it| it.id == id && it.state != FeatureState::Off)
        };
        let mut kept = CapabilitySet::empty();
        if on(FeatureId::SelfCost) {
            kept |= CapabilitySet::SYS_ADMIN;
        }
        // Sockets are looked for in each network namespace where the kernel refuses the better way.
        let walks =
            |it: &Feature| it.id == FeatureId::TcpSockets && it.state == FeatureState::Degraded;
        if features.iter().any(walks) {
            kept |= CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
        }
        // A CPU that comes online gets counters of its own.
        if [Cycles, ReferenceCycles, Instructions, CacheMisses]
            .into_iter()
            .any(on)
        {
            kept |= CapabilitySet::PERFMON;
        }
        rights::hold_back_all_but(kept);
        let tried = self.tick();
        let batch = match tried {
            Ok(batch) => batch,
            Err(error) => {
                tracing::debug!("a batch needs CAP_BPF: {error:#}");
                kept |= CapabilitySet::BPF | CapabilitySet::PERFMON;
                rights::hold_back_all_but(kept);
                self.tick()?
            }
        };
        rights::keep(kept);
        Ok(batch)
    }

    /// The last batch of a command that answers once: nobody can correct its names later.
    pub(crate) fn last_tick(&mut self) -> Result<Batch> {
        self.drain_events()?;
        self.registry.catch_up(CATCH_UP);
        self.tick()
    }

    /// Adds what happened, and the names.
    fn complete(&mut self, batch: &mut Batch) -> Result<()> {
        self.make_room()?;
        if let Some(stream) = &mut self.events {
            stream.source.count(batch, &self.released)?;
        }
        self.released.clear();
        // Groups that were made while the batch was taken.
        self.drain_events()?;
        self.registry.join(batch);
        if let Some(stream) = &mut self.events {
            stream.want_more(&self.registry);
            stream.reconcile(batch, &mut self.registry)?;
        }
        self.make_room()?;
        // These remember what the batch has: nothing that can fail comes after them.
        if let Some(rooms) = &mut self.rooms {
            rooms.read(batch);
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.read(batch);
        }
        self.attribution.apply(batch);
        self.rollup.apply(batch);
        Ok(())
    }

    /// Waits until `deadline`, a signal, or until events are to be read, and empties the other rings
    /// when they ask for it.
    pub(crate) fn wait(&mut self, signals: &Signals, deadline: Instant) -> Result<Woken> {
        loop {
            let due = self.events.as_ref().and_then(EventStream::due);
            let named = self.registry.due_ns().map(|at| {
                let left = Duration::from_nanos(at.saturating_sub(now_ns()));
                Instant::now() + left.max(NAMES_STEP)
            });
            let meter = self.meters.due_ns().map(|at| {
                let left = at.saturating_sub(now_ns());
                Instant::now() + Duration::from_nanos(left)
            });
            let until = [due, named, meter]
                .into_iter()
                .flatten()
                .fold(deadline, Instant::min);
            let mut fds: Vec<BorrowedFd<'_>> = vec![self.cpu.wake_fd()];
            fds.extend(self.life.iter().map(|life| life.kernel().wake_fd()));
            fds.extend(self.events.iter().flat_map(EventStream::wake_fds));
            match signals.wait(until, &fds)? {
                Woken::Data => {
                    self.make_room()?;
                    self.drain_events()?;
                    if let Some(stream) = &mut self.events {
                        stream.look();
                    }
                }
                Woken::Time if due == Some(until) => return Ok(Woken::Data),
                // The search for names, or a counter that wraps.
                Woken::Time if until < deadline => {
                    self.meters.poll();
                    self.drain_events()?;
                }
                woken => return Ok(woken),
            }
        }
    }

    /// Empties the ring of ended processes into the next batch. Thousands of them can end while a step of a tick
    /// goes through a large machine.
    fn make_room(&mut self) -> Result<()> {
        Ok(self.cpu.drain()?)
    }

    fn drain_events(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let events = life.collect()?;
        let now = now_ns();
        for event in &events {
            match event {
                CgroupEvent::Released { id } => self.released.push(*id),
                CgroupEvent::Removed { id } => self.removed.push_back((now, *id)),
                CgroupEvent::Made { .. } | CgroupEvent::Renamed { .. } => {}
            }
        }
        while let Some((at, id)) = self.removed.front().copied()
            && now.saturating_sub(at) > REMOVED_NS
        {
            self.removed.pop_front();
            self.released.push(id);
        }
        self.registry.apply(&events, now);
        if let Some(stream) = &mut self.events {
            // First what makes room.
            stream.want_no_more(&self.released);
            if self.registry.take_changed() {
                stream.want_more(&self.registry);
            }
        }
        Ok(())
    }
}

/// `CLOCK_MONOTONIC`, the clock of the batches.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The same, and how long the machine was suspended.
fn moment() -> Moment {
    let at_ns = now_ns();
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot_ns = boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64;
    Moment {
        at_ns,
        suspended_ns: boot_ns.saturating_sub(at_ns),
    }
}

/// The right to read everything, where no path is of the user's choice.
fn reading(config: &Config) -> Option<Reading> {
    config.host.has_usual_roots().then(Reading::begin)
}

/// The meters of energy.
pub(crate) fn meters(config: &Config) -> Meters {
    let _reading = reading(config);
    Meters::probe(
        &config.host.sys,
        Arc::new(moment),
        config.energy.model.watts(),
    )
}

/// What this kernel, these privileges and these files allow; nothing stays loaded.
pub(crate) fn examine(config: &Config, meters: &Meters) -> Vec<Feature> {
    let reading = reading(config);
    let facts = Facts::probe(&config.host.roots());
    drop(reading);
    let mut features = features::machine(&facts);
    // The second look shows which processes the kernel hides.
    let look = |mut pipeline: Pipeline| pipeline.tick().and_then(|_| pipeline.tick());
    // As for a recording: some programs are loaded only where something keeps what they see. All are tried: advice to
    // switch one on is given where it works.
    let mut trial = config.clone();
    let unasked = on_request::ask_for_all(&mut trial.events);
    match Pipeline::start_recorded(&trial, false).and_then(look) {
        Ok(batch) => {
            // What came of confining threads is said in the place of what the kernel has for it.
            let tried = |id| batch.features.iter().any(|it| it.id == id);
            features.retain(|feature| !tried(feature.id));
            features.extend(batch.features.iter().cloned());
            features::withdraw(&mut features, &unasked);
        }
        Err(error) => {
            features.extend(features::without_accounting(&facts, format!("{error:#}")));
            features.push(features::energy(meters.zones(), meters.unread(), &[]));
        }
    }
    features
}

fn wanted(config: &Config, facts: &Facts) -> Wanted {
    let collect = &config.collect;
    Wanted {
        counters: if collect.hardware_counters {
            CounterSpec::HARDWARE.to_vec()
        } else {
            vec![]
        },
        page_cache: collect.page_cache,
        softirqs: collect.softirqs,
        waits: collect.waits,
        blames: collect.blame_rows,
        cgroups: collect.cgroup_rows,
        processes: collect.process_rows,
        ring_bytes: RingSize::ENDED.bytes(collect.ring_bytes, facts.topology.cpus().count()),
    }
}

fn subject_grace(config: &Config) -> Duration {
    Duration::from_secs_f64(config.metrics.grace_seconds)
}

/// Charges groups to subjects. A subject stays from when the last of its groups is no longer listed.
pub(crate) fn rollup(config: &Config) -> Rollup {
    let stays = subject_grace(config).saturating_sub(grace(config).cgroup);
    Rollup::new(stays.as_nanos() as u64)
}

fn grace(config: &Config) -> Grace {
    Grace::at_most(subject_grace(config))
}

/// How long the owners of removed groups are remembered: what is listed has a name to the end.
fn remembered(config: &Config) -> Duration {
    let wanted = Duration::from_secs_f64(config.collect.dead_cgroup_memory_seconds);
    let listed = Duration::from_nanos(REMOVED_NS) + grace(config).cgroup;
    // And some ticks.
    wanted.max(listed + 3 * config.interval())
}

fn counts_events(config: &Config) -> bool {
    config.events.processes || config.events.tcp
}

fn events_wanted(config: &Config, scope: &Scope, facts: &Facts) -> EventsWanted {
    let events = &config.events;
    EventsWanted {
        tcp: events.tcp,
        exec_failures: events.exec_failures,
        stream: scope.kinds,
        filter_processes: scope.filters_processes(),
        filter_cgroups: scope.filters_cgroups(),
        ring_bytes: RingSize::EVENTS.bytes(events.ring_bytes, facts.topology.cpus().count()),
        cgroups: config.collect.cgroup_rows,
        destinations: events.destinations,
    }
}

/// The objects that watch what happens; without them everything else goes on. `attached` is `None`
/// where they are not wanted.
fn event_stream(
    facts: &Facts,
    config: &Config,
    scope: &Scope,
    stream: EventKinds,
    attached: Option<Result<Events, Error>>,
    features: &mut Vec<Feature>,
) -> Option<EventStream> {
    let id = FeatureId::ProcessEvents;
    match attached {
        None => {
            features.push(Feature::switched_off(id, "events"));
            None
        }
        Some(Ok(attached)) => {
            features.extend(attached.features().iter().cloned());
            if !config.events.exec_failures {
                features.push(features::not_asked_for(FeatureId::ExecFailures));
            }
            let latency = Duration::from_millis(config.events.latency_milliseconds.into());
            let files = on_request::load_files(facts, config, scope, &attached, features);
            let udp = on_request::load_udp(facts, config, scope, &attached, features);
            let source = EventSource::new(attached, files, udp, stream, grace(config));
            Some(EventStream::new(source, latency))
        }
        Some(Err(error)) => {
            features.push(Feature::off(id, chain(&error)));
            None
        }
    }
}

/// The error with its causes, on one line.
fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
