//! Tests segments that are removed while a recording is read.

use std::fs;
use std::path::Path;

use noctule_model::{Batch, Event};

use super::world::World;
use super::{words, write};
use crate::error::Damage;
use crate::folder::{self, Folder};
use crate::stretch::Stretch;
use crate::tape::Tape;

/// Writes a recording of three segments.
fn recorded(folder: &Path) -> Vec<(Vec<Event>, Batch)> {
    let mut world = World::new(8);
    let all: Vec<_> = (0..30).map(|_| world.tick()).collect();
    write(folder, 12, &all);
    all
}

/// Removes the oldest segments, as a writer does.
fn remove(folder: &Path, segments: usize) {
    let mut folder = Folder::lock(folder).expect("nobody writes");
    for _ in 0..segments {
        assert!(folder.remove_oldest(None).expect("our folder"));
    }
}

/// Returns the expected messages for the first segments of a recording.
fn expected_damage(tape: &Tape, segments: usize) -> Vec<String> {
    let paths = tape.segments()[..segments].iter();
    let words = "was removed while the recording was read, so its data is missing";
    paths
        .map(|segment| format!("{} {words}", segment.path().display()))
        .collect()
}

fn text(damages: &[Damage]) -> Vec<String> {
    damages.iter().map(ToString::to_string).collect()
}

#[test]
fn segment_removed_while_read_is_a_named_gap() {
    for segments in 1..=2 {
        let folder = tempfile::tempdir().expect("a folder");
        let all = recorded(folder.path());
        let tape = Tape::open(folder.path()).expect("a tape");
        let [span] = tape.spans()[..] else {
            panic!("one run: {:?}", tape.spans());
        };
        let first = tape.segments()[segments].flushes()[0].first;
        let rest = || all.iter().filter(|(_, batch)| batch.sequence >= first);
        let expected = words(rest().map(|(_, batch)| batch.clone()));
        remove(folder.path(), segments);
        let said = expected_damage(&tape, segments);
        let whole = Stretch::whole(span);
        let mut batches = whole.batches(&tape);
        assert_eq!(words(&mut batches), expected);
        assert_eq!(text(batches.damages()), said);
        // A part that starts in a removed segment.
        let length = tape.length_ns(&span).expect("what is left has clocks");
        let part = tape.part(&span, span.from_unix_ns, length + 30_000_000_000);
        let mut batches = part.batches(&tape);
        assert_eq!(words(&mut batches), expected);
        assert_eq!(text(batches.damages()), said);
        let mut report = whole.batches(&tape);
        let last = std::iter::from_fn(|| report.next_for_report()).last();
        assert_eq!(
            last.map(|it| it.sequence),
            all.last().map(|it| it.1.sequence)
        );
        assert_eq!(text(report.damages()), said);
        let mut events = whole.events(&tape);
        let found = (&mut events).count();
        assert!(found > 0 && found < all.iter().map(|tick| tick.0.len()).sum());
        assert_eq!(text(events.damages()), said);
        assert_eq!(text(&tape.check()), said);
    }
}

#[test]
fn segment_removed_before_its_index_is_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path());
    let paths = folder::segments(folder.path()).expect("a folder");
    let before = Tape::open(folder.path()).expect("a tape");
    remove(folder.path(), 2);
    let tape = Tape::of(&paths).expect("the others");
    let damages: Vec<_> = tape.damages().cloned().collect();
    assert_eq!(text(&damages), expected_damage(&before, 2));
    assert_eq!(text(&tape.check()), expected_damage(&before, 2));
    let [span] = tape.spans()[..] else {
        panic!("one is left: {:?}", tape.spans());
    };
    let mut batches = tape.batches(&span, 0);
    assert_eq!(
        batches.by_ref().count() as u64,
        tape.segments()[2].batches()
    );
    assert_eq!(batches.damages(), []);
}

/// A writer that is killed during a removal leaves some files of the segment, which readers ignore.
#[test]
fn interrupted_removal_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = folder.path().join(folder::REMOVING);
    let leave = || {
        recorded(folder.path());
        let oldest = folder::segments(folder.path()).expect("a folder").remove(0);
        fs::rename(oldest, &rest).expect("our folder");
        let tape = Tape::open(folder.path()).expect("a tape");
        assert_eq!(tape.check(), []);
    };
    leave();
    let mut writer = Folder::lock(folder.path()).expect("nobody writes");
    assert!(!rest.exists(), "a writer that begins");
    drop(writer);
    leave();
    writer = Folder::lock(folder.path()).expect("nobody writes");
    fs::create_dir(&rest).expect("our folder");
    fs::write(rest.join("index"), "").expect("room");
    assert!(writer.remove_oldest(None).expect("our folder"));
    assert!(!rest.exists(), "the next removal");
}
