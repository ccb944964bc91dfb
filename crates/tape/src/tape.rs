//! Reads a recording.

use std::path::{Path, PathBuf};

use noctule_model::Batch;

use crate::error::{Damage, Error};
use crate::events::{Events, Inside};
use crate::folder;
use crate::index::Flush;
use crate::parts::{self, Parts};
use crate::rows::State;
use crate::segment::Segment;
use crate::tables::{NodeRecord, ProcessRecord};

/// A recording: the segments of a directory, oldest first.
#[derive(Clone, Debug)]
pub struct Tape {
    segments: Vec<Segment>,
}

/// Consecutive batches of one run of the agent, with the events of that time. Only batches that the
/// recorder lost are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The smallest wall-clock time of a batch, nanoseconds since 1970. This is the time of the
    /// first batch, unless the clock was set back. Without batches, the times of events are used.
    pub from_unix_ns: u64,
    /// The largest wall-clock time of a batch.
    pub to_unix_ns: u64,
    /// Wall-clock time of the last batch.
    pub end_unix_ns: u64,
    /// Indexes of the first and the last segment.
    pub segments: (usize, usize),
    /// Numbers of the first and the last batch; `None` if there are only events.
    pub(crate) ticks: Option<(u64, u64)>,
}

impl Span {
    /// Returns whether the span contains a wall-clock time.
    pub fn has(&self, unix_ns: u64) -> bool {
        (self.from_unix_ns..=self.to_unix_ns).contains(&unix_ns)
    }

    /// Returns the number of batches from the first to the last, including lost ones.
    pub fn batches(&self) -> u64 {
        let count = |(first, last): (u64, u64)| last.saturating_sub(first).saturating_add(1);
        self.ticks.map_or(0, count)
    }

    /// Returns the span of one segment, or `None` if nothing was written to it.
    fn of(place: usize, segment: &Segment) -> Option<Self> {
        let (from_unix_ns, to_unix_ns) = segment.span().or_else(|| segment.events_span())?;
        Some(Self {
            from_unix_ns,
            to_unix_ns,
            end_unix_ns: segment.end_unix_ns().unwrap_or(to_unix_ns),
            segments: (place, place),
            ticks: segment.ticks(),
        })
    }

    /// Appends the next segment of the same run. Returns false if its batches do not continue this
    /// span.
    fn extend(&mut self, next: &Self) -> bool {
        match (self.ticks, next.ticks) {
            (Some((_, last)), Some((first, _))) if last >= first => return false,
            // Times of events matter only if there is no batch.
            (Some(_), None) => {}
            (None, Some(_)) => {
                let first = self.segments.0;
                *self = *next;
                self.segments.0 = first;
            }
            _ => {
                self.from_unix_ns = self.from_unix_ns.min(next.from_unix_ns);
                self.to_unix_ns = self.to_unix_ns.max(next.to_unix_ns);
                self.end_unix_ns = next.end_unix_ns;
                let since = self.ticks.map(|(first, _)| first);
                self.ticks = since.zip(next.ticks.map(|(_, last)| last));
            }
        }
        self.segments.1 = next.segments.1;
        true
    }
}

