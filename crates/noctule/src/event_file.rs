//! The file of `noctule run --events`: JSON lines, rotated by size.
//!
//! A separate thread takes the events from a bounded queue and writes the file. If the disk is slow
//! or full, events are lost, counted and reported in the file, but the agent is never delayed.

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

/// Maximum time to wait for the queue when the agent ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Path and limits of the file.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The current file. `PATH.1` and so on are older files.
    pub(crate) path: PathBuf,
    /// Size at which the next file is started, in bytes.
    pub(crate) bytes: u64,
    /// Number of older files to keep.
    pub(crate) keep: u32,
}

/// The agent's side, which never blocks.
pub(crate) struct EventFile {
    path: PathBuf,
    queue: Arc<Queue>,
    ended: Receiver<()>,
}

impl EventFile {
    /// Opens the file, repairs damage caused by a crash, and starts the thread.
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

    /// Queues events, in order. Events that do not fit are counted.
    pub(crate) fn write(&self, events: Vec<Event>) {
        self.queue.put(events);
    }

    /// Reopens the file before the next line, after an external rotation.
    pub(crate) fn reopen(&self) {
        self.queue.ask_reopen();
    }

    /// Returns the number of events lost since the agent started.
    pub(crate) fn loss(&self) -> Loss {
        Loss {
            kind: "event_file",
            place: "file",
            count: self.queue.lost(),
        }
    }

    /// Waits a limited time until everything is written.
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
        "events file {} (--events, or events.file in the configuration; its folder must exist and \
         be writable by the agent)",
        path.display()
    )
}

#[cfg(test)]
mod tests;
