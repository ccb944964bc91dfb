//! The file of `noctule run --events`: one JSON object on each line, rotated by size.
//!
//! A thread of its own writes it, behind a bounded queue: a disk that is slow or full costs events,
//! which are counted and reported in the file itself, and never holds up the agent.

mod lines;
mod queue;
mod rotation;
mod tally;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use noctule_model::{Event, Loss};

use crate::rights;

use queue::Queue;
pub(crate) use queue::event_bytes;
use rotation::Rotation;
use writer::Writer;

/// How long the end of the agent waits for what is in the queue.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Where the file is and how large it may become.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file that is written; `PATH.1` and so on are the older ones.
    pub(crate) path: PathBuf,
    /// Size from which the next one is begun, in bytes.
    pub(crate) bytes: u64,
    /// How many older ones are kept.
    pub(crate) keep: u32,
}

/// The agent's end: it hands over events and never waits.
pub(crate) struct EventFile {
    path: PathBuf,
    queue: Arc<Queue>,
    ended: Receiver<()>,
}

impl EventFile {
    /// Opens the file, mends what a crash left in it, and starts the thread.
    pub(crate) fn open(place: Place) -> Result<Self> {
        let path = place.path.clone();
        let rotation = Rotation::open(place).with_context(|| help(&path))?;
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(rotation, queue.clone());
        let (end, ended) = sync_channel(1);
        thread::Builder::new()
            .name("noctule-events".into())
            .spawn(move || {
                rights::write_only();
                writer.run();
                let _ = end.send(());
            })
            .context("starting the thread that writes events")?;
        Ok(Self { path, queue, ended })
    }

    /// Hands over events, in order. What finds no room is counted.
    pub(crate) fn write(&self, events: Vec<Event>) {
        self.queue.put(events);
    }

    /// Opens the file anew before the next line: somebody moved it.
    pub(crate) fn reopen(&self) {
        self.queue.ask_reopen();
    }

    /// What did not reach the file since the agent started.
    pub(crate) fn loss(&self) -> Loss {
        Loss {
            kind: "event_file",
            place: "file",
            count: self.queue.lost(),
        }
    }

    /// Waits until everything is written, for a while.
    pub(crate) fn close(self) {
        self.queue.close();
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(LAST_WRITES) {
            let path = self.path.display();
            tracing::warn!("{path}: the last events were not written within {LAST_WRITES:?}");
        }
    }
}

fn help(path: &Path) -> String {
    format!(
        "events file {} (--events, or events.file in the configuration: it must be in a folder that \
         exists and that the agent may write to)",
        path.display()
    )
}

#[cfg(test)]
mod tests;
