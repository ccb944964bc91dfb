//! Requests waiting to be sent.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Why an item was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full, so the item was dropped in favour of newer ones.
    QueueFull,
    /// The receiver refused the request.
    Refused,
    /// The receiver accepted the request, but not this item.
    Rejected,
    /// The agent stopped before it could send the item.
    Unsent,
}

impl Reason {
    pub const ALL: [Self; 4] = [Self::QueueFull, Self::Refused, Self::Rejected, Self::Unsent];

    /// Returns the name in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Unsent => "unsent",
        }
    }
}

/// Counts of items since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that the receiver accepted.
    pub sent: u64,
    /// Items that were not delivered, by index of [`Reason`].
    pub lost: [u64; Reason::ALL.len()],
    /// Items that wait or are in flight.
    pub waiting: u64,
    /// Encoded bytes of these items.
    pub waiting_bytes: u64,
    /// Number of retries.
    pub retries: u64,
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) body: hyper::body::Bytes,
    pub(crate) items: u64,
}

/// A queue of requests. If it is full, the oldest waiting request is dropped.
#[derive(Debug)]
pub struct Queue {
    room: usize,
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Packed>,
    /// Bytes of the waiting requests.
    bytes: usize,
    /// The request in flight.
    under_way: Option<Packed>,
    counts: Counts,
    closed: bool,
}

impl Queue {
    /// Creates a queue with a capacity of `room` bytes, in addition to the request in flight. A
    /// single request may be larger.
    pub fn new(room: usize) -> Self {
        Self {
            room,
            state: Mutex::default(),
            filled: Notify::new(),
        }
    }

    /// Appends a request.
    pub(crate) fn put(&self, request: Packed) {
        let mut state = self.state();
        if state.closed {
            state.lose(Reason::Unsent, request.items);
            return;
        }
        state.bytes += request.body.len();
        state.waiting.push_back(request);
        // The newest request is kept, whatever its size.
        while state.bytes > self.room && state.waiting.len() > 1 {
            let Some(oldest) = state.waiting.pop_front() else {
                break;
            };
            state.bytes -= oldest.body.len();
            state.lose(Reason::QueueFull, oldest.items);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Appends a request, encoded according to `settings`.
    pub fn push(&self, settings: &crate::Settings, body: &[u8], items: u64) {
        self.put(settings.pack(body, items));
    }

    /// Counts items that were lost before they became part of a request.
    pub fn lose(&self, reason: Reason, items: u64) {
        self.state().lose(reason, items);
    }

    /// Waits for the next request, which is in flight until [`Self::done`]. Returns `None` once the
    /// queue is closed and empty.
    pub(crate) async fn next(&self) -> Option<Packed> {
        loop {
            {
                let mut state = self.state();
                if let Some(request) = state.waiting.pop_front() {
                    state.bytes -= request.body.len();
                    state.under_way = Some(request.clone());
                    return Some(request);
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Ends the request in flight and counts its lost items.
    pub(crate) fn done(&self, lost: Option<(Reason, u64)>) {
        let mut state = self.state();
        let items = state.under_way.take().map_or(0, |request| request.items);
        let (reason, count) = lost.unwrap_or((Reason::Refused, 0));
        let count = count.min(items);
        state.counts.sent += items - count;
        state.lose(reason, count);
    }

    pub(crate) fn retried(&self) {
        self.state().counts.retries += 1;
    }

    /// Closes the queue to new requests.
    pub fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    /// Drops all requests and closes the queue.
    pub fn give_up(&self) {
        let mut state = self.state();
        state.closed = true;
        let under_way = state.under_way.take();
        let all = std::mem::take(&mut state.waiting);
        let items = all.into_iter().chain(under_way).map(|it| it.items).sum();
        state.bytes = 0;
        state.lose(Reason::Unsent, items);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        let all = state.waiting.iter().chain(&state.under_way);
        let (mut items, mut bytes) = (0, 0);
        for request in all {
            items += request.items;
            bytes += request.body.len() as u64;
        }
        Counts {
            waiting: items,
            waiting_bytes: bytes,
            ..state.counts
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lose(&mut self, reason: Reason, items: u64) {
        self.counts.lost[reason as usize] += items;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: usize, items: u64) -> Packed {
        Packed {
            body: vec![0; bytes].into(),
            items,
        }
    }

    fn next(queue: &Queue) -> Option<Packed> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(queue.next())
    }

    #[test]
    fn oldest_request_is_dropped_and_items_counted_once() {
        let queue = Queue::new(10);
        queue.put(request(4, 1));
        let first = next(&queue).expect("a request");
        assert_eq!(first.items, 1);
        // The request in flight does not count towards the capacity.
        for items in [2, 4, 8] {
            queue.put(request(4, items));
        }
        let counts = queue.counts();
        assert_eq!(counts.lost[Reason::QueueFull as usize], 2);
        assert_eq!((counts.waiting, counts.waiting_bytes), (1 + 4 + 8, 12));
        queue.done(None);
        assert_eq!(next(&queue).expect("the next").items, 4);
        queue.done(Some((Reason::Rejected, 3)));
        queue.close();
        assert_eq!(next(&queue).expect("the last").items, 8);
        queue.done(Some((Reason::Refused, 8)));
        assert!(next(&queue).is_none());
        queue.put(request(1, 32));
        let counts = queue.counts();
        assert_eq!(counts.sent, 1 + 1);
        let lost = Reason::ALL.map(|reason| counts.lost[reason as usize]);
        assert_eq!(lost, [2, 8, 3, 32]);
        assert_eq!(counts.waiting, 0);
    }

    #[test]
    fn request_larger_than_the_queue_waits_alone() {
        let queue = Queue::new(10);
        for items in [1, 2, 4] {
            queue.put(request(11, items));
        }
        let counts = queue.counts();
        assert_eq!(counts.lost[Reason::QueueFull as usize], 1 + 2);
        assert_eq!((counts.waiting, counts.waiting_bytes), (4, 11));
    }

    #[test]
    fn dropped_requests_are_counted() {
        let queue = Queue::new(10);
        queue.put(request(1, 1));
        queue.put(request(1, 2));
        next(&queue);
        queue.give_up();
        let counts = queue.counts();
        assert_eq!(counts.lost[Reason::Unsent as usize], 3);
        // The outcome arrives too late.
        queue.done(None);
        assert_eq!(queue.counts().sent, 0);
    }
}
