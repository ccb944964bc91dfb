//! The events of a tape.

use std::vec;

use noctule_model::Event;

use crate::error::Damage;
use crate::segment::Segment;
use crate::tables::{EventRecord, OwnerRecord, Owners};

/// Events in order. Behind a damage they go on with the next segment.
#[derive(Debug)]
pub struct Events<'a> {
    segments: &'a [Segment],
    flush: usize,
    owners: Owners,
    window: (u64, u64),
    read: vec::IntoIter<Event>,
    damages: Vec<Damage>,
}

impl<'a> Events<'a> {
    pub(crate) fn of(segments: &'a [Segment], window: (u64, u64)) -> Self {
        Self {
            segments,
            flush: 0,
            owners: Owners::default(),
            window,
            read: Vec::new().into_iter(),
            damages: Vec::new(),
        }
    }

    /// What is damaged, as far as it was read.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    fn next_segment(&mut self) {
        self.segments = self.segments.get(1..).unwrap_or_default();
        self.flush = 0;
        self.owners = Owners::default();
    }

    /// Whether the segment can have events of the window.
    fn has_any(&self, segment: &Segment) -> bool {
        let mut flushes = segment.flushes().iter().filter(|flush| flush.events > 0);
        flushes.any(|flush| {
            flush.events_from_unix_ns <= self.window.1 && flush.events_to_unix_ns >= self.window.0
        })
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
        let (from, to) = self.window;
        let read = segment
            .read::<OwnerRecord>(flush, "owners")
            .and_then(|owners| {
                owners
                    .into_iter()
                    .for_each(|entry| self.owners.learn(entry.row));
                match flush.events > 0
                    && flush.events_from_unix_ns <= to
                    && flush.events_to_unix_ns >= from
                {
                    true => segment.read::<EventRecord>(flush, "events"),
                    false => Ok(Vec::new()),
                }
            });
        match read {
            Ok(entries) => {
                let events = entries
                    .into_iter()
                    .filter_map(|entry| entry.row.event(&self.owners));
                let events = events.filter(|event| (from..=to).contains(&event.time_unix_ns));
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
        loop {
            if let Some(event) = self.read.next() {
                return Some(event);
            }
            self.load()?;
        }
    }
}
