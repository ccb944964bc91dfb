//! Parts of a span. The wall clock only determines where a part starts. The length and the batches
//! of a part are determined by the monotonic clock and the batch numbers, which cannot be set.

use crate::events::{Events, Inside};
use crate::index::Flush;
use crate::parts;
use crate::segment::Segment;
use crate::tables::NodeRecord;
use crate::tape::{Batches, Begin, Span, Tape};

/// If the wall clock and the monotonic clock diverge by more than this, the wall clock was set.
const STEP_NS: u64 = 1_000_000_000;

/// A part of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub span: Span,
    /// Wall-clock time of the start, nanoseconds since 1970. The first batch is the last batch at
    /// or before this time.
    pub from_unix_ns: u64,
    /// Wall-clock time of the last moment. The last moment can precede the start if the clock was
    /// set back.
    pub to_unix_ns: u64,
    /// Whether the requested period continues after the last batch of the span.
    pub is_cut: bool,
    /// Numbers of the first and the last batch.
    numbers: (u64, u64),
    events: Inside,
}

impl Stretch {
    /// Selects a whole span, even if the wall clock was set back within the span.
    pub fn whole(span: Span) -> Self {
        Self {
            span,
            from_unix_ns: span.from_unix_ns,
            to_unix_ns: span.to_unix_ns,
            is_cut: false,
            numbers: span.ticks.unwrap_or((0, u64::MAX)),
            events: Inside::times(0, u64::MAX),
        }
    }

    /// Selects a period of a span by wall-clock time alone.
    fn by_wall(tape: &Tape, span: Span, from_unix_ns: u64, length_ns: u64) -> Self {
        let to_unix_ns = from_unix_ns.saturating_add(length_ns);
        let number_at = |time| tape.number_at(&span, time);
        let numbers = number_at(from_unix_ns).zip(number_at(to_unix_ns));
        let from = match from_unix_ns <= span.from_unix_ns {
            true => 0,
            false => from_unix_ns,
        };
        let to = match to_unix_ns >= span.to_unix_ns {
            true => u64::MAX,
            false => to_unix_ns,
        };
        Self {
            span,
            from_unix_ns: from_unix_ns.max(span.from_unix_ns),
            to_unix_ns: to_unix_ns.min(span.to_unix_ns),
            is_cut: to_unix_ns > span.to_unix_ns && to_unix_ns < u64::MAX,
            numbers: numbers.unwrap_or((0, u64::MAX)),
            events: Inside::times(from, to),
        }
    }

    /// Numbers of the first and the last batch.
    pub fn numbers(&self) -> (u64, u64) {
        self.numbers
    }

    /// Returns the span, limited to the times of this part. If the clock was set during this part,
    /// returns the whole span.
    pub fn as_span(&self) -> Span {
        let (from_unix_ns, to_unix_ns) = match self.events.set_before_unix_ns {
            Some(_) => (self.span.from_unix_ns, self.span.to_unix_ns),
            None => (self.from_unix_ns, self.to_unix_ns),
        };
        Span {
            from_unix_ns,
            to_unix_ns,
            end_unix_ns: self.to_unix_ns,
            ..self.span
        }
    }

    pub fn batches<'a>(&self, tape: &'a Tape) -> Batches<'a> {
        self.batches_of(tape, parts::ALL)
    }

    /// Returns the batches with the tables of [`Tape::batches_of_groups`] only.
    pub fn batches_of_groups<'a>(&self, tape: &'a Tape) -> Batches<'a> {
        self.batches_of(tape, parts::OF_GROUPS)
    }

    fn batches_of<'a>(&self, tape: &'a Tape, tables: &'static [&'static str]) -> Batches<'a> {
        let (first, last) = self.numbers;
        let batches = tape.batches_of(tables, &self.span, Begin::Number(first));
        batches.up_to(last)
    }

    /// Returns the events. A part that reaches the first or last batch of the span includes the
    /// events beyond that batch.
    pub fn events<'a>(&self, tape: &'a Tape) -> Events<'a> {
        Events::of(tape.segments_of(&self.span), self.events)
    }
}

impl Tape {
    /// Returns the part of a span that starts at a wall-clock time and has a given length. If the
    /// clock showed that time twice, the later one counts.
    pub fn part(&self, span: &Span, from_unix_ns: u64, length_ns: u64) -> Stretch {
        let clocks = Clocks::of(self.segments_of(span));
        let begin = self.number_at(span, from_unix_ns);
        let taken_ns = begin.and_then(|number| clocks.taken_at(number, from_unix_ns));
        let stretch = taken_ns.and_then(|from_ns| clocks.stretch(span, from_ns, length_ns));
        stretch.unwrap_or_else(|| Stretch::by_wall(self, *span, from_unix_ns, length_ns))
    }

