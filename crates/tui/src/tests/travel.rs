//! Tests of moving through a recording.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

use noctule_model::{Batch, Level};
use ratatui::layout::Size;

use super::fixture::{Fake, TICK, app, options, press, screen};
use super::waits::{FRONT, node};
use crate::data::history::LENGTH;
use crate::draw::pane;
use crate::state::travel::{Fresh, Travel};
use crate::state::{App, Input};
use crate::terminal::player::{self, LANE};
use crate::terminal::{Recorded, Run};

/// A recording of several runs.
struct Tape(Vec<Vec<Batch>>);

impl Recorded for Tape {
    fn runs(&self) -> Vec<Run> {
        let ends = |run: &Vec<Batch>| {
            let mut times = run.iter().map(|batch| batch.time_unix_ns);
            Run {
                from_unix_ns: times.clone().min().unwrap_or(0),
                to_unix_ns: times.clone().max().unwrap_or(0),
                end_unix_ns: times.next_back().unwrap_or(0),
                interval: Duration::from_nanos(TICK),
            }
        };
        self.0.iter().map(ends).collect()
    }

    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64 {
        let run = &self.0[run];
        let holds = |at: &usize| {
            let next = run
                .get(at + 1)
                .is_some_and(|it| it.time_unix_ns > time_unix_ns);
            run[*at].time_unix_ns == time_unix_ns || run[*at].time_unix_ns < time_unix_ns && next
        };
        let last = || run.iter().rposition(|it| it.time_unix_ns <= time_unix_ns);
        let at = (0..run.len()).rev().find(holds).or_else(last);
        run[at.unwrap_or(0)].sequence
    }

    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_> {
        let run = &self.0[run];
        let first = run.iter().rposition(|it| it.sequence <= number);
        Box::new(run[first.unwrap_or(0)..].iter().cloned())
    }
}

/// Returns a run of `count` seconds. A group is hurt in each second in `hurt`.
fn seconds(fake: &mut Fake, count: usize, hurt: std::ops::Range<usize>) -> Vec<Batch> {
    let tick = |at| {
        if hurt.contains(&at) {
            fake.behind(FRONT, "/batch/job-17", 70, 4_000_000);
        }
        fake.tick(&[(1, 40), (4, 100)])
    };
    (0..count).map(tick).collect()
}

/// Returns two runs, with a minute between them.
fn tape() -> Tape {
    let mut fake = node();
    let first = seconds(&mut fake, 200, 150..170);
    fake.batch.time_unix_ns += 60 * TICK;
    Tape(vec![first, seconds(&mut fake, 30, 0..0)])
}

/// Returns the final picture of a position. Earlier pictures are marked busy.
fn arrived(pictures: &Receiver<Fresh>) -> Fresh {
    loop {
        let fresh = pictures.recv().expect("the player lives");
        if !fresh.busy {
            return fresh;
        }
    }
}

/// Runs a player of the tape while `what` sends moves.
fn with_player<T>(
    tape: &dyn Recorded,
    start: (usize, u64),
    what: impl FnOnce(&Sender<Travel>, &Receiver<Fresh>) -> T,
) -> T {
    let (travels, wishes) = channel();
    let (sender, pictures) = sync_channel(LANE);
    std::thread::scope(|threads| {
        let options = options(Level::Container);
        threads.spawn(move || player::play(tape, &options, start, &wishes, &sender));
        let result = what(&travels, &pictures);
        // The player ends when its channels close.
        drop((travels, pictures));
        result
    })
}

