//! A thread that writes the recording, fed by a bounded queue. The thread that passes batches and
//! events never waits for the disk.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use noctule_model::{Batch, Event, EventRoom, Loss, ProcessRow, What};

use crate::error::Error;
use crate::tally::Tally;
use crate::writer::{Options, Unwritten, Writer};

/// Maximum number of queued batches and of queued events.
const MOST_BATCHES: usize = 16;
const MOST_EVENTS: usize = 50_000;

/// Maximum number of exited processes that are kept from dropped batches.
const MOST_EXITED: usize = 20_000;

/// Writes a recording on a separate thread.
#[derive(Debug)]
pub struct Recorder {
    queue: Arc<Queue>,
    ended: Receiver<()>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug)]
struct State {
    items: VecDeque<Item>,
    batches: usize,
    room: EventRoom,
    closed: bool,
    /// Data of dropped batches that no later batch repeats: exited processes and the holders of
    /// CPUs.
    exited: Vec<ProcessRow>,
    held: Batch,
    /// Events dropped since the writer last emptied the queue.
    missing: Tally,
    lost: Lost,
    trouble: Option<String>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            batches: 0,
            room: EventRoom::new(MOST_EVENTS),
            closed: false,
            exited: Vec::new(),
            held: Batch::default(),
            missing: Tally::default(),
            lost: Lost::default(),
            trouble: None,
        }
    }
}

#[derive(Debug)]
enum Item {
    Batch(Box<Batch>),
    Events(Vec<Event>),
}

/// Counts of data missing from the recording.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    batches: u64,
    events: u64,
    processes: u64,
}

impl Recorder {
    /// Locks the directory of the recording and starts the writing thread.
    pub fn open(options: Options) -> Result<Self, Error> {
        let on_thread = options.on_thread;
        let writer = Writer::open(options)?;
        let queue = Arc::new(Queue::default());
        let filled = queue.clone();
        let (end, ended) = sync_channel(1);
        thread::Builder::new()
            .name("noctule-tape".into())
            .spawn(move || {
                on_thread();
                Thread {
                    writer,
                    queue: filled,
                    missing: Tally::default(),
                    last_unix_ns: 0,
                }
                .run();
                let _ = end.send(());
            })
            .map_err(Error::of("starting the tape thread"))?;
        Ok(Self { queue, ended })
    }

    /// Queues a batch. If the queue is full, the batch is dropped and counted, which leaves a gap.
    pub fn batch(&self, batch: &Batch) {
        let mut state = self.queue.state();
        if state.batches >= MOST_BATCHES {
            state.lost.batches += 1;
            let room = MOST_EXITED.saturating_sub(state.exited.len());
            let kept = batch.exited.len().min(room);
            state.lost.processes += (batch.exited.len() - kept) as u64;
            state.exited.extend_from_slice(&batch.exited[..kept]);
            state.held = batch.holders_since(&state.held);
            return;
        }
        let mut batch = Box::new(batch.clone());
        batch.exited.splice(0..0, state.exited.drain(..));
        batch.add_holders(&std::mem::take(&mut state.held));
        state.batches += 1;
        state.items.push_back(Item::Batch(batch));
        drop(state);
        self.queue.filled.notify_one();
    }

    /// Returns whether the next batch fits into the queue. Only a caller that makes batches faster
    /// than a clock needs this.
    pub fn has_room(&self) -> bool {
        self.queue.state().batches < MOST_BATCHES
    }

    /// Queues events in order. [`EventRoom`] decides which of them fit until the thread empties the
    /// queue.
    pub fn events(&self, events: &[Event]) {
        let mut state = self.queue.state();
        let mut fitting = Vec::with_capacity(events.len());
        for event in events {
            if state.room.admit(event, 1) {
                fitting.push(event.clone());
            } else {
                let lost = add(&mut state.missing, event);
                state.lost.events += lost;
            }
        }
        if fitting.is_empty() {
            return;
        }
        state.items.push_back(Item::Events(fitting));
        drop(state);
        self.queue.filled.notify_one();
    }

