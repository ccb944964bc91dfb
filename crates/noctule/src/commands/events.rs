//! `noctule events`: prints events as they happen.

mod filter;
pub(crate) mod lines;

use std::time::Duration;

use anyhow::Result;
use noctule_model::{Batch, Event, EventKind, EventKinds, What};

use super::shared::streaming::{Sink, Streaming};
use super::shared::watch::{Output, Reader};
use super::shared::window::{self, Window};
use crate::args::EventsArgs;
use crate::config::Config;
use crate::exit::{self, Usage};
use crate::recording::Recording;
use crate::scope::Scope;
use crate::stop::Signals;
use crate::wire::Pipeline;
use filter::Filter;
use lines::EventLines;

/// Interval between snapshots of existing objects, which are compared with the stream after a loss.
const TICK: Duration = Duration::from_secs(1);

/// Length of a window in a recording if only its start is given.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) fn run(args: &EventsArgs, config: &Config) -> Result<u8> {
    let scope = scope(args)?;
    let tape = window::keep(&args.source, (&config.host, &args.command))?;
    let mut stream = Stream::open(args, tape)?;
    if let Some(window) = Window::open(&args.source.recorded, args.duration, WINDOW)? {
        return from_tape(&window, &scope, &mut stream);
    }
    let signals = Signals::catch()?;
    let mut pipeline = Pipeline::start_events(config, &scope)?;
    tracing::info!("watching");
    stream.head()?;
    let streaming = Streaming {
        command: &args.command,
        duration: args.duration,
        tick: TICK,
        latency: Duration::from_millis(config.events.latency_milliseconds.into()),
    };
    let code = streaming.run(&mut pipeline, &signals, &mut stream)?;
    stream.tape.as_ref().map_or(Ok(()), Recording::close)?;
    Ok(code)
}

/// Prints the events of a recording that match the scope.
fn from_tape(window: &Window, scope: &Scope, stream: &mut Stream<'_>) -> Result<u8> {
    let first = window.batches().next().unwrap_or_default();
    let mut filter = Filter::new(scope, &first)?;
    window::need_kinds(&first, scope)?;
    stream.head()?;
    let mut events = window.events();
    let mut has_signals = false;
    while stream.reader == Reader::There
        && let Some(event) = events.next()
    {
        if filter.passes(&event) {
            has_signals |= matches!(event.what, What::ProcessSignal { .. });
            stream.events(&[event])?;
        }
    }
    window::warn(events.damages().iter());
    if scope.kinds.has(EventKind::Signal) && !has_signals {
        tracing::warn!(
            "no signals found: a recording has signals only if it was made by `noctule events \
             --kind signal --tape FOLDER`"
        );
    }
    Ok(exit::DONE)
}

/// Builds the scope from the options. If options cannot work together, returns a usage error.
fn scope(args: &EventsArgs) -> Result<Scope, Usage> {
    let files = args.path.is_some() || args.reads || args.failures;
    let kinds = match (&*args.kind, files) {
        ([], true) => EventKinds::of(&[EventKind::File]),
        ([], false) => EventKinds::of(&[EventKind::Process, EventKind::Tcp, EventKind::Oom]),
        (kinds, _) => kinds.iter().copied().collect(),
    };
    let has = |kind| kinds.has(kind);
    if (args.path.is_some() || args.reads) && !has(EventKind::File) {
        let words = "--path and --reads apply only to file opens: add `file` to --kind";
        return Err(Usage(words.into()));
    }
    if args.failures && !has(EventKind::File) && !has(EventKind::Process) {
        let words = "--failures applies only to files and executions: add `file` or `process` to \
                     --kind";
        return Err(Usage(words.into()));
    }
    if !args.names.pid.is_empty() && !args.command.is_empty() {
        return Err(Usage(
            "--pid cannot be combined with a COMMAND: only the command is followed".into(),
        ));
    }
    Ok(Scope {
        kinds: match args.failures && has(EventKind::Process) {
            true => kinds.with(EventKind::ExecFailure),
            false => kinds,
        },
        names: args.names.clone(),
        path: args.path.clone(),
        reads: args.reads,
        failures: args.failures,
        existing: args.existing,
        command: !args.command.is_empty(),
        named: files || !args.kind.is_empty(),
        ..Scope::default()
    })
}