#[test]
fn player_goes_to_each_place() {
    let tape = tape();
    let (first, second) = (tape.0[0].clone(), tape.0[1].clone());
    let time = |batch: &Batch| batch.time_unix_ns;
    let end = time(&second[29]);
    with_player(&tape, (1, u64::MAX), |travels, pictures| {
        assert_eq!(arrived(pictures).time_unix_ns, end);
        let cases = [
            (Travel::To(time(&first[100]) + 1), time(&first[100])),
            (Travel::Back, time(&first[99])),
            (Travel::Back, time(&first[98])),
            (Travel::On, time(&first[99])),
            (Travel::Minutes(1), time(&first[159])),
            (Travel::Minutes(-2), time(&first[39])),
            // The first batch has no window.
            (Travel::To(0), time(&first[1])),
            (Travel::Back, time(&first[1])),
            (Travel::On, time(&first[2])),
            // A moment between the runs selects the last batch of the first run; one step further
            // selects the second run.
            (Travel::To(time(&first[199]) + 9 * TICK), time(&first[199])),
            (Travel::On, time(&second[1])),
            (Travel::To(u64::MAX), end),
            (Travel::On, end),
        ];
        for (travel, expected) in cases {
            travels.send(travel).expect("the player lives");
            let fresh = arrived(pictures);
            assert_eq!(fresh.time_unix_ns, expected, "{travel:?}");
        }
    });
}

/// A recording that records the number at which each read starts.
struct Noted(Tape, Mutex<Vec<u64>>);

impl Recorded for Noted {
    fn runs(&self) -> Vec<Run> {
        self.0.runs()
    }

    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64 {
        self.0.number_at(run, time_unix_ns)
    }

    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_> {
        self.1.lock().expect("no panic").push(number);
        self.0.batches(run, number)
    }
}

#[test]
fn jump_is_shown_before_its_minute_is_read() {
    let tape = Noted(tape(), Mutex::default());
    let at = tape.0.0[0][150].time_unix_ns;
    with_player(&tape, (0, at), |_, pictures| {
        let first = pictures.recv().expect("the player lives");
        assert!(first.busy, "the graphs are to come");
        assert_eq!(first.time_unix_ns, at);
        assert_eq!(arrived(pictures).time_unix_ns, at);
    });
    let read = tape.1.into_inner().expect("no panic");
    let number = tape.0.0[0][150].sequence;
    assert_eq!(read, [number - 3, number - 60]);
}

#[test]
fn recorded_place_looks_as_it_did_live() {
    let tape = tape();
    let at = 120;
    let live = tape.0[0][at - 61..=at]
        .iter()
        .cloned()
        .map(Box::new)
        .map(Input::Batch);
    let live = live.fold(app(Level::Process, 100, 30), App::step);
    with_player(&tape, (0, tape.0[0][at].time_unix_ns), |_, pictures| {
        let shown = app(Level::Process, 100, 30).step(Input::Place(Box::new(arrived(pictures))));
        assert_eq!(screen(&shown, 100, 30), screen(&live, 100, 30));
    });
}

#[test]
fn minute_of_late_batches_is_complete() {
    let mut fake = node();
    // Every second batch is two intervals late.
    let late = |at: u64| {
        fake.batch.time_unix_ns += at % 2 * 2 * TICK;
        fake.tick(&[(1, 40), (4, 100)])
    };
    let tape = Tape(vec![(0..200).map(late).collect()]);
    for place in [70, 130, 199] {
        let mut live = app(Level::Container, 120, 30);
        for batch in &tape.0[0][..=place] {
            live = live.step(Input::Batch(Box::new(batch.clone())));
        }
        let time = tape.0[0][place].time_unix_ns;
        let fresh = with_player(&tape, (0, time), |_, pictures| arrived(pictures));
        let minute = fresh.data.node_minute(20);
        assert!(minute.iter().all(Option::is_some), "{minute:?}");
        assert_eq!(minute, live.shown.node_minute(20), "{place}");
    }
}

#[test]
fn verdict_key_finds_the_next_and_stops_at_the_last() {
    let tape = tape();
    let hurt = 150..175;
    with_player(&tape, (0, 0), |travels, pictures| {
        arrived(pictures);
        let begun = tape.0[0][0].time_unix_ns;
        travels.send(Travel::Verdict).expect("the player lives");
        let fresh = arrived(pictures);
        let at = (fresh.time_unix_ns - begun) / TICK;
        assert!(hurt.contains(&(at as usize)), "{at}");
        travels
            .send(Travel::To(tape.0[0][190].time_unix_ns))
            .expect("the player lives");
        let before = arrived(pictures).time_unix_ns;
        travels.send(Travel::Verdict).expect("the player lives");
        assert_eq!(arrived(pictures).time_unix_ns, before, "there is no other");
    });
}

