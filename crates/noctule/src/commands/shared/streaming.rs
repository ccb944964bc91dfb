//! Passes events and batches to a sink as they arrive.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::Result;
use noctule_model::{Batch, Event};

use super::watch::{Progress, Reader, follow};
use crate::exit;
use crate::stop::{Signals, Woken};
use crate::wire::Pipeline;

/// Time that the last events of a command can take in addition to the latency of the rings.
const SETTLE: Duration = Duration::from_millis(20);

/// Receives events and batches.
pub(crate) trait Sink {
    fn batch(&mut self, _batch: &Batch) {}
    /// Receives events, in order.
    fn events(&mut self, events: &[Event]) -> Result<()>;
    /// Returns whether the output of the sink still has a reader.
    fn reader(&self) -> Reader;
}

/// The settings of a stream.
pub(crate) struct Streaming<'a> {
    /// The command to follow; empty to watch the whole machine.
    pub(crate) command: &'a [OsString],
    pub(crate) duration: Option<Duration>,
    /// Time between two batches.
    pub(crate) tick: Duration,
    /// Maximum time between an event and its reading.
    pub(crate) latency: Duration,
}

impl Streaming<'_> {
    /// Streams until the end of the window or command, and returns the exit status.
    pub(crate) fn run(
        &self,
        pipeline: &mut Pipeline,
        signals: &Signals,
        sink: &mut dyn Sink,
    ) -> Result<u8> {
        sink.events(&pipeline.events()?)?;
        match self.command.is_empty() {
            true => self.all(pipeline, signals, sink),
            false => self.of_command(pipeline, signals, sink),
        }
    }

    /// Streams for a limited time, until a signal arrives, or until the reader has closed the
    /// output.
    fn all(&self, pipeline: &mut Pipeline, signals: &Signals, sink: &mut dyn Sink) -> Result<u8> {
        let end = self.duration.map(|limit| Instant::now() + limit);
        let mut next = Instant::now() + self.tick;
        loop {
            let woken = pipeline.wait(signals, end.map_or(next, |end| end.min(next)))?;
            let now = Instant::now();
            let over = end.is_some_and(|end| now >= end) || woken == Woken::End;
            if over {
                sink.batch(&pipeline.last_tick()?);
            } else if now >= next {
                sink.batch(&pipeline.tick()?);
                next = now + self.tick;
            }
            let events = match over {
                true => pipeline.last_events()?,
                false => pipeline.events()?,
            };
            sink.events(&events)?;
            if over || sink.reader() == Reader::Gone {
                return Ok(exit::DONE);
            }
        }
    }

    /// Streams until the command has ended and its last events have arrived. Returns the exit
    /// status of the command. The command continues even if the reader has closed the output.
    fn of_command(
        &self,
        pipeline: &mut Pipeline,
        signals: &Signals,
        sink: &mut dyn Sink,
    ) -> Result<u8> {
        let mut next = Instant::now() + self.tick;
        let mut ended: Option<Instant> = None;
        let mut look = |pipeline: &mut Pipeline, progress| {
            let now = Instant::now();
            let mut pending = false;
            if progress == Progress::Ended || now >= next {
                let batch = match progress {
                    Progress::Runs => pipeline.tick()?,
                    Progress::Ended => pipeline.last_tick()?,
                };
                pending = batch.followed_pending;
                sink.batch(&batch);
                next = now + self.tick;
            }
            let events = pipeline.events()?;
            sink.events(&events)?;
            if progress == Progress::Runs {
                return Ok(true);
            }
            let settled = *ended.get_or_insert(now) + self.latency * 2 + SETTLE;
            Ok(pending || !events.is_empty() || now < settled)
        };
        let followed = follow(pipeline, signals, self.command, self.duration, &mut look)?;
        sink.events(&pipeline.last_events()?)?;
        Ok(followed.code)
    }
}
