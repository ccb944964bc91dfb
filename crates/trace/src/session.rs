//! A histogram that runs: its maps, its program, and what it has counted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use noctule_kernel::{
    AttachedProgram, CountedTime, Error, LoadedProgram, PlainMap, PlainMapKind, PlainProgram,
    PlainProgramKind, TraceEvents,
};

use crate::emit::{EmitError, Emitted, MAPS, MapUse, emit_for, layout};
use crate::probe::Probe;
#[cfg(doc)]
use crate::program::Pair;
use crate::program::{Aggregate, FRAMES, Program};
use crate::source::Span;
use crate::table::Row;

/// First events that can wait for their second ones.
const FIRSTS: u32 = 65_536;
/// Of a full table of first events the kernel keeps up to so many places free on each CPU.
const FREE_OF_A_CPU: usize = 128;
/// All rows together have so many bytes at most: they are there from the start, on each CPU.
pub(crate) const TABLE_BYTES: usize = 256 << 20;

/// Why a histogram does not run.
#[derive(Debug)]
pub enum SessionError {
    /// No instructions could be made.
    Emit(EmitError),
    /// The kernel refuses a map, the program or to attach it.
    Kernel(Error),
    /// The verifier refuses the program.
    Refused {
        /// What the system said.
        error: Error,
        /// The number of the system's error.
        errno: i32,
        /// What asked for the instruction that was refused, if the log says which one that was.
        origin: Option<Span>,
        /// What the verifier wrote.
        log: String,
    },
    /// The table needs more memory than is taken without being asked.
    TooLarge {
        /// How many bytes all rows would have, on all CPUs.
        bytes: usize,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emit(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Refused { error, log, .. } => {
                // The last line but one says what is wrong; the last ones are figures.
                let figures = |line: &&str| line.starts_with("processed ") || line.is_empty();
                let reason = log.lines().rev().find(|line| !figures(line));
                write!(f, "{error}: {}", reason.unwrap_or("without a word"))
            }
            Self::TooLarge { bytes } => write!(
                f,
                "the table would take {} MiB, and may take {}: choose a smaller size=, or fewer percentiles",
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
            // Its words are those of this one.
            Self::Emit(_) | Self::TooLarge { .. } => None,
        }
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

/// What has been counted up to now.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// A row for each key, in no order. Of a stack the key has the number in eight bytes.
    pub rows: Vec<Row>,
    /// Hits that found no room in the table; variables, too, that found no room.
    pub dropped: u64,
    /// The addresses of each stack that is in a key, by its number; not of the one without any.
    pub stacks: HashMap<u64, Vec<u64>>,
    /// What the rows keep.
    pub kept: Vec<Aggregate>,
}

/// Attaches a loaded program to its event.
pub type Attach<'a> = Box<dyn FnOnce(&LoadedProgram) -> Result<AttachedProgram, Error> + 'a>;

/// Lets the programs of a command count in one and the same window. To attach or detach takes the kernel up to
/// some 70 ms for each event: without a gate the first ones of many events count for longer than the last.
#[derive(Debug)]
pub struct Gate(PlainMap);

impl Gate {
    /// One that is closed.
    ///
    /// # Errors
    ///
    /// The kernel refuses the map.
    pub fn closed() -> Result<Self, Error> {
        PlainMap::create(PlainMapKind::Array, "hist_gate", 4, 8, 1).map(Self)
    }

    /// From now on the programs count, or do not any more.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn open(&self, open: bool) -> Result<(), Error> {
        self.0.set(0, &u64::from(open).to_ne_bytes())
    }
}

/// A table whose programs are attached to their events; detached when it is dropped.
#[derive(Debug)]
pub struct Session {
    maps: Vec<Option<PlainMap>>,
    kept: Vec<Aggregate>,
    /// Where the addresses of a stack lie in the key.
    stack: Option<usize>,
    /// The numbers of stacks, which they keep from one reading to the next.
    numbers: RefCell<HashMap<Vec<u64>, u64>>,
    /// It has no table, and turns others on or off.
    switches: bool,
    attached: Vec<AttachedProgram>,
    /// For how long what was attached counted.
    time: CountedTime,
    programs: Vec<LoadedProgram>,
}

/// A table that is to be started.
pub struct Start<'a> {
    /// The programs that count into it, with what they are attached to. The table has the layout of the
    /// first. Of the two of a [`Pair`] the second comes first, so that no first event misses its second
    /// one.
    pub programs: Vec<(&'a Program, Attach<'a>)>,
    /// The layout, where other programs count into it: it is one of a synthetic event.
    pub layout: Option<&'a Program>,
    /// Entries of the table.
    pub size: u32,
    /// Nothing is counted until [`Session::pause`] says so.
    pub paused: bool,
}

