//! The events of a recording.

use std::vec;

use noctule_model::Event;

use crate::error::Damage;
use crate::index::Flush;
use crate::segment::Segment;
use crate::tables::{EventRecord, OwnerRecord, Owners};

/// Selects events by time and batch number. Each event carries the wall-clock time at which it
/// happened, and the number of the last batch before it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// First and last time, nanoseconds since 1970.
    pub(crate) times: (u64, u64),
    /// First and last batch number.
    pub(crate) numbers: (u64, u64),
    /// Set if the wall clock was set between these numbers: the time of the batch before the last
    /// number. Only events with the first or the last number are then compared by time.
    pub(crate) set_before_unix_ns: Option<u64>,
}

impl Inside {
    /// Selects the events of a period by time alone.
    pub(crate) fn times(from_unix_ns: u64, to_unix_ns: u64) -> Self {
        Self {
            times: (from_unix_ns, to_unix_ns),
            numbers: (0, u64::MAX),
            set_before_unix_ns: None,
        }
    }

    fn may_have(&self, flush: &Flush) -> bool {
        let (from, to) = self.times;
        let in_time = flush.events_from_unix_ns <= to && flush.events_to_unix_ns >= from;
        flush.events > 0 && (in_time || self.set_before_unix_ns.is_some())
    }

    fn has(&self, number: u64, time_unix_ns: u64) -> bool {
        let ((from, to), (least, greatest)) = (self.times, self.numbers);
        if !(least..=greatest).contains(&number) {
            return false;
        }
        let Some(last_unix_ns) = self.set_before_unix_ns else {
            return (from..=to).contains(&time_unix_ns);
        };
        let after_begin = number > least || time_unix_ns >= from;
        // The batch `greatest` follows the window. The events before that batch include some that
        // happened inside the window but were observed late.
        let before_end = if number.saturating_add(1) < greatest {
            true
        } else if number < greatest {
            time_unix_ns <= to
        } else {
            (last_unix_ns..=to).contains(&time_unix_ns)
        };
        after_begin && before_end
    }
}

/// Yields the events in order. After damage, reading continues with the next segment.
#[derive(Debug)]
pub struct Events<'a> {
    segments: &'a [Segment],
    flush: usize,
    owners: Owners,
    inside: Inside,
    read: vec::IntoIter<(u64, Event)>,
    damages: Vec<Damage>,
}

impl<'a> Events<'a> {
    pub(crate) fn of(segments: &'a [Segment], inside: Inside) -> Self {
        Self {
            segments,
            flush: 0,
            owners: Owners::default(),
            inside,
            read: Vec::new().into_iter(),
            damages: Vec::new(),
        }
    }

    /// Returns the damage found so far.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Returns the next event with the number of the last batch before it was observed.
    pub fn next_seen(&mut self) -> Option<(u64, Event)> {
        loop {
            if let Some(seen) = self.read.next() {
                return Some(seen);
            }
            self.load()?;
        }
    }

    fn next_segment(&mut self) {
        self.segments = self.segments.get(1..).unwrap_or_default();
        self.flush = 0;
        self.owners = Owners::default();
    }

    /// Returns whether the segment can contain matching events.
    fn has_any(&self, segment: &Segment) -> bool {
        let mut flushes = segment.flushes().iter();
        flushes.any(|flush| self.inside.may_have(flush))
    }

    fn load(&mut self) -> Option<()> {
        let segment = self.segments.first()?;
        if self.flush == 0 && !self.has_any(segment) {
            self.next_segment();
            return Some(());
        }
        let Some(flush) = segment.flushes().get(self.flush) else {
            self.next_segment();
            return Some(());
        };
        self.flush += 1;
        let inside = self.inside;
        let read = segment
            .read::<OwnerRecord>(flush, "owners")
            .and_then(|owners| {
                owners
                    .into_iter()
                    .for_each(|entry| self.owners.learn(entry.row));
                match inside.may_have(flush) {
                    true => segment.read::<EventRecord>(flush, "events"),
                    false => Ok(Vec::new()),
                }
            });
        match read {
            Ok(entries) => {
                let events = entries.into_iter().filter_map(|entry| {
                    let event = entry.row.event(&self.owners)?;
                    let is_inside = inside.has(entry.tick, event.time_unix_ns);
                    is_inside.then_some((entry.tick, event))
                });
                self.read = events.collect::<Vec<_>>().into_iter();
            }
            Err(damage) => {
                self.damages.push(damage);
                self.next_segment();
            }
        }
        Some(())
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.next_seen().map(|(_, event)| event)
    }
}