/// The output of events and its format.
struct Stream<'a> {
    output: Output<'a>,
    json: bool,
    lines: EventLines,
    reader: Reader,
    tape: Option<Recording>,
}

impl<'a> Stream<'a> {
    fn open(args: &'a EventsArgs, tape: Option<Recording>) -> Result<Self> {
        let output = Output::for_command(args.output.as_deref(), &args.command)?;
        Ok(Self {
            lines: EventLines::new(output.paint().wide(args.wide)),
            output,
            json: args.json,
            reader: Reader::There,
            tape,
        })
    }

    /// Prints the column names if the output is a terminal.
    fn head(&mut self) -> Result<()> {
        if !self.json && self.output.is_terminal() {
            self.reader = self.output.print(&self.lines.head())?;
        }
        Ok(())
    }

    fn line(&self, event: &Event) -> String {
        if self.json {
            format!("{}\n", noctule_sinks::events::event_json(event))
        } else {
            self.lines.draw(event)
        }
    }
}

impl Sink for Stream<'_> {
    fn batch(&mut self, batch: &Batch) {
        if let Some(tape) = &self.tape {
            tape.exact(batch);
        }
    }

    fn events(&mut self, events: &[Event]) -> Result<()> {
        if let Some(tape) = &self.tape {
            tape.events(events);
        }
        if events.is_empty() || self.reader == Reader::Gone {
            return Ok(());
        }
        let text: String = events.iter().map(|event| self.line(event)).collect();
        self.reader = match self.json {
            true => self.output.write(&text)?,
            false => self.output.print(&text)?,
        };
        Ok(())
    }

    fn reader(&self) -> Reader {
        self.reader
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn asked(words: &[&str]) -> Result<Scope, String> {
        let args = Args::try_parse_from([&["noctule", "events"], words].concat());
        let Command::Events(args) = args.map_err(|error| error.to_string())?.command else {
            return Err("another command".into());
        };
        scope(&args).map_err(|error| error.0)
    }

    #[test]
    fn only_requested_kinds_are_traced() {
        let cases: [(&[&str], [bool; 4]); 6] = [
            (&[], [true, true, false, true]),
            (&["--kind", "file"], [false, false, true, false]),
            (&["--kind", "process,file"], [true, false, true, false]),
            (
                &["--kind", "tcp", "--kind", "oom"],
                [false, true, false, true],
            ),
            (&["--path", "/etc"], [false, false, true, false]),
            (
                &["--reads", "--kind", "tcp,file"],
                [false, true, true, false],
            ),
        ];
        for (words, expected) in cases {
            let scope = asked(words).expect("it can be");
            let kinds = [
                EventKind::Process,
                EventKind::Tcp,
                EventKind::File,
                EventKind::Oom,
            ];
            let kinds = kinds.map(|kind| scope.kinds.has(kind));
            assert_eq!(kinds, expected, "{words:?}");
            assert_eq!(scope.named, !words.is_empty(), "{words:?}");
        }
    }

    #[test]
    fn failures_are_limited_to_requested_kinds() {
        let cases: [(&[&str], [bool; 2]); 3] = [
            (&["--failures"], [true, false]),
            (&["--kind", "process", "--failures"], [false, true]),
            (&["--kind", "process,file", "--failures"], [true, true]),
        ];
        for (words, expected) in cases {
            let scope = asked(words).expect("it can be");
            let has = |kind| scope.kinds.has(kind);
            let failures = [
                has(EventKind::File) && scope.failures,
                has(EventKind::ExecFailure),
            ];
            assert_eq!(failures, expected, "{words:?}");
        }
    }

    #[test]
    fn invalid_combinations_are_reported_with_a_fix() {
        let cases: [(&[&str], &str); 6] = [
            (&["--kind", "proces"], "'process'"),
            (&["--kind", "tcp", "--reads"], "add `file`"),
            (&["--kind", "tcp", "--failures"], "`process` to --kind"),
            (&["--pid", "-1"], "unexpected argument"),
            (&["--pid", "1", "--", "true"], "cannot be combined with"),
            (&["--for", "soon"], "soon"),
        ];
        for (words, said) in cases {
            let error = asked(words).expect_err("it cannot be");
            assert!(error.contains(said), "{words:?}: {error}");
        }
        assert!(asked(&["--pid", &std::process::id().to_string()]).is_ok());
    }
}
