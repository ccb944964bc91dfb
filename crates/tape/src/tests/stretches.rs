//! Tests parts of a recording in which the wall clock is set back and forward.

use noctule_model::{Batch, Event};

use super::world::World;
use super::write;
use crate::stretch::Stretch;
use crate::tape::{Span, Tape};

const SECOND_NS: u64 = 1_000_000_000;

/// The wall clock is set back by 20 s before batch 40, and forward by an hour before batch 80.
const BACK: usize = 40;
const AHEAD: usize = 80;

/// Returns the recorded batches, each with an event half a second after it.
pub(super) fn ticks() -> Vec<(Vec<Event>, Batch)> {
    let mut world = World::new(12);
    let mut ticks: Vec<_> = (0..120).map(|_| world.tick()).collect();
    let event = ticks
        .iter()
        .flat_map(|tick| &tick.0)
        .next()
        .expect("the world has events")
        .clone();
    for (number, (_, batch)) in (1..).zip(&mut ticks) {
        batch.sequence = number;
        batch.taken_ns = number * SECOND_NS;
        let at = number as usize;
        let wall = 1_790_000_000 + number;
        let wall = wall - u64::from(at > BACK) * 20 + u64::from(at > AHEAD) * 3600;
        batch.time_unix_ns = wall * SECOND_NS;
    }
    for at in 0..ticks.len() {
        let before = at.checked_sub(1).map(|before| &ticks[before].1);
        let time_unix_ns = before.map_or(1_790_000_000 * SECOND_NS, |it| it.time_unix_ns);
        ticks[at].0 = vec![Event {
            // The added number makes each event unique.
            time_unix_ns: time_unix_ns + SECOND_NS / 2 + at as u64,
            ..event.clone()
        }];
    }
    ticks
}

fn recorded(segment_s: u64) -> (tempfile::TempDir, Tape, Span) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), segment_s, &ticks());
    let tape = Tape::open(folder.path()).expect("a tape");
    let [span] = tape.spans()[..] else {
        panic!("one run: {:?}", tape.spans());
    };
    (folder, tape, span)
}

/// Returns the numbers of a part's first and last batch, and the number of the batch before which
/// each of its events was observed.
fn numbers(tape: &Tape, part: &Stretch) -> ((u64, u64), Vec<u64>) {
    let ticks = ticks();
    let mut batches = part.batches(tape);
    let first = batches.next().expect("a batch").sequence;
    let last = batches.last().map_or(first, |batch| batch.sequence);
    assert_eq!((first, last), part.numbers());
    let mut all = ticks.iter();
    let seen = part.events(tape).map(|event| {
        let tick = all.find(|tick| tick.0[0] == event);
        tick.expect("in the order in which they were seen")
            .1
            .sequence
    });
    ((first, last), seen.collect())
}

#[test]
fn part_length_ignores_wall_clock_changes() {
    let ticks = ticks();
    for segment_s in [7, 300] {
        let (_folder, tape, span) = recorded(segment_s);
        assert_eq!(tape.length_ns(&span), Some(119 * SECOND_NS));
        for at in (1..ticks.len()).step_by(6) {
            for length in [0, 5, 25, 500] {
                // If the clock showed a time twice, the later occurrence is used.
                let from = ticks[at].1.time_unix_ns;
                let later = ticks.iter().rposition(|it| it.1.time_unix_ns == from);
                let first = later.map_or(0, |later| later as u64 + 1);
                let last = (first + length).min(120);
                let part = tape.part(&span, from, length * SECOND_NS);
                let case = format!("{first} to {last} of {segment_s} s");
                let (found, seen) = numbers(&tape, &part);
                assert_eq!(found, (first, last), "{case}");
                assert_eq!(part.from_unix_ns, from, "{case}");
                assert_eq!(part.to_unix_ns, ticks[last as usize - 1].1.time_unix_ns);
                assert_eq!(part.is_cut, first + length > 120, "{case}");
                let begin = if first == 1 { 1 } else { first + 1 };
                assert!(seen.into_iter().eq(begin..=last), "{case}");
            }
        }
    }
}

#[test]
fn part_before_the_end_ignores_wall_clock_changes() {
    let (_folder, tape, span) = recorded(30);
    for back in 0..120 {
        let part = |length| tape.part_before_end(&span, back * SECOND_NS, length);
        let to_end = part(u64::MAX).expect("it is as long");
        assert_eq!(numbers(&tape, &to_end).0, (120 - back, 120));
        let one = part(SECOND_NS).expect("it is as long");
        assert_eq!(one.numbers(), (120 - back, (121 - back).min(120)));
        assert!(!to_end.is_cut);
        assert_eq!(one.is_cut, back == 0);
    }
    assert_eq!(tape.part_before_end(&span, 120 * SECOND_NS, 0), None);
}

#[test]
fn skipped_time_maps_to_the_forward_clock_step() {
    let (_folder, tape, span) = recorded(300);
    let between = (1_790_000_000 + 1000) * SECOND_NS;
    let part = tape.part(&span, between, 10 * SECOND_NS);
    assert_eq!(numbers(&tape, &part).0, (80, 90));
    assert_eq!(tape.times_shown(&span, between), 1);
}

#[test]
fn repeated_times_are_counted() {
    let (_folder, tape, span) = recorded(30);
    let shown = |second: u64| tape.times_shown(&span, (1_790_000_000 + second) * SECOND_NS);
    let cases = [
        (0, 0),
        (1, 1),
        (20, 1),
        (21, 2),
        (40, 2),
        (41, 1),
        (5000, 0),
    ];
    for (second, times) in cases {
        assert_eq!(shown(second), times, "{second}");
    }
}

#[test]
fn part_is_found_despite_unreadable_clocks() {
    let (folder, _, _) = recorded(20);
    let segments = crate::folder::segments(folder.path()).expect("a folder");
    std::fs::write(segments[2].join("node.arrows"), "").expect("room");
    let tape = Tape::open(folder.path()).expect("a tape");
    let span = tape.spans()[0];
    let (_, lost) = tape.segments()[2].ticks().expect("batches");
    let part = tape.part(&span, (1_790_000_000 + 5) * SECOND_NS, 60 * SECOND_NS);
    assert_eq!(part.numbers(), (5, 65));
    assert!(lost < 65);
    // The part includes damaged data, so that the damage is reported.
    let inside = tape.part(&span, (1_790_000_000 + 5) * SECOND_NS, 40 * SECOND_NS);
    let mut batches = inside.batches(&tape);
    assert!(
        batches
            .by_ref()
            .last()
            .is_some_and(|it| it.sequence <= lost)
    );
    assert_eq!(batches.damages().len(), 1);
    let part = tape.part_before_end(&span, 30 * SECOND_NS, u64::MAX);
    assert_eq!(part.map(|it| it.numbers()), Some((90, 120)));
}