impl Session {
    /// Loads the programs of tables that have to do with each other, and attaches them: the number of a table
    /// is its place here. They are attached from the last to the first, so that no event misses what one
    /// before it leaves for it. `cpus`: how many can be online. `gate`: what the programs that are `gated` ask.
    ///
    /// # Errors
    ///
    /// The number of the table, and why it cannot be started.
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

    /// The table, into which nobody counts yet.
    fn with_maps(table: &Start<'_>, cpus: usize) -> Result<Self, SessionError> {
        let first = table.programs.first().map(|(program, _)| *program);
        let program = table.layout.or(first);
        let program = program.ok_or(SessionError::Emit(EmitError::NoPair))?;
        let session = Self {
            maps: maps(&layout(program), table.size, cpus)?,
            kept: program.values.iter().map(|kept| kept.what).collect(),
            stack: stack_at(program),
            numbers: RefCell::default(),
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

    /// Loads programs, and then attaches them.
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

    /// From now on nothing is counted, or all is again. It does nothing where the programs cannot be
    /// paused.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn pause(&self, paused: bool) -> Result<(), SessionError> {
        if let (false, Some(state)) = (self.switches, self.map(MapUse::Paused)) {
            state.set(0, &u64::from(paused).to_ne_bytes())?;
        }
        Ok(())
    }

    /// Whether nothing is counted at the moment. Events can change it, too.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn is_paused(&self) -> Result<bool, SessionError> {
        let Some(state) = self.map(MapUse::Paused).filter(|_| !self.switches) else {
            return Ok(false);
        };
        Ok(state.get(0)?.is_some_and(|state| first_word(&state) != 0))
    }

    /// Removes all rows, and what was dropped. Nothing is counted meanwhile, for some milliseconds: a
    /// program that has found its row could write to it when it is another's already.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
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

    /// How often the kernel did not run a program because another one ran on that CPU: hits, whether or not
    /// the filter would have held. Counted since Linux 6.7.
    pub fn skipped(&self) -> u64 {
        self.programs.iter().map(LoadedProgram::skipped).sum()
    }

    /// Whether so many first events waited for their second ones that the oldest were forgotten.
    pub fn forgets(&self) -> bool {
        let all = FIRSTS as usize;
        let free = FREE_OF_A_CPU * TraceEvents::possible_cpus();
        let full = all - free.clamp(all / 8, all / 2);
        self.map(MapUse::Firsts)
            .is_some_and(|firsts| firsts.count() >= full)
    }

    /// Detaches the programs, one by one. Those of several events count in one window only if the gate was
    /// closed before.
    pub fn stop(&mut self) {
        for mut attached in self.attached.drain(..) {
            self.time += attached.counted_time();
        }
    }

    /// The part of the time in which the perf events of a table that was stopped counted; `None`: all of it.
    pub fn counted_part(&self) -> Option<f64> {
        self.time.part()
    }