impl Tape {
    /// Reads the index of each segment. `path` is the directory of a recording, or one segment.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let paths = match folder::is_segment(path) {
            true => vec![path.to_owned()],
            false => folder::segments(path)?,
        };
        if paths.is_empty() {
            let path = path.display();
            return Err(Error::new(format!(
                "{path}: there is no recording in this folder: create one with `noctule record -o {path}`"
            )));
        }
        Self::of(&paths)
    }

    /// Reads the index of each of these segments.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Self, Error> {
        let segments: Result<Vec<_>, _> = paths.iter().map(|path| Segment::open(path)).collect();
        let mut segments = segments?;
        if let Some((_, before)) = segments.split_last_mut() {
            before.iter_mut().for_each(Segment::is_followed);
        }
        Ok(Self { segments })
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the spans, each of one run, because counters of different runs are not comparable. A
    /// span can consist of events only.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<(Span, &str)> = Vec::new();
        for (place, segment) in self.segments.iter().enumerate() {
            let Some(next) = Span::of(place, segment) else {
                continue;
            };
            let run = &*segment.meta().run;
            let last = spans.last_mut();
            let last = last.filter(|(_, same)| !run.is_empty() && *same == run);
            if !last.is_some_and(|(span, _)| span.extend(&next)) {
                spans.push((next, run));
            }
        }
        spans.into_iter().map(|(span, _)| span).collect()
    }

    /// Returns the average time between two batches of a span in nanoseconds, by the monotonic
    /// clock. Lost batches are included. Returns `None` if two batches cannot be read.
    pub fn interval_ns(&self, span: &Span) -> Option<u64> {
        let (first, last) = span.segments;
        let segments = self.segments.get(first..=last)?.iter();
        let mut nodes = segments.flat_map(|segment| {
            let flushes = segment.flushes().iter().filter(|flush| flush.ticks > 0);
            let read = flushes.map(|flush| segment.read::<NodeRecord>(flush, "node"));
            read.filter_map(|read| read.ok().filter(|rows| !rows.is_empty()))
        });
        let first = nodes.next()?;
        let last = nodes.next_back();
        let (first, last) = (first.first()?, last.as_ref().unwrap_or(&first).last()?);
        let passed = last.row.taken_ns.checked_sub(first.row.taken_ns)?;
        passed.checked_div(last.tick.saturating_sub(first.tick))
    }

    /// Returns the batches of a span, starting with the last one at or before `from_unix_ns`.
    pub fn batches(&self, span: &Span, from_unix_ns: u64) -> Batches<'_> {
        self.batches_of(parts::ALL, span, Begin::Time(from_unix_ns))
    }

    /// Returns the batches of a span, starting with the last one whose number ([`Batch::sequence`])
    /// is at most `sequence`. If that batch is damaged, starts with the last readable batch before
    /// it, or else with the first readable batch after it.
    pub fn batches_from(&self, span: &Span, sequence: u64) -> Batches<'_> {
        let segments = self.segments_of(span);
        let from = |segments, number| Batches::of(parts::ALL, segments, Begin::Number(number));
        let reached = |it: &Batches<'_>| it.state.next_tick().is_some_and(|next| next <= sequence);
        let batches = from(segments, sequence);
        if batches.damages.is_empty() || reached(&batches) {
            return batches;
        }
        let flushes = segments.iter().enumerate().flat_map(|(at, segment)| {
            let filled = segment.flushes().iter().filter(|it| it.ticks > 0);
            filled.map(move |flush| (at, flush.last))
        });
        let mut before = flushes.rev().filter(|(_, last)| *last < sequence);
        // The search is limited to this segment. If all data is damaged, each attempt would
        // otherwise scan the remaining recording.
        let can_be_read = |(at, last): &(usize, u64)| reached(&from(&segments[..=*at], *last));
        match before.find(can_be_read) {
            Some((_, last)) => from(segments, last),
            None => batches,
        }
    }

    /// Returns the number of the last batch of a span at or before a moment, or of the first batch
    /// if all batches are later. If the number cannot be read, it is estimated from the index.
    /// Returns `None` without batches.
    pub fn number_at(&self, span: &Span, time_unix_ns: u64) -> Option<u64> {
        let segments = self.segments_of(span);
        let (segment, flush) = place(segments, Begin::Time(time_unix_ns));
        let segment = segments.get(segment)?;
        let flush = segment.flushes().get(flush).filter(|it| it.ticks > 0)?;
        let nodes = segment.read::<NodeRecord>(flush, "node");
        let nodes = nodes.unwrap_or_default();
        let before = nodes.iter().take_while(|it| it.row.time.0 <= time_unix_ns);
        let known = before.last().or(nodes.first()).map(|it| it.tick);
        let by_index = match time_unix_ns < flush.to_unix_ns {
            true => flush.first,
            false => flush.last,
        };
        Some(known.unwrap_or(by_index))
    }

    /// Returns the batches of a span, starting at a given time, with only the tables for reports
    /// about waits of groups: node, groups, quotas, waits and their causes, features, losses.
    pub fn batches_of_groups(&self, span: &Span, from_unix_ns: u64) -> Batches<'_> {
        self.batches_of(parts::OF_GROUPS, span, Begin::Time(from_unix_ns))
    }

    pub(crate) fn batches_of(
        &self,
        tables: &'static [&'static str],
        span: &Span,
        from: Begin,
    ) -> Batches<'_> {
        Batches::of(tables, self.segments_of(span), from)
    }

    pub(crate) fn segments_of(&self, span: &Span) -> &[Segment] {
        let (first, last) = span.segments;
        self.segments.get(first..=last).unwrap_or_default()
    }

    /// Returns the events of a span in a period, in the order in which they were observed.
    pub fn events(&self, span: &Span, from_unix_ns: u64, to_unix_ns: u64) -> Events<'_> {
        Events::of(
            self.segments_of(span),
            Inside::times(from_unix_ns, to_unix_ns),
        )
    }

    /// Verifies all checksums and returns the damage.
    pub fn check(&self) -> Vec<Damage> {
        self.segments.iter().flat_map(Segment::check).collect()
    }

    /// Returns the damage found in indexes and descriptions.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.segments.iter().flat_map(Segment::damages)
    }
}

