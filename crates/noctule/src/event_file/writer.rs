//! The writing thread: writes queued events as lines, and gap records for lost ones.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use noctule_model::{Event, Origin};
use noctule_sinks::events::event_json;

use super::queue::{Queue, Waiting};
use super::rotation::Rotation;
use super::tally::Tally;

/// Maximum size of one write, unless a single line is longer.
const CHUNK: u64 = 64 * 1024;
/// Interval at which a gap record is retried while no event arrives.
const AGAIN: Duration = Duration::from_secs(1);

/// State of the writing thread.
pub(super) struct Writer {
    file: Rotation,
    queue: Arc<Queue>,
    /// Lines that are not written yet. `reported` is the number of events in them.
    lines: Vec<u8>,
    reported: Tally,
    /// Losses for which the file has no gap record yet. At first, this is the gap since the last
    /// event in the file.
    missing: Tally,
    /// Whether the first event has arrived, which ends the gap caused by the restart.
    begun: bool,
    /// Whether the last write failed and was logged.
    failing: bool,
    /// Whether the queue overflowed in the last iteration and the overflow was logged.
    slow: bool,
}

impl Writer {
    pub(super) fn new(file: Rotation, queue: Arc<Queue>) -> Self {
        Self {
            missing: Tally::since(file.last_unix_ns()),
            begun: false,
            file,
            queue,
            lines: Vec::new(),
            reported: Tally::default(),
            failing: false,
            slow: false,
        }
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(waiting) = self.queue.take(AGAIN) {
            self.write(&waiting);
        }
        if !self.missing.is_empty() {
            let path = self.file.name();
            tracing::warn!(
                "{path}: the last events are missing, because they could not be written"
            );
        }
    }

    /// Writes events, with gap records where events are missing.
    pub(super) fn write(&mut self, waiting: &Waiting) {
        for event in &waiting.events {
            self.add(event);
        }
        let lacks = waiting.missing.here();
        if lacks > 0 && !self.slow {
            let path = self.file.name();
            tracing::warn!("{path}: events arrive faster than they can be written: {lacks} lost");
        }
        self.slow = lacks > 0;
        self.missing.append(&waiting.missing);
        self.begun |= !self.lines.is_empty() || !waiting.missing.is_empty();
        if self.begun {
            self.gap(now_unix_ns());
        }
        self.flush();
    }

    fn add(&mut self, event: &Event) {
        let line = line(event);
        self.make_room(&line);
        if !self.missing.is_empty() {
            self.gap(match self.missing.has_time() {
                true => event.time_unix_ns,
                false => now_unix_ns(),
            });
            self.make_room(&line);
        }
        self.lines.extend_from_slice(line.as_bytes());
        self.reported.add(event);
    }

    /// Writes the buffered lines if `line` does not fit into the same write.
    fn make_room(&mut self, line: &str) {
        let after = (self.lines.len() + line.len()) as u64;
        if after > CHUNK.min(self.file.room()) {
            self.flush();
        }
    }

    /// Writes a gap record for the missing events, up to this time.
    fn gap(&mut self, time_unix_ns: u64) {
        if !self.missing.is_empty() {
            let gap = Event {
                time_unix_ns,
                process: None,
                origin: Origin::Seen,
                what: std::mem::take(&mut self.missing).gap(),
            };
            let line = line(&gap);
            self.make_room(&line);
            self.lines.extend_from_slice(line.as_bytes());
            self.reported.add(&gap);
        }
    }

    /// Writes the buffered lines. If that fails, their events count as missing, together with the
    /// losses in their gap records.
    fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let written = self.append();
        self.lines.clear();
        let reported = std::mem::take(&mut self.reported);
        let path = self.file.name();
        match &written {
            Ok(()) if self.failing => tracing::warn!("{path}: writing works again"),
            Err(error) if !self.failing => {
                tracing::warn!("{path}: {error}: events are lost until writing works again");
            }
            _ => {}
        }
        self.failing = written.is_err();
        if self.failing {
            self.queue.lose(reported.here());
            self.missing.append(&reported);
        }
    }

    fn append(&mut self) -> io::Result<()> {
        if self.queue.reopen_asked() {
            self.file.close();
        }
        self.file.follow();
        if self.lines.len() as u64 > self.file.room() {
            self.file.turn()?;
        }
        self.file.append(&self.lines)
    }
}

fn line(event: &Event) -> String {
    let mut line = event_json(event);
    line.push('\n');
    line
}

fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
