//! Resolves the name of an attach point.

pub(super) mod code;
mod function;
mod indirect;
mod perf;

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use noctule_kernel::{
    AttachedProgram, Error, FunctionPlace, FunctionProbe, LoadedProgram, PacketSource, PerfProbe,
    TraceEvents,
};
use noctule_trace::format::EventFormat;
use noctule_trace::probe::{Link, PacketField, Probe, perf_format};

use super::tracepoints::{self, Registered, Skipped, Sort};
use crate::exit::Usage;

/// An attach point of a program.
pub(super) enum Target {
    /// `SYSTEM:EVENT`.
    Tracepoint(Rc<TraceEvents>, EventFormat),
    /// `socket:INTERFACE`.
    Packets(PacketSource, EventFormat),
    /// `profile:HZ`, `interval:TIME`, `software:EVENT`, `hardware:EVENT`.
    Perf(PerfProbe, EventFormat),
    /// `kprobe:FUNCTION` and `uprobe:FILE:FUNCTION`, and `kretprobe` and `uretprobe`.
    Function(FunctionProbe, EventFormat),
}

impl Target {
    /// Resolves a name to its target.
    pub(super) fn open(text: &str) -> Result<Self> {
        if let Some(interface) = text.strip_prefix("socket:") {
            let (source, format) = packets(interface)?;
            return Ok(Self::Packets(source, named(format, text)));
        }
        if let Some(probe) = perf::probe(text)? {
            return Ok(Self::Perf(probe, named(perf_format(), text)));
        }
        if let Some((probe, format)) = function::probe(text)? {
            return Ok(Self::Function(probe, named(format, text)));
        }
        let events = Rc::new(tracepoints::open()?);
        let registered = Registered::read(&events)?;
        Self::of_event(&events, &registered, text)
    }

    /// Resolves an event of tracefs.
    fn of_event(events: &Rc<TraceEvents>, registered: &Registered, text: &str) -> Result<Self> {
        let format = tracepoints::one(events, text)?;
        let name = text.replacen('/', ":", 1);
        match registered.sort(&name) {
            None => Ok(Self::Tracepoint(Rc::clone(events), format)),
            Some(Sort::Function {
                is_of_file,
                at_return,
            }) => {
                let id = format.id;
                let place = FunctionPlace::Registered { id, is_of_file };
                let format = named(function::registered_format(&name, at_return), text);
                Ok(Self::Function(FunctionProbe { place, at_return }, format))
            }
            Some(sort @ Sort::Other(_)) => bail!(sort.refuse(&name)),
        }
    }

    /// Resolves all tracepoints that a pattern matches (`sched:sched_process_*`), or a single
    /// target.
    pub(super) fn open_all(text: &str) -> Result<Vec<Self>> {
        if !text.contains(['*', '?', '[']) || text.contains("..") {
            return Ok(vec![Self::open(text)?]);
        }
        let events = Rc::new(tracepoints::open()?);
        let names = tracepoints::matching(&events, text)?;
        tracepoints::check_event_count(names.len())?;
        let registered = Registered::read(&events)?;
        let open = |(system, event): &(String, String)| {
            Self::of_event(&events, &registered, &format!("{system}:{event}"))
        };
        let (mut opened, mut skipped) = (Vec::new(), Skipped::default());
        for name in &names {
            opened.extend(skipped.pass(open(name))?);
        }
        skipped.finish(opened.is_empty())?;
        Ok(opened)
    }

    /// Returns the kind of program that the target needs.
    pub(super) fn probe(&self) -> Probe {
        match self {
            Self::Tracepoint(..) => Probe::Tracepoint,
            Self::Packets(source, _) if source.has_ethernet() => Probe::Packet(Link::Ethernet),
            Self::Packets(..) => Probe::Packet(Link::None),
            Self::Perf(..) => Probe::PerfEvent,
            Self::Function(probe, _) => match probe.place {
                FunctionPlace::File { .. }
                | FunctionPlace::Registered {
                    is_of_file: true, ..
                } => Probe::FileFunction,
                FunctionPlace::Kernel { .. } | FunctionPlace::Registered { .. } => Probe::Function,
            },
        }
    }

    /// Returns the fields of the target's event.
    pub(super) fn format(&self) -> &EventFormat {
        match self {
            Self::Tracepoint(_, format)
            | Self::Packets(_, format)
            | Self::Perf(_, format)
            | Self::Function(_, format) => format,
        }
    }

    /// Returns whether packets begin with an Ethernet header; `None` if the target has no packets.
    pub(super) fn has_ethernet(&self) -> Option<bool> {
        match self {
            Self::Packets(source, _) => Some(source.has_ethernet()),
            Self::Tracepoint(..) | Self::Perf(..) | Self::Function(..) => None,
        }
    }

    /// Attaches the program, which starts to count.
    pub(super) fn attach(self, program: &LoadedProgram) -> Result<AttachedProgram, Error> {
        match self {
            Self::Tracepoint(events, format) => events.attach(program, format.id),
            Self::Packets(source, _) => source.attach(program),
            Self::Perf(probe, _) => probe.attach(program),
            Self::Function(probe, _) => probe.attach(program),
        }
    }
}

/// Returns the format of a probe that is not a tracepoint. The format has the user's name for the
/// probe, and an id that no tracepoint uses.
fn named(format: EventFormat, text: &str) -> EventFormat {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    EventFormat {
        name: text.to_owned(),
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        ..format
    }
}

fn packets(interface: &str) -> Result<(PacketSource, EventFormat)> {
    // The rule of the kernel for interface names (`dev_valid_name`).
    let is_name = !matches!(interface, "" | "." | "..")
        && interface.len() < 16
        && !interface.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    let source = if is_name {
        PacketSource::open(interface)?
    } else {
        None
    };
    let Some(source) = source else {
        let mut names = PacketSource::names();
        names.push("any".to_owned());
        let shown: Vec<_> = names
            .iter()
            .map(|name| noctule_text::escape(name))
            .collect();
        bail!(Usage(format!(
            "this network namespace has no interface {}; it has {}",
            noctule_text::escape(interface),
            shown.join(", ")
        )));
    };
    Ok((source, PacketField::format()))
}
