//! Tests truncated and corrupted files.

use std::fs;
use std::path::{Path, PathBuf};

use super::world::{Dice, World};
use super::{options, read, words, write};
use crate::folder::Limits;
use crate::index::{Chunk, Flush, table_file};
use crate::message::{self, END};
use crate::segment::{META, Segment};
use crate::tape::Tape;
use crate::writer::Writer;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for segment in crate::folder::segments(folder).expect("a folder") {
        let files = fs::read_dir(segment).expect("a segment");
        found.extend(files.map(|file| file.expect("a file").path()));
    }
    found.sort();
    found
}

/// Damages a recording in many ways. Reading must not panic, no batch may differ from the original,
/// and all batches before the damage must be returned.
#[test]
fn a_damaged_recording_yields_no_wrong_rows() {
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
        // At most one segment is lost, and its damage is reported.
        assert!(
            found.len() + 13 >= whole.len(),
            "{place}: {} batches",
            found.len()
        );
        if found.len() < whole.len() {
            assert!(damages > 0, "{place}");
        }
        fs::write(file, good).expect("room");
    }
}

#[test]
fn a_folder_without_a_recording_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Tape::open(folder.path()).expect_err("nothing is there");
    assert!(error.to_string().contains("no recording"), "{error}");
    Tape::open(&folder.path().join("none")).expect_err("no folder");
}

/// Returns the damage reported after `harm` changed one of three segments.
fn damage_after(segment: usize, harm: &dyn Fn(&Path)) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(8);
    let all: Vec<_> = (0..30).map(|_| world.tick()).collect();
    write(folder.path(), 12, &all);
    let segments = crate::folder::segments(folder.path()).expect("a folder");
    assert_eq!(segments.len(), 3);
    harm(&segments[segment]);
    let tape = Tape::open(folder.path()).expect("a tape");
    tape.damages().map(ToString::to_string).collect()
}

/// Changes the index of a segment.
fn index(change: impl Fn(&mut Vec<u8>)) -> impl Fn(&Path) {
    move |segment| {
        let path = segment.join(crate::index::FILE);
        let mut bytes = fs::read(&path).expect("an index");
        change(&mut bytes);
        fs::write(&path, bytes).expect("room");
    }
}

#[test]
fn lost_or_truncated_index_is_reported() {
    let remove = |name: &'static str| {
        move |segment: &Path| {
            fs::remove_file(segment.join(name)).expect("a file");
        }
    };
    let pipe = |name: &'static str| {
        move |segment: &Path| {
            remove(name)(segment);
            let path = segment.join(name);
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .expect("a pipe");
        }
    };
    let cut = index(|bytes| bytes.truncate(bytes.len() - 3));
    let begun = index(|bytes| bytes.extend_from_slice(b"rows 12 13"));
    let zeros = index(|bytes| bytes.extend_from_slice(&[0; 300]));
    let long = index(|bytes| bytes.extend(std::iter::repeat_n(b'x', 100_000)));
    type Case<'a> = (usize, &'a dyn Fn(&Path), Option<&'a str>);
    let cases: [Case<'_>; 11] = [
        (0, &remove("index"), Some("the file is missing")),
        (2, &remove("index"), Some("the file is missing")),
        (0, &remove("meta.json"), Some("No such file")),
        (0, &cut, Some("the last line is incomplete")),
        (1, &begun, Some("the last line is incomplete")),
        // The recorder may still be writing the line.
        (2, &begun, None),
        (2, &zeros, Some("not a valid line of the index")),
        (2, &long, Some("not a valid line of the index")),
        (1, &pipe("index"), Some("not a regular file")),
        (1, &pipe("meta.json"), Some("not a regular file")),
        (2, &|_: &Path| {}, None),
    ];
    for (case, (segment, harm, expected)) in cases.into_iter().enumerate() {
        let said = damage_after(segment, harm);
        assert_eq!(said.len(), expected.iter().count(), "case {case}: {said:?}");
        let is_said = |words: &str| said[0].contains(words);
        assert!(expected.is_none_or(is_said), "case {case}: {said:?}");
    }
}

/// Cuts whole lines from the end of an index. The last line marks the segment as closed.
fn lines_cut(lines: usize) -> impl Fn(&Path) {
    index(move |bytes| {
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n');
        let mut begins: Vec<usize> = ends.map(|end| end + 1).collect();
        begins.insert(0, 0);
        assert!(begins.len() > lines, "{} lines", begins.len() - 1);
        bytes.truncate(begins[begins.len() - 1 - lines]);
    })
}

/// Makes a segment look as if the writer was killed: the tables have no end-of-stream marker.
fn killed(segment: &Path) {
    lines_cut(1)(segment);
    let tables = fs::read_dir(segment).expect("a segment");
    for table in tables.map(|file| file.expect("a file").path()) {
        if table.extension().is_some_and(|it| it == "arrows") {
            let bytes = fs::read(&table).expect("a table");
            let rows = bytes.strip_suffix(END).expect("an end");
            fs::write(&table, rows).expect("room");
        }
    }
}

