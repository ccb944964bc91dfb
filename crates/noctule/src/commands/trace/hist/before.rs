//! The events before a `snapshot()`: the last events of `--trace` up to the moment when its value
//! was saved.
//!
//! The programs of a table do not report that they saved a value; only the row contains the time.
//! Therefore the last events are held here, and the table is read periodically. Each reading
//! selects the events before the newest saved value, and drops events that no later value can need.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::table::Tracked;
use noctule_trace::watch::{Arrival, WatchSession};

use super::job::Job;
use crate::args::HistArgs;
use crate::commands::trace::event_stream::{Lines, Node, Traced, monotonic_ns};
use crate::commands::trace::tracepoints;
use crate::exit::Usage;
use crate::print::Paint;

/// Interval between readings of the table.
const LOOK: Duration = Duration::from_millis(500);
/// The table is read early if this many events are held in addition to the requested ones.
const HELD: usize = 50_000;

/// The events to trace for a snapshot.
pub(super) struct Wanted<'a> {
    kernel: TraceEvents,
    traced: Traced<'a>,
}

impl<'a> Wanted<'a> {
    /// Returns `None` if no trigger has a `snapshot()`.
    pub(super) fn find(args: &'a HistArgs, jobs: &[Job], node: &Node) -> Result<Option<Self>> {
        let tracked = jobs.iter().flat_map(|job| &job.table.tracked);
        let snapshots = tracked.filter(|tracked: &&Tracked| tracked.is_snapshot);
        let words = match (snapshots.count(), args.trace.is_empty()) {
            (0, true) => return Ok(None),
            (0, false) => {
                "--trace needs a snapshot() to show its events: add :onmax($VARIABLE).snapshot() \
                 to a trigger"
            }
            (1, true) => "snapshot() shows the last traced events: add --trace EVENT",
            (1, false) => {
                let kernel = tracepoints::open()?;
                let traced = Traced::find(&args.trace, &kernel, node)?;
                return Ok(Some(Self { kernel, traced }));
            }
            _ => "a command can have only one snapshot(), because its events are shown only once",
        };
        bail!(Usage(words.to_owned()))
    }

    /// Starts tracing.
    pub(super) fn start<'b>(
        &'b self,
        args: &HistArgs,
        node: &'b Node,
        paint: Paint,
    ) -> Result<Before<'b>> {
        let events = self.traced.events.all();
        let lines = Lines::new(events, &node.symbols, &self.kernel, args.json, paint);
        Ok(Before {
            session: self.traced.start(&self.kernel, args.buffer)?,
            lines,
            held: Held {
                room: args.keep,
                ..Held::default()
            },
            looked: Instant::now(),
        })
    }
}

/// A running trace that holds the last events.
pub(super) struct Before<'a> {
    pub(super) session: WatchSession,
    lines: Lines<'a>,
    held: Held,
    looked: Instant,
}

impl Before<'_> {
    /// Reads new events. `taken` returns the time at which the table saved its value. This function
    /// calls `taken` only periodically.
    pub(super) fn follow(&mut self, taken: impl FnOnce() -> Result<Option<u64>>) -> Result<()> {
        let held = &mut self.held;
        self.session.read(monotonic_ns(), |one| held.push(one))?;
        if self.looked.elapsed() < LOOK && held.last.len() < held.room + HELD {
            return Ok(());
        }
        // A value saved after this moment is newer than any value that the table can return now.
        let before = monotonic_ns();
        held.update(before, taken()?);
        self.looked = Instant::now();
        Ok(())
    }

    /// Stops tracing and returns the lines of the events up to the time of the saved value.
    pub(super) fn end(mut self, taken: Option<u64>) -> Result<Vec<String>> {
        let held = &mut self.held;
        let losses = self.session.stop(monotonic_ns(), |one| held.push(one))?;
        self.held.update(u64::MAX, taken);
        let mut head = Some(self.lines.head()).filter(|head| !head.is_empty());
        let mut lines = Vec::new();
        for arrival in &self.held.taken {
            let mut text = head.take().unwrap_or_default();
            self.lines.event(arrival, &mut text);
            lines.push(text);
        }
        if losses.lost > 0 {
            tracing::warn!(
                "the last {} --trace events did not fit into the buffer: use a larger --buffer",
                losses.lost
            );
        }
        Ok(lines)
    }
}

/// The last events, and the events of the snapshot.
#[derive(Default)]
struct Held {
    /// Number of events in a snapshot.
    room: usize,
    last: VecDeque<Rc<Arrival>>,
    /// When the value of the snapshot was saved.
    time_ns: u64,
    taken: VecDeque<Rc<Arrival>>,
}

impl Held {
    /// Adds an event; events must arrive in order of time.
    fn push(&mut self, arrival: Arrival) {
        let arrival = Rc::new(arrival);
        if arrival.time_ns <= self.time_ns {
            self.take(arrival.clone());
        }
        self.last.push_back(arrival);
    }

    fn take(&mut self, arrival: Rc<Arrival>) {
        self.taken.push_back(arrival);
        if self.taken.len() > self.room {
            self.taken.pop_front();
        }
    }

    /// Updates the snapshot. The table was read at `now_ns` or later, and last saved its value at
    /// `taken`.
    fn update(&mut self, now_ns: u64, taken: Option<u64>) {
        if let Some(time) = taken.filter(|time| *time != self.time_ns) {
            self.time_ns = time;
            self.taken.clear();
            let before = self.last.iter().filter(|one| one.time_ns <= time);
            let before: Vec<_> = before.cloned().collect();
            before.into_iter().for_each(|one| self.take(one));
        }
        // A value read later is newer than `now_ns`, so only the last events before it can be
        // needed.
        let old = self.last.partition_point(|one| one.time_ns <= now_ns);
        self.last.drain(..old.saturating_sub(self.room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_ns: u64) -> Arrival {
        Arrival {
            time_ns,
            ..Arrival::default()
        }
    }

    fn times(held: &Held) -> Vec<u64> {
        held.taken.iter().map(|one| one.time_ns).collect()
    }

    #[test]
    fn snapshot_has_the_last_events_before_its_time() {
        let mut held = Held {
            room: 3,
            ..Held::default()
        };
        (1..=6).for_each(|time| held.push(at(time)));
        held.update(6, Some(4));
        assert_eq!(times(&held), [2, 3, 4]);
        // A newer value was saved before the earlier events arrived.
        held.update(8, Some(8));
        assert_eq!(times(&held), [4, 5, 6]);
        (7..=10).for_each(|time| held.push(at(time)));
        assert_eq!(times(&held), [6, 7, 8]);
        // The snapshot changes only with the time.
        held.update(10, Some(8));
        assert_eq!(times(&held), [6, 7, 8]);
        assert_eq!(held.last.len(), 3, "no more than a later time can ask for");
        held.update(11, None);
        assert_eq!(times(&held), [6, 7, 8]);
    }
}
