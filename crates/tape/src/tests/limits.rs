//! A tape keeps to its limits, and has one writer.

use noctule_model::Batch;

use super::world::World;
use super::{options, read};
use crate::folder::Limits;
use crate::tape::Tape;
use crate::writer::Writer;

#[test]
fn the_oldest_segments_go_first() {
    let cases = [
        Limits {
            bytes: Some(60_000),
            age_ns: None,
        },
        Limits {
            bytes: None,
            age_ns: Some(20_000_000_000),
        },
    ];
    for limits in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = Writer::open(options(folder.path(), 5, limits)).expect("a folder");
        let mut world = World::new(9);
        let mut last = 0;
        for _ in 0..100 {
            let (events, batch) = world.tick();
            writer.events(&events);
            writer.batch(&batch).expect("room");
            last = batch.sequence;
        }
        writer.close().expect("room");
        let (batches, _, damages) = read(folder.path());
        assert_eq!(damages, 0);
        assert_eq!(batches.last().map(|batch| batch.sequence), Some(last));
        assert!(
            batches.len() < 60,
            "{limits:?}: {} batches stay",
            batches.len()
        );
        let tape = Tape::open(folder.path()).expect("a tape");
        assert_eq!(tape.spans().len(), 1);
    }
}

#[test]
fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Writer::open(options(folder.path(), 5, Limits::default()));
    let mut first = open().expect("a folder");
    let refused = open().err().expect("it is taken").to_string();
    assert!(refused.contains("another noctule writes"), "{refused}");
    first.batch(&World::new(1).tick().1).expect("room");
    first.close().expect("room");
    // Another run: its counters begin again.
    let mut second = open().expect("it is free again");
    let batch = Batch {
        sequence: 1,
        ..World::new(1).tick().1
    };
    second.batch(&batch).expect("room");
    second.close().expect("room");
    let tape = Tape::open(folder.path()).expect("a tape");
    assert_eq!(tape.segments().len(), 2);
    assert_eq!(tape.spans().len(), 2);
}
