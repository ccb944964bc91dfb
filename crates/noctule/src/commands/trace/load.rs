//! `noctule load`: loads a third-party BPF object, attaches its programs, prints their output and
//! maps, and detaches everything.

mod errors;
mod jobs;
mod loaded;
mod raw;
mod show;

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use noctule_kernel::{Attachment, ForeignObject, LoadedObject, Printed, Target};
use noctule_trace::elf::{self, Convention};

use crate::args::LoadArgs;
use crate::bounded;
use crate::commands::shared::watch::Output;
use crate::exit;
use crate::stop::{Signals, Woken};
use errors::explained;
use jobs::Job;
use loaded::Object;
use raw::Lines;
use show::Show;

/// Maximum size of an object in MiB. Debug information takes most of a large one.
const MOST_MIB: u64 = 64;

pub(crate) fn run(args: &LoadArgs) -> Result<u8> {
    let mut show = Show::new(Output::open(args.output.as_deref())?, args.json);
    let signals = Signals::catch()?;
    let file = args.object.display().to_string();
    let bytes = File::open(&args.object).and_then(|it| bounded::read(it, MOST_MIB));
    let bytes = bytes.with_context(|| file.clone())?;
    let (object, lines) = match args.raw {
        true => raw::object(args, &file, &name(args), &bytes)?,
        false => (opened(&bytes, args, &file)?, Lines::default()),
    };
    let fail = |error| explained(error, &file, &lines, args.verbose);
    let jobs = jobs::of(&object.programs(), object.tail_calls(), args)?;
    // Opened before any program can print.
    let mut printed = follow_printed(args);
    let mut loaded = object.load(&jobs).map_err(fail)?;
    let mut running = Running::default();
    if !args.no_attach {
        running.tables = loaded.register_tables().map_err(fail)?;
    }
    for job in jobs {
        let attached = match args.no_attach {
            true => None,
            false => Some(
                loaded
                    .attach(&job.program.name, &job.target, &job.places)
                    .map_err(fail)?,
            ),
        };
        show.program(&job, attached.as_ref())?;
        running.programs.push((job, attached));
    }
    running.watch(args, &signals, &mut printed, &mut show)?;
    running.read_iterators(&mut show)?;
    running.detach(&mut show)?;
    if let Some(printed) = &mut printed {
        show.printed(&printed.lines()?)?;
    }
    if args.dump {
        show.maps(&loaded.maps())?;
    }
    Ok(exit::DONE)
}

/// Parses the object in a file.
fn opened(bytes: &[u8], args: &LoadArgs, file: &str) -> Result<Object> {
    let context = || match bytes.starts_with(b"\x7fELF") {
        true => file.to_owned(),
        false => format!("{file} (plain instructions need --raw)"),
    };
    let convention = elf::inspect(bytes).with_context(context)?;
    tracing::debug!("{file}: {convention:?}");
    Ok(match convention {
        Convention::Libbpf => {
            let object = ForeignObject::open(bytes, &name(args));
            let fail = |error| explained(error, file, &Lines::default(), args.verbose);
            let object = object.map_err(fail)?;
            for map in object.pins() {
                tracing::warn!(
                    "map {} is not pinned, although the object requests it (LIBBPF_PIN_BY_NAME): \
                     it starts empty and is gone when this process ends",
                    noctule_text::escape(map)
                );
            }
            Object::Libbpf(Box::new(object), elf::tail_calls(bytes))
        }
        Convention::Legacy => {
            Object::of_legacy(&elf::read_legacy(bytes).with_context(|| file.to_owned())?)
        }
    })
}

/// Returns the object's name in the kernel, which is the file name up to the first dot.
fn name(args: &LoadArgs) -> String {
    let stem = args
        .object
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    stem.split('.').next().unwrap_or("object").to_owned()
}

/// Follows the output of the programs. Without tracefs this output is unavailable, but everything
/// else works.
fn follow_printed(args: &LoadArgs) -> Option<Printed> {
    if args.no_attach {
        return None;
    }
    match Printed::follow() {
        Ok(printed) => Some(printed),
        Err(error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!("output of the programs is not shown: {error:#}");
            None
        }
    }
}

/// The attached programs and function tables.
#[derive(Default)]
struct Running {
    programs: Vec<(Job, Option<Attachment>)>,
    tables: Vec<(String, Attachment)>,
}

impl Running {
    /// Returns whether no program has to wait: only iterators are attached, which run when they are
    /// read.
    fn is_done(&self) -> bool {
        let waits = |(job, attached): &(Job, Option<Attachment>)| {
            attached.is_some() && job.target != Target::Iterator
        };
        self.tables.is_empty() && !self.programs.iter().any(waits)
    }

    /// Prints output until the time is up, a signal arrives, or the reader has closed the output.
    fn watch(
        &self,
        args: &LoadArgs,
        signals: &Signals,
        printed: &mut Option<Printed>,
        show: &mut Show<'_>,
    ) -> Result<()> {
        let end = args.duration.map(|duration| Instant::now() + duration);
        while !self.is_done() {
            let next = Instant::now() + Duration::from_secs(3600);
            let until = end.map_or(next, |end| end.min(next));
            let pipe = printed.as_ref().and_then(Printed::fd);
            let woken = signals.wait(until, &pipe.into_iter().collect::<Vec<_>>())?;
            if woken == Woken::End || end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            if let Some(printed) = printed {
                show.printed(&printed.lines()?)?;
            }
            if show.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn read_iterators(&self, show: &mut Show<'_>) -> Result<()> {
        for (job, attached) in &self.programs {
            if let (Target::Iterator, Some(attached)) = (&job.target, attached) {
                show.iterator(&job.program.name, &LoadedObject::read_iterator(attached)?)?;
            }
        }
        Ok(())
    }

    /// Detaches all programs, after reading the packet counts of sockets.
    fn detach(&mut self, show: &mut Show<'_>) -> Result<()> {
        for (job, attached) in &mut self.programs {
            let passed = attached
                .take()
                .and_then(|attached| attached.packets_passed());
            if let Some(passed) = passed {
                show.packets(&job.program.name, passed)?;
            }
        }
        self.tables.clear();
        Ok(())
    }
}
