//! Files that are cut off, or in which something else stands.

use std::fs;
use std::path::{Path, PathBuf};

use super::world::{Dice, World};
use super::{read, words, write};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for segment in crate::folder::segments(folder).expect("a folder") {
        let files = fs::read_dir(segment).expect("a segment");
        found.extend(files.map(|file| file.expect("a file").path()));
    }
    found.sort();
    found
}

/// Damages a tape in many ways. Nothing panics, no batch is another than it was, and those before the
/// damage are there.
#[test]
fn what_is_read_of_a_damaged_tape_is_true() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(77);
    let all: Vec<_> = (0..35).map(|_| world.tick()).collect();
    write(folder.path(), 12, &all);
    let whole = words(all.iter().map(|tick| tick.1.clone()));
    let mut dice = Dice::new(3);
    let files = files(folder.path());
    for round in 0..120 {
        let file = &files[dice.roll(files.len() as u64) as usize];
        let good = fs::read(file).expect("a file");
        let mut bad = good.clone();
        let at = dice.roll(bad.len() as u64) as usize;
        match round % 3 {
            0 => bad.truncate(at),
            1 => bad[at] ^= 1 << dice.roll(8),
            _ => bad.splice(at..at, [7; 3]).for_each(drop),
        }
        fs::write(file, &bad).expect("room");
        let (batches, events, damages) = read(folder.path());
        let place = format!("{} at {at}, round {round}", file.display());
        let found = words(batches.into_iter());
        assert!(found.iter().all(|batch| whole.contains(batch)), "{place}");
        let expected = all.iter().flat_map(|tick| &tick.0);
        assert!(
            events
                .iter()
                .all(|event| expected.clone().any(|e| e == event)),
            "{place}"
        );
        // A whole segment at most is lost, and that is said.
        assert!(
            found.len() + 13 >= whole.len(),
            "{place}: {} batches",
            found.len()
        );
        let is_index_end = file.ends_with("index") && round % 3 == 0;
        if found.len() < whole.len() && !is_index_end {
            assert!(damages > 0, "{place}");
        }
        fs::write(file, good).expect("room");
    }
}

#[test]
fn a_folder_without_a_recording_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = crate::tape::Tape::open(folder.path()).expect_err("nothing is there");
    assert!(error.to_string().contains("no recording"), "{error}");
    crate::tape::Tape::open(&folder.path().join("none")).expect_err("no folder");
}