/// The position at which reading starts: the last batch at or before that time or number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Wall-clock time, nanoseconds since 1970.
    Time(u64),
    /// Batch number, which never decreases.
    Number(u64),
}

/// Finds the segment and the flush that contain a position. If the clock was set back and showed a
/// time twice, the later occurrence is used.
fn place(segments: &[Segment], from: Begin) -> (usize, usize) {
    let flushes = |(at, segment): (usize, &'_ Segment)| {
        let flushes = segment.flushes().iter().enumerate();
        let filled = flushes.filter(|(_, flush)| flush.ticks > 0);
        let ends = filled.map(|(place, flush)| match from {
            Begin::Time(_) => (place, flush.from_unix_ns, flush.to_unix_ns),
            Begin::Number(_) => (place, flush.first, flush.last),
        });
        ends.map(|(place, from, to)| ((at, place), from, to))
            .collect::<Vec<_>>()
    };
    let (Begin::Time(wanted) | Begin::Number(wanted)) = from;
    let all: Vec<_> = segments.iter().enumerate().flat_map(flushes).collect();
    // The range of a flush extends to the start of the next flush.
    let holds = |at: &usize| {
        let (_, from, to) = all[*at];
        let next = all.get(at + 1).map_or(to, |next| next.1.saturating_sub(1));
        (from..=to.max(next)).contains(&wanted)
    };
    let last = || all.iter().rposition(|(_, from, _)| *from <= wanted);
    let found = (0..all.len()).rev().find(holds).or_else(last);
    // A position before all flushes is mapped to the first flush.
    found
        .map_or(all.first(), |at| all.get(at))
        .map_or((0, 0), |it| it.0)
}

/// Yields the batches in order. After damage, reading continues with the next segment.
#[derive(Debug)]
pub struct Batches<'a> {
    /// The tables that are read.
    tables: &'static [&'static str],
    segments: &'a [Segment],
    flush: usize,
    /// Number of the last batch to read.
    last: u64,
    state: State,
    /// Whether [`Self::next_for_report`] skipped the current batch.
    passed: bool,
    damages: Vec<Damage>,
}

