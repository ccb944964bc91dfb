//! Assembles the data pipeline. Only this module names the concrete components.
//!
//! kernel side -> source -> identity -> attribution -> rollup -> a batch. Every command drives this
//! pipeline and passes its batches to a sink.

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
    CgroupLife, CpuSource, EventSource, Memory, Meters, Moment, Mounted, Pressures, Quotas, Rooms,
    SettingFiles,
};
use noctule_identity::Registry;
use noctule_kernel::{
    Accounting, CpuSlots, Disks, Error, ErrorKind, Events, Facts, Hierarchy, LoadedEvents, Plan,
    run_both,
};
use noctule_model::{
    Batch, CgroupEvent, CgroupId, Event, EventKind, EventKinds, Feature, FeatureId, FeatureState,
    Loss, Owner, ProcessRow, UnreadZone,
};
use rustix::thread::CapabilitySet;

use crate::args::Names;
use crate::config::{Arguments, Config, OtlpEvents};
use crate::features::{self, When, ZoneWarnings};
use crate::idle_power;
use crate::rights::{self, Reading};
use crate::scope::Scope;
use crate::select;
use crate::stop::{Signals, Woken};

mod events;
mod groups;
mod on_request;
mod wanted;

use events::EventStream;
use groups::{cgroup_life, memory, mount, quotas, rooms};
pub(crate) use wanted::rollup;
use wanted::{counts_events, events_wanted, grace, registry, wanted};

/// Maximum number of lookups of a name, and the time between them.
const NAME_LOOKS: u32 = 20;
const NAME_STEP: Duration = Duration::from_millis(50);

/// Delay after which a group counts as released once its directory was removed. Charged page cache
/// can keep the group alive in the kernel for hours, although no thread can enter it.
const REMOVED_NS: u64 = 5_000_000_000;

/// Maximum time that the last batch of a one-shot command waits for the names of new groups.
const CATCH_UP: Duration = Duration::from_millis(100);
/// Interval between lookups of names while earlier lookups are pending.
const NAMES_STEP: Duration = Duration::from_millis(10);

/// Time to wait for an energy counter to change. Virtual machines that derive these counters from
/// other values update them once per second.
pub(crate) const SLOWEST_COUNTER: Duration = Duration::from_millis(1200);

/// Interval at which free memory is returned to the kernel.
const TRIM_NS: u64 = 10_000_000_000;

/// The parts of the pipeline that a command needs. Other parts are not loaded, and their features
/// have no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Everything that the configuration enables.
    All,
    /// Everything except events.
    Use,
    /// CPU time and waits only.
    Waits,
}

/// Sources, identity and rollup.
pub(crate) struct Pipeline {
    cpu: CpuSource,
    life: Option<CgroupLife>,
    meters: Meters,
    zone_warnings: ZoneWarnings,
    registry: Registry,
    /// CPU quotas; `None` if no verdicts are needed.
    quotas: Option<Quotas>,
    /// Memory use and limits of groups; `None` if no verdicts are needed.
    memory: Option<Memory>,
    /// The threads of waiting groups, and the CPUs on which they may run; `None` if no verdicts are
    /// needed.
    rooms: Option<Rooms>,
    /// Pressure of containers and units; `None` if no metric needs it, or the kernel has none.
    pressures: Option<Pressures>,
    attribution: Attribution,
    rollup: Rollup,
    released: Vec<CgroupId>,
    /// Number of released groups above which a batch should not wait.
    most_released: usize,
    /// Groups whose directory was removed, each with the time of its removal, oldest first.
    removed: VecDeque<(u64, CgroupId)>,
    events: Option<EventStream>,
    disks: Option<Disks>,
    arguments: Arguments,
    /// Mount point of the counted hierarchy.
    cgroup_mount: PathBuf,
    /// Mount point of the host's procfs.
    proc: PathBuf,
    /// Exited processes of a tick that failed. `held` contains the holders of CPUs of that tick.
    exited: Vec<ProcessRow>,
    held: Batch,
    /// Time at which memory was last returned to the kernel.
    trimmed_ns: u64,
}

/// Kinds of events that the web page shows.
const OF_PROCESSES: EventKinds = EventKinds::of(&[EventKind::Process, EventKind::Oom]);

