//! `noctule trace`: prints every matching event with all fields.

mod attach_point;
mod event_stream;
mod groups;
pub(crate) mod hist;
mod kallsyms;
pub(crate) mod load;
pub(crate) mod probes;
mod refusal;
mod tracepoints;
pub(crate) mod trigger;

use anyhow::Result;

use super::shared::watch::{Output, Reader};
use crate::args::TraceArgs;
use crate::exit;
use crate::stop::Signals;
use event_stream::{Lines, More, Node, Traced};

pub(super) fn run(args: &TraceArgs) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let kernel = tracepoints::open()?;
    let node = Node::default();
    let traced = Traced::find(&args.events, &kernel, &node)?;
    let mut session = traced.start(&kernel, args.buffer)?;
    node.groups.warn_of_unknown();
    let lines = Lines::new(
        traced.events.all(),
        &node.symbols,
        &kernel,
        args.json,
        output.paint(),
    );
    if output.write(&lines.head())? == Reader::Gone {
        return Ok(exit::DONE);
    }
    let mut left = args.max.unwrap_or(u64::MAX);
    let losses = event_stream::follow(
        &mut session,
        &signals,
        args.duration,
        &mut output,
        |arrival, out| {
            if left == 0 {
                return More::Enough;
            }
            lines.event(arrival, out);
            left -= 1;
            if left == 0 {
                More::Enough
            } else {
                More::Wanted
            }
        },
    )?;
    if let Some(losses) = losses {
        let mut text = String::new();
        lines.losses(&losses, &mut text);
        output.write(&text)?;
    }
    node.groups.refresh();
    node.groups.warn_of_late("shown");
    Ok(exit::DONE)
}
