//! Which connections there are, and which of them gives way when there are too many.
//!
//! A connection without a complete request and one with an answer under way are counted apart, so that
//! neither requests that never end nor answers that nobody reads keep a scraper out: where a kind is
//! full, its oldest connection is closed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::Notify;

use crate::page::Shared;

/// How much there may be at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Connections that have sent no complete request: they are new, or idle, or send slowly.
    pub(crate) waiting: usize,
    /// Connections with an answer under way.
    pub(crate) answering: usize,
    /// Bytes of shared pages that only such answers still hold; the last two pages are not counted.
    pub(crate) old_bytes: usize,
}

impl Room {
    pub(crate) const DEFAULT: Self = Self {
        waiting: 64,
        answering: 64,
        old_bytes: 16 << 20,
    };
}

/// The connections, the oldest first.
#[derive(Debug)]
pub(crate) struct Seats {
    room: Room,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Grows with each change of a connection's kind, so that the order of keys is that of age.
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
    answering: BTreeMap<u64, Answering>,
}

#[derive(Debug)]
struct Answering {
    close: Arc<Notify>,
    page: Option<Arc<Shared>>,
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    close: Arc<Notify>,
    key: Mutex<u64>,
}

impl Seats {
    pub(crate) fn new(room: Room) -> Arc<Self> {
        Arc::new(Self {
            room,
            state: Mutex::default(),
        })
    }

    /// A place for a new connection. Where there is none, the oldest without a request is closed.
    pub(crate) fn take(self: &Arc<Self>) -> Arc<Seat> {
        let close = Arc::new(Notify::new());
        let mut state = self.state();
        let key = state.wait(close.clone(), self.room.waiting);
        drop(state);
        Arc::new(Seat {
            seats: self.clone(),
            close,
            key: Mutex::new(key),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&mut self, close: Arc<Notify>, room: usize) -> u64 {
        while self.waiting.len() >= room
            && let Some((_, oldest)) = self.waiting.pop_first()
        {
            oldest.notify_one();
        }
        let key = self.key();
        self.waiting.insert(key, close);
        key
    }

    /// The pages that answers hold, the oldest first, without the newest.
    fn old_pages(&self, newest: &Arc<Shared>) -> Vec<Arc<Shared>> {
        let mut old: Vec<Arc<Shared>> = Vec::new();
        for page in self.answering.values().filter_map(|it| it.page.as_ref()) {
            let counted = old.iter().any(|other| Arc::ptr_eq(other, page));
            if !counted && !Arc::ptr_eq(page, newest) {
                old.push(page.clone());
            }
        }
        old
    }

    /// Closes the oldest answers until old pages take no more than `most` bytes. The last one before the
    /// newest does not count: of two scrapers, one after the other, each gets a whole page of any size.
    fn forget_pages(&mut self, newest: &Arc<Shared>, most: usize) {
        loop {
            let mut old = self.old_pages(newest);
            old.pop();
            if old.iter().map(|page| page.bytes()).sum::<usize>() <= most {
                return;
            }
            let holds = |it: &Answering| {
                let page = it.page.as_ref();
                page.is_some_and(|page| Arc::ptr_eq(page, &old[0]))
            };
            let Some(oldest) = self.answering.iter().find(|(_, it)| holds(it)) else {
                return;
            };
            let key = *oldest.0;
            if let Some(gone) = self.answering.remove(&key) {
                gone.close.notify_one();
            }
        }
    }
}

impl Seat {
    /// Returns when the connection has to give way.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// A request is complete: its answer is under way until the value is dropped.
    pub(crate) fn answer(self: &Arc<Self>) -> Answer {
        let seats = &self.seats;
        let mut key = self.key();
        let mut state = seats.state();
        // One that was closed meanwhile has no place any more, and gets none.
        if state.waiting.remove(&key).is_some() {
            while state.answering.len() >= seats.room.answering
                && let Some((_, oldest)) = state.answering.pop_first()
            {
                oldest.close.notify_one();
            }
            *key = state.key();
            let close = self.close.clone();
            let page = None;
            state.answering.insert(*key, Answering { close, page });
        }
        Answer(self.clone())
    }

    fn key(&self) -> MutexGuard<'_, u64> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let key = *self.key();
        let mut state = self.seats.state();
        state.waiting.remove(&key);
        state.answering.remove(&key);
    }
}

/// An answer that is under way.
#[derive(Debug)]
pub(crate) struct Answer(Arc<Seat>);

impl Answer {
    /// Notes that the answer holds this page; answers with older ones may have to give way.
    pub(crate) fn holds(&self, page: &Arc<Shared>) {
        let seats = &self.0.seats;
        let key = *self.0.key();
        let mut state = seats.state();
        if let Some(answering) = state.answering.get_mut(&key) {
            answering.page = Some(page.clone());
        }
        state.forget_pages(page, seats.room.old_bytes);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let seats = &self.0.seats;
        let mut key = self.0.key();
        let mut state = seats.state();
        if state.answering.remove(&key).is_some() {
            *key = state.wait(self.0.close.clone(), seats.room.waiting);
        }
    }
}

/// A body that keeps its answer under way until the connection has taken all of it.
pub(crate) struct Kept {
    pub(crate) body: Body,
    pub(crate) _answer: Answer,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
