//! The bounded queue of the writing thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noctule_model::{Event, EventRoom, What};

use super::tally::Tally;

/// Memory limit of queued events, which is about 50,000 events. The writer holds at most the same
/// amount in addition.
const ROOM: usize = 16 << 20;

/// Queued events, and the number of events that did not fit.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    lost: AtomicU64,
    reopen: AtomicBool,
}

struct State {
    waiting: Waiting,
    room: EventRoom,
    closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            room: EventRoom::new(ROOM),
            closed: false,
        }
    }
}

/// Contents taken from the queue: events, followed by the number of missing ones.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) events: Vec<Event>,
    pub(super) missing: Tally,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.missing.is_empty()
    }
}

impl Queue {
    /// Appends events. [`EventRoom`] decides which of them fit until the writer takes them.
    pub(super) fn put(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut state = self.state();
        let before = state.waiting.missing.here();
        for event in events {
            if state.room.admit(&event, event_bytes(&event)) {
                state.waiting.events.push(event);
            } else {
                state.waiting.missing.add(&event);
            }
        }
        self.lose(state.waiting.missing.here() - before);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for events and takes all of them. Returns an empty result after `timeout`. Returns
    /// `None` once the queue is closed and empty.
    pub(super) fn take(&self, timeout: Duration) -> Option<Waiting> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let (mut state, _) = self
            .filled
            .wait_timeout_while(self.state(), timeout, idle)
            .unwrap_or_else(PoisonError::into_inner);
        if state.closed && state.waiting.is_empty() {
            return None;
        }
        state.room.clear();
        Some(std::mem::take(&mut state.waiting))
    }

    /// Requests that the file is reopened.
    pub(super) fn ask_reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Returns whether a reopen was requested since the last call.
    pub(super) fn reopen_asked(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    /// Closes the queue; nothing may be added afterwards.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    /// Counts events that did not reach the file.
    pub(super) fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of events lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimates the memory of an event.
pub(crate) fn event_bytes(event: &Event) -> usize {
    let more = match &event.what {
        What::ProcessExec {
            path,
            args,
            context,
            ..
        } => {
            let args = args.iter().map(|arg| size_of::<Vec<u8>>() + arg.len());
            path.bytes.len() + args.sum::<usize>() + context.bytes()
        }
        What::FileOpen { path, .. } => path.bytes.len(),
        What::FileChange { path, change, .. } => {
            path.bytes.len() + change.second().map_or(0, |path| path.bytes.len())
        }
        What::DnsQuery(query) => size_of_val(&**query) + query.question.name.len(),
        _ => 0,
    };
    size_of::<Event>() + more
}