    /// Returns the losses since the recording was opened.
    pub fn losses(&self) -> [Loss; 3] {
        let lost = self.queue.state().lost;
        let loss = |kind, count| Loss {
            kind,
            place: "tape",
            count,
        };
        [
            loss("tape_batch", lost.batches),
            loss("tape_event", lost.events),
            loss("tape_process", lost.processes),
        ]
    }

    /// Takes the latest write error, so that each error is reported once.
    pub fn trouble(&self) -> Option<String> {
        self.queue.state().trouble.take()
    }

    /// Writes everything that is queued, and waits up to `patience` for the writing thread to end.
    /// Returns whether it ended. [`Self::trouble`] then returns the last write error.
    pub fn close(&self, patience: Duration) -> bool {
        self.queue.state().closed = true;
        self.queue.filled.notify_one();
        self.ended.recv_timeout(patience).is_ok()
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for data to write. Returns the data and the events that were dropped after it, or
    /// `None` once the queue is closed and empty.
    fn take(&self) -> Option<(VecDeque<Item>, Tally)> {
        let idle =
            |state: &mut State| state.items.is_empty() && state.missing.is_empty() && !state.closed;
        let mut state = self
            .filled
            .wait_while(self.state(), idle)
            .unwrap_or_else(PoisonError::into_inner);
        if state.items.is_empty() && state.missing.is_empty() {
            return None;
        }
        state.batches = 0;
        state.room.clear();
        let items = std::mem::take(&mut state.items);
        Some((items, std::mem::take(&mut state.missing)))
    }
}

/// Counts a lost event. For a gap, adds the losses that it reports. Returns the number of newly
/// lost events.
fn add(tally: &mut Tally, event: &Event) -> u64 {
    match &event.what {
        What::Gap { lost, .. } => {
            lost.iter()
                .for_each(|(name, count)| tally.add(name, *count));
            0
        }
        what => {
            tally.add(what.name(), 1);
            1
        }
    }
}

/// The writing thread.
struct Thread {
    writer: Writer,
    queue: Arc<Queue>,
    /// Lost events that no gap reports yet.
    missing: Tally,
    last_unix_ns: u64,
}

impl Thread {
    fn run(mut self) {
        while let Some((items, missing)) = self.queue.take() {
            for item in items {
                match item {
                    Item::Batch(batch) => {
                        self.last_unix_ns = batch.time_unix_ns;
                        let written = self.writer.batch(&batch);
                        self.note(written);
                    }
                    Item::Events(events) => {
                        self.gap();
                        self.last_unix_ns = events.last().map_or(0, |event| event.time_unix_ns);
                        self.writer.events(&events);
                        if self.writer.is_full() {
                            let written = self.writer.flush();
                            self.note(written);
                        }
                    }
                }
            }
            self.missing.add_all(&missing);
        }
        self.gap();
        let queue = self.queue.clone();
        let closed = self.writer.close();
        if let Err(unwritten) = closed {
            note(&queue, &unwritten);
        }
    }

    /// Writes a gap record in place of the lost events.
    fn gap(&mut self) {
        if self.missing.is_empty() {
            return;
        }
        let lost = std::mem::take(&mut self.missing).list();
        self.writer.events(&[Event {
            time_unix_ns: self.last_unix_ns,
            process: None,
            origin: noctule_model::Origin::Seen,
            what: What::Gap {
                lost,
                since_unix_ns: None,
            },
        }]);
    }

    fn note(&mut self, written: Result<(), Unwritten>) {
        if let Err(unwritten) = written {
            note(&self.queue, &unwritten);
            self.missing.add_all(&unwritten.events);
        }
    }
}

fn note(queue: &Queue, unwritten: &Unwritten) {
    let mut state = queue.state();
    state.lost.batches += unwritten.batches;
    state.lost.events += unwritten.events.sum();
    state.lost.processes += unwritten.processes;
    let error = &unwritten.error;
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    state.trouble = Some(format!("{error}{}", cause.unwrap_or_default()));
}
