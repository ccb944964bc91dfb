//! The bounded inbox of the sending thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noctule_analysis::WaitReport;
use noctule_model::{Event, EventRoom};
use tokio::sync::Notify;

use crate::event_file::event_bytes;
use crate::published::Published;

/// Memory limit of events that are not in a request yet.
const ROOM: usize = 8 << 20;

/// Maximum number of queued windows. A window ends every ten seconds.
const WINDOWS: usize = 8;

/// A message of the main thread.
pub(super) enum Message {
    Figures(Arc<Published>),
    Events(Vec<Event>),
    Judged(Arc<WaitReport>, u64),
}

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    filled: Notify,
}

struct State {
    messages: Vec<Message>,
    room: EventRoom,
    closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            room: EventRoom::new(ROOM),
            closed: false,
        }
    }
}

impl Inbox {
    /// Adds a message. A new snapshot replaces a queued one, and the oldest windows are dropped.
    pub(super) fn put(&self, message: Message) {
        let mut state = self.state();
        let messages = &mut state.messages;
        match &message {
            Message::Figures(_) => {
                messages.retain(|it| !matches!(it, Message::Figures(_)));
            }
            Message::Judged(..) => {
                let is_window = |it: &Message| matches!(it, Message::Judged(..));
                if messages.iter().filter(|it| is_window(it)).count() >= WINDOWS
                    && let Some(oldest) = messages.iter().position(is_window)
                {
                    messages.remove(oldest);
                }
            }
            Message::Events(_) => {}
        }
        messages.push(message);
        drop(state);
        self.filled.notify_one();
    }

    /// Adds events, and returns how many of them were lost for lack of memory.
    pub(super) fn put_events(&self, mut events: Vec<Event>) -> u64 {
        if events.is_empty() {
            return 0;
        }
        let mut state = self.state();
        let all = events.len();
        events.retain(|event| state.room.admit(event, event_bytes(event)));
        let lost = all - events.len();
        state.messages.push(Message::Events(events));
        drop(state);
        self.filled.notify_one();
        lost as u64
    }

    /// Waits for messages and takes all of them. Returns `None` once the inbox is closed and empty.
    pub(super) async fn take(&self) -> Option<Vec<Message>> {
        loop {
            {
                let mut state = self.state();
                if !state.messages.is_empty() {
                    state.room.clear();
                    return Some(std::mem::take(&mut state.messages));
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Closes the inbox; nothing may be added afterwards.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
