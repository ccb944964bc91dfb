//! Watches the machine for a window or while a command runs, and writes the output.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use noctule_analysis::{Detail, ReportBuilder, Selection};
use noctule_model::Batch;
use noctule_text::ascii;

use super::window::Answer;
use crate::exit::{self, NotStarted};
use crate::limits;
use crate::print::{self, Paint};
use crate::recording::Recording;
use crate::stop::{self, Signals, Woken};
use crate::wire::Pipeline;
use crate::{patient, private};

/// Interval between readings within the window. These readings serve only to collect the records of
/// exited processes.
const STEP: Duration = Duration::from_secs(1);
/// Interval and maximum number of polls for the last record of a command. A multithreaded process
/// is reported when the kernel frees its leader, 10 to 100 ms after it was reaped. If there are
/// many more threads than CPUs, this takes seconds.
const LAST_RECORD_STEP: Duration = Duration::from_millis(20);
const LAST_RECORD_TRIES: u32 = 250;

/// The subject of a window, and the window's length.
pub(crate) struct Watched<'a> {
    /// The command to follow, if any.
    pub(crate) command: &'a [OsString],
    /// Length of the window if the user sets none.
    pub(crate) window: Duration,
    pub(crate) limit: Option<Duration>,
    /// Detail about processes that the output needs.
    pub(crate) detail: Detail,
    pub(crate) tape: Option<&'a Recording>,
}

/// Watches for the length of the window or, if there is a command, while it runs.
pub(crate) fn watch(
    pipeline: &mut Pipeline,
    signals: &Signals,
    watched: &Watched<'_>,
) -> Result<Answer> {
    watch_each(pipeline, signals, watched, &mut |_| {})
}

/// Like [`watch`], but passes each batch to `show`.
pub(crate) fn watch_each(
    pipeline: &mut Pipeline,
    signals: &Signals,
    watched: &Watched<'_>,
    show: &mut dyn FnMut(&Batch),
) -> Result<Answer> {
    let Watched { command, tape, .. } = *watched;
    let mut show = |batch: &Batch| {
        if let Some(tape) = tape {
            tape.exact(batch);
        }
        show(batch);
    };
    let (builder, code) = match command.is_empty() {
        true => (window(pipeline, signals, watched, &mut show)?, exit::DONE),
        false => of_command(pipeline, signals, watched, &mut show)?,
    };
    Ok(Answer {
        builder,
        selection: Selection::default(),
        code: status(tape.map_or(Ok(()), Recording::close), code),
        followed: !command.is_empty(),
        recorded: None,
    })
}

/// Returns the exit status. If the recording is incomplete, success becomes failure, but the output
/// is still written.
fn status(recorded: Result<()>, code: u8) -> u8 {
    let Err(error) = recorded else {
        return code;
    };
    tracing::warn!("{error:#}");
    match code {
        exit::DONE => exit::FAILED,
        of_command => of_command,
    }
}

/// Watches while a command runs.
fn of_command(
    pipeline: &mut Pipeline,
    signals: &Signals,
    watched: &Watched<'_>,
    show: &mut dyn FnMut(&Batch),
) -> Result<(ReportBuilder, u8)> {
    let first = pipeline.first_tick()?;
    show(&first);
    let mut builder = ReportBuilder::new(first).with(watched.detail);
    let followed = follow(
        pipeline,
        signals,
        watched.command,
        watched.limit,
        &mut |pipeline, progress| {
            let batch = match progress {
                Progress::Runs => pipeline.tick()?,
                Progress::Ended => pipeline.last_tick()?,
            };
            show(&batch);
            let pending = batch.followed_pending;
            builder.add(batch);
            Ok(pending)
        },
    )?;
    if !followed.complete {
        tracing::warn!(
            "the final counters of a process did not arrive; the process's row may be incomplete"
        );
    }
    Ok((builder, followed.code))
}