#[test]
fn playback_stops_at_the_end() {
    let tape = tape();
    with_player(
        &tape,
        (1, tape.0[1][20].time_unix_ns),
        |travels, pictures| {
            arrived(pictures);
            travels.send(Travel::Play(60)).expect("the player lives");
            let end = loop {
                let fresh = arrived(pictures);
                if fresh.speed.is_none() {
                    break fresh.time_unix_ns;
                }
            };
            assert_eq!(end, tape.0[1][29].time_unix_ns);
        },
    );
}

#[test]
fn playback_continues_after_the_clock_was_set_back() {
    for seconds_back in [10, 3600] {
        let mut fake = node();
        let mut run = seconds(&mut fake, 30, 0..0);
        fake.batch.time_unix_ns -= seconds_back * TICK;
        run.extend(seconds(&mut fake, 25, 0..0));
        let end = run[54].time_unix_ns;
        let tape = Tape(vec![run]);
        with_player(&tape, (0, end - 5 * TICK), |travels, pictures| {
            assert_eq!(arrived(pictures).time_unix_ns, end - 5 * TICK);
            travels.send(Travel::Play(60)).expect("the player lives");
            let played = loop {
                let fresh = arrived(pictures);
                if fresh.speed.is_none() {
                    break fresh.time_unix_ns;
                }
            };
            assert_eq!(played, end);
        });
    }
}

/// Checks where each move leads from a position.
fn follows(tape: &Tape, start: (usize, u64), cases: &[(Travel, &Batch)]) {
    with_player(tape, start, |travels, pictures| {
        arrived(pictures);
        for (place, (travel, expected)) in cases.iter().enumerate() {
            travels.send(*travel).expect("the player lives");
            let time = arrived(pictures).time_unix_ns;
            assert_eq!(time, expected.time_unix_ns, "{place}: {travel:?}");
        }
    });
}

#[test]
fn runs_with_unordered_clocks_are_all_reachable() {
    let ahead = 3600 * TICK;
    let mut fake = node();
    fake.batch.time_unix_ns += ahead;
    let first = seconds(&mut fake, 100, 0..0);
    fake.batch.time_unix_ns -= ahead;
    let second = seconds(&mut fake, 100, 0..0);
    let tape = Tape(vec![first, second]);
    let (first, second) = (&tape.0[0], &tape.0[1]);
    let end = second[99].time_unix_ns;
    let fresh = with_player(&tape, (1, end), |_, pictures| arrived(pictures));
    assert_eq!(fresh.time_unix_ns, end);
    let cases = [
        (Travel::To(first[50].time_unix_ns), &first[50]),
        (Travel::Minutes(1), &first[99]),
        (Travel::Minutes(1), &second[1]),
        (Travel::Minutes(-1), &first[99]),
        (Travel::On, &second[1]),
        (Travel::To(second[70].time_unix_ns), &second[70]),
        (Travel::Minutes(-1), &second[10]),
        // Moments before all runs, and between them.
        (Travel::To(0), &second[1]),
        (Travel::To(end + TICK), &second[99]),
        (Travel::To(u64::MAX), &first[99]),
    ];
    follows(&tape, (1, end), &cases);
}

#[test]
fn places_near_a_clock_step_are_found() {
    let mut fake = node();
    let mut run = seconds(&mut fake, 30, 0..0);
    fake.batch.time_unix_ns -= 3600 * TICK;
    run.extend(seconds(&mut fake, 100, 0..0));
    let tape = Tape(vec![run]);
    let run = &tape.0[0];
    let cases = [
        (Travel::To(run[29].time_unix_ns), &run[29]),
        (Travel::On, &run[30]),
        (Travel::Back, &run[29]),
        (Travel::Minutes(1), &run[89]),
        (Travel::Minutes(-1), &run[29]),
        (Travel::To(run[31].time_unix_ns), &run[31]),
        (Travel::To(run[2].time_unix_ns), &run[2]),
        (Travel::Minutes(9), &run[129]),
    ];
    follows(&tape, (0, run[129].time_unix_ns), &cases);
}

