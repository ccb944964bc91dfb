//! A program of a file's function, which the same program of another thread interrupts: after any of its
//! instructions, both count as if one had come after the other.

use super::evaluate::Table;
use super::machine;
use super::maps::Maps;
use super::random::{self, Maker};
use super::world::{Random, World};
use crate::emit::{EmitError, Emitted, MEMORIES, emit_as};
use crate::probe::Probe;
use crate::program::Program;

/// Programs with two events each that count in one row, or in two.
const PROGRAMS: u64 = 200;

/// Rows for all keys.
const ROOM: usize = 16;

fn made(seed: u64) -> (Program, Vec<World>) {
    let mut random = Random(seed << 20 | 2);
    let worlds: Vec<_> = (0..2).map(|_| random::world(&mut random, false)).collect();
    let mut maker = Maker {
        random,
        example: &worlds[0],
        wild: false,
    };
    (maker.program(), worlds)
}

/// The fields stay those of a record.
fn emit(program: &Program) -> Result<Emitted, EmitError> {
    emit_as(program, true, Probe::FileFunction)
}

/// The table after each place at which the first event can be interrupted by the others.
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
fn a_program_can_be_interrupted_by_itself() {
    let (mut hits, mut held) = (0, 0);
    for seed in 0..PROGRAMS {
        let (program, worlds) = made(seed);
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
fn what_finds_no_memory_is_dropped() {
    let nested = MEMORIES as usize + 1;
    let mut dropped = Vec::new();
    for seed in 0..PROGRAMS / 4 {
        let (mut program, worlds) = made(seed);
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
    // Some programs are too short for so many to be under way after as many steps.
    assert_eq!(dropped.iter().max(), Some(&1), "{dropped:?}");
}
