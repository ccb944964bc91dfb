//! Tests that a recording stays within its limits and has only one writer.

use noctule_model::Batch;

use super::world::World;
use super::{options, read, words, write};
use crate::folder::{self, Limits};
use crate::stretch::Stretch;
use crate::tape::Tape;
use crate::writer::Writer;

#[test]
fn oldest_segments_are_removed_first() {
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
fn long_segment_stays_within_the_byte_limit() {
    const MOST: u64 = 600_000;
    let limits = Limits {
        bytes: Some(MOST),
        age_ns: None,
    };
    let folder = tempfile::tempdir().expect("a folder");
    // No segment ends because of its duration.
    let mut writer = Writer::open(options(folder.path(), 3600, limits)).expect("a folder");
    let mut world = World::new(9);
    let (mut before, mut largest, mut last) = (0, 0, 0);
    for _ in 0..200 {
        let (events, batch) = world.tick();
        writer.events(&events);
        writer.batch(&batch).expect("room");
        last = batch.sequence;
        let segments = folder::segments(folder.path()).expect("a folder");
        let sizes: Vec<u64> = segments.iter().map(|it| folder::size(it)).collect();
        let total = sizes.iter().sum::<u64>();
        // The limit can be exceeded by one flush.
        largest = largest.max(total.saturating_sub(before));
        assert!(total <= MOST + largest, "{sizes:?} at {last}");
        let longest = sizes.iter().max().copied().unwrap_or(0);
        assert!(longest <= MOST / 4 + largest, "{sizes:?} at {last}");
        before = total;
    }
    assert!(
        largest > 0 && largest < MOST / 4,
        "{largest}: a world that fits"
    );
    writer.close().expect("room");
    let (batches, _, damages) = read(folder.path());
    assert_eq!(damages, 0);
    assert_eq!(batches.last().map(|batch| batch.sequence), Some(last));
    let tape = Tape::open(folder.path()).expect("a tape");
    assert!(tape.segments().len() > 2, "the rest is not lost with one");
    let [span] = tape.spans()[..] else {
        panic!("one run: {:?}", tape.spans());
    };
    // No batch is missing between two segments.
    let recorded = world_of(9, 200).into_iter();
    let kept = recorded.filter(|batch| span.has(batch.time_unix_ns));
    assert_eq!(words(batches.into_iter()), words(kept));
}

/// A single flush may be larger than the limit.
#[test]
fn too_small_limit_is_exceeded_by_one_segment() {
    let limits = Limits {
        bytes: Some(1),
        age_ns: None,
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(options(folder.path(), 3600, limits)).expect("a folder");
    for batch in world_of(9, 60) {
        writer.batch(&batch).expect("room");
        let segments = folder::segments(folder.path()).expect("a folder");
        assert!(segments.len() <= 1, "{segments:?}");
    }
    writer.close().expect("room");
    let tape = Tape::open(folder.path()).expect("a tape");
    let [segment] = tape.segments() else {
        panic!("one is there: {:?}", tape.segments());
    };
    assert_eq!(segment.flushes().len(), 1);
}

/// Returns the batches of a world, in order.
fn world_of(seed: u64, ticks: usize) -> Vec<Batch> {
    let mut world = World::new(seed);
    (0..ticks).map(|_| world.tick().1).collect()
}

/// Counts the segments of an earlier run and of the current run that remain after some seconds. A
/// segment lasts 10 s, the age limit is 100 s, and `clock` changes the wall clock of the current
/// run.
fn kept(clock: fn(u64, u64) -> u64, seconds: u64) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        bytes: None,
        age_ns: Some(100_000_000_000),
    };
    let mut world = World::new(7);
    for (run, seconds) in [("one", 50), ("two", seconds)] {
        let mut options = options(folder.path(), 10, limits);
        options.meta.run = run.into();
        let mut writer = Writer::open(options).expect("a folder");
        for second in 0..seconds {
            let (_, mut batch) = world.tick();
            if run == "two" {
                batch.time_unix_ns = clock(batch.time_unix_ns, second);
            }
            writer.batch(&batch).expect("room");
        }
        writer.close().expect("room");
    }
    let tape = Tape::open(folder.path()).expect("a tape");
    let of = |run| {
        let segments = tape.segments().iter();
        segments.filter(|it| it.meta().run == run).count()
    };
    (of("one"), of("two"))
}

