//! A tape that was committed is read by every later version.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use noctule_model::{Batch, Counter, Event, EventCounter};

use super::read;
use super::world::World;

const FOLDER: &str = "tests/format-1";
const EXPECTED: &str = "tests/format-1.txt";

/// What is compared: figures that a later model has, too.
fn summary(batches: &[Batch], events: &[Event]) -> String {
    let mut text = String::new();
    for batch in batches {
        let rows = batch.processes.iter().chain(&batch.exited);
        let cpu_ns: u64 = rows.map(|row| row.counters[Counter::CpuTime]).sum();
        let starts = batch.node.events[EventCounter::ProcessStarts];
        let waits: u64 = batch.waits.iter().map(|row| row.histogram.count()).sum();
        let owners = batch.cgroups.iter().filter_map(|row| row.owner.as_ref());
        let paths: Vec<&str> = owners.map(|owner| &*owner.path).collect();
        let absent: Vec<Counter> = Counter::all()
            .filter(|counter| !batch.measured.has(*counter))
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "batch {} at {}: {} processes, {} ended, {cpu_ns}ns, {starts} starts, {waits} waits, \
             {} pairs, {} zones, {} losses, groups {paths:?}, not measured {absent:?}",
            batch.sequence,
            batch.time_unix_ns,
            batch.processes.len(),
            batch.exited.len(),
            batch.blames.len(),
            batch.zone_accounts.len(),
            batch.losses.len(),
        );
    }
    for event in events {
        let pid = event.process.as_ref().map(|process| process.id.pid);
        let _ = writeln!(
            text,
            "event {} at {} of {pid:?}",
            event.what.name(),
            event.time_unix_ns
        );
    }
    text
}

#[test]
fn a_tape_of_this_format_stays_readable() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crate_folder.join(FOLDER);
    let expected = crate_folder.join(EXPECTED);
    if std::env::var_os("NOCTULE_BLESS").is_some() {
        let mut world = World::new(10);
        let ticks: Vec<_> = (0..4).map(|_| world.tick()).collect();
        super::write(&folder, 60, &ticks);
        let (batches, events, _) = read(&folder);
        fs::write(&expected, summary(&batches, &events)).expect("room");
    }
    let (batches, events, damages) = read(&folder);
    assert_eq!(damages, 0);
    let expected = fs::read_to_string(expected).expect("it is committed");
    assert_eq!(summary(&batches, &events), expected);
}
