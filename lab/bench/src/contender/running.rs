//! A running contender.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use super::Contender;
use super::launch::{Launch, Output};
use crate::child::Child;
use crate::events::Format;
use crate::host;
use crate::population::lines;
use crate::stop::Stop;

/// How long a contender may take to attach everything.
const START: Duration = Duration::from_secs(30);
/// A contender counts as attached once the number of its hooks is stable for this long.
const STABLE: Duration = Duration::from_millis(300);
/// How long to wait while the agent measures itself. The agent enables BPF statistics from one to
/// two seconds after its start, and then for one second in thirty. Without this pause, the load
/// would run mostly during that exceptional second.
const OWN_WINDOW: Duration = Duration::from_millis(2300);
/// All events count as reported once no output has arrived for this long.
const QUIET: Duration = Duration::from_millis(400);
/// Maximum time to wait for such a pause in the output. Events of the load arrive within this time,
/// although a machine is never quiet.
const DRAIN: Duration = Duration::from_secs(10);

/// The processes of a contender. Dropping this value ends them.
#[derive(Default)]
pub(crate) struct Running {
    members: Vec<Member>,
    /// Address of the contender's /metrics, if it serves them.
    pub(crate) address: Option<String>,
}

struct Member {
    child: Child,
    errors: PathBuf,
    lines: Option<Receiver<String>>,
    capture: Option<Capture>,
}

/// Output that is read as it arrives and parsed when the load has ended. If each line were parsed
/// earlier, parsing would take CPU time from the load.
struct Capture {
    format: Format,
    bytes: Arc<AtomicUsize>,
    reader: JoinHandle<Vec<u8>>,
}

/// The complete output of a program.
pub(crate) struct ToolOutput {
    pub(crate) format: Format,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Running {
    pub(super) fn add(&mut self, launch: Launch, errors: PathBuf) -> Result<()> {
        let Launch {
            mut command,
            output,
        } = launch;
        let file = File::create(&errors).with_context(|| errors.display().to_string())?;
        let mut child = Child::start(command.stderr(file))?;
        let pipe = child.pipes().stdout.take();
        let mut member = Member {
            child,
            errors,
            lines: None,
            capture: None,
        };
        match output {
            Output::Nothing => {}
            Output::Address => member.lines = pipe.map(lines),
            Output::Events(format) => member.capture = pipe.map(|pipe| Capture::read(format, pipe)),
        }
        self.members.push(member);
        Ok(())
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|m| m.child.pid()).collect()
    }

    /// Fails if a process has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        for member in &mut self.members {
            if let Some(status) = member.child.ended()? {
                let text = fs::read_to_string(&member.errors).unwrap_or_default();
                let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
                // The first line names the cause, and the last line the consequence.
                match lines.as_slice() {
                    [] => bail!("it has ended: {status}"),
                    [line] => bail!("{line}: {status}"),
                    [first, .., last] => bail!("{first}; {last}: {status}"),
                }
            }
        }
        Ok(())
    }

    /// Waits until all processes of the contender are attached.
    pub(super) fn wait(&mut self, contender: &Contender, stop: &Stop) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        if !contender.attaches() {
            stop.sleep(STABLE)?;
            return self.check();
        }
        let mut since = Instant::now();
        let mut before = Vec::new();
        let ready = stop.until(START, || {
            self.check()?;
            self.read_lines();
            let hooks: Vec<usize> = self.pids().into_iter().map(host::hooks).collect();
            let listens = self.address.is_some() || !contender.serves();
            if hooks != before || hooks.contains(&0) || !listens {
                before = hooks;
                since = Instant::now();
            }
            Ok((since.elapsed() >= STABLE).then_some(()))
        })?;
        ready.with_context(|| format!("not attached after {} s", START.as_secs()))?;
        if contender.is_noctule() {
            stop.sleep(OWN_WINDOW)?;
        }
        Ok(())
    }

    /// Finds the line in which the agent prints its address.
    fn read_lines(&mut self) {
        for lines in self.members.iter().filter_map(|m| m.lines.as_ref()) {
            while let Ok(line) = lines.try_recv() {
                let after = line.split_once(" on http://").map(|(_, rest)| rest);
                let address = after.and_then(|rest| rest.split('/').next());
                self.address = address.map(str::to_owned).or(self.address.take());
            }
        }
    }

    /// Waits until all events so far are reported.
    pub(crate) fn drain(&self, stop: &Stop) -> Result<()> {
        let capture = || self.members.iter().filter_map(|m| m.capture.as_ref());
        let bytes = || {
            capture()
                .map(|t| t.bytes.load(Ordering::Relaxed))
                .sum::<usize>()
        };
        if capture().next().is_none() {
            return Ok(());
        }
        let (mut before, mut since) = (bytes(), Instant::now());
        let quiet = stop.until(DRAIN, || {
            if before != bytes() {
                (before, since) = (bytes(), Instant::now());
            }
            Ok((since.elapsed() >= QUIET).then_some(()))
        });
        quiet.map(|_| ())
    }

    /// Ends the processes, and returns the output of those that report events.
    pub(crate) fn end(self) -> Result<Vec<ToolOutput>> {
        let mut all = Vec::new();
        for member in self.members {
            drop(member.child);
            let Some(capture) = member.capture else {
                continue;
            };
            let output = capture
                .reader
                .join()
                .map_err(|_| anyhow!("the reader panicked"))?;
            all.push(ToolOutput {
                format: capture.format,
                output: text(output),
                errors: fs::read_to_string(&member.errors).unwrap_or_default(),
            });
        }
        Ok(all)
    }
}

/// Converts the bytes without a copy, because there can be many.
fn text(bytes: Vec<u8>) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes()))
}

impl Capture {
    fn read(format: Format, mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            // A read error means the end of the pipe.
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                all.extend_from_slice(&buffer[..length]);
                count.fetch_add(length, Ordering::Relaxed);
            }
            all
        });
        Self {
            format,
            bytes,
            reader,
        }
    }
}
