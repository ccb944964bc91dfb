//! Exports a recording as a Perfetto trace.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_model::{Batch, Event};
use noctule_sinks::perfetto::Tracer;
use noctule_tape::{Stretch, Tape};
use noctule_text::{bytes, counted};

use crate::args::TapeExportArgs;
use crate::commands::record::export::{Done, Reader, create, keep, read};
use crate::config::Config;

pub(super) fn export(
    args: &TapeExportArgs,
    config: &Config,
    tape: &Tape,
    stretches: &[Stretch],
) -> Result<Done> {
    let mut out = Out {
        path: &args.output,
        file: create(&args.output)?,
        tracer: Tracer::new(config.verdicts.judge()),
        written: 0,
        batches: 0,
    };
    let damages = read(tape, stretches, &mut out)?;
    let last = std::mem::replace(&mut out.tracer, Tracer::new(config.verdicts.judge())).finish();
    out.write(&last)?;
    keep(out.file, &args.output)?;
    let words = format!(
        "{}, {}",
        counted(out.batches, "batch", "batches"),
        bytes(out.written)
    );
    Ok((words, damages))
}

struct Out<'a, W> {
    path: &'a Path,
    file: W,
    tracer: Tracer,
    written: u64,
    batches: u64,
}

impl<W: Write> Out<'_, W> {
    fn write(&mut self, packets: &[u8]) -> Result<()> {
        self.written += packets.len() as u64;
        let written = self.file.write_all(packets);
        written.with_context(|| self.path.display().to_string())
    }
}

impl<W: Write> Reader for Out<'_, W> {
    const EVENTS: bool = true;

    fn restart(&mut self, boot: &str) -> Result<()> {
        let packets = self.tracer.restart(boot);
        self.write(&packets)
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        self.batches += 1;
        let packets = self.tracer.batch(&batch);
        self.write(&packets)
    }

    fn events(&mut self, events: &[Event]) -> Result<()> {
        let packets = self.tracer.events(events);
        self.write(&packets)
    }
}
