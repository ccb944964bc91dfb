//! Moves through a recording in its own thread, so that the screen never waits for the disk.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use noctule_analysis::{Judge, JudgeOptions};
use noctule_model::{Batch, Level, VerdictKind};

use crate::data::Data;
use crate::data::history::LENGTH;
use crate::data::waits::verdict_window;
use crate::state::Options;
use crate::state::travel::{Fresh, Travel};

/// One run of the agent.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Earliest time of a batch, in nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// Latest time of a batch, in nanoseconds since 1970.
    pub to_unix_ns: u64,
    /// Time of the last batch. This time is earlier than `to_unix_ns` if the clock was set back.
    pub end_unix_ns: u64,
    /// Average time between two batches.
    pub interval: Duration,
}

impl Run {
    fn has(&self, time_unix_ns: u64) -> bool {
        (self.from_unix_ns..=self.to_unix_ns).contains(&time_unix_ns)
    }
}

/// A recording that can be read from any moment.
pub trait Recorded: Sync {
    /// Returns the runs of the agent in order. There is at least one run. The clocks of the runs
    /// may not be in order.
    fn runs(&self) -> Vec<Run>;

    /// Returns the number of the last batch of a run that is not later than `time_unix_ns`. If the
    /// clock passed that moment twice, the later batch is used.
    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64;

    /// Returns the batches of a run, starting with the last one whose number is at most `number`.
    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_>;
}

/// Number of batches that are read for the first picture after a jump. The minute before the
/// picture is read afterwards.
const QUICK: usize = 3;

/// Maximum number of batches before the current one that are kept in memory. These batches cover
/// the minute that is needed for a step back.
const KEPT: usize = 2 * LENGTH;

/// Capacity of the channel through which pictures are sent.
pub(crate) const LANE: usize = 2;

/// Time between two pictures during playback.
const FRAME: Duration = Duration::from_millis(100);

const MINUTE: u64 = 60_000_000_000;

/// Plays the recording until the channel of moves or the channel of pictures is closed.
pub(crate) fn play(
    source: &dyn Recorded,
    options: &Options,
    (run, start_unix_ns): (usize, u64),
    travels: &Receiver<Travel>,
    pictures: &SyncSender<Fresh>,
) {
    let mut player = Player::new(source, options, travels, pictures);
    let mut next = player.go(run, start_unix_ns);
    while let Ok(travel) = next {
        let travel = travel.map_or_else(|| player.wait(), Ok);
        next = travel.and_then(|travel| player.follow(travel));
    }
}

/// The error that the screen has closed its channel.
#[derive(Debug)]
pub(crate) struct Gone;

/// A move that arrived while the player worked, if any.
type Next = Result<Option<Travel>, Gone>;

struct Player<'a> {
    source: &'a dyn Recorded,
    options: &'a Options,
    travels: &'a Receiver<Travel>,
    pictures: &'a SyncSender<Fresh>,
    runs: Vec<Run>,
    run: usize,
    /// Consecutive batches of the run.
    kept: VecDeque<Batch>,
    /// Whether `kept` starts with the first batch of the run.
    begun: bool,
    /// Position in `kept` of the batch that is shown.
    at: usize,
    /// The batches after those in `kept`.
    later: Box<dyn Iterator<Item = Batch> + 'a>,
    data: Data,
    /// Whether `data` covers the minute before the current batch, or all batches before it.
    whole: bool,
    /// Playback speed as a multiple of the recorded speed.
    speed: Option<u32>,
}

impl<'a> Player<'a> {
    fn new(
        source: &'a dyn Recorded,
        options: &'a Options,
        travels: &'a Receiver<Travel>,
        pictures: &'a SyncSender<Fresh>,
    ) -> Self {
        Self {
            source,
            options,
            travels,
            pictures,
            runs: source.runs(),
            run: 0,
            kept: VecDeque::new(),
            begun: false,
            at: 0,
            later: Box::new(std::iter::empty()),
            data: fresh(options),
            whole: false,
            speed: None,
        }
    }

    fn time(&self) -> u64 {
        self.kept.get(self.at).map_or(0, |batch| batch.time_unix_ns)
    }

    /// Returns the sequence number of the batch that is shown.
    fn number(&self) -> u64 {
        self.kept.get(self.at).map_or(0, |batch| batch.sequence)
    }