/// Collects batches for the requested time or until a signal arrives, and returns the report
/// builder.
fn window(
    pipeline: &mut Pipeline,
    signals: &Signals,
    watched: &Watched<'_>,
    show: &mut dyn FnMut(&Batch),
) -> Result<ReportBuilder> {
    let first = pipeline.first_tick()?;
    show(&first);
    let mut builder = ReportBuilder::new(first).with(watched.detail);
    let end = Instant::now() + watched.limit.unwrap_or(watched.window);
    let mut countdown = CountDown::new();
    loop {
        countdown.show(end.saturating_duration_since(Instant::now()));
        let woken = pipeline.wait(signals, end.min(Instant::now() + STEP))?;
        let last = woken == Woken::End || Instant::now() >= end;
        let batch = match last {
            true => pipeline.last_tick()?,
            false => pipeline.tick()?,
        };
        show(&batch);
        builder.add(batch);
        if last {
            return Ok(builder);
        }
    }
}

/// The remaining time of a window, displayed on standard error if that is a terminal. The line is
/// erased on drop.
struct CountDown {
    shown: bool,
}

impl CountDown {
    fn new() -> Self {
        Self { shown: false }
    }

    fn show(&mut self, left: Duration) {
        if !stderr().is_terminal() || !print::moves() {
            return;
        }
        let left = left.as_secs_f64().ceil() as u64;
        let left = match left {
            0..60 => format!("{left}s"),
            left => noctule_text::duration(left * 1_000_000_000),
        };
        self.shown = true;
        // The cursor returns to the start of the line, so later output overwrites it. Errors are
        // ignored.
        let _ = write!(stderr(), "\r\x1b[Kwatching, {left} left (Ctrl-C ends it)\r");
    }
}

impl Drop for CountDown {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// The progress of a followed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Runs,
    /// The command has ended, but not all of its records have arrived.
    Ended,
}

/// The result of following a command.
pub(crate) struct Followed {
    /// The exit status to pass on.
    pub(crate) code: u8,
    /// Whether all activity of the command was reported.
    pub(crate) complete: bool,
}

/// Processes the available data, and returns whether records of the command are still outstanding.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&mut Pipeline, Progress) -> Result<bool>;

/// Runs a command and calls `look` at least once a second, until all its records have arrived.
pub(crate) fn follow(
    pipeline: &mut Pipeline,
    signals: &Signals,
    command: &[OsString],
    limit: Option<Duration>,
    look: Look<'_>,
) -> Result<Followed> {
    pipeline.follow_own_children();
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]);
    let mut child = match limits::as_started(|| program.spawn()) {
        Ok(child) => child,
        Err(error) => return Err(not_started(&command[0], error)),
    };
    let end = limit.map(|limit| Instant::now() + limit);
    let status = loop {
        let step = Instant::now() + STEP;
        let woken = pipeline.wait(signals, end.map_or(step, |end| end.min(step)))?;
        look(pipeline, Progress::Runs)?;
        if let Some(status) = child.try_wait().context("waiting for the command")? {
            break status;
        }
        if woken == Woken::End {
            // The terminal also sends SIGINT to the command, whereas a SIGTERM was sent only to
            // noctule.
            signals.clear_ends();
            terminate(&child);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(Followed {
                code: exit::DONE,
                complete: true,
            });
        }
    };
    Ok(Followed {
        code: code(status),
        complete: last_records(pipeline, signals, look)?,
    })
}

/// Returns the error for a command that did not start. The exit status is the same as in a shell:
/// 127 if the command does not exist, and 126 if it cannot be executed. A lack of memory, processes
/// or descriptors counts as noctule's own failure.
fn not_started(program: &OsStr, error: io::Error) -> anyhow::Error {
    use rustix::io::Errno;
    let name = program.to_string_lossy();
    // A name with a slash is a path, and PATH is not searched. If the file exists, ENOENT means
    // that its interpreter is missing.
    let exists = name.contains('/') && Path::new(program).exists();
    let code = match Errno::from_io_error(&error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            return anyhow::Error::new(error).context(format!("starting {name}"));
        }
        Some(Errno::NOENT) if !exists => exit::NO_COMMAND,
        _ => exit::NO_PROGRAM,
    };
    let why = match Errno::from_io_error(&error) {
        Some(Errno::NOENT) if exists => "its interpreter does not exist".into(),
        _ => error.to_string(),
    };
    let words = format!("command {name}: {why}");
    NotStarted { code, words }.into()
}