impl Pipeline {
    /// Loads and attaches the programs that `shown` needs and this kernel supports.
    pub(crate) fn start(config: &Config, shown: Shown, verdicts: bool) -> Result<Self> {
        let scope = Scope {
            verdicts,
            ..Scope::default()
        };
        let mut this = Self::load(config, &scope, shown)?;
        this.narrow(&scope)?;
        Ok(this)
    }

    /// Starts the pipeline of the agent. The pipeline collects the events that are recorded, sent
    /// or shown by the web page.
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
            disks: config.collect.disks,
            verdicts: true,
            ..Scope::default()
        };
        let mut this = Self::load(config, &scope, Shown::All)?;
        this.pressures = config.metrics.names.foreign().and_then(|_| {
            let existing = this.registry.owners();
            Pressures::new(this.cgroup_mount.clone(), existing.map(|it| &**it))
        });
        this.narrow(&scope)?;
        if keeps {
            this.list_existing(to_disk)?;
        }
        Ok(this)
    }

    /// Starts everything for a recording, and lists existing objects. If `command` is set, only
    /// events of a command are recorded.
    pub(crate) fn start_recorded(config: &Config, command: bool) -> Result<Self> {
        let scope = Scope {
            kinds: config.events.kinds(),
            command,
            verdicts: true,
            ..Scope::default()
        };
        Self::start_scope(config, &scope, !command)
    }

    fn start_scope(config: &Config, scope: &Scope, existing: bool) -> Result<Self> {
        let mut this = Self::load(config, scope, Shown::All)?;
        this.narrow(scope)?;
        this.list_existing(existing)?;
        Ok(this)
    }

    /// Starts the events that `scope` selects, and only those other parts that the events need.
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
        let wanted = wanted(config, scope, &facts);
        let mut plan = Plan::new(&facts, &wanted)?;
        if shown == Shown::Waits {
            plan.keep_only_cpu_and_waits();
        }
        let cpus = CpuSlots::new(&facts)?;
        let events = (shown == Shown::All).then(|| events_wanted(config, scope, &facts));
        let load = || {
            // Waits until each meter has counted. The other thread can use the CPU during the wait.
            let meters = meters(config);
            let wanted = events.as_ref().filter(|_| counts_events(config));
            let loaded = wanted.map(|wanted| LoadedEvents::load(&facts, wanted, &cpus));
            (meters, loaded)
        };
        let ((meters, loaded), (life, names, registry, kernel)) = run_both(load, || {
            // Cgroup events start first, so that a group created during the walk is found by the
            // walk or by an event, or by both.
            let (life, names) = cgroup_life(&facts, wanted.ring_bytes / 4);
            let registry = registry(config, &facts);
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
        let disks = on_request::load_disks(&facts, config, scope, shown, &mut others);
        programs.extend(disks.iter().flat_map(Disks::programs));
        let mut not_tried = features::not_tried(&[kernel.features(), &others].concat());
        not_tried.retain(|feature| shown == Shown::All || !feature.id.is_of_events());
        others.extend(not_tried);
        // Releases the capability to read everything, because a user may have chosen the directory
        // of the meters.
        drop(reading);
        others.push(features::energy(meters.zones(), meters.unread(), &[]));
        let grace = grace(config);
        let isolated = noctule_kernel::isolated_cpus(&config.host.sys);
        let unmeasured = features::programs_unmeasured(config.collect.program_cost, &isolated);
        let cpu = CpuSource::new(kernel, &facts, grace, programs, &others, unmeasured);
        let judges = config.collect.waits && scope.verdicts;
        let quotas = judges.then(|| quotas(&facts, &registry));
        let memory = judges.then(|| memory(&facts)).flatten();
        Ok(Self {
            cpu,
            quotas,
            memory,
            rooms: judges.then(|| rooms(&facts)),
            pressures: None,
            life,
            meters,
            zone_warnings: ZoneWarnings::default(),
            registry,
            attribution: Attribution::new(config.energy.idle.into())
                .knowing(idle_power::knowledge(config)),
            rollup: rollup(config),
            released: Vec::new(),
            most_released: config.collect.cgroup_rows as usize / 4,
            removed: VecDeque::new(),
            events,
            disks,
            arguments: config.events.args,
            cgroup_mount: mount(&facts.hierarchy),
            proc: facts.roots.proc,
            exited: Vec::new(),
            held: Batch::default(),
            trimmed_ns: now_ns(),
        })
    }

    /// Returns energy meters that exist but are not read.
    pub(crate) fn unread_zones(&self) -> &[UnreadZone] {
        self.meters.unread()
    }

    /// Returns the state learned about the energy zones.
    pub(crate) fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// Returns the idle power of zones that were nearly idle.
    pub(crate) fn observed_idle(&self) -> Vec<LearnedIdle> {
        self.attribution.observed_idle(self.meters.zones())
    }

    /// Returns whether there is an energy meter or model. Waits for a meter that has just begun to
    /// count.
    pub(crate) fn has_meter(&mut self) -> bool {
        self.meters.listen(SLOWEST_COUNTER);
        !self.meters.zones().is_empty()
    }

    /// Returns the owners of all known groups.
    pub(crate) fn owners(&self) -> Vec<Arc<Owner>> {
        self.registry.owners().cloned().collect()
    }

    /// Returns a group's path in the hierarchy, given that path or a directory below the mount.
    pub(crate) fn group_path(&self, given: &str) -> String {
        let mount = self.cgroup_mount.to_string_lossy();
        let path = given.strip_prefix(mount.as_ref()).unwrap_or(given);
        format!("/{}", path.trim_matches('/'))
    }

    /// Returns access to the kernel's files with the settings of groups.
    pub(crate) fn setting_files(&self) -> SettingFiles {
        let memory = Hierarchy::mount_of(&self.proc, "memory").map(Mounted::new);
        SettingFiles::new(Path::new("/"), &self.cgroup_mount).with_memory(memory)
    }

    /// Returns an error with the reason if the feature is off.
    pub(crate) fn need(&self, feature: FeatureId) -> Result<()> {
        let needed = features::need_one(&self.cpu.features(), &[feature], When::Live);
        needed.map_err(|words| Error::new(ErrorKind::Kernel, words))?;
        Ok(())
    }

    /// Restricts events to the scope and lists the matching sockets. Names that do not exist yet
    /// are watched for.
    fn narrow(&mut self, scope: &Scope) -> Result<()> {
        let selection = select::selection(&scope.names, &self.cgroup_mount, &self.proc)?;
        if let Some(missing) = self.missing(&selection)? {
            let words = select::nothing_fits(missing, true).0;
            tracing::warn!("{words}; waiting until one appears");
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

    /// Resolves the selected names. If a name has no match, returns an error that lists existing
    /// names. With a command there is no error, because the command may create the match. `command`
    /// is `None` if the caller never runs one.
    pub(crate) fn select(
        &mut self,
        names: &Names,
        command: Option<&[OsString]>,
    ) -> Result<Selection> {
        let selection = select::selection(names, &self.cgroup_mount, &self.proc)?;
        if command.is_none_or(<[_]>::is_empty)
            && let Some(missing) = self.missing(&selection)?
        {
            return Err(select::nothing_fits(missing, command.is_some()).into());
        }
        Ok(selection)
    }

    /// Returns the names without a match, if there are any.
    fn missing(&mut self, selection: &Selection) -> Result<Option<Missing>> {
        if !selection.has_names() {
            return Ok(None);
        }
        // Another thread reads the names of containers.
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

    /// Registers existing objects, and reports them as events if `wanted`.
    fn list_existing(&mut self, wanted: bool) -> Result<()> {
        let batch = self.tick()?;
        if let Some(stream) = &mut self.events {
            stream.list_existing(&batch, &mut self.registry, wanted)?;
        }
        Ok(())
    }

    /// Looks up the owner of an event again, because its name may be known now.
    pub(crate) fn name_again(&mut self, event: &mut Event) {
        if let Some(process) = &mut event.process {
            process.owner = Some(self.owner(process.cgroup));
        }
    }

    /// Returns groups that have reached their limit of destinations since the last batch.
    pub(crate) fn newly_bounded(&mut self) -> Vec<Arc<Owner>> {
        let stream = self.events.as_ref();
        let bounded = stream.map_or(&[][..], |stream| stream.source.newly_bounded());
        bounded.iter().map(|id| self.registry.owner(*id)).collect()
    }

    /// Returns the currently known owner of a group.
    pub(crate) fn owner(&mut self, cgroup: CgroupId) -> Arc<Owner> {
        self.registry.owner(cgroup)
    }

    /// Returns the pending events in order, with the names of their owners.
    pub(crate) fn events(&mut self) -> Result<Vec<Event>> {
        self.drain_events()?;
        let Some(stream) = &mut self.events else {
            return Ok(Vec::new());
        };
        let mut events = stream.drain()?;
        for event in &mut events {
            self.arguments.limit(&mut event.what);
        }
        // Reads groups that were created while the ring was read.
        self.drain_events()?;
        let Some(stream) = &self.events else {
            return Ok(events);
        };
        for process in events.iter_mut().filter_map(|event| event.process.as_mut()) {
            process.owner = Some(self.registry.owner(process.cgroup));
        }
        events.retain(|event| stream.is_of_wanted_group(event));
        Ok(events)
    }

    /// Returns the last events, including events that are normally reported only when their object
    /// ends.
    pub(crate) fn last_events(&mut self) -> Result<Vec<Event>> {
        if let Some(stream) = &mut self.events {
            stream.source.end()?;
        }
        self.events()
    }

    /// Starts to follow the future children of this process.
    pub(crate) fn follow_own_children(&mut self) {
        self.cpu.follow_children_of(std::process::id());
        if let Some(stream) = &mut self.events {
            stream.want_children();
        }
    }

    /// Takes the first batch of a window, which also starts the measurement of releasers.
    pub(crate) fn first_tick(&mut self) -> Result<Batch> {
        self.cpu.begin_releases();
        self.tick()
    }

    /// Takes a batch, and adds names.
    pub(crate) fn tick(&mut self) -> Result<Batch> {
        self.drain_events()?;
        let mut losses: Vec<_> = self.life.iter().map(CgroupLife::loss).collect();
        if let Some(stream) = &self.events {
            losses.extend(stream.source.losses());
        }
        losses.extend(self.disks.iter().flat_map(Disks::losses));
        losses.extend(self.memory.iter().map(Memory::loss));
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
        if let Some(status) = rights::retained_privileges() {
            batch.features = batch.features.iter().cloned().chain([status]).collect();
        }
        batch.exited.splice(0..0, self.exited.drain(..));
        batch.add_holders(&std::mem::take(&mut self.held));
        if let Err(error) = self.complete(&mut batch) {
            // No later batch contains these values again.
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

    /// Takes the first batch of an agent, after which no program is loaded, and drops every
    /// capability that this thread no longer needs.
    ///
    /// Measuring the cost of BPF programs needs CAP_SYS_ADMIN in each window. Entering network
    /// namespaces also needs CAP_SYS_ADMIN, plus CAP_SYS_PTRACE for namespaces of other users.
    /// Before Linux 5.19, the kernel requires CAP_BPF for each map lookup if unprivileged BPF is
    /// off. On such kernels the batch fails without CAP_BPF, so the capability is kept.
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
        // If the kernel refuses iterators over maps, sockets are read in each network namespace.
        let walks =
            |it: &Feature| it.id == FeatureId::TcpSockets && it.state == FeatureState::Degraded;
        if features.iter().any(walks) {
            kept |= CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
        }
        // A CPU that comes online later needs its own counters.
        if [Cycles, ReferenceCycles, Instructions, CacheMisses]
            .into_iter()
            .any(on)
        {
            kept |= CapabilitySet::PERFMON;
        }
        rights::restrict_effective_capabilities(kept);
        let tried = self.tick();
        let batch = match tried {
            Ok(batch) => batch,
            Err(error) => {
                tracing::debug!("reading the counters needs CAP_BPF: {error:#}");
                kept |= CapabilitySet::BPF | CapabilitySet::PERFMON;
                rights::restrict_effective_capabilities(kept);
                self.tick()?
            }
        };
        rights::keep(kept);
        Ok(batch)
    }

    /// Takes the last batch of a one-shot command. Waits for names first, because they cannot be
    /// corrected later.
    pub(crate) fn last_tick(&mut self) -> Result<Batch> {
        self.drain_events()?;
        self.registry.catch_up(CATCH_UP);
        self.tick()
    }

    /// Adds events, names and derived values to a batch.
    fn complete(&mut self, batch: &mut Batch) -> Result<()> {
        self.make_room()?;
        if let Some(stream) = &mut self.events {
            stream.source.count(batch, &self.released)?;
        }
        if let Some(disks) = &mut self.disks {
            batch.disks = Some(disks.read(&self.released)?);
        }
        self.released.clear();
        // Reads groups that were created while the batch was taken.
        self.drain_events()?;
        self.registry.join(batch);
        if let Some(stream) = &mut self.events {
            stream.want_more(&self.registry);
            stream.reconcile(batch, &mut self.registry)?;
        }
        self.make_room()?;
        // These sources remember values of the batch, so no later step may fail.
        if let Some(rooms) = &mut self.rooms {
            rooms.read(batch);
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.read(batch);
        }
        if let Some(memory) = &mut self.memory {
            memory.read(batch);
        }
        self.attribution.apply(batch);
        self.rollup.apply(batch);
        if let Some(pressures) = &self.pressures {
            pressures.read(batch);
        }
        Ok(())
    }

    /// Waits until `deadline`, a signal, or until events can be read. Drains the other rings when
    /// necessary during the wait.
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
                        stream.schedule_read();
                    }
                    if self.is_crowded() {
                        return Ok(Woken::Data);
                    }
                }
                Woken::Time if due == Some(until) => return Ok(Woken::Data),
                // A lookup of names is due, or a counter may wrap soon.
                Woken::Time if until < deadline => {
                    self.meters.poll();
                    self.drain_events()?;
                }
                woken => return Ok(woken),
            }
        }
    }

    /// Drains the ring of exited processes into the next batch. On large machines, thousands of
    /// processes can exit during one step of a tick.
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
            // Removals come first, because they free entries.
            stream.forget_removed_groups(&self.released);
            if self.registry.take_changed() {
                stream.want_more(&self.registry);
            }
        }
        Ok(())
    }
}

