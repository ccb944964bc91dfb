//! Tests the compiled instructions against the meaning of a program. Each program runs in a strict
//! interpreter of BPF, and its table must equal the table of a reference evaluator.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not recognize test helpers as tests"
)]

mod cases;
mod classic;
mod evaluate;
mod golden;
mod helpers;
mod interrupted;
mod machine;
mod maps;
mod packet;
mod random;
mod world;

use self::evaluate::{Table, Waiting};
use self::maps::Maps;
use self::random::Maker;
use self::world::{Random, World};
use super::{EmitError, emit};
use crate::program::Program;

/// Number of programs in the random test; each program handles several events.
const PROGRAMS: u64 = 20_000;

/// Runs the events through the interpreter and the evaluator, and describes the first difference.
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
fn random_programs_match_the_evaluator() {
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
    // Most events pass their filter, and some programs fill their table.
    assert!(
        hits > PROGRAMS && dropped > PROGRAMS / 10,
        "{hits} {dropped}"
    );
    assert!(deep < PROGRAMS / 50, "{deep}");
}

/// Runs the first and second events of a pair in random order, with room for two waiting keys.
#[test]
fn random_event_pairs_match_the_evaluator() {
    let (mut hits, mut unkept) = (0, 0);
    for seed in 0..PROGRAMS / 4 {
        let mut random = Random(seed << 20 | 1);
        let worlds: Vec<_> = (0..3).map(|_| random::world(&mut random, true)).collect();
        let mut maker = Maker {
            random,
            example: &worlds[0],
            wild: true,
        };
        let programs = maker.pair_of_programs();
        let mut order = maker.random;
        let emitted = programs.each_ref().map(emit);
        let [Ok(first), Ok(second)] = &emitted else {
            continue;
        };
        let mut maps = Maps::new(second, 2);
        let (mut table, mut waiting) = (Table::new(&programs[1], 2), Waiting::default());
        for step in 0..12 {
            let world = order.one_of(&[0, 1, 2]);
            let mut world = worlds[world].clone();
            world.time = step << 50;
            let which = usize::from(order.once_in(2));
            let code = if which == 0 { first } else { second };
            let ran = machine::run(code, &world, &mut maps);
            assert_eq!(ran, Ok(()), "seed {seed}: {programs:?}");
            waiting.event(&programs[which], &world, &mut table);
        }
        assert_eq!(maps.table(&programs[1]), table, "seed {seed}: {programs:?}");
        assert_eq!(maps.unkept(), waiting.unkept, "seed {seed}");
        hits += table.rows.values().map(|(hits, _)| hits).sum::<u64>();
        unkept += waiting.unkept;
    }
    assert!(hits > PROGRAMS / 4 && unkept > 100, "{hits} {unkept}");
}
