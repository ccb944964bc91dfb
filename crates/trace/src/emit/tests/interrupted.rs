//! Tests a program of a function in a file while the same program interrupts it in another thread.
//! After an interruption at any instruction, the result must equal the result of sequential runs.

use super::evaluate::Table;
use super::machine;
use super::maps::Maps;
use super::random::{self, Maker};
use super::world::{Random, World};
use crate::emit::{EmitError, Emitted, MEMORIES, emit_as};
use crate::probe::Probe;
use crate::program::Program;

/// Number of programs; each handles two events that count in one row or two.
const PROGRAMS: u64 = 200;

/// A number of rows that is large enough for all keys.
const ROOM: usize = 16;

fn generate(seed: u64) -> (Program, Vec<World>) {
    let mut random = Random(seed << 20 | 2);
    let worlds: Vec<_> = (0..2).map(|_| random::world(&mut random, false)).collect();
    let mut maker = Maker {
        random,
        example: &worlds[0],
        wild: false,
    };
    (maker.program(), worlds)
}

/// Compiles for a function, although the fields belong to a record.
fn emit(program: &Program) -> Result<Emitted, EmitError> {
    emit_as(program, true, Probe::FileFunction)
}

/// Returns the table after each possible interruption of the first event by the others.
fn tables(program: &Program, emitted: &Emitted, worlds: &[&World], stride: usize) -> Vec<Table> {
    let mut tables = Vec::new();
    for step in (0..).step_by(stride) {
        let mut maps = Maps::new(emitted, ROOM);
        let ran = machine::interrupted(emitted, worlds, step, &mut maps);
        if !ran.unwrap() {
            break;
        }
        tables.push(maps.table(program));
    }
    tables
}

#[test]
fn a_program_can_interrupt_itself() {
    let (mut hits, mut held) = (0, 0);
    for seed in 0..PROGRAMS {
        let (program, worlds) = generate(seed);
        let Ok(emitted) = emit(&program) else {
            continue;
        };
        let mut expected = Table::new(&program, ROOM);
        for world in &worlds {
            expected.event(&program, world);
        }
        let worlds: Vec<_> = worlds.iter().collect();
        let tables = tables(&program, &emitted, &worlds, 3);
        for (at, table) in tables.iter().enumerate() {
            assert_eq!(*table, expected, "seed {seed}, step {}", 3 * at);
        }
        hits += expected.rows.values().map(|(hits, _)| hits).sum::<u64>();
        held += usize::from(emitted.busy.is_some());
    }
    assert!(hits > PROGRAMS / 2 && held > 50, "{hits} {held}");
}

#[test]
fn nested_runs_without_scratch_memory_are_dropped() {
    let nested = MEMORIES as usize + 1;
    let mut dropped = Vec::new();
    for seed in 0..PROGRAMS / 4 {
        let (mut program, worlds) = generate(seed);
        program.keys.clear();
        let Ok(emitted) = emit(&program) else {
            continue;
        };
        let all = |table: &Table| table.rows[&Vec::new()].0 + table.dropped;
        let passes = tables(&program, &emitted, &[&worlds[0]], 1 << 30);
        if emitted.busy.is_none() || all(&passes[0]) == 0 {
            continue;
        }
        let tables = tables(&program, &emitted, &vec![&worlds[0]; nested], 5);
        for table in &tables {
            assert_eq!(all(table), nested as u64, "seed {seed}");
        }
        dropped.extend(tables.iter().map(|table| table.dropped).max());
    }
    // Some programs are too short to be nested this deeply at the given step.
    assert_eq!(dropped.iter().max(), Some(&1), "{dropped:?}");
}
