//! The place in a recording, moved by a thread of its own: the screen never waits for the disk.

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

/// A recording that can be read from any moment.
pub trait Recorded: Sync {
    /// The least and the greatest time of each run of the agent, nanoseconds since 1970, in order. There is one at
    /// least.
    fn spans(&self) -> Vec<(u64, u64)>;

    /// The batches of a span, from the last that is not after a moment on. Their end is that of the span.
    fn batches(&self, span: usize, from_unix_ns: u64) -> Box<dyn Iterator<Item = Batch> + '_>;
}

/// Batches that make the first picture after a jump; the minute before it follows.
const QUICK: usize = 3;

/// Batches in memory behind the place, at most: those that the minute of a step back needs.
const KEPT: usize = 2 * LENGTH;

/// Pictures that wait for the screen.
pub(crate) const LANE: usize = 2;

/// Between two pictures while it plays.
const FRAME: Duration = Duration::from_millis(100);

const MINUTE: u64 = 60_000_000_000;

/// Ends when nobody travels or looks any more.
pub(crate) fn play(
    source: &dyn Recorded,
    options: &Options,
    start_unix_ns: u64,
    travels: &Receiver<Travel>,
    pictures: &SyncSender<Fresh>,
) {
    let mut player = Player::new(source, options, travels, pictures);
    let mut next = player.go(start_unix_ns);
    while let Ok(travel) = next {
        let travel = travel.map_or_else(|| player.wait(), Ok);
        next = travel.and_then(|travel| player.follow(travel));
    }
}

/// Nobody looks any more.
#[derive(Debug)]
pub(crate) struct Gone;

/// What came meanwhile, if anything did.
type Next = Result<Option<Travel>, Gone>;

