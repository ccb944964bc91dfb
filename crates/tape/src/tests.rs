//! Tests that recordings are read back unchanged, and that damage is reported.

mod committed;
mod damage;
mod export;
mod hostile;
mod killed;
mod limits;
mod removed;
mod round_trip;
mod stretches;
mod world;

use std::path::Path;

use noctule_model::{Batch, Event};

use crate::folder::Limits;
use crate::segment::Meta;
use crate::tape::Tape;
use crate::writer::{Options, Writer};

fn options(folder: &Path, segment_s: u64, limits: Limits) -> Options {
    Options {
        folder: folder.to_owned(),
        segment_ns: segment_s * 1_000_000_000,
        limits,
        meta: Meta {
            run: "one".into(),
            host: "h\u{e9}".into(),
            command: vec!["make".into(), "a b".into()],
            ..Meta::default()
        },
        on_thread: || {},
    }
}

/// Writes a recording of batches, each with the events before it.
fn write(folder: &Path, segment_s: u64, ticks: &[(Vec<Event>, Batch)]) {
    let options = options(folder, segment_s, Limits::default());
    let mut writer = Writer::open(options).expect("a folder");
    for (events, batch) in ticks {
        writer.events(events);
        writer.batch(batch).expect("room on the disk");
    }
    writer.close().expect("room on the disk");
}

/// Formats batches; equal strings mean equal batches.
fn words(batches: impl Iterator<Item = Batch>) -> Vec<String> {
    batches.map(|batch| format!("{batch:#?}")).collect()
}

/// Reads all batches and events of a recording, and counts its damage.
fn read(folder: &Path) -> (Vec<Batch>, Vec<Event>, usize) {
    let tape = Tape::open(folder).expect("a tape");
    let mut damages = tape.damages().count();
    let mut all = Vec::new();
    let mut found = Vec::new();
    for span in tape.spans() {
        let mut batches = tape.batches(&span, 0);
        all.extend(&mut batches);
        damages += batches.damages().len();
        let mut events = tape.events(&span, 0, u64::MAX);
        found.extend(&mut events);
        damages += events.damages().len();
    }
    (all, found, damages)
}
