//! `noctule tape export`: converts a recording for another program.

mod openmetrics;
mod perfetto;

use std::io::{BufWriter, IntoInnerError};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use noctule_model::{Batch, Event};
use noctule_tape::{Damage, Events, Partition, Stretch, TableFormat, Tape};
use noctule_text::{bytes, counted};

use crate::args::{ExportFormat, ExportPart, TapeExportArgs};
use crate::commands::shared::watch::Output;
use crate::commands::shared::window::{self, Window};
use crate::config::Config;
use crate::exit::{self, Usage};
use crate::private;

/// Maximum number of events passed to a reader in one call.
const MOST_EVENTS: usize = 10_000;

pub(crate) fn run(args: &TapeExportArgs, config: &Config) -> Result<u8> {
    check(args)?;
    let (tape, stretches) = stretches(args)?;
    let (done, damages) = match args.to {
        ExportFormat::Parquet => tables(args, &tape, &stretches, TableFormat::Parquet)?,
        ExportFormat::Csv => tables(args, &tape, &stretches, TableFormat::Csv)?,
        ExportFormat::Openmetrics => openmetrics::export(args, config, &tape, &stretches)?,
        ExportFormat::Perfetto => perfetto::export(args, config, &tape, &stretches)?,
    };
    window::warn(damages.iter());
    Output::open(None)?.write(&format!("{}: {done}\n", args.output.display()))?;
    // Index rows that could not be read have no time, so they may belong to any part.
    let whole = damages.is_empty() && tape.damages().next().is_none();
    Ok(match whole {
        true => exit::DONE,
        false => exit::FAILED,
    })
}

fn check(args: &TapeExportArgs) -> Result<(), Usage> {
    let tables = matches!(args.to, ExportFormat::Parquet | ExportFormat::Csv);
    if !args.partition_by.is_empty() && !tables {
        let words = "--partition-by works only with --to parquet and --to csv";
        return Err(Usage(words.into()));
    }
    if args.step.is_some() && args.to != ExportFormat::Openmetrics {
        let words = "--step works only with --to openmetrics";
        return Err(Usage(words.into()));
    }
    Ok(())
}

/// Returns the selected part, or each span of the whole recording.
fn stretches(args: &TapeExportArgs) -> Result<(Tape, Vec<Stretch>)> {
    if args.at.is_none() && args.duration.is_none() {
        let tape = window::open(&args.folder)?;
        window::warn(tape.damages());
        let spans = tape.spans();
        ensure!(!spans.is_empty(), window::nothing_in(&tape, &args.folder));
        let stretches = spans.into_iter().map(Stretch::whole).collect();
        return Ok((tape, stretches));
    }
    let window = Window::of(
        &args.folder,
        args.at.as_deref(),
        args.duration,
        Duration::MAX,
    )?;
    Ok((window.tape, vec![window.stretch]))
}

/// A summary of what was written, and the damage that was found.
type Done = (String, Vec<Damage>);

fn tables(
    args: &TapeExportArgs,
    tape: &Tape,
    stretches: &[Stretch],
    format: TableFormat,
) -> Result<Done> {
    let partition = Partition {
        date: args.partition_by.contains(&ExportPart::Date),
        host: args.partition_by.contains(&ExportPart::Host),
    };
    let done = noctule_tape::export(tape, stretches, &args.output, format, partition)?;
    let words = format!(
        "{}, {}, {}",
        counted(done.files, "file", "files"),
        counted(done.rows, "row", "rows"),
        bytes(done.bytes)
    );
    Ok((words, done.damages))
}

/// Receives the contents of a recording in the order in which the agent recorded them.
trait Reader {
    /// Whether the reader needs events. If not, events are not read.
    const EVENTS: bool;

    /// Handles the start of a span, at which counters restart. `boot` is the boot id.
    fn restart(&mut self, boot: &str) -> Result<()>;
    fn batch(&mut self, batch: Batch) -> Result<()>;
    /// Receives the events recorded between the last two batches.
    fn events(&mut self, events: &[Event]) -> Result<()>;
}

fn read<R: Reader>(tape: &Tape, stretches: &[Stretch], reader: &mut R) -> Result<Vec<Damage>> {
    let mut damages = Vec::new();
    for stretch in stretches {
        let first = &tape.segments()[stretch.span.segments.0];
        reader.restart(&first.meta().boot_id)?;
        let mut batches = stretch.batches(tape);
        let mut recorded = R::EVENTS.then(|| stretch.events(tape));
        let mut events =
            std::iter::from_fn(|| recorded.as_mut().and_then(Events::next_seen)).peekable();
        for batch in &mut batches {
            let number = batch.sequence;
            reader.batch(batch)?;
            let mut before = || events.next_if(|(seen, _)| *seen < number);
            hand_over(reader, &mut before)?;
        }
        hand_over(reader, &mut || events.next())?;
        damages.extend_from_slice(batches.damages());
        damages.extend(recorded.iter().flat_map(Events::damages).cloned());
    }
    Ok(damages)
}

/// Passes all available events in chunks.
fn hand_over(
    reader: &mut impl Reader,
    next: &mut dyn FnMut() -> Option<(u64, Event)>,
) -> Result<()> {
    loop {
        let some = std::iter::from_fn(&mut *next).take(MOST_EVENTS);
        let some: Vec<Event> = some.map(|(_, event)| event).collect();
        if some.is_empty() {
            return Ok(());
        }
        reader.events(&some)?;
    }
}

/// Creates a file that only its owner can read; [`keep`] renames the file to `path`.
fn create(path: &Path) -> Result<BufWriter<private::Answer>> {
    if path.is_dir() {
        bail!(Usage(format!(
            "-o {}: is a folder: give a file",
            path.display()
        )));
    }
    let file = private::create(path).with_context(|| path.display().to_string())?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn keep(file: BufWriter<private::Answer>, path: &Path) -> Result<()> {
    let written = file.into_inner().map_err(IntoInnerError::into_error);
    let kept = written.and_then(|mut file| file.keep());
    kept.with_context(|| path.display().to_string())
}
