//! Runs the programs of a command that watches events, and reads their messages.

use std::os::fd::BorrowedFd;

use noctule_kernel::{
    AttachedProgram, LoadedProgram, PlainMap, PlainMapKind, PlainProgram, PlainProgramKind,
    PlainRing, TraceEvents,
};

use super::{Arrival, Arrivals, Watch};
use crate::emit::MapUse;
use crate::emit::watch::{EmittedWatch, MAPS, WatchMap, token, watch};
use crate::session::{SessionError, globs};

/// The events to watch, and the initial state.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Kernel id and handling of each event.
    pub events: &'a [(u64, Watch)],
    /// Initial state of each switch.
    pub switches: &'a [bool],
    /// Count of each trigger; `None` for no limit.
    pub counts: &'a [Option<u64>],
    /// Size of the ring buffer in bytes: a power of two of pages.
    pub ring: u32,
}

/// Messages and hits that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Messages lost since the last message of their CPU because the ring was full.
    pub lost: u64,
    /// Hits for which the kernel skipped the program because another one was running on the CPU.
    /// The number includes hits that the filter would reject. Available since Linux 6.7.
    pub skipped: u64,
}

/// Programs that are attached to their events. Dropping the session detaches them.
#[derive(Debug)]
pub struct WatchSession {
    ring: PlainRing,
    lost: PlainMap,
    kinds: Vec<u64>,
    arrivals: Arrivals,
    /// Time of the last complete read. All earlier messages have arrived by now.
    read_at: u64,
    attached: Vec<AttachedProgram>,
    programs: Vec<LoadedProgram>,
    _shared: Vec<PlainMap>,
}

impl WatchSession {
    /// Loads a program for each event, then attaches all of them.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; the error includes the index of the event in the plan. No program
    /// remains loaded.
    pub fn start(events: &TraceEvents, plan: &Plan<'_>) -> Result<Self, (usize, SessionError)> {
        let for_first = |error: SessionError| (0, error);
        let shared = Shared::make(plan).map_err(for_first)?;
        let programs = load(plan, &shared)?;
        let mut session = Self {
            ring: PlainRing::new(&shared.ring).map_err(|error| for_first(error.into()))?,
            lost: shared.lost,
            kinds: plan.events.iter().map(|(id, _)| *id).collect(),
            arrivals: Arrivals::default(),
            read_at: 0,
            attached: Vec::new(),
            programs,
            _shared: vec![shared.ring, shared.switches, shared.tokens, shared.counts],
        };
        // Events with triggers are attached last, so that no switch changes before all events are
        // attached.
        let mut order: Vec<_> = (0..plan.events.len()).collect();
        order.sort_by_key(|at| !plan.events[*at].1.triggers.is_empty());
        for at in order {
            let attached = events.attach(&session.programs[at], plan.events[at].0);
            let attached = attached.map_err(|error| (at, error.into()))?;
            session.attached.push(attached);
        }
        Ok(session)
    }

    /// Returns a descriptor that becomes readable when a quarter of the ring is full.
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.ring.wakes()
    }

    /// Reads the ring at the time `now_ns` of `CLOCK_MONOTONIC`. Passes messages from before the
    /// previous read to `show`, sorted by time. Newer messages are held until the next read.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses access to the ring.
    pub fn read(&mut self, now_ns: u64, mut show: impl FnMut(Arrival)) -> Result<(), SessionError> {
        let until = self.read_at;
        // If the ring was not read completely, the remaining messages can be older than `now_ns`.
        if self.drain()? {
            self.read_at = now_ns;
        }
        while let Some(arrival) = self.arrivals.next_before(until) {
            show(arrival);
        }
        Ok(())
    }

    /// Detaches the programs and passes all remaining messages from before this time of
    /// `CLOCK_MONOTONIC` to `show`.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    pub fn stop(
        &mut self,
        now_ns: u64,
        mut show: impl FnMut(Arrival),
    ) -> Result<Losses, SessionError> {
        // Detaching takes about 40 ms per event, because the kernel waits until no CPU runs the
        // program. The other programs continue during that time, so the ring is drained to keep
        // late messages from filling it.
        while self.attached.pop().is_some() {
            while !self.drain()? {}
        }
        while !self.drain()? {}
        while let Some(arrival) = self.arrivals.next_before(now_ns) {
            show(arrival);
        }
        let lost = self.lost.get_per_cpu(&0_u32.to_ne_bytes())?;
        let word = |bytes: &Vec<u8>| bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let lost: Vec<_> = lost.iter().flatten().map(word).collect();
        Ok(Losses {
            lost: self.arrivals.unreported(&lost),
            skipped: self.programs.iter().map(LoadedProgram::skipped).sum(),
        })
    }

    fn drain(&mut self) -> Result<bool, SessionError> {
        let (arrivals, kinds) = (&mut self.arrivals, &self.kinds);
        Ok(self.ring.drain(|bytes| arrivals.take(bytes, kinds))?)
    }
}