    /// Returns the part that starts `back_ns` before the last batch of a span. Returns `None` if
    /// the span is shorter or its clocks cannot be read.
    pub fn part_before_end(&self, span: &Span, back_ns: u64, length_ns: u64) -> Option<Stretch> {
        let clocks = Clocks::of(self.segments_of(span));
        let (first, last) = (clocks.first()?, clocks.last()?);
        let from_ns = last.taken_ns.checked_sub(back_ns);
        let from_ns = from_ns.filter(|from_ns| *from_ns >= first.taken_ns)?;
        clocks.stretch(span, from_ns, length_ns)
    }

    /// Returns the time between the first and the last batch of a span in nanoseconds, by the
    /// monotonic clock. Returns `None` if it cannot be read.
    pub fn length_ns(&self, span: &Span) -> Option<u64> {
        let clocks = Clocks::of(self.segments_of(span));
        let (first, last) = (clocks.first()?, clocks.last()?);
        Some(last.taken_ns.saturating_sub(first.taken_ns))
    }

    /// Like [`Self::length_ns`], but for a stretch.
    pub fn stretch_ns(&self, stretch: &Stretch) -> Option<u64> {
        let clocks = Clocks::of(self.segments_of(&stretch.span));
        let (first, last) = stretch.numbers;
        let (first, last) = (clocks.of_number(first)?, clocks.of_number(last)?);
        Some(last.taken_ns.saturating_sub(first.taken_ns))
    }

    /// Returns how often the wall clock showed a time in a span, which is twice if the clock was
    /// set back past that time.
    pub fn times_shown(&self, span: &Span, unix_ns: u64) -> usize {
        let runs = Clocks::of(self.segments_of(span)).runs();
        let shown = |run: &&Run| (run.from_unix_ns..=run.to_unix_ns).contains(&unix_ns);
        runs.iter().filter(shown).count()
    }
}

/// The monotonic clock and the wall clock at the time of a batch.
#[derive(Clone, Copy, Debug)]
struct Reading {
    number: u64,
    taken_ns: u64,
    unix_ns: u64,
}

impl Reading {
    /// Returns the wall-clock time at another moment if the clock is not set in between.
    fn unix_at(&self, taken_ns: u64) -> u64 {
        match taken_ns.checked_sub(self.taken_ns) {
            Some(later) => self.unix_ns.saturating_add(later),
            None => self.unix_ns.saturating_sub(self.taken_ns - taken_ns),
        }
    }

    /// Returns whether both clocks advanced by about the same amount until `later`.
    fn agrees(&self, later: &Self) -> bool {
        self.unix_at(later.taken_ns).abs_diff(later.unix_ns) <= STEP_NS
    }
}

/// Batches between which the wall clock was not set back.
struct Run {
    numbers: (u64, u64),
    from_unix_ns: u64,
    to_unix_ns: u64,
}

/// The flushes of a span in order. Flushes contain the clock readings.
struct Clocks<'a> {
    flushes: Vec<(&'a Segment, &'a Flush)>,
}

impl<'a> Clocks<'a> {
    fn of(segments: &'a [Segment]) -> Self {
        let flushes = segments.iter().flat_map(|segment| {
            let filled = segment.flushes().iter().filter(|flush| flush.ticks > 0);
            filled.map(move |flush| (segment, flush))
        });
        Self {
            flushes: flushes.collect(),
        }
    }

    /// Reads the clocks of one flush. Returns no readings if the flush is damaged.
    fn read(&self, place: usize) -> Vec<Reading> {
        let (segment, flush) = self.flushes[place];
        let nodes = segment.read::<NodeRecord>(flush, "node");
        let nodes = nodes.unwrap_or_default().into_iter();
        let reading = nodes.map(|node| Reading {
            number: node.tick,
            taken_ns: node.row.taken_ns,
            unix_ns: node.row.time.0,
        });
        reading.collect()
    }

    fn first(&self) -> Option<Reading> {
        let mut places = 0..self.flushes.len();
        places.find_map(|place| self.read(place).first().copied())
    }

    fn last(&self) -> Option<Reading> {
        let mut places = (0..self.flushes.len()).rev();
        places.find_map(|place| self.read(place).last().copied())
    }