    /// Waits for a move, and plays in the meantime.
    fn wait(&mut self) -> Result<Travel, Gone> {
        let mut begun = (Instant::now(), self.time());
        let mut drawn = Instant::now();
        loop {
            let Some(speed) = self.speed else {
                return self.travels.recv().map_err(|_| Gone);
            };
            match self.travels.recv_timeout(FRAME / 4) {
                Ok(travel) => return Ok(travel),
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let passed = (begun.0.elapsed().as_nanos() as u64).saturating_mul(u64::from(speed));
            let now = begun.1.saturating_add(passed);
            let mut moved = false;
            let caught_up = Instant::now() + 2 * FRAME;
            while let Some(time) = self.upcoming().filter(|time| *time <= now) {
                let set_back = time < self.time();
                moved |= self.step();
                // If reading is slower than playback, the playback clock restarts here. Catching up
                // would delay key presses and screen updates more and more.
                if set_back || Instant::now() >= caught_up {
                    begun = (Instant::now(), time);
                    break;
                }
            }
            if self.upcoming().is_none() {
                self.speed = None;
                self.show(false)?;
            } else if moved && drawn.elapsed() >= FRAME {
                drawn = Instant::now();
                self.show(false)?;
            }
        }
    }

    fn follow(&mut self, travel: Travel) -> Next {
        match travel {
            Travel::To(time) => self.go(self.run_of(time), time),
            Travel::Minutes(minutes) => self.go_by(minutes),
            Travel::Back => self.go_to(self.run, self.number().saturating_sub(1)),
            Travel::On => {
                if self.upcoming().is_none() && self.run + 1 < self.runs.len() {
                    return self.go_to(self.run + 1, 0);
                }
                self.step();
                self.settle()
            }
            Travel::Play(speed) => {
                self.speed = Some(speed);
                self.settle()
            }
            Travel::Stop => {
                self.speed = None;
                self.settle()
            }
            Travel::Verdict => self.find_verdict(),
        }
    }

    /// Returns the run of a moment: the last run that contains it, or else the last run that ended
    /// before it.
    fn run_of(&self, time: u64) -> usize {
        let runs = || self.runs.iter().enumerate();
        let before = || runs().filter(|(_, run)| run.to_unix_ns < time);
        let has = self.runs.iter().rposition(|run| run.has(time));
        has.or_else(|| {
            before()
                .max_by_key(|(_, run)| run.to_unix_ns)
                .map(|it| it.0)
        })
        .or_else(|| {
            runs()
                .min_by_key(|(_, run)| run.from_unix_ns)
                .map(|it| it.0)
        })
        .unwrap_or(0)
    }

    /// Goes to the last batch of a run that is not later than `time`.
    fn go(&mut self, run: usize, time: u64) -> Next {
        let Some(&ends) = self.runs.get(run) else {
            return self.settle();
        };
        let number = match time {
            _ if time < ends.from_unix_ns => 0,
            _ if time > ends.to_unix_ns => self.source.number_at(run, ends.end_unix_ns),
            _ => self.source.number_at(run, time),
        };
        self.go_to(run, number)
    }

    /// Moves by the number of batches that these minutes have at the run's interval, at most to the
    /// last batch of the run. From the last batch of a run, moves to the next run.
    fn go_by(&mut self, minutes: i64) -> Next {
        let on = minutes >= 0;
        if on && self.upcoming().is_none() && self.run + 1 < self.runs.len() {
            return self.go_to(self.run + 1, 0);
        }
        if !on && self.begun && self.at <= 1 && self.run > 0 {
            return self.go(self.run - 1, u64::MAX);
        }
        let Some(run) = self.runs.get(self.run).copied() else {
            return self.settle();
        };
        let interval = run.interval.as_nanos().clamp(1, u128::from(MINUTE)) as u64;
        let batches = (MINUTE + interval / 2) / interval * minutes.unsigned_abs();
        let number = self.number();
        let last = || self.source.number_at(self.run, run.end_unix_ns);
        let number = match on {
            true => number.saturating_add(batches).min(last()),
            false => number.saturating_sub(batches),
        };
        self.go_to(self.run, number)
    }

    /// Goes to a batch. First shows the result of the few batches that are quick to read.
    /// Afterwards reads the minute before them, unless a key is pressed.
    fn go_to(&mut self, run: usize, number: u64) -> Next {
        let has = run == self.run && self.seek_in_memory(number) && self.keeps_minute();
        if !has {
            self.run = run;
            self.fill(number.saturating_sub(QUICK as u64), number);
            self.seek_in_memory(number);
        }
        let quick = (self.at + 1).saturating_sub(QUICK);
        if self.keeps_minute() && quick <= self.at.saturating_sub(LENGTH) {
            self.whole = true;
            self.show_from(quick, false)?;
            return Ok(None);
        }
        self.whole = false;
        self.show_from(quick, true)?;
        self.complete()
    }

    /// Shows the current position, with the minute before it.
    fn settle(&mut self) -> Next {
        self.show(!self.whole)?;
        match self.whole {
            true => Ok(None),
            false => self.complete(),
        }
    }

    /// Reads the minute before the current batch. A key press interrupts reading, and the minute is
    /// read later.
    fn complete(&mut self) -> Next {
        if let Some(travel) = self.pending()? {
            return Ok(Some(travel));
        }
        if !self.keeps_minute() {
            self.fill_minute(self.number());
        }
        let mut data = fresh(self.options);
        for place in self.at.saturating_sub(LENGTH)..=self.at {
            if let Some(travel) = self.pending()? {
                return Ok(Some(travel));
            }
            if let Some(batch) = self.kept.get(place) {
                data.push(batch.clone());
            }
        }
        self.data = data;
        self.whole = true;
        self.settle()
    }

    /// Returns whether memory contains the minute before the current batch, or all batches before
    /// it.
    fn keeps_minute(&self) -> bool {
        self.at >= LENGTH || self.begun
    }

    /// Reads the minute before a batch, and goes to the batch. If batches were lost, starts reading
    /// earlier.
    fn fill_minute(&mut self, number: u64) {
        let mut back = LENGTH;
        loop {
            self.fill(number.saturating_sub(back as u64), number);
            self.seek_in_memory(number);
            if self.keeps_minute() || self.kept.is_empty() {
                return;
            }
            back += 2 * (LENGTH - self.at).max(back / 2);
        }
    }

    /// Reads the batches between two numbers, both included.
    fn fill(&mut self, from: u64, to: u64) {
        self.kept.clear();
        self.begun = false;
        self.later = self.source.batches(self.run, from);
        while self.kept.back().is_none_or(|last| last.sequence < to)
            && let Some(batch) = self.later.next()
        {
            if self.kept.is_empty() {
                self.begun = from == 0 || batch.sequence > from;
            }
            self.keep(batch);
        }
    }

    fn keep(&mut self, batch: Batch) {
        self.kept.push_back(batch);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
            self.begun = false;
            self.at = self.at.saturating_sub(1);
        }
    }

