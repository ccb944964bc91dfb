//! The instructions against what a program means: each program runs in a strict interpreter of the
//! instructions, and its table must be the evaluator's.

#![allow(clippy::unwrap_used, reason = "clippy takes helpers of tests for code")]

mod cases;
mod classic;
mod evaluate;
mod golden;
mod helpers;
mod machine;
mod maps;
mod packet;
mod random;
mod world;

use self::evaluate::Table;
use self::maps::Maps;
use self::random::Maker;
use self::world::{Random, World};
use super::{EmitError, emit};
use crate::program::Program;

/// Programs of the random test, each with some events.
const PROGRAMS: u64 = 20_000;

/// Runs the events through both; the error says where they differ.
fn compare(program: &Program, worlds: &[World], room: usize) -> Result<Table, String> {
    let emitted = emit(program).map_err(|e| e.to_string())?;
    let mut maps = Maps::new(&emitted, room);
    let mut table = Table::new(program, room);
    for (i, world) in worlds.iter().enumerate() {
        machine::run(&emitted, world, &mut maps).map_err(|e| format!("event {i}: {e}"))?;
        table.event(program, world);
    }
    let got = maps.table(program);
    if got != table {
        return Err(format!("{got:x?}\ninstead of {table:x?}"));
    }
    Ok(table)
}

#[test]
fn random_programs_do_what_they_mean() {
    let (mut hits, mut dropped, mut deep) = (0, 0, 0);
    for seed in 0..PROGRAMS {
        let mut random = Random(seed << 20);
        let worlds: Vec<_> = (0..3).map(|_| random::world(&mut random, true)).collect();
        let example = &worlds[0];
        let mut maker = Maker {
            random,
            example,
            wild: true,
        };
        let program = maker.program();
        if emit(&program) == Err(EmitError::TooDeep) {
            deep += 1;
            continue;
        }
        match compare(&program, &worlds, 2) {
            Ok(table) => {
                hits += table.rows.values().map(|(hits, _)| hits).sum::<u64>();
                dropped += table.dropped;
            }
            Err(fault) => panic!("seed {seed}: {fault}\n{:?}", program.keys),
        }
    }
    // Most events pass their filter, and some programs find their table full.
    assert!(
        hits > PROGRAMS && dropped > PROGRAMS / 10,
        "{hits} {dropped}"
    );
    assert!(deep < PROGRAMS / 50, "{deep}");
}
