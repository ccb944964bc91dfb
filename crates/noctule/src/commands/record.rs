//! `noctule record`: records everything for some time or while a command runs.

pub(crate) mod diff;
mod export;
pub(crate) mod tape;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use noctule_model::{Batch, Event};
use noctule_tape::{Limits, Tape};
use noctule_text::{bytes, counted};

use super::shared::streaming::{Sink, Streaming};
use super::shared::watch::{Output, Reader};
use crate::args::RecordArgs;
use crate::config::Config;
use crate::exit::Usage;
use crate::recording::Recording;
use crate::stop::Signals;
use crate::wire::Pipeline;

/// Minimum segment length. Each segment begins with all rows. In a shorter segment, these rows
/// would take more space than the changes.
const SHORTEST: Duration = Duration::from_secs(10);

pub(super) fn run(args: &RecordArgs, config: &Config) -> Result<u8> {
    if args.segment < SHORTEST {
        bail!(Usage(format!(
            "--segment is {:?}: must be {SHORTEST:?} or more",
            args.segment
        )));
    }
    let mut output = Output::for_command(None, &args.command)?;
    let signals = Signals::catch()?;
    let folder = &args.output;
    let mut tape = ToTape(Recording::open(
        folder,
        args.segment,
        Limits::default(),
        (&config.host, &args.command),
    )?);
    let mut pipeline = Pipeline::start_recorded(config, !args.command.is_empty())?;
    tape.batch(&pipeline.tick()?);
    let streaming = Streaming {
        command: &args.command,
        duration: args.duration,
        tick: config.interval(),
        latency: Duration::from_millis(config.events.latency_milliseconds.into()),
    };
    let code = streaming.run(&mut pipeline, &signals, &mut tape)?;
    let closed = tape.0.close();
    let summary = summary(folder).and_then(|text| output.write(&text));
    // The error about missing data is printed last.
    closed.and(summary)?;
    Ok(code)
}

/// Summarizes a recording in one line.
fn summary(folder: &Path) -> Result<String> {
    let tape = Tape::open(folder)?;
    let sum = |of: fn(&noctule_tape::Segment) -> u64| tape.segments().iter().map(of).sum();
    Ok(format!(
        "{}: {}, {}, {}; read it with --from {}\n",
        folder.display(),
        counted(sum(noctule_tape::Segment::batches), "batch", "batches"),
        counted(sum(noctule_tape::Segment::events), "event", "events"),
        bytes(sum(noctule_tape::Segment::bytes)),
        folder.display(),
    ))
}

struct ToTape(Recording);

impl Sink for ToTape {
    fn batch(&mut self, batch: &Batch) {
        self.0.batch(&mut batch.clone());
    }

    fn events(&mut self, events: &[Event]) -> Result<()> {
        self.0.events(events);
        Ok(())
    }

    fn reader(&self) -> Reader {
        Reader::There
    }
}
