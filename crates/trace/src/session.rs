//! Runs a histogram: creates its maps, loads and attaches its programs, and reads its counts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use noctule_kernel::{
    AttachedProgram, CountedTime, Error, LoadedProgram, PlainMap, PlainMapKind, PlainProgram,
    PlainProgramKind, Refused, TraceEvents,
};

use crate::asm::Code;
use crate::emit::{EmitError, Emitted, MAPS, MapUse, emit_for, layout};
use crate::probe::Probe;
#[cfg(doc)]
use crate::program::Pair;
use crate::program::{Aggregate, FRAMES, Program};
use crate::source::Span;
use crate::table::Row;

/// Maximum number of first events that wait for their second event.
const FIRSTS: u32 = 65_536;
/// Upper limit of the free slots per CPU that the kernel keeps in a full table of first events.
const FREE_PER_CPU: usize = 128;
/// Maximum size of all rows in bytes. The rows are preallocated for each CPU.
pub(crate) const TABLE_BYTES: usize = 256 << 20;

/// The reason why a histogram cannot run.
#[derive(Debug)]
pub enum SessionError {
    /// The program could not be compiled.
    Emit(EmitError),
    /// The kernel rejected a map, the program or the attachment.
    Kernel(Error),
    /// The verifier rejected the program.
    Refused {
        error: Error,
        errno: i32,
        /// Source of the rejected instruction, if the log identifies it.
        origin: Option<Span>,
        log: String,
    },
    /// The table exceeds the memory limit.
    TooLarge {
        /// Size of all rows on all CPUs in bytes.
        bytes: usize,
    },
}

impl SessionError {
    /// Returns the error for a program that the verifier rejected.
    pub(crate) fn refused(refused: Refused, code: &Code) -> Self {
        let last = last_verified_insn(&refused.log);
        Self::Refused {
            error: refused.error,
            errno: refused.errno,
            origin: last.and_then(|at| *code.origins.get(at)?),
            log: refused.log,
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emit(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Refused { error, log, .. } => {
                // The reason is the last line before the statistics.
                let statistics = |line: &&str| line.starts_with("processed ") || line.is_empty();
                let reason = log.lines().rev().find(|line| !statistics(line));
                write!(
                    f,
                    "{error}: {}",
                    reason.unwrap_or("the verifier gave no reason")
                )
            }
            Self::TooLarge { bytes } => write!(
                f,
                "the table would need {} MiB, but the limit is {} MiB: choose a smaller size= or fewer percentiles",
                bytes >> 20,
                TABLE_BYTES >> 20
            ),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel(error) | Self::Refused { error, .. } => std::error::Error::source(error),
            // This error already prints the inner error.
            Self::Emit(_) | Self::TooLarge { .. } => None,
        }
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

/// The counts that a session has collected so far.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// One row per key, in no particular order. A stack in a key is replaced by its eight-byte id.
    pub rows: Vec<Row>,
    /// Hits that were dropped because the table was full, including those whose variables did not
    /// fit.
    pub dropped: u64,
    /// The addresses of each stack that occurs in a key, by id. The id of a missing stack is not
    /// included.
    pub stacks: HashMap<u64, Vec<u64>>,
    /// The aggregates of the rows.
    pub kept: Vec<Aggregate>,
}

/// A function that attaches a loaded program to its event.
pub type Attach<'a> = Box<dyn FnOnce(&LoadedProgram) -> Result<AttachedProgram, Error> + 'a>;

/// Makes all programs of a command count in the same time window. The kernel needs up to about 70
/// ms to attach or detach an event. Without a gate, the first of many events would be counted for
/// longer than the last.
#[derive(Debug)]
pub struct Gate(PlainMap);

impl Gate {
    /// Creates a closed gate.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the map.
    pub fn closed() -> Result<Self, Error> {
        PlainMap::create(PlainMapKind::Array, "hist_gate", 4, 8, 1).map(Self)
    }

    /// Opens or closes the gate.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the update.
    pub fn open(&self, open: bool) -> Result<(), Error> {
        self.0.set(0, &u64::from(open).to_ne_bytes())
    }
}

/// A table whose programs are attached to their events. Dropping it detaches them.
#[derive(Debug)]
pub struct Session {
    maps: Vec<Option<PlainMap>>,
    kept: Vec<Aggregate>,
    /// Offset of a stack's addresses in the key.
    stack: Option<usize>,
    /// Ids of stacks, which are the same in each read.
    stack_ids: RefCell<HashMap<Vec<u64>, u64>>,
    /// Whether the event only pauses or resumes other tables.
    switches: bool,
    attached: Vec<AttachedProgram>,
    /// How long the detached programs counted.
    time: CountedTime,
    programs: Vec<LoadedProgram>,
}

/// A table to be started.
pub struct Start<'a> {
    /// The programs that count into the table, with their attach functions. The first program
    /// determines the layout. The second event of a [`Pair`] is attached before the first event, so
    /// that every stored first event can find its second event.
    pub programs: Vec<(&'a Program, Attach<'a>)>,
    /// Program that determines the layout, if the table belongs to a synthetic event and other
    /// programs count into it.
    pub layout: Option<&'a Program>,
    /// Maximum number of entries.
    pub size: u32,
    /// Whether the table starts paused, until [`Session::pause`] resumes it.
    pub paused: bool,
}

impl Session {
    /// Loads and attaches the programs of linked tables, which are numbered by their position here.
    /// Attaches the last table first, so that no event misses values that an earlier event stores
    /// for it. `cpus` is the number of possible CPUs. Programs with `gated` set read `gate`.
    ///
    /// # Errors
    ///
    /// Returns the number of the table that could not be started, and the reason.
    pub fn start_all(
        tables: Vec<Start<'_>>,
        cpus: usize,
        gate: &Gate,
    ) -> Result<Vec<Self>, (usize, SessionError)> {
        let mut sessions = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            sessions.push(Self::with_maps(table, cpus).map_err(|error| (at, error))?);
        }
        for (at, table) in tables.into_iter().enumerate().rev() {
            let attached = Self::load_all(&sessions, gate, table.programs);
            let (programs, attached) = attached.map_err(|error| (at, error))?;
            sessions[at].programs = programs;
            sessions[at].attached = attached;
        }
        Ok(sessions)
    }

