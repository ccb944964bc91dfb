//! The population, as controlled by the bench.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::child::Child;
use super::load::{self, Load, asleep};
use super::stop::Stop;

/// How long thousands of processes or threads may take to start. A start takes long on a busy
/// machine.
const START: Duration = Duration::from_secs(120);

/// The running population of processes or sleeping threads. Dropping it ends the population.
pub(super) struct Population {
    _parts: Vec<Child>,
}

impl Population {
    /// Starts the population and waits until it is complete.
    pub(super) fn start(load: Load, stop: &Stop) -> Result<Self> {
        let commands = match load {
            Load::Asleep => {
                let count = asleep::count()?;
                let parts = (0..count).step_by(asleep::OF_A_PROCESS as usize);
                let part = |from| load::sleepers(asleep::OF_A_PROCESS.min(count - from));
                parts.map(part).collect()
            }
            _ => vec![load::population(&format!(
                "noctule-bench-{}",
                std::process::id()
            ))],
        };
        let parts = commands.into_iter().map(|command| part(command, stop));
        Ok(Self {
            _parts: parts.collect::<Result<_>>()?,
        })
    }
}

/// Starts a part of the population and waits until it is complete.
fn part(mut command: Command, stop: &Stop) -> Result<Child> {
    let mut child = Child::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let output = child.pipes().stdout.take().context("its output")?;
    let lines = lines(output);
    let word = stop.until(START, || match lines.try_recv() {
        Ok(line) => Ok(Some(line)),
        Err(mpsc::TryRecvError::Empty) => Ok(None),
        Err(mpsc::TryRecvError::Disconnected) => bail!("the population ended at once"),
    })?;
    match word.as_deref() {
        Some("ready") => Ok(child),
        _ => bail!("the population is not complete after {} s", START.as_secs()),
    }
}

/// Returns the lines that a process prints, as they arrive. Reads the pipe until it closes.
pub(super) fn lines(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver may have been dropped.
            let _ = sender.send(line);
        }
    });
    receiver
}