/// BPF maps that all programs of one command share.
struct Shared {
    ring: PlainMap,
    lost: PlainMap,
    switches: PlainMap,
    tokens: PlainMap,
    counts: PlainMap,
}

impl Shared {
    fn make(plan: &Plan<'_>) -> Result<Self, SessionError> {
        let entries = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let words = |name, count| PlainMap::create(PlainMapKind::Array, name, 4, 8, entries(count));
        let switches = words("watch_switches", plan.switches.len())?;
        // One of the two tokens of each switch exists at a time.
        let count = entries(2 * plan.switches.len());
        let tokens = PlainMap::create(PlainMapKind::Hash, "watch_tokens", 4, 4, count)?;
        for (number, &on) in (0..).zip(plan.switches) {
            switches.set(number, &u64::from(on).to_ne_bytes())?;
            tokens.set(token(number, on), &[0; 4])?;
        }
        let counts = words("watch_counts", plan.counts.len())?;
        for (number, count) in (0..).zip(plan.counts) {
            counts.set(number, &count.unwrap_or(0).to_ne_bytes())?;
        }
        Ok(Self {
            ring: PlainMap::create(PlainMapKind::Ring, "watch_ring", 0, 0, plan.ring)?,
            lost: PlainMap::create(PlainMapKind::PerCpuArray, "watch_lost", 4, 8, 1)?,
            switches,
            tokens,
            counts,
        })
    }

    fn load(
        &self,
        emitted: &EmittedWatch,
        memory: &PlainMap,
    ) -> Result<LoadedProgram, SessionError> {
        let globs = globs(&emitted.globs)?;
        let mut maps: Vec<Option<&PlainMap>> = vec![None; MAPS];
        for (number, map) in [
            (MapUse::Memory as usize, Some(memory)),
            (MapUse::Globs as usize, globs.as_ref()),
            (WatchMap::Ring as usize, Some(&self.ring)),
            (WatchMap::Lost as usize, Some(&self.lost)),
            (WatchMap::Switches as usize, Some(&self.switches)),
            (WatchMap::Tokens as usize, Some(&self.tokens)),
            (WatchMap::Counts as usize, Some(&self.counts)),
        ] {
            maps[number] = map;
        }
        let insns: Vec<_> = emitted.code.insns.iter().map(|insn| insn.bytes()).collect();
        let program = PlainProgram {
            kind: PlainProgramKind::Tracepoint,
            name: "noctule_watch",
            insns: &insns,
            loads: &emitted.code.maps,
            maps: &maps,
        };
        let refused = |refused| SessionError::refused(refused, &emitted.code);
        program.load().map_err(refused)
    }
}

/// Loads a program for each event. All programs share one scratch memory per CPU, because the
/// kernel does not run a tracepoint program while another one runs on the CPU.
fn load(plan: &Plan<'_>, shared: &Shared) -> Result<Vec<LoadedProgram>, (usize, SessionError)> {
    let mut all = Vec::new();
    for (place, (_, what)) in plan.events.iter().enumerate() {
        let number = u16::try_from(place).unwrap_or(u16::MAX);
        let emitted = |has_task_stack| {
            let emitted = watch(what, number, plan.ring / 4, has_task_stack);
            emitted.map_err(|error| (place, SessionError::Emit(error)))
        };
        all.push((emitted(true)?, emitted(false)?));
    }
    let size = all.iter().map(|(emitted, _)| emitted.memory_size).max();
    let kind = PlainMapKind::PerCpuArray;
    let memory = PlainMap::create(kind, "watch_memory", 4, size.unwrap_or(8), 1);
    let memory = memory.map_err(|error| (0, error.into()))?;
    let loaded = |(place, (emitted, older)): (usize, &(EmittedWatch, EmittedWatch))| {
        let loaded = match shared.load(emitted, &memory) {
            // Linux before 5.11 lacks the helper for task stacks.
            Err(SessionError::Refused { .. }) if emitted.code != older.code => {
                shared.load(older, &memory)
            }
            loaded => loaded,
        };
        loaded.map_err(|error| (place, error))
    };
    all.iter().enumerate().map(loaded).collect()
}