    fn with_maps(table: &Start<'_>, cpus: usize) -> Result<Self, SessionError> {
        let first = table.programs.first().map(|(program, _)| *program);
        let program = table.layout.or(first);
        let program = program.ok_or(SessionError::Emit(EmitError::NoPair))?;
        let session = Self {
            maps: maps(&layout(program), table.size, cpus)?,
            kept: program.values.iter().map(|kept| kept.what).collect(),
            stack: stack_offset(program),
            stack_ids: RefCell::default(),
            switches: program.switch.is_some(),
            attached: Vec::new(),
            time: CountedTime::default(),
            programs: Vec::new(),
        };
        session.pause(table.paused)?;
        let count = program.switch.as_ref().and_then(|switch| switch.count);
        if let (Some(count), Some(state)) = (count, session.map(MapUse::Paused)) {
            state.set(0, &count.to_ne_bytes())?;
        }
        Ok(session)
    }

    /// Loads programs, then attaches them.
    fn load_all(
        all: &[Self],
        gate: &Gate,
        programs: Vec<(&Program, Attach<'_>)>,
    ) -> Result<(Vec<LoadedProgram>, Vec<AttachedProgram>), SessionError> {
        let all = all.iter().flat_map(|session| &session.maps);
        let mut maps: Vec<_> = all.map(Option::as_ref).collect();
        maps[MapUse::Gate as usize] = Some(&gate.0);
        let (mut loaded, mut attaches) = (Vec::new(), Vec::new());
        for (program, attach) in programs {
            loaded.push(load(program, &maps)?);
            attaches.push(attach);
        }
        let attached = loaded.iter().zip(attaches);
        let attached = attached.map(|(program, attach)| attach(program).map_err(Into::into));
        let attached = attached.collect::<Result<_, SessionError>>()?;
        Ok((loaded, attached))
    }

    /// Pauses or resumes the table. Does nothing if the programs cannot be paused.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the update.
    pub fn pause(&self, paused: bool) -> Result<(), SessionError> {
        if let (false, Some(state)) = (self.switches, self.map(MapUse::Paused)) {
            state.set(0, &u64::from(paused).to_ne_bytes())?;
        }
        Ok(())
    }

    /// Returns whether the table is paused. Events can also pause it.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the lookup.
    pub fn is_paused(&self) -> Result<bool, SessionError> {
        let Some(state) = self.map(MapUse::Paused).filter(|_| !self.switches) else {
            return Ok(false);
        };
        Ok(state.get(0)?.is_some_and(|state| first_word(&state) != 0))
    }

    /// Removes all rows and resets the dropped counts. This pauses the table for some milliseconds.
    /// Otherwise a running program could write to a row that already belongs to another key.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects an update.
    pub fn clear(&self) -> Result<(), SessionError> {
        let before = self.is_paused()?;
        self.pause(true)?;
        noctule_kernel::wait_for_programs();
        for which in [
            MapUse::Table,
            MapUse::Dropped,
            MapUse::Unkept,
            MapUse::Variables,
        ] {
            if let Some(map) = self.map(which) {
                map.clear()?;
            }
        }
        self.pause(before)
    }

    /// Returns how often the kernel skipped a program because another one was running on the CPU.
    /// The number includes hits that the filter would reject. Available since Linux 6.7.
    pub fn skipped(&self) -> u64 {
        self.programs.iter().map(LoadedProgram::skipped).sum()
    }

    /// Returns whether the map of first events is full, so that the kernel evicts the oldest
    /// entries.
    pub fn evicts_first_events(&self) -> bool {
        let all = FIRSTS as usize;
        let free = FREE_PER_CPU * TraceEvents::possible_cpus();
        let full = all - free.clamp(all / 8, all / 2);
        self.map(MapUse::Firsts)
            .is_some_and(|firsts| firsts.count() >= full)
    }

    /// Detaches the programs one by one. The caller must close the gate first; otherwise the
    /// programs stop counting at different times.
    pub fn stop(&mut self) {
        for mut attached in self.attached.drain(..) {
            self.time += attached.counted_time();
        }
    }

    /// Returns the fraction of time in which the perf events of a stopped table counted. `None`
    /// means all of the time.
    pub fn counted_part(&self) -> Option<f64> {
        self.time.part()
    }

    /// Reads the counts so far. Attached programs continue to count during the read.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects reading a map.
    pub fn read(&self) -> Result<Counted, SessionError> {
        let mut counted = Counted {
            kept: self.kept.clone(),
            ..Counted::default()
        };
        if let Some(table) = self.map(MapUse::Table) {
            for (mut key, per_cpu) in table.per_cpu_entries()? {
                if let Some(at) = self.stack {
                    let mut ids = self.stack_ids.borrow_mut();
                    let stack = replace_stack(&mut key, at, &mut ids);
                    counted.stacks.extend(stack);
                }
                let per_cpu = per_cpu.iter().map(Vec::as_slice);
                let row = Row::merge(key, per_cpu, &self.kept);
                // An array always has its row.
                if row.hits > 0 {
                    counted.rows.push(row);
                }
            }
        }
        for dropped in [MapUse::Dropped, MapUse::Unkept] {
            if let Some(dropped) = self.map(dropped) {
                let entry = dropped
                    .get_per_cpu(&0_u32.to_ne_bytes())?
                    .unwrap_or_default();
                counted.dropped += entry.iter().map(|cpu| first_word(cpu)).sum::<u64>();
            }
        }
        Ok(counted)
    }

    fn map(&self, which: MapUse) -> Option<&PlainMap> {
        self.maps.get(which as usize)?.as_ref()
    }
}

fn first_word(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().copied();
    word.map_or(0, u64::from_ne_bytes)
}

/// Loads a program with these maps. A kernel without atomic exchange rejects it with `INVALID`; the
/// fallback does not use atomics.
fn load(program: &Program, maps: &[Option<&PlainMap>]) -> Result<LoadedProgram, SessionError> {
    const INVALID: i32 = 22;
    let emitted = emit_for(program, true).map_err(SessionError::Emit)?;
    match load_emitted(program, &emitted, maps) {
        Err(SessionError::Refused { errno: INVALID, .. }) if emitted.atomic => {
            let emitted = emit_for(program, false).map_err(SessionError::Emit)?;
            load_emitted(program, &emitted, maps)
        }
        loaded => loaded,
    }
}

fn load_emitted(
    program: &Program,
    emitted: &Emitted,
    maps: &[Option<&PlainMap>],
) -> Result<LoadedProgram, SessionError> {
    // The scratch memory belongs to a single program. A tracepoint's program can interrupt a
    // socket's program, and a file function's program can interrupt itself in another thread. The
    // kernel keeps the maps alive as long as the program.
    let (memory, globs) = (memory(emitted)?, globs(&emitted.globs)?);
    let mut maps = maps.to_vec();
    maps[MapUse::Memory as usize] = memory.as_ref();
    maps[MapUse::Globs as usize] = globs.as_ref();
    let insns: Vec<_> = emitted.code.insns.iter().map(|insn| insn.bytes()).collect();
    let plain = PlainProgram {
        kind: match program.probe {
            Probe::Tracepoint | Probe::Synthetic => PlainProgramKind::Tracepoint,
            Probe::Packet(_) => PlainProgramKind::SocketFilter,
            Probe::PerfEvent => PlainProgramKind::PerfEvent,
            Probe::Function | Probe::FileFunction => PlainProgramKind::Kprobe,
        },
        name: "noctule_hist",
        insns: &insns,
        loads: &emitted.code.maps,
        maps: &maps,
    };
    let refused = |refused| SessionError::refused(refused, &emitted.code);
    plain.load().map_err(refused)
}

/// Returns the size of `rows` rows on `cpus` CPUs in bytes.
pub(crate) fn table_bytes(emitted: &Emitted, rows: u32, cpus: usize) -> usize {
    let row = emitted.key_size + emitted.value_size.saturating_mul(cpus);
    row.saturating_mul(rows as usize)
}

/// Creates the maps that all programs of a table share, by number.
fn maps(emitted: &Emitted, size: u32, cpus: usize) -> Result<Vec<Option<PlainMap>>, SessionError> {
    let is_array = emitted.key_size == 0;
    let entries = if is_array { 1 } else { size };
    let bytes = table_bytes(emitted, entries, cpus);
    if bytes > TABLE_BYTES {
        return Err(SessionError::TooLarge { bytes });
    }
    let mut maps: Vec<Option<PlainMap>> = (0..MAPS).map(|_| None).collect();
    let mut make = |which: MapUse, kind, name, key_size, value_size, entries| {
        let map = PlainMap::create(kind, name, key_size, value_size, entries)?;
        maps[which as usize] = Some(map);
        Ok::<_, Error>(())
    };
    let per_cpu = PlainMapKind::PerCpuArray;
    if is_array {
        make(
            MapUse::Table,
            per_cpu,
            "hist_table",
            4,
            emitted.value_size,
            1,
        )?;
    } else {
        let (key, value) = (emitted.key_size, emitted.value_size);
        make(
            MapUse::Table,
            PlainMapKind::PerCpuHash,
            "hist_table",
            key,
            value,
            entries,
        )?;
        make(MapUse::Zero, PlainMapKind::Array, "hist_zero", 4, value, 1)?;
    }
    make(MapUse::Dropped, per_cpu, "hist_dropped", 4, 8, 1)?;
    let hash = PlainMapKind::Hash;
    if emitted.pair_size > 0 {
        // Some first events never get a second event: a thread that exits never leaves its system
        // call. The map evicts the oldest of these entries.
        let (key, kind) = (emitted.pair_size, PlainMapKind::LruHash);
        make(MapUse::Firsts, kind, "hist_firsts", key, 8, FIRSTS)?;
    }
    if emitted.variables_size > 0 {
        let (key, value) = (emitted.key_size, emitted.variables_size);
        make(
            MapUse::Variables,
            hash,
            "hist_variables",
            key,
            value,
            entries,
        )?;
    }
    if emitted.pair_size > 0 || emitted.variables_size > 0 {
        make(MapUse::Unkept, per_cpu, "hist_unkept", 4, 8, 1)?;
    }
    if emitted.pausable {
        make(MapUse::Paused, PlainMapKind::Array, "hist_paused", 4, 8, 1)?;
    }
    Ok(maps)
}

/// Creates the scratch memory of a program, if it needs any.
fn memory(emitted: &Emitted) -> Result<Option<PlainMap>, Error> {
    if emitted.memory_size == 0 {
        return Ok(None);
    }
    let kind = PlainMapKind::PerCpuArray;
    let (size, count) = (emitted.memory_size, emitted.memories);
    PlainMap::create(kind, "hist_memory", 4, size, count).map(Some)
}

/// Creates the map of glob patterns, if the program has any.
pub(crate) fn globs(globs: &[[u64; 256]]) -> Result<Option<PlainMap>, Error> {
    if globs.is_empty() {
        return Ok(None);
    }
    let count = u32::try_from(globs.len()).unwrap_or(u32::MAX);
    let map = PlainMap::create(PlainMapKind::Array, "hist_globs", 4, 8 * 256, count)?;
    for (index, glob) in (0..).zip(globs) {
        let bytes: Vec<u8> = glob.iter().flat_map(|bits| bits.to_ne_bytes()).collect();
        map.set(index, &bytes)?;
    }
    Ok(Some(map))
}

/// Replaces the addresses of the stack in the key by an id. Returns the id and the addresses, or
/// `None` if the stack is missing.
fn replace_stack(
    key: &mut Vec<u8>,
    at: usize,
    ids: &mut HashMap<Vec<u64>, u64>,
) -> Option<(u64, Vec<u64>)> {
    let begin = at.min(key.len());
    let end = (begin + 8 * FRAMES).min(key.len());
    let words = key[begin..end].as_chunks().0.iter();
    let words = words.map(|word| u64::from_ne_bytes(*word));
    let frames: Vec<u64> = words.take_while(|address| *address != 0).collect();
    let next = ids.len() as u64;
    let number = match frames.is_empty() {
        true => u64::MAX,
        false => *ids.entry(frames.clone()).or_insert(next),
    };
    key.splice(begin..end, number.to_ne_bytes());
    (!frames.is_empty()).then_some((number, frames))
}

/// Returns the offset of the stack's addresses in the key.
fn stack_offset(program: &Program) -> Option<usize> {
    let mut at = 0;
    for part in &program.keys {
        if matches!(part, crate::program::Part::Stack) {
            return Some(at);
        }
        at += part.size();
    }
    None
}

/// Returns the index of the last instruction in the verifier's log: `12: (61) r7 = ...`.
fn last_verified_insn(log: &str) -> Option<usize> {
    let number = |line: &str| {
        line.split_once(": (")
            .and_then(|(at, _)| at.trim().parse().ok())
    };
    log.lines().rev().find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_gets_a_stable_id() {
        let mut numbers = HashMap::new();
        let mut numbered = |frames: &[u64], last: u8| {
            let mut key = vec![7];
            key.extend((0..FRAMES).flat_map(|at| frames.get(at).unwrap_or(&0).to_ne_bytes()));
            key.push(last);
            let stack = replace_stack(&mut key, 1, &mut numbers);
            let number = u64::from_ne_bytes(*key[1..].first_chunk().unwrap());
            assert_eq!((key[0], key[9], key.len()), (7, last, 10));
            assert_eq!(
                stack,
                (!frames.is_empty()).then(|| (number, frames.to_vec()))
            );
            number
        };
        let full: Vec<u64> = (1..=FRAMES as u64).collect();
        let numbers = [&[1, 2][..], &[1, 3], &full, &[1, 2], &[]].map(|f| numbered(f, 3));
        assert_eq!(numbers, [0, 1, 2, 0, u64::MAX]);
    }

    #[test]
    fn finds_the_rejected_instruction_in_the_log() {
        let log = "0: R1=ctx() R10=fp0\n0: (bf) r6 = r1\n; a note\n12: (61) r7 = *(u32 *)(r6 +4)\n\
                   invalid bpf_context access off=4 size=4\nprocessed 13 insns\n";
        assert_eq!(last_verified_insn(log), Some(12));
        assert_eq!(last_verified_insn("no line of this kind"), None);
        let error = Error::new(noctule_kernel::ErrorKind::Kernel, "loading");
        let refused = SessionError::Refused {
            error,
            errno: 13,
            origin: None,
            log: log.to_owned(),
        };
        let words = "loading: invalid bpf_context access off=4 size=4";
        assert_eq!(refused.to_string(), words);
    }
}