/// Returns `CLOCK_MONOTONIC`, the clock of batches.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns `CLOCK_MONOTONIC`, and how long the machine was suspended.
fn moment() -> Moment {
    let at_ns = now_ns();
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot_ns = boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64;
    Moment {
        at_ns,
        suspended_ns: boot_ns.saturating_sub(at_ns),
    }
}

/// Acquires the capability to read everything, unless the user has chosen a path.
fn reading(config: &Config) -> Option<Reading> {
    config.host.has_usual_roots().then(Reading::begin)
}

/// Probes the energy meters.
pub(crate) fn meters(config: &Config) -> Meters {
    let _reading = reading(config);
    Meters::probe(
        &config.host.sys,
        Arc::new(moment),
        config.energy.model.watts(),
    )
}

/// Returns the status of all features for this kernel, its privileges and its files. Nothing
/// remains loaded.
pub(crate) fn examine(config: &Config, meters: &Meters) -> Vec<Feature> {
    let reading = reading(config);
    let facts = Facts::probe(&config.host.roots());
    drop(reading);
    let mut features = features::machine(&facts);
    // The second tick shows which processes the kernel hides.
    let look = |mut pipeline: Pipeline| pipeline.tick().and_then(|_| pipeline.tick());
    // Starts as for a recording, because some programs are loaded only if their events are kept.
    // All optional features are tried, so that the advice to enable a feature is given only if the
    // feature works.
    let mut trial = config.clone();
    let unasked = on_request::enable_all_features(&mut trial);
    let scope = Scope {
        kinds: trial.events.kinds(),
        releasers: true,
        disks: true,
        ..Scope::default()
    };
    match Pipeline::start_scope(&trial, &scope, true).and_then(look) {
        Ok(batch) => {
            // The actual result of confining threads replaces the status derived from the kernel's
            // features.
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

/// Starts the event stream. If that fails, everything else still works. `attached` is `None` if
/// events are not needed.
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

/// Formats the error with its causes on one line.
fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
