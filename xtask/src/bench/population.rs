//! The population, seen from the bench.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::child::Child;
use super::load;
use super::stop::Stop;

/// 1,000 processes take seconds to start; on a busy machine, many.
const START: Duration = Duration::from_secs(120);

/// The living population; ends with this.
pub(super) struct Population {
    _child: Child,
}

impl Population {
    /// Starts it and waits until it is complete.
    pub(super) fn start(stop: &Stop) -> Result<Self> {
        let name = format!("noctule-bench-{}", std::process::id());
        let mut command = load::population(&name);
        let mut child = Child::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let output = child.pipes().stdout.take().context("its output")?;
        let lines = lines(output);
        let word = stop.until(START, || match lines.try_recv() {
            Ok(line) => Ok(Some(line)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => bail!("the population ended at once"),
        })?;
        match word.as_deref() {
            Some("ready") => Ok(Self { _child: child }),
            _ => bail!("the population is not complete after {} s", START.as_secs()),
        }
    }
}

/// The lines that a process prints, as they come; keeps its pipe empty to the end.
pub(super) fn lines(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody may want the rest.
            let _ = sender.send(line);
        }
    });
    receiver
}