    /// Moves to the last batch in memory whose number is at most `number`. Returns whether that
    /// batch is certainly the right one, because memory covers `number`.
    fn seek_in_memory(&mut self, number: u64) -> bool {
        let reached = self.kept.iter().take_while(|it| it.sequence <= number);
        let reached = reached.count();
        let (first, last) = (self.kept.front(), self.kept.back());
        let from = first.is_some_and(|it| it.sequence <= number || self.begun);
        let there = from && last.is_some_and(|it| it.sequence >= number);
        self.at = reached.saturating_sub(1);
        // The first batch alone does not form a window.
        if self.at == 0 && self.upcoming().is_some() {
            self.at = 1;
        }
        there
    }

    fn pending(&self) -> Next {
        match self.travels.try_recv() {
            Ok(travel) => Ok(Some(travel)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Gone),
        }
    }

    /// Returns the time of the next batch in the same run.
    fn upcoming(&mut self) -> Option<u64> {
        if self.at + 1 >= self.kept.len() {
            let batch = self.later.next()?;
            self.keep(batch);
        }
        self.kept.get(self.at + 1).map(|batch| batch.time_unix_ns)
    }

    fn step(&mut self) -> bool {
        let there = self.upcoming().is_some();
        if there {
            self.at += 1;
            self.data.push(self.kept[self.at].clone());
        }
        there
    }

    fn show_from(&mut self, first: usize, more_comes: bool) -> Result<(), Gone> {
        self.data = fresh(self.options);
        for place in first..=self.at {
            if let Some(batch) = self.kept.get(place) {
                self.data.push(batch.clone());
            }
        }
        self.show(more_comes)
    }

    fn show(&self, busy: bool) -> Result<(), Gone> {
        let fresh = Fresh {
            data: self.data.clone(),
            time_unix_ns: self.time(),
            speed: self.speed,
            busy,
        };
        self.pictures.send(fresh).map_err(|_| Gone)
    }

    /// Goes to the next moment at which a verdict found a group that was hurt.
    fn find_verdict(&mut self) -> Next {
        self.speed = None;
        self.show(true)?;
        let from = self.number();
        for run in self.run..self.runs.len() {
            // Starts earlier, so that the same windows are judged as after a jump to that moment.
            let mut judge = self.judge();
            let is_same = run == self.run;
            let begin = from.saturating_sub(LENGTH as u64 + 1);
            let batches = self.source.batches(run, if is_same { begin } else { 0 });
            for batch in batches {
                if let Some(travel) = self.pending()? {
                    return Ok(Some(travel));
                }
                let number = batch.sequence;
                let report = judge.observe(&batch).filter(|report| !report.provisional);
                let hurt = report.is_some_and(|report| {
                    let mut rows = report.rows.iter();
                    rows.any(|row| row.verdict.kind != VerdictKind::Quiet)
                });
                if hurt && !(is_same && number <= from) {
                    return self.go_to(run, number);
                }
            }
        }
        self.settle()
    }

    fn judge(&self) -> Judge {
        let interval = self.options.interval;
        let window = verdict_window(interval).saturating_sub(interval / 2);
        Judge::new(JudgeOptions {
            level: Level::Container,
            window_ns: window.as_nanos() as u64,
            thresholds: self.options.thresholds,
            ..JudgeOptions::default()
        })
    }
}

fn fresh(options: &Options) -> Data {
    Data::new(
        options.interval,
        options.thresholds,
        options.selection.clone(),
    )
}
