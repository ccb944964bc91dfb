//! Files crafted to harm a reader: the checksums match, but the content is invalid.

use std::fs;
use std::path::{Path, PathBuf};

use noctule_analysis::{ReportBuilder, Thresholds};
use noctule_model::{Batch, CgroupId, Level, QuotaRow};

use super::world::{Dice, World};
use super::{read, write};
use crate::index::{self, Chunk, Flush, Line, table_file};
use crate::segment::META;
use crate::tape::Tape;

/// Returns the segments of a recording, each with the content of its index.
fn segments(folder: &Path) -> Vec<(PathBuf, Vec<Flush>)> {
    let paths = crate::folder::segments(folder).expect("a folder");
    let flushes = |path: PathBuf| {
        let text = fs::read_to_string(path.join(index::FILE)).expect("an index");
        let lines = text.lines().map(|line| Line::parse(line).expect("a line"));
        let flushes = lines.filter_map(|line| match line {
            Line::Flush(flush) => Some(flush),
            Line::Closed => None,
        });
        let flushes = flushes.collect();
        (path, flushes)
    };
    paths.into_iter().map(flushes).collect()
}

fn seal(path: &Path, flushes: &[Flush]) {
    let lines = flushes.iter().cloned().map(Line::Flush);
    let text: String = lines.map(|line| line.text()).collect();
    fs::write(path.join(index::FILE), text).expect("room");
}