#[test]
fn wrong_clock_does_not_break_the_age_limit() {
    const YEAR: u64 = 365 * 24 * 3_600_000_000_000;
    let usual = kept(|time, _| time, 60);
    assert_eq!(usual, (5, 6), "all is younger");
    // The clock has one or several wrong values before it is corrected.
    assert_eq!(
        kept(|time, at| time + u64::from(at == 30) * YEAR, 60),
        usual
    );
    assert_eq!(kept(|time, at| time + u64::from(at < 40) * YEAR, 60), usual);
    // The age of this run's segments does not depend on the wall clock.
    let usual = kept(|time, _| time, 200);
    assert_eq!(usual.0, 0, "all of the first is older");
    assert!((10..15).contains(&usual.1), "{usual:?}");
    for clock in [
        |time, at| time + u64::from(at > 70) * YEAR,
        |time, at| time - u64::from(at > 70) * YEAR,
        |time, _| time - YEAR,
        // A clock that is never steady.
        |time, at| time + at / 30 % 2 * YEAR,
    ] {
        assert_eq!(kept(clock, 200), usual);
    }
    // Only the wall clock shows how long the machine was off.
    assert_eq!(kept(|time, _| time + YEAR, 90).0, 0);
}

/// Records several runs of 80 s each in segments of 10 s, with an age limit of 100 s. Returns how
/// many segments of each run finally remain. A run starts when the previous one ends. The wall
/// clock of each run is off by the given amount.
fn segments_kept(clocks: &[i64]) -> Vec<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        bytes: None,
        age_ns: Some(100_000_000_000),
    };
    let mut world = World::new(8);
    for (run, wrong_ns) in clocks.iter().enumerate() {
        let mut options = options(folder.path(), 10, limits);
        options.meta.run = run.to_string();
        let mut writer = Writer::open(options).expect("a folder");
        for _ in 0..80 {
            let (_, mut batch) = world.tick();
            batch.time_unix_ns = batch.time_unix_ns.saturating_add_signed(*wrong_ns);
            writer.batch(&batch).expect("room");
        }
        writer.close().expect("room");
    }
    let tape = Tape::open(folder.path()).expect("a tape");
    let of = |run: usize| {
        let segments = tape.segments().iter();
        segments.filter(move |it| it.meta().run == run.to_string())
    };
    (0..clocks.len()).map(|run| of(run).count()).collect()
}

#[test]
fn segment_from_the_future_is_kept_like_the_next() {
    const YEAR: i64 = 365 * 24 * 3_600_000_000_000;
    let usual = segments_kept(&[0, 0, 0, 0]);
    assert_eq!(usual[..2], [0, 0], "they are older than 160 s");
    assert_eq!((usual[2] > 0, usual[3]), (true, 8), "{usual:?}");
    assert_eq!(segments_kept(&[YEAR, 0, 0, 0]), usual);
    assert_eq!(segments_kept(&[0, YEAR, 0, 0]), usual);
    // A clock that starts in the past at each boot must not remove recent segments.
    assert_eq!(segments_kept(&[0, -YEAR]), [8, 8]);
    assert_eq!(segments_kept(&[0, -YEAR, -YEAR - 80_000_000_000])[0], 8);
}

#[test]
fn run_with_a_clock_set_back_is_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(3);
    let mut ticks: Vec<_> = (0..100).map(|_| world.tick()).collect();
    for (_, batch) in &mut ticks[30..] {
        batch.time_unix_ns -= 3_600_000_000_000;
    }
    write(folder.path(), 20, &ticks);
    let tape = Tape::open(folder.path()).expect("a tape");
    let [span] = tape.spans()[..] else {
        panic!("{:?}", tape.spans());
    };
    assert_eq!(span.end_unix_ns, ticks[99].1.time_unix_ns);
    for (_, batch) in &ticks {
        let at = batch.time_unix_ns;
        assert!(span.has(at));
        let found = tape.batches(&span, at).next();
        assert_eq!(found.map(|it| it.sequence), Some(batch.sequence));
        assert_eq!(tape.number_at(&span, at), Some(batch.sequence));
    }
    let whole = Stretch::whole(span).batches(&tape);
    assert_eq!(whole.count(), 100);
    // Batch numbers increase regardless of the times. Some numbers are missing.
    for number in 0..ticks[99].1.sequence + 2 {
        let before = ticks.iter().rposition(|(_, it)| it.sequence <= number);
        let found = tape.batches_from(&span, number).map(|it| it.sequence);
        let expected = ticks[before.unwrap_or(0)..].iter().map(|it| it.1.sequence);
        assert!(found.take(3).eq(expected.take(3)), "{number}");
    }
    let early = tape.number_at(&span, 0);
    assert_eq!(early, Some(ticks[0].1.sequence));
}