struct Player<'a> {
    source: &'a dyn Recorded,
    options: &'a Options,
    travels: &'a Receiver<Travel>,
    pictures: &'a SyncSender<Fresh>,
    spans: Vec<(u64, u64)>,
    span: usize,
    /// Batches in a row.
    kept: VecDeque<Batch>,
    /// The place: the batch that is shown.
    at: usize,
    /// The batches behind those that are kept.
    later: Box<dyn Iterator<Item = Batch> + 'a>,
    data: Data,
    /// Times as fast as it was recorded.
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
            spans: source.spans(),
            span: 0,
            kept: VecDeque::new(),
            at: 0,
            later: Box::new(std::iter::empty()),
            data: fresh(options),
            speed: None,
        }
    }

    fn time(&self) -> u64 {
        self.kept.get(self.at).map_or(0, |batch| batch.time_unix_ns)
    }

    /// Waits for a key, and plays meanwhile.
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
            while let Some(time) = self.upcoming().filter(|time| *time <= now) {
                let set_back = time < self.time();
                moved |= self.step();
                if set_back {
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
        let now = self.time();
        match travel {
            Travel::To(time) => self.go(time),
            Travel::Minutes(minutes) => {
                let time = match minutes < 0 {
                    true => now.saturating_sub(MINUTE * minutes.unsigned_abs()),
                    false => now.saturating_add(MINUTE * minutes.unsigned_abs()),
                };
                self.go(time)
            }
            Travel::Back => self.go(now.saturating_sub(1)),
            Travel::On => {
                if self.upcoming().is_some() {
                    self.step();
                    self.show(false)?;
                    return Ok(None);
                }
                match self.spans.get(self.span + 1) {
                    Some((from, _)) => self.go(*from),
                    None => self.show(false).map(|()| None),
                }
            }
            Travel::Play(speed) => {
                self.speed = Some(speed);
                self.show(false).map(|()| None)
            }
            Travel::Stop => {
                self.speed = None;
                self.show(false).map(|()| None)
            }
            Travel::Verdict => self.find_verdict(),
        }
    }

    /// To the last batch that is not after a moment. First what is quick to read and to see, then, unless a
    /// key comes, the minute before it.
    fn go(&mut self, time: u64) -> Next {
        let spans = self.spans.iter();
        let span = spans.take_while(|(from, _)| *from <= time).count();
        let span = span.saturating_sub(1);
        let (from, to) = self.spans.get(span).copied().unwrap_or_default();
        let time = time.max(from).min(to);
        let has = span == self.span && self.keeps_minute(time, from);
        if !has {
            self.span = span;
            let near = self.back(time, QUICK).max(from);
            self.fill(near, time);
            self.stand_at(time);
            self.show_from((self.at + 1).saturating_sub(QUICK), true)?;
            if let Some(travel) = self.pending()? {
                return Ok(Some(travel));
            }
            self.fill_minute(time, from);
        }
        let begins = self.at.saturating_sub(LENGTH);
        let quick = (self.at + 1).saturating_sub(QUICK);
        if quick <= begins {
            self.show_from(begins, false)?;
            return Ok(None);
        }
        if has {
            self.show_from(quick, true)?;
        }
        let mut data = fresh(self.options);
        for place in begins..=self.at {
            if let Some(travel) = self.pending()? {
                return Ok(Some(travel));
            }
            data.push(self.kept[place].clone());
        }
        self.data = data;
        self.show(false).map(|()| None)
    }

    /// Goes to a moment in the batches in memory, where these have it and the minute before it; `from` is the
    /// begin of the span.
    fn keeps_minute(&mut self, time: u64, from: u64) -> bool {
        let times = |batch: Option<&Batch>| batch.map(|batch| batch.time_unix_ns);
        let (first, last) = (times(self.kept.front()), times(self.kept.back()));
        let has = first.is_some_and(|it| it <= time) && last.is_some_and(|it| it >= time);
        if has {
            self.stand_at(time);
        }
        has && (self.at >= LENGTH || first.is_some_and(|it| it <= from))
    }

    /// Reads the minute before a moment, and goes there. On a busy machine batches come late: then a minute of
    /// them began earlier.
    fn fill_minute(&mut self, time: u64, from: u64) {
        let mut before = self.before(time).max(from);
        let mut more = 2;
        loop {
            self.fill(before, time);
            self.stand_at(time);
            let missing = LENGTH.saturating_sub(self.at);
            if missing == 0 || before == from {
                return;
            }
            before = self.back(before, more * missing).max(from);
            more *= 2;
        }
    }

    /// Reads the batches between two moments, the last one before them included.
    fn fill(&mut self, from: u64, to: u64) {
        self.kept.clear();
        self.later = self.source.batches(self.span, from);
        while self.kept.back().is_none_or(|last| last.time_unix_ns < to)
            && let Some(batch) = self.later.next()
        {
            self.kept.push_back(batch);
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
    }

    /// Makes the last batch that is not after a moment the place.
    fn stand_at(&mut self, time: u64) {
        let reached = self.kept.iter().take_while(|it| it.time_unix_ns <= time);
        self.at = reached.count().saturating_sub(1);
        // The first batch alone has no window to show.
        if self.at == 0 && self.upcoming().is_some() {
            self.at = 1;
        }
    }

    fn pending(&self) -> Next {
        match self.travels.try_recv() {
            Ok(travel) => Ok(Some(travel)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Gone),
        }
    }

    /// Where the graphs that end at a moment begin.
    fn before(&self, time: u64) -> u64 {
        self.back(time, LENGTH + 1)
    }

    /// So many batches before a moment.
    fn back(&self, time: u64, batches: usize) -> u64 {
        let interval = self.options.interval.as_nanos() as u64;
        time.saturating_sub(interval.saturating_mul(batches as u64))
    }

    /// Time of the batch behind the place, in the same span.
    fn upcoming(&mut self) -> Option<u64> {
        if self.at + 1 >= self.kept.len() {
            let batch = self.later.next()?;
            self.kept.push_back(batch);
            if self.kept.len() > KEPT {
                self.kept.pop_front();
                self.at -= 1;
            }
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

    /// To the next moment at which a window was judged in which somebody was hurt.
    fn find_verdict(&mut self) -> Next {
        self.speed = None;
        self.show(true)?;
        let from = self.time();
        for span in self.span..self.spans.len() {
            let (begin, _) = self.spans[span];
            // With the windows that a jump to there would judge.
            let mut judge = self.judge();
            let batches = self.source.batches(span, self.before(from).max(begin));
            for batch in batches {
                if let Some(travel) = self.pending()? {
                    return Ok(Some(travel));
                }
                let time = batch.time_unix_ns;
                let report = judge.observe(&batch).filter(|report| !report.provisional);
                let hurt = report.is_some_and(|report| {
                    let mut rows = report.rows.iter();
                    rows.any(|row| row.verdict.kind != VerdictKind::Quiet)
                });
                if hurt && time > from {
                    return self.go(time);
                }
            }
        }
        self.show(false).map(|()| None)
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