    /// What has been counted up to now. A program that is attached goes on counting meanwhile.
    ///
    /// # Errors
    ///
    /// The kernel refuses to read a map.
    pub fn read(&self) -> Result<Counted, SessionError> {
        let mut counted = Counted {
            kept: self.kept.clone(),
            ..Counted::default()
        };
        if let Some(table) = self.map(MapUse::Table) {
            for (mut key, per_cpu) in table.per_cpu_entries()? {
                if let Some(at) = self.stack {
                    let mut numbers = self.numbers.borrow_mut();
                    let stack = number_stack(&mut key, at, &mut numbers);
                    counted.stacks.extend(stack);
                }
                let per_cpu = per_cpu.iter().map(Vec::as_slice);
                let row = Row::merge(key, per_cpu, &self.kept);
                // An array has its row from the start.
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

/// Loads a program with these maps. `INVALID` is what a kernel without atomic exchange says to it.
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
    // Memory is a program's own: that of a socket can be interrupted by that of a tracepoint, and that of
    // a file's function by itself, in another thread. The kernel keeps the maps as long as the program.
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
    plain.load().map_err(|refused| {
        let origin = refused_at(&refused.log).and_then(|at| *emitted.code.origins.get(at)?);
        SessionError::Refused {
            error: refused.error,
            errno: refused.errno,
            origin,
            log: refused.log,
        }
    })
}

/// Bytes of so many rows on so many CPUs.
pub(crate) fn table_bytes(emitted: &Emitted, rows: u32, cpus: usize) -> usize {
    let row = emitted.key_size + emitted.value_size.saturating_mul(cpus);
    row.saturating_mul(rows as usize)
}

/// The maps that all programs of a table have, in the order of their numbers.
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
        // Some first events never have a second one (a thread that exits never leaves its system call), and the
        // oldest of those make room.
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

/// The memory of a program; `None`: it needs none.
fn memory(emitted: &Emitted) -> Result<Option<PlainMap>, Error> {
    if emitted.memory_size == 0 {
        return Ok(None);
    }
    let kind = PlainMapKind::PerCpuArray;
    let (size, count) = (emitted.memory_size, emitted.memories);
    PlainMap::create(kind, "hist_memory", 4, size, count).map(Some)
}

/// The patterns of a program's filters; `None`: it has none.
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

/// Puts the number of the stack into the key, in place of its addresses from this byte on. The number and
/// the addresses; `None`: there are none, and the number has no stack.
fn number_stack(
    key: &mut Vec<u8>,
    at: usize,
    numbers: &mut HashMap<Vec<u64>, u64>,
) -> Option<(u64, Vec<u64>)> {
    let begin = at.min(key.len());
    let end = (begin + 8 * FRAMES).min(key.len());
    let words = key[begin..end].as_chunks().0.iter();
    let words = words.map(|word| u64::from_ne_bytes(*word));
    let frames: Vec<u64> = words.take_while(|address| *address != 0).collect();
    let next = numbers.len() as u64;
    let number = match frames.is_empty() {
        true => u64::MAX,
        false => *numbers.entry(frames.clone()).or_insert(next),
    };
    key.splice(begin..end, number.to_ne_bytes());
    (!frames.is_empty()).then_some((number, frames))
}

/// Where the addresses of a stack lie in the key.
fn stack_at(program: &Program) -> Option<usize> {
    let mut at = 0;
    for part in &program.keys {
        if matches!(part, crate::program::Part::Stack) {
            return Some(at);
        }
        at += part.size();
    }
    None
}

/// The number of the instruction that the verifier looked at last: `12: (61) r7 = ...`.
pub(crate) fn refused_at(log: &str) -> Option<usize> {
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
    fn each_stack_of_keys_has_its_number() {
        let mut numbers = HashMap::new();
        let mut numbered = |frames: &[u64], last: u8| {
            let mut key = vec![7];
            key.extend((0..FRAMES).flat_map(|at| frames.get(at).unwrap_or(&0).to_ne_bytes()));
            key.push(last);
            let stack = number_stack(&mut key, 1, &mut numbers);
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
    fn the_log_says_which_instruction_was_refused() {
        let log = "0: R1=ctx() R10=fp0\n0: (bf) r6 = r1\n; a note\n12: (61) r7 = *(u32 *)(r6 +4)\n\
                   invalid bpf_context access off=4 size=4\nprocessed 13 insns\n";
        assert_eq!(refused_at(log), Some(12));
        assert_eq!(refused_at("no line of this kind"), None);
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