/// Waits for the exit records of the command and of its exited descendants, for a limited time.
/// Returns whether all of them arrived.
fn last_records(pipeline: &mut Pipeline, signals: &Signals, look: Look<'_>) -> Result<bool> {
    // Also clears the signal that ended the command; only a new signal stops this wait.
    signals.clear_ends();
    for _ in 0..LAST_RECORD_TRIES {
        if !look(pipeline, Progress::Ended)? {
            return Ok(true);
        }
        if pipeline.wait(signals, Instant::now() + LAST_RECORD_STEP)? == Woken::End {
            break;
        }
    }
    Ok(false)
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // The process may have ended in the meantime.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Returns the exit status as a shell does: 128 plus the signal number if a signal killed the
/// command.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(exit::FAILED)
}

/// The destination of the output. A file is created first, so that a wrong path is reported early.
/// The new file is renamed with the first write, so an earlier failure leaves an existing file
/// unchanged.
pub(crate) enum Output<'a> {
    Standard,
    /// Standard error, because standard output belongs to the followed command.
    StandardError,
    File(&'a Path, private::Answer),
}

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    /// The reader has closed its end of the pipe.
    Gone,
}

impl<'a> Output<'a> {
    pub(crate) fn open(path: Option<&'a Path>) -> Result<Self> {
        Self::for_command(path, &[])
    }

    /// Opens the output of a report on this command. An empty command means the whole machine.
    pub(crate) fn for_command(path: Option<&'a Path>, command: &[OsString]) -> Result<Self> {
        match path {
            None if command.is_empty() => Ok(Self::Standard),
            None => Ok(Self::StandardError),
            Some(path) => {
                let file = private::create(path).with_context(|| path.display().to_string())?;
                Ok(Self::File(path, file))
            }
        }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<Reader> {
        let write = |to: BorrowedFd<'_>| patient::deliver(to, text.as_bytes(), stop::is_asked);
        let (written, place) = match self {
            Self::Standard => (write(stdout().as_fd()), "standard output".into()),
            Self::StandardError => (write(stderr().as_fd()), "standard error".into()),
            Self::File(path, file) => {
                let written = write(file.as_fd()).and_then(|()| file.keep());
                (written, path.display().to_string())
            }
        };
        match written {
            // The reader has closed the pipe early. The exit status of the command is still passed
            // on.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
            written => written.context(place).map(|()| Reader::There),
        }
    }

    /// Writes text for people, in ASCII if the locale requires it.
    pub(crate) fn print(&mut self, text: &str) -> Result<Reader> {
        match print::ascii_only() {
            true => self.write(&ascii(text)),
            false => self.write(text),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Standard => stdout().is_terminal(),
            Self::StandardError => stderr().is_terminal(),
            Self::File(..) => false,
        }
    }

    pub(crate) fn paint(&self) -> Paint {
        match self {
            Self::Standard => Paint::of(&stdout()),
            Self::StandardError => Paint::of(&stderr()),
            Self::File(..) => Paint::none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_recording_changes_only_a_successful_status() {
        let lacks = || Err(anyhow::anyhow!("it lacks 3 batches"));
        assert_eq!(status(Ok(()), exit::DONE), exit::DONE);
        assert_eq!(status(Ok(()), 7), 7);
        assert_eq!(status(lacks(), exit::DONE), exit::FAILED);
        assert_eq!(status(lacks(), 7), 7);
    }
}