/// Changes some bytes of a chunk and updates its checksum.
fn forge(path: &Path, chunk: &mut Chunk, dice: &mut Dice) {
    let file = path.join(table_file(&chunk.table));
    let mut bytes = fs::read(&file).expect("a table");
    let (from, length) = (chunk.offset as usize, chunk.length as usize);
    let part = &mut bytes[from..from + length];
    match dice.roll(4) {
        // Overwrites an aligned word with a value that is an invalid length.
        0 => {
            let at = (dice.roll(part.len() as u64 / 8) * 8) as usize;
            let value = [u64::MAX, i64::MAX as u64, 1 << 62, 1 << 40, 0][dice.roll(5) as usize];
            part[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        1 => {
            for _ in 0..1 + dice.roll(20) {
                let at = dice.roll(part.len() as u64) as usize;
                part[at] = dice.roll(256) as u8;
            }
        }
        // Flips a bit in the metadata of the record batch, not in its buffers.
        2 => {
            let at = dice.roll((part.len() as u64).min(400)) as usize;
            part[at] ^= 1 << dice.roll(8);
        }
        _ => {
            let at = dice.roll(part.len() as u64) as usize;
            part[at] ^= 1 << dice.roll(8);
        }
    }
    chunk.checksum = crc32fast::hash(part);
    fs::write(&file, bytes).expect("room");
}

/// Builds every report from the batches, to check that none of them panics or hangs.
fn reports(batches: Vec<Batch>) {
    let mut batches = batches.into_iter();
    let mut builder = ReportBuilder::new(batches.next().expect("a batch"));
    batches.for_each(|batch| builder.add(batch));
    for level in [Level::Process, Level::Container, Level::Cgroup] {
        builder.report(level, false);
        let waits = builder.waits(level, false, &Thresholds::default());
        for row in &waits.rows {
            let drawn: usize = row.bar(24).map(|(_, part)| part).sum();
            assert!(drawn <= 24, "{drawn}");
        }
    }
}

#[test]
fn zone_with_an_invalid_parent_has_none() {
    let mut world = World::new(1);
    let mut all: Vec<_> = (0..6).map(|_| world.tick()).collect();
    for (place, (_, batch)) in all.iter_mut().enumerate() {
        let energy = batch.energy.as_mut().expect("this world has a meter");
        let mut zones = energy.zones.to_vec();
        zones[1].parent = Some([2, 77, usize::MAX][place % 3]);
        energy.zones = zones.into();
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &all);
    let (batches, _, damages) = read(folder.path());
    assert_eq!((batches.len(), damages), (6, 0));
    for batch in &batches {
        let zones = &batch.energy.as_ref().expect("a meter").zones;
        assert_eq!(zones[1].parent, None);
    }
    reports(batches);
}

#[test]
fn impossible_quotas_are_ignored() {
    let mut world = World::new(3);
    let mut all: Vec<_> = (0..4).map(|_| world.tick()).collect();
    let limits = [0.5, f64::NAN, f64::INFINITY, 0.0, -1.0];
    for (place, (_, batch)) in (0..).zip(&mut all) {
        let quotas = (0..).zip(limits).map(|(id, cpus)| QuotaRow {
            cgroup: CgroupId(id),
            path: "/".into(),
            cpus,
            period_ns: u64::MAX,
            periods: u64::MAX - place,
            throttled_periods: u64::MAX,
            throttled_ns: u64::MAX / 2 + place,
            ended: false,
        });
        batch.quotas = quotas.collect();
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &all);
    let (batches, _, damages) = read(folder.path());
    assert_eq!((batches.len(), damages), (4, 0));
    for (batch, (_, written)) in batches.iter().zip(&all) {
        assert_eq!(batch.quotas, written.quotas[..1]);
    }
    reports(batches);
}

#[test]
fn forged_contents_with_valid_checksums_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(91);
    let all: Vec<_> = (0..14).map(|_| world.tick()).collect();
    write(folder.path(), 12, &all);
    let good = segments(folder.path());
    let mut dice = Dice::new(17);
    for round in 0..400 {
        let mut bad = good.clone();
        let segment = dice.roll(bad.len() as u64) as usize;
        let (path, flushes) = &mut bad[segment];
        let flush = dice.roll(flushes.len() as u64) as usize;
        let chunks = &mut flushes[flush].chunks;
        let chunk = dice.roll(chunks.len() as u64) as usize;
        let file = path.join(table_file(&chunks[chunk].table));
        let whole = fs::read(&file).expect("a table");
        forge(path, &mut chunks[chunk], &mut dice);
        seal(path, flushes);
        // Reading terminates, and the other segment is unchanged.
        let (batches, ..) = read(folder.path());
        assert!(!batches.is_empty(), "round {round}");
        reports(batches);
        fs::write(&file, whole).expect("room");
        seal(&good[segment].0, &good[segment].1);
    }
}

#[test]
fn index_naming_foreign_files_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &[World::new(2).tick()]);
    let good = segments(folder.path());
    let (path, flushes) = &good[0];
    let cases: [fn(&mut Flush); 4] = [
        |flush| flush.chunks[0].table = "../../secret".into(),
        |flush| flush.chunks[0].table = "/dev/zero".into(),
        |flush| flush.chunks[0].length = u64::MAX,
        |flush| flush.chunks[0].offset = u64::MAX,
    ];
    for (place, change) in cases.into_iter().enumerate() {
        let mut bad = flushes.clone();
        change(&mut bad[0]);
        seal(path, &bad);
        let (_, _, damages) = read(folder.path());
        assert!(damages > 0, "case {place}");
    }
    // Invalid times. Adding them must not overflow.
    let mut bad = flushes.clone();
    (bad[0].first, bad[0].last, bad[0].ticks) = (u64::MAX, 0, u64::MAX);
    (bad[0].from_unix_ns, bad[0].to_unix_ns) = (u64::MAX, 0);
    bad.push(bad[0].clone());
    seal(path, &bad);
    read(folder.path());
    let tape = Tape::open(folder.path()).expect("a tape");
    tape.spans()
        .iter()
        .for_each(|span| assert!(span.batches() > 0));
    let segment = &tape.segments()[0];
    assert_eq!(segment.batches(), u64::MAX);
    assert!(segment.events().max(segment.bytes()) > 0);
    // A chunk in a sparse file. The chunk is longer than any real chunk.
    let mut bad = flushes.clone();
    let chunk = &mut bad[0].chunks[0];
    let file = path.join(table_file(&chunk.table));
    let file = fs::File::options().write(true).open(file).expect("a table");
    file.set_len(1 << 40).expect("holes");
    chunk.length = 1 << 39;
    seal(path, &bad);
    let (_, _, damages) = read(folder.path());
    assert!(damages > 0);
}

#[test]
fn overlong_description_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 12, &[World::new(2).tick()]);
    let (path, _) = &segments(folder.path())[0];
    let meta = path.join(META);
    let long = "x".repeat(257);
    let cases = [
        (
            format!("{{\"format\":1,\"host\":\"{}\"}}", &long[1..]),
            false,
        ),
        (format!("{{\"format\":1,\"host\":\"{long}\"}}"), true),
        (format!("{{\"format\":1,\"run\":\"{long}\"}}"), true),
        (format!("{{\"format\":2,\"version\":\"{long}\"}}"), true),
    ];
    for (text, is_damaged) in cases {
        fs::write(&meta, &text).expect("room");
        let tape = Tape::open(folder.path()).expect("a tape");
        assert_eq!(tape.damages().next().is_some(), is_damaged, "{text}");
        let said = tape.damages().map(ToString::to_string).collect::<String>();
        assert!(!said.contains(&long), "{said}");
    }
    // A huge file must not use memory.
    let file = fs::File::create(&meta).expect("room");
    file.set_len(1 << 40).expect("a sparse file");
    let tape = Tape::open(folder.path()).expect("a tape");
    assert!(tape.damages().next().is_some());
}