impl<'a> Batches<'a> {
    fn of(tables: &'static [&'static str], segments: &'a [Segment], from: Begin) -> Self {
        let (begun, flush) = place(segments, from);
        let segments = &segments[begun.min(segments.len())..];
        let flushes = segments.first().map_or(&[][..], Segment::flushes);
        let before = flushes.iter().take(flush + 1);
        let whole = before.enumerate().rfind(|(_, flush)| flush.whole);
        let mut batches = Self {
            tables,
            segments,
            flush: whole.map_or(0, |(whole, _)| whole),
            last: u64::MAX,
            state: State::default(),
            passed: false,
            damages: Vec::new(),
        };
        batches.skip_to(flush, from);
        batches
    }

    /// Stops after the batch with this number ([`Batch::sequence`]).
    #[must_use]
    pub fn up_to(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// Returns the wall-clock time of the next batch, nanoseconds since 1970.
    pub fn next_unix_ns(&mut self) -> Option<u64> {
        while self.state.next_unix_ns().is_none() {
            self.segments.first()?;
            match self.take_flush() {
                None => self.next_segment(),
                Some((segment, flush)) => {
                    let parts = Parts::read(segment, flush, self.tables);
                    let loaded = parts.and_then(|parts| self.state.load(&parts));
                    if let Err(damage) = loaded {
                        self.damages.push(damage);
                        self.next_segment();
                    }
                }
            }
        }
        self.state.next_unix_ns().filter(|_| self.next_is_inside())
    }

    /// Returns whether the next batch is loaded and within the limit.
    fn next_is_inside(&self) -> bool {
        self.state.next_tick().is_some_and(|next| next <= self.last)
    }

    /// Returns the next batch that a `ReportBuilder` of noctule-analysis needs, after the first
    /// batch of a window. Skips a batch if the next one contains all of its rows. The next one then
    /// also contains the processes that exited in the skipped batch. Returns `None` after the last
    /// batch.
    pub fn next_for_report(&mut self) -> Option<Batch> {
        loop {
            if self.state.next_unix_ns().is_none() {
                if let Err(damage) = self.jump() {
                    self.damages.push(damage);
                    self.flush = usize::MAX;
                }
                let Some((segment, flush)) = self.take_flush() else {
                    // The next segment starts with all rows and does not record which rows ended
                    // before it.
                    if std::mem::take(&mut self.passed) {
                        return self.state.current();
                    }
                    self.segments.first()?;
                    self.next_segment();
                    continue;
                };
                if let Err(damage) = self.load_for_report(segment, flush) {
                    self.damages.push(damage);
                    self.flush = usize::MAX;
                }
                continue;
            }
            let inside = self.next_is_inside();
            if inside && self.state.next_keeps_rows() {
                self.state.pass();
                self.passed = true;
            } else if std::mem::take(&mut self.passed) {
                return self.state.current();
            } else {
                return inside.then(|| self.state.next()).flatten();
            }
        }
    }

    /// Jumps to the last flush of the segment that starts with all rows, if only processes ended
    /// before it.
    fn jump(&mut self) -> Result<(), Damage> {
        let Some(segment) = self.segments.first().filter(|_| self.state.has_batch()) else {
            return Ok(());
        };
        let later = segment.flushes().get(self.flush..).unwrap_or_default();
        let quiet = |flush: &&Flush| flush.ticks == 0 || (flush.kept && flush.last <= self.last);
        let quiet = &later[..later.iter().take_while(quiet).count()];
        let Some(place) = quiet.iter().rposition(|flush| flush.whole) else {
            return Ok(());
        };
        let (between, whole) = (&later[..place], &later[place]);
        let mut ended = Vec::new();
        for flush in between {
            self.state.learn(segment.read(flush, "owners")?);
            if self.tables.contains(&"exited") {
                let exited = segment.read::<ProcessRecord>(flush, "exited")?;
                ended.extend(exited.into_iter().map(|entry| entry.row));
            }
        }
        let whole = Parts::read(segment, whole, self.tables)?;
        self.state.begin_at(&whole, ended)?;
        self.flush += place + 1;
        self.passed = true;
        Ok(())
    }

    fn load_for_report(&mut self, segment: &Segment, flush: &Flush) -> Result<(), Damage> {
        let parts = Parts::read(segment, flush, self.tables)?;
        let whole = flush.ticks > 0 && flush.last <= self.last;
        if whole && self.state.has_batch() && (flush.kept || self.state.ends(&parts)?.is_empty()) {
            self.state.pass_all(&parts)?;
            self.passed = true;
            return Ok(());
        }
        self.state.load(&parts)
    }

    /// Returns the damage found so far.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    fn next_segment(&mut self) {
        self.segments = self.segments.get(1..).unwrap_or_default();
        self.flush = 0;
        self.state = State::default();
    }

    /// Takes the next flush of the segment.
    fn take_flush(&mut self) -> Option<(&'a Segment, &'a Flush)> {
        let segment = self.segments.first()?;
        let flush = segment.flushes().get(self.flush)?;
        self.flush += 1;
        Some((segment, flush))
    }

    /// Advances to the last batch of a flush at or before a position.
    fn skip_to(&mut self, flush: usize, from: Begin) {
        self.pass_flushes(flush);
        let before = |this: &Self| {
            let later = this.state.second();
            later.is_some_and(|(tick, at)| match from {
                Begin::Time(time) => at <= time,
                Begin::Number(number) => tick <= number,
            })
        };
        while self.next_unix_ns().is_some() && before(self) {
            self.state.pass();
        }
        self.state.forget_ended();
    }

    /// Skips all flushes before the one with this number.
    fn pass_flushes(&mut self, flush: usize) {
        while self.flush < flush
            && let Some((segment, flush)) = self.take_flush()
        {
            let parts = Parts::read(segment, flush, self.tables);
            if let Err(damage) = parts.and_then(|parts| self.state.pass_all(&parts)) {
                self.damages.push(damage);
                self.next_segment();
                return;
            }
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        self.next_unix_ns()?;
        self.passed = false;
        self.state.next()
    }
}
