//! Tests that recordings of every earlier format, which are committed, can still be read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use noctule_model::{Batch, Counter, Event, EventCounter};

use super::read;
use super::round_trip::spread;
use super::world::World;
use crate::segment::FORMAT;
use crate::tape::Tape;

/// All formats so far.
const FORMATS: [u32; 3] = [1, 2, 3];

/// Returns the compared values as text: values that later versions of the model also contain.
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

/// Writes a recording of the newest format, long enough for a second full write after a minute.
fn add(folder: &Path, expected: &Path) {
    let mut world = World::new(10);
    let mut ticks: Vec<_> = (0..5).map(|_| world.tick()).collect();
    spread(&mut ticks, 20);
    super::write(folder, 300, &ticks);
    let (batches, events, _) = read(folder);
    fs::write(expected, summary(&batches, &events)).expect("room");
}

#[test]
fn a_tape_of_each_format_stays_readable() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    assert_eq!(FORMATS.last(), Some(&FORMAT));
    for format in FORMATS {
        let folder = tests.join(format!("format-{format}"));
        let expected = tests.join(format!("format-{format}.txt"));
        // An existing recording is never rewritten, because it would no longer be in its old
        // format.
        if std::env::var_os("NOCTULE_BLESS").is_some() && !folder.exists() {
            add(&folder, &expected);
        }
        let tape = Tape::open(&folder).expect("it is committed");
        let formats = tape.segments().iter().map(|segment| segment.meta().format);
        assert!(formats.eq([format]), "{format}");
        let (batches, events, damages) = read(&folder);
        assert_eq!(damages, 0);
        let expected = fs::read_to_string(expected).expect("it is committed");
        assert_eq!(summary(&batches, &events), expected);
    }
}