#[test]
fn events_without_a_batch_are_read_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        bytes: None,
        age_ns: Some(3_600_000_000_000),
    };
    let mut world = World::new(6);
    let mut ticks: Vec<_> = (0..6).map(|_| world.tick()).collect();
    // The machine has been up for longer than the duration of a segment, and longer than the age
    // limit.
    for (_, batch) in &mut ticks {
        batch.taken_ns += 10_000_000_000_000;
    }
    let all: Vec<_> = ticks.iter().flat_map(|tick| tick.0.clone()).collect();
    assert!(all.len() > 6, "the world has events");
    let mut writer = Writer::open(options(folder.path(), 60, limits)).expect("a folder");
    let alone = |writer: &mut Writer, events: &[_]| {
        writer.events(events);
        writer.flush().expect("room");
    };
    alone(&mut writer, &all);
    writer.end_segment().expect("room");
    // The next segment starts with events, then has batches.
    alone(&mut writer, &all);
    for (_, batch) in &ticks {
        writer.batch(batch).expect("room");
    }
    writer.end_segment().expect("room");
    alone(&mut writer, &all);
    writer.end_segment().expect("room");
    alone(&mut writer, &all);
    writer.close().expect("room");
    let tape = Tape::open(folder.path()).expect("a tape");
    let sizes = tape.segments().iter().map(|it| (it.batches(), it.events()));
    let many = all.len() as u64;
    let expected = [(0, many), (6, many), (0, many), (0, many)];
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    let [span] = tape.spans()[..] else {
        panic!("one run: {:?}", tape.spans());
    };
    assert_eq!(span.end_unix_ns, ticks[5].1.time_unix_ns);
    let found = Stretch::whole(span).events(&tape).count();
    assert_eq!(found, 4 * all.len());
    let batches = words(tape.batches(&span, 0));
    assert_eq!(batches, words(ticks.iter().map(|it| it.1.clone())));
    // A single segment, whose run has no batch.
    let last = Tape::open(tape.segments()[3].path()).expect("a segment");
    let [span] = last.spans()[..] else {
        panic!("one run: {:?}", last.spans());
    };
    assert_eq!(span.batches(), 0);
    let found: Vec<_> = Stretch::whole(span).events(&last).collect();
    assert_eq!(found, all);
}

#[test]
fn interval_ignores_wall_clock_changes() {
    let month_ns = 30 * 24 * 3_600_000_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(4);
    let mut ticks: Vec<_> = (0..100).map(|_| world.tick()).collect();
    for (number, (_, batch)) in (1..).zip(&mut ticks) {
        batch.sequence = number;
    }
    // One batch was lost.
    ticks.remove(70);
    for (_, batch) in &mut ticks[30..] {
        batch.time_unix_ns += month_ns;
    }
    for (_, batch) in &mut ticks[60..] {
        batch.time_unix_ns -= 2 * month_ns;
    }
    write(folder.path(), 20, &ticks);
    let tape = Tape::open(folder.path()).expect("a tape");
    let span = tape.spans()[0];
    assert_eq!(tape.interval_ns(&span), Some(1_000_000_000));
}

#[test]
fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Writer::open(options(folder.path(), 5, Limits::default()));
    let mut first = open().expect("a folder");
    let refused = open().err().expect("it is taken").to_string();
    assert!(
        refused.contains("another noctule process writes"),
        "{refused}"
    );
    first.batch(&World::new(1).tick().1).expect("room");
    first.close().expect("room");
    // A different run, whose counters start at 0.
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