    /// Returns the last reading for which `is_before` returns true, by binary search. If there is
    /// none, returns the first reading.
    fn last_where(&self, is_before: impl Fn(&Reading) -> bool) -> Option<Reading> {
        // A damaged flush has no readings: use the first reading of the flush before it.
        let begin_of = |place: usize| {
            let mut places = (0..=place).rev();
            places.find_map(|place| self.read(place).first().copied())
        };
        let (mut low, mut high) = (0, self.flushes.len());
        while low < high {
            let middle = low.midpoint(high);
            match begin_of(middle).is_none_or(|it| is_before(&it)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let readings = (0..low).rev().map(|place| self.read(place));
        let found = readings.filter(|it| !it.is_empty()).find_map(|it| {
            let before = it.partition_point(&is_before);
            it[..before].last().copied()
        });
        found.or_else(|| self.first())
    }

    fn of_number(&self, number: u64) -> Option<Reading> {
        self.last_where(|it| it.number <= number)
    }

    /// Converts a wall-clock time to `CLOCK_MONOTONIC`. `number` is the number of the last batch
    /// before that time.
    fn taken_at(&self, number: u64, unix_ns: u64) -> Option<u64> {
        let at = self.of_number(number)?;
        let taken_ns = match unix_ns.checked_sub(at.unix_ns) {
            Some(later) => at.taken_ns.saturating_add(later),
            None => at.taken_ns.saturating_sub(at.unix_ns - unix_ns),
        };
        // If the wall clock was set forward, a skipped time maps to the moment of the change.
        let behind = |it: &Reading| it.number > at.number && it.taken_ns > at.taken_ns;
        let place = self.flushes.partition_point(|(_, it)| it.last <= number);
        let next = (place < self.flushes.len()).then(|| self.read(place));
        let next = next.into_iter().flatten().find(behind);
        Some(next.map_or(taken_ns, |next| taken_ns.min(next.taken_ns - 1)))
    }

    /// Selects a period of a span by the monotonic clock.
    fn stretch(&self, span: &Span, from_ns: u64, length_ns: u64) -> Option<Stretch> {
        let to_ns = from_ns.saturating_add(length_ns);
        let (begin, end) = (self.first()?, self.last()?);
        let (begins, ends) = (from_ns <= begin.taken_ns, to_ns >= end.taken_ns);
        let first = self.last_where(|it| it.taken_ns <= from_ns)?;
        let last = self.last_where(|it| it.taken_ns <= to_ns)?;
        let from_unix_ns = first.unix_at(from_ns.max(begin.taken_ns));
        let to_unix_ns = last.unix_at(to_ns.min(end.taken_ns));
        let runs = self.runs();
        let has = |number| move |it: &&Run| (it.numbers.0..=it.numbers.1).contains(&number);
        let run = runs.iter().find(has(first.number))?;
        let (oldest, newest) = (runs.first()?.numbers.0, runs.last()?.numbers.1);
        let is_set = !has(last.number)(&run) || !first.agrees(&last);
        let numbers = match is_set {
            true => (first.number, last.number.saturating_add(1)),
            false => run.numbers,
        };
        // Events before the span's first batch or after its last one belong to no other part.
        let to_begin = begins || (!is_set && numbers.0 <= oldest);
        let to_end = ends || (!is_set && numbers.1 >= newest);
        Some(Stretch {
            span: *span,
            from_unix_ns,
            to_unix_ns,
            is_cut: to_ns > end.taken_ns && to_ns < u64::MAX,
            numbers: (self.begun(&first, from_ns), self.reached(&last, to_ns)),
            events: Inside {
                times: (
                    if begins { 0 } else { from_unix_ns },
                    if ends { u64::MAX } else { to_unix_ns },
                ),
                numbers: (
                    if to_begin { 0 } else { numbers.0 },
                    if to_end { u64::MAX } else { numbers.1 },
                ),
                set_before_unix_ns: is_set.then_some(last.unix_ns),
            },
        })
    }

    /// Returns the number of the first batch to read. If damaged data precedes the first readable
    /// batch, reading starts there, so that the damage is reported.
    fn begun(&self, first: &Reading, from_ns: u64) -> u64 {
        let oldest = self.flushes.first().map(|(_, flush)| flush.first);
        let oldest = oldest.filter(|_| first.taken_ns > from_ns);
        oldest.map_or(first.number, |oldest| oldest.min(first.number))
    }

    /// Returns the number of the last batch to read. If damaged data follows the last readable
    /// batch, reading continues through that data, so that the damage is reported.
    fn reached(&self, last: &Reading, to_ns: u64) -> u64 {
        if last.taken_ns > to_ns {
            let mut before = self.flushes.iter().rev();
            let before = before.find(|(_, flush)| flush.last < last.number);
            return before.map_or(last.number, |(_, flush)| flush.last);
        }
        let place = self
            .flushes
            .partition_point(|(_, it)| it.last <= last.number);
        let next = self.flushes.get(place);
        let damaged = next.filter(|_| to_ns > last.taken_ns && self.read(place).is_empty());
        damaged.map_or(last.number, |(_, flush)| flush.first.max(last.number))
    }

    /// Splits the span at each time when the clock was set back. The index suffices, because the
    /// writer ends a flush there.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (_, flush) in &self.flushes {
            match runs.last_mut() {
                Some(run) if run.to_unix_ns <= flush.from_unix_ns => {
                    run.numbers.1 = flush.last;
                    run.to_unix_ns = flush.to_unix_ns;
                }
                _ => runs.push(Run {
                    numbers: (flush.first, flush.last),
                    from_unix_ns: flush.from_unix_ns,
                    to_unix_ns: flush.to_unix_ns,
                }),
            }
        }
        runs
    }
}