#[test]
fn index_cut_between_lines_is_reported() {
    let both = |first: &'static dyn Fn(&Path), lines: usize| {
        move |segment: &Path| {
            first(segment);
            lines_cut(lines)(segment);
        }
    };
    const MISSING: Option<&str> = Some("lines are missing at the end");
    const LAST: Option<&str> = Some("the line for the last write is missing");
    type Case<'a> = (usize, &'a dyn Fn(&Path), Option<&'a str>);
    let cases: [Case<'_>; 11] = [
        // Without the last line, the index still lists all data.
        (0, &lines_cut(1), None),
        (2, &lines_cut(1), None),
        (0, &lines_cut(2), MISSING),
        (2, &lines_cut(2), MISSING),
        // All lines are cut.
        (2, &index(Vec::clear), MISSING),
        (1, &index(|bytes| bytes.truncate(10)), MISSING),
        (0, &killed, None),
        (0, &both(&killed, 1), LAST),
        // The recorder may still be writing the line.
        (2, &both(&killed, 1), None),
        (1, &foreign_rows, MISSING),
        (2, &foreign_rows, MISSING),
    ];
    for (case, (segment, harm, expected)) in cases.into_iter().enumerate() {
        let said = damage_after(segment, harm);
        assert_eq!(said.len(), expected.iter().count(), "case {case}: {said:?}");
        let is_said = |words: &str| said[0].contains(words);
        assert!(expected.is_none_or(is_said), "case {case}: {said:?}");
    }
}

/// Makes a table longer than its written data, as after a power failure.
fn foreign_rows(segment: &Path) {
    killed(segment);
    let path = segment.join(table_file("node"));
    let mut bytes = fs::read(&path).expect("a table");
    bytes.extend([0; 500]);
    fs::write(&path, bytes).expect("room");
}

#[test]
fn missing_lines_of_a_killed_run_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits::default();
    let mut writer = Writer::open(options(folder.path(), 300, limits)).expect("a folder");
    let mut world = World::new(8);
    for _ in 0..45 {
        writer.batch(&world.tick().1).expect("room");
        // The recording is read while it is written.
        let (batches, _, damages) = read_if_begun(folder.path());
        assert_eq!(damages, 0, "{batches}");
    }
    drop(writer);
    let segment = crate::folder::segments(folder.path())
        .expect("a folder")
        .remove(0);
    let file = segment.join(crate::index::FILE);
    let whole = fs::read_to_string(&file).expect("an index");
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let all = lines.len();
    assert!(all > 4);
    // If only the last line is missing, it may never have been written.
    for (kept, expected) in [(all, 0), (all - 1, 0), (all - 2, 1), (1, 1), (0, 1)] {
        fs::write(&file, lines[..kept].concat()).expect("room");
        let (batches, _, damages) = read_if_begun(folder.path());
        assert_eq!(damages, expected, "{kept} lines: {batches} batches");
    }
}

/// Counts batches, events and damage of a recording. Returns zeros if nothing was written.
fn read_if_begun(folder: &Path) -> (usize, usize, usize) {
    match crate::folder::segments(folder)
        .expect("a folder")
        .is_empty()
    {
        true => (0, 0, 0),
        false => {
            let (batches, events, damages) = read(folder);
            (batches.len(), events.len(), damages)
        }
    }
}

/// Shows why a missing index line cannot be reconstructed from the rows: only the index has
/// checksums. Arrow messages and the zstd frames inside them are without a checksum.
#[test]
fn only_the_index_has_checksums_of_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(5);
    let all: Vec<_> = (0..9).map(|_| world.tick()).collect();
    write(folder.path(), 300, &all);
    let tape = Tape::open(folder.path()).expect("a tape");
    let segment = &tape.segments()[0];
    let chunks = &segment.flushes()[0].chunks;
    let of = |schema| {
        chunks
            .iter()
            .find(|it| it.table == "node" && it.schema == schema)
    };
    let file = fs::read(segment.path().join(table_file("node"))).expect("a table");
    let bytes = |chunk: Option<&Chunk>| {
        let chunk = chunk.expect("it was written");
        file[chunk.offset as usize..][..chunk.length as usize].to_vec()
    };
    let schema = message::schema(&bytes(of(true))).expect("a schema");
    let good = bytes(of(false));
    let rows = |bytes: &[u8]| message::record_batch(bytes, schema.clone()).ok();
    let whole = rows(&good);
    let changed = (1..=good.len() / 2).filter(|back| {
        let mut bad = good.clone();
        bad[good.len() - back] ^= 1;
        message::check(&bad).is_ok() && rows(&bad).is_some_and(|it| Some(it) != whole)
    });
    assert!(changed.count() > 100, "they are decoded, as other rows");
}

#[test]
fn empty_segment_is_not_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &[World::new(8).tick()]);
    fs::create_dir(folder.path().join("00000002-20261124T031000Z")).expect("a folder");
    let begun = folder.path().join("00000003-20261124T031000Z");
    fs::create_dir(&begun).expect("a folder");
    fs::write(begun.join("index"), "").expect("room");
    assert_eq!(read(folder.path()).2, 0);
}