/// A recording that simulates a key press while it is read.
struct Pressed(Tape, Mutex<Option<(Travel, Sender<Travel>)>>);

impl Recorded for Pressed {
    fn runs(&self) -> Vec<Run> {
        self.0.runs()
    }

    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64 {
        self.0.number_at(run, time_unix_ns)
    }

    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_> {
        if self.0.0[0][100].sequence == number + 60
            && let Some((travel, travels)) = self.1.lock().expect("no panic").take()
        {
            travels.send(travel).expect("the player lives");
        }
        self.0.batches(run, number)
    }
}

#[test]
fn minute_is_read_after_a_key_interrupts_it() {
    let whole = |tape: &Pressed, travel: Travel| {
        let (start, on) = (&tape.0.0[0][0], &tape.0.0[0][100]);
        let (start, at) = ((0, start.time_unix_ns), on.time_unix_ns);
        with_player(tape, start, |travels, pictures| {
            arrived(pictures);
            *tape.1.lock().expect("no panic") = Some((travel, travels.clone()));
            travels.send(Travel::To(at)).expect("the player lives");
            let fresh = arrived(pictures);
            (fresh.time_unix_ns - at, fresh.data.node_minute(LENGTH))
        })
    };
    for (travel, later) in [(Travel::On, TICK), (Travel::Stop, 0)] {
        let (moved, minute) = whole(&Pressed(tape(), Mutex::default()), travel);
        assert_eq!(moved, later, "{travel:?}");
        assert!(minute.iter().all(Option::is_some), "{travel:?}: {minute:?}");
    }
}

/// A recording whose batches take three times as long to read as they are shown at a speed of 60.
struct Slow(Tape);

impl Recorded for Slow {
    fn runs(&self) -> Vec<Run> {
        self.0.runs()
    }

    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64 {
        self.0.number_at(run, time_unix_ns)
    }

    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_> {
        let read = |_: &Batch| std::thread::sleep(Duration::from_millis(50));
        Box::new(self.0.batches(run, number).inspect(read))
    }
}

#[test]
fn slow_recording_plays_without_pauses() {
    let tape = Slow(tape());
    let begun = tape.0.0[0][5].time_unix_ns;
    with_player(&tape, (0, begun), |travels, pictures| {
        let mut shown = arrived(pictures).time_unix_ns;
        travels.send(Travel::Play(60)).expect("the player lives");
        while shown < begun + 60 * TICK {
            let next = arrived(pictures).time_unix_ns;
            let batches = (next - shown) / TICK;
            assert!(batches <= 12, "no picture and no key for {batches} batches");
            shown = next;
        }
    });
}

#[test]
fn keys_of_a_recording_request_moves() {
    let options = options(Level::Process);
    let recorded = App::new(&options, Size::new(100, 30), pane::height).recorded(&options, 99);
    let cases = [
        ("Left", Some(Travel::Back)),
        ("Right", Some(Travel::On)),
        ("[", Some(Travel::Minutes(-1))),
        ("]", Some(Travel::Minutes(1))),
        ("v", Some(Travel::Verdict)),
        ("p", Some(Travel::Play(1))),
        ("p p p", Some(Travel::Play(5))),
        ("p p p p p p p", Some(Travel::Play(1))),
        ("g 4 2 Enter", Some(Travel::To(42))),
        ("g 4 Backspace 7 Enter", Some(Travel::To(7))),
        ("g x Enter", None),
        ("g 4 2 Esc", None),
    ];
    for (keys, expected) in cases {
        let mut app = press(recorded.clone(), keys);
        assert_eq!(app.take_travel(), expected, "{keys}");
    }
    let refused = press(recorded.clone(), "g x Enter");
    assert!(screen(&refused, 100, 30).contains("not a number"));
    let mut stopped = press(recorded, "p Space");
    assert_eq!(stopped.take_travel(), Some(Travel::Stop));
    // The keys of a recording have no effect on the live screen.
    assert_eq!(press(app(Level::Process, 100, 30), "v").take_travel(), None);
}