#[test]
fn changed_description_is_reported_as_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &[World::new(8).tick()]);
    let segment = crate::folder::segments(folder.path())
        .expect("a folder")
        .remove(0);
    let file = segment.join(META);
    let good = fs::read(&file).expect("a description");
    let read = || {
        let segment = Segment::open(&segment).expect("a segment");
        (segment.meta().clone(), segment.damages().to_vec())
    };
    let (whole, damages) = read();
    assert_eq!(damages, []);
    assert_eq!(whole.command, ["make", "a b"]);
    let mut said = 0;
    for at in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[at / 8] ^= 1 << (at % 8);
        fs::write(&file, &bad).expect("room");
        let (meta, damages) = read();
        let text = String::from_utf8_lossy(&bad);
        assert!(meta == whole || !damages.is_empty(), "{text}");
        said += damages
            .iter()
            .filter(|it| it.reason.contains("checksum"))
            .count();
    }
    assert!(said > 100, "{said}: most of what is still JSON");
    // The description as earlier versions wrote it.
    let text = String::from_utf8(good).expect("text");
    let (before, _) = text.rsplit_once(",\"checksum\"").expect("a checksum");
    fs::write(&file, format!("{before}}}\n")).expect("room");
    assert_eq!(read(), (whole, Vec::new()));
}

/// Changes a byte of a table in the last flush of a segment. Returns the numbers of the first and
/// the last batch in that flush.
fn damage_end(tape: &Tape, segment: usize, table: &str) -> (u64, u64) {
    let segment = &tape.segments()[segment];
    let flush = segment.flushes().iter().rfind(|it| it.ticks > 0);
    let flush = flush.expect("batches");
    assert!(damage(segment, flush, table), "rows");
    (flush.first, flush.last)
}

/// Changes a byte of a table in every flush of a segment.
fn damage_all(tape: &Tape, segment: usize, table: &str) {
    let segment = &tape.segments()[segment];
    for flush in segment.flushes() {
        damage(segment, flush, table);
    }
}

/// Changes a byte of a table's rows. Returns whether the table has rows in this flush.
fn damage(segment: &Segment, flush: &Flush, table: &str) -> bool {
    let mut chunks = flush.chunks.iter();
    let Some(chunk) = chunks.find(|it| it.table == table && !it.schema) else {
        return false;
    };
    let file = segment.path().join(table_file(table));
    let mut bytes = fs::read(&file).expect("a table");
    bytes[chunk.offset as usize] ^= 1;
    fs::write(&file, bytes).expect("room");
    true
}

#[test]
fn damaged_place_falls_back_to_the_one_before() {
    let mut world = World::new(5);
    let mut all: Vec<_> = (0..99).map(|_| world.tick()).collect();
    for (number, (_, batch)) in (1..).zip(&mut all) {
        batch.sequence = number;
    }
    let cases = [
        ("node", 300, 0),
        ("groups", 300, 0),
        ("groups", 40, 1),
        ("node", 8, 5),
    ];
    for (table, segment_s, segment) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), segment_s, &all);
        let tape = Tape::open(folder.path()).expect("a tape");
        let (first, last) = damage_end(&tape, segment, table);
        let span = tape.spans()[0];
        let case = format!("{table} of {segment_s} s, {first} to {last}");
        for number in first..=last {
            let mut batches = tape.batches_from(&span, number);
            let found = batches.next().expect("a batch").sequence;
            assert_eq!(found, first - 1, "{case}: {number}");
            // After the damage, reading continues with the next segment.
            let next = batches.next().map(|batch| batch.sequence);
            let expected = tape.segments().get(segment + 1);
            let expected = expected
                .and_then(|it| it.flushes().first())
                .map(|it| it.first);
            assert_eq!(next, expected, "{case}: {number}");
            assert!(!batches.damages().is_empty(), "{case}: {number}");
        }
        let time = |number: u64| all[number as usize - 1].1.time_unix_ns;
        let number_at = |number| tape.number_at(&span, time(number));
        assert_eq!(number_at(first - 1), Some(first - 1), "{case}");
        assert_eq!(number_at(last), Some(last), "{case}");
        let between = if table == "node" { first } else { first + 1 };
        assert_eq!(number_at(first + 1), Some(between), "{case}");
    }
}

#[test]
fn reading_starts_after_damage_if_nothing_precedes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(6);
    let all: Vec<_> = (0..30).map(|_| world.tick()).collect();
    write(folder.path(), 8, &all);
    let tape = Tape::open(folder.path()).expect("a tape");
    let span = tape.spans()[0];
    damage_all(&tape, 0, "pairs");
    damage_all(&tape, 1, "node");
    let first = tape.segments()[2].flushes()[0].first;
    for (_, batch) in &all[..12] {
        let found = tape.batches_from(&span, batch.sequence).next();
        assert_eq!(found.map(|it| it.sequence), Some(first));
    }
}
