//! Which connections there are, and which of them gives way when there are too many.
//!
//! Connections without a complete request, those whose answer is still being made, and those with an answer under
//! way are counted apart, so that none of them keeps a scraper out. Where a kind has no place left:
//!
//! - of connections without a request, the oldest is closed;
//! - a request whose answer would have to be made is refused: those before it get theirs first;
//! - of answers under way, one is closed whose client does not read, or that has not progressed for longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::page::Shared;
use crate::peer::Peer;

/// How much there may be at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Connections that have sent no complete request: they are new, or idle, or send slowly.
    pub(crate) waiting: usize,
    /// Connections with a request whose answer is not there yet.
    pub(crate) asking: usize,
    /// Connections with an answer under way.
    pub(crate) answering: usize,
    /// Bytes of shared pages that only such answers still hold; the last two pages are not counted.
    pub(crate) old_bytes: usize,
}

impl Room {
    pub(crate) const DEFAULT: Self = Self {
        waiting: 64,
        asking: 128,
        answering: 64,
        old_bytes: 16 << 20,
    };
}

/// The connections, the oldest first.
#[derive(Debug)]
pub(crate) struct Seats {
    room: Room,
    state: Mutex<State>,
    /// Counts the writes of all connections: the order in which they made progress.
    writes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Grows with each change of a connection's kind, so that the order of keys is that of age.
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
    asking: usize,
    answering: BTreeMap<u64, Answering>,
}

#[derive(Debug)]
struct Answering {
    close: Arc<Notify>,
    page: Option<Arc<Shared>>,
    peer: Peer,
    progress: Arc<Progress>,
}

/// How far an answer has been sent.
#[derive(Debug, Default)]
struct Progress {
    /// The number of the last write that the socket took.
    last_write: AtomicU64,
    bytes: AtomicU64,
}

/// More than the kernel takes for a client that does not read: our send buffer, and the largest receive buffer
/// that a process without privileges can ask for (`net.core.rmem_max`, twice: 416 KiB by default).
const UNREAD_BYTES: u64 = 1 << 20;

impl Progress {
    fn begin(&self, number: u64) {
        self.last_write.store(number, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn wrote(&self, number: u64, bytes: usize) {
        self.last_write.store(number, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client must have read a part of the answer.
    fn is_read(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > UNREAD_BYTES
    }
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    close: Arc<Notify>,
    peer: Peer,
    progress: Arc<Progress>,
    place: Mutex<Place>,
}

/// The kind of a connection, with its key.
#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting(u64),
    Asking,
    Answering(u64),
}

impl Seats {
    pub(crate) fn new(room: Room) -> Arc<Self> {
        Arc::new(Self {
            room,
            state: Mutex::default(),
            writes: AtomicU64::new(0),
        })
    }

    /// A place for a new connection. Where there is none, the oldest without a request is closed.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Arc<Seat> {
        let close = Arc::new(Notify::new());
        let key = self.state().wait(close.clone(), self.room.waiting);
        Arc::new(Seat {
            seats: self.clone(),
            close,
            peer,
            progress: Arc::default(),
            place: Mutex::new(Place::Waiting(key)),
        })
    }

    /// Closes the connection that can be missed best, if there is any.
    pub(crate) fn close_one(&self) {
        let mut state = self.state();
        match state.waiting.pop_first() {
            Some((_, oldest)) => oldest.notify_one(),
            None => {
                let room = state.answering.len();
                state.make_room(room);
            }
        }
    }

    fn next_write(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed)
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

    /// Closes answers until there is room for one more. Those that nobody has read from go before others, those of the
    /// address with the most of them first, and of these the one whose last write is the oldest.
    fn make_room(&mut self, room: usize) {
        while self.answering.len() >= room && !self.answering.is_empty() {
            let mut counts: HashMap<(bool, Peer), usize> = HashMap::new();
            let kind = |it: &Answering| (it.progress.is_read(), it.peer);
            for it in self.answering.values() {
                *counts.entry(kind(it)).or_default() += 1;
            }
            let rank = |it: &Answering| {
                let last_write = it.progress.last_write.load(Ordering::Relaxed);
                (kind(it).0, Reverse(counts[&kind(it)]), last_write)
            };
            let next = self.answering.iter().min_by_key(|(_, it)| rank(it));
            let Some(key) = next.map(|(key, _)| *key) else {
                return;
            };
            self.close(key);
        }
    }

    fn close(&mut self, key: u64) {
        if let Some(gone) = self.answering.remove(&key) {
            gone.close.notify_one();
        }
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
            let Some((&key, _)) = self.answering.iter().find(|(_, it)| holds(it)) else {
                return;
            };
            self.close(key);
        }
    }
}

impl Seat {
    /// Returns when the connection has to give way.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Notes that a request is complete. `None` where too many others wait for their answers.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<Answer> {
        let mut place = self.place();
        let mut state = self.seats.state();
        // One that was closed meanwhile has no place any more, and gets none.
        if let Place::Waiting(key) = *place
            && state.waiting.contains_key(&key)
        {
            if state.asking >= self.seats.room.asking {
                return None;
            }
            state.waiting.remove(&key);
            state.asking += 1;
            *place = Place::Asking;
        }
        Some(Answer(self.clone()))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives its place back.
    fn leave(&self, place: Place) {
        let mut state = self.seats.state();
        match place {
            Place::Waiting(key) => drop(state.waiting.remove(&key)),
            Place::Asking => state.asking -= 1,
            Place::Answering(key) => drop(state.answering.remove(&key)),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let place = *self.place();
        self.leave(place);
    }
}

/// An answer that is being made or under way.
#[derive(Debug)]
pub(crate) struct Answer(Arc<Seat>);

impl Answer {
    /// Notes that the answer is there and begins to be sent; others may have to give way. `page` is the one that it holds.
    pub(crate) fn begin(&self, page: Option<&Arc<Shared>>) {
        let Seat {
            seats,
            close,
            peer,
            progress,
            ..
        } = &*self.0;
        let mut place = self.0.place();
        let Place::Asking = *place else { return };
        let mut state = seats.state();
        state.asking -= 1;
        state.make_room(seats.room.answering);
        progress.begin(seats.next_write());
        let key = state.key();
        *place = Place::Answering(key);
        let answering = Answering {
            close: close.clone(),
            page: page.cloned(),
            peer: *peer,
            progress: progress.clone(),
        };
        state.answering.insert(key, answering);
        if let Some(page) = page {
            state.forget_pages(page, seats.room.old_bytes);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let seat = &self.0;
        let mut place = seat.place();
        let mut state = seat.seats.state();
        let had_place = match *place {
            Place::Waiting(_) => false,
            Place::Asking => {
                state.asking -= 1;
                true
            }
            Place::Answering(key) => state.answering.remove(&key).is_some(),
        };
        if had_place {
            *place = Place::Waiting(state.wait(seat.close.clone(), seat.seats.room.waiting));
        }
    }
}

/// A body that keeps its answer under way until the connection has taken all of it.
pub(crate) struct Kept {
    pub(crate) body: Body,
    /// `None`: it has no place, and is short.
    pub(crate) _answer: Option<Answer>,
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

/// A stream that notes in its seat what the client takes.
pub(crate) struct Noted<S> {
    pub(crate) stream: S,
    pub(crate) seat: Arc<Seat>,
}

impl<S> Noted<S> {
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = ready!(written)?;
        let number = self.seat.seats.next_write();
        self.seat.progress.wrote(number, bytes);
        Poll::Ready(Ok(bytes))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ROOM: Room = Room {
        waiting: 9,
        asking: 2,
        answering: 2,
        old_bytes: 0,
    };

    fn peer(number: u8) -> Peer {
        Peer::from_address(Ipv4Addr::new(192, 0, 2, number).into())
    }

    fn begun(seats: &Arc<Seats>, from: u8) -> (Arc<Seat>, Answer) {
        let seat = seats.take(peer(from));
        let answer = seat.ask().expect("a place");
        answer.begin(None);
        (seat, answer)
    }

    /// The client took more than a socket has room for.
    fn read(seat: &Seat) {
        let bytes = UNREAD_BYTES as usize + 1;
        seat.progress.wrote(seat.seats.next_write(), bytes);
    }

    fn is_open((seat, _): &(Arc<Seat>, Answer)) -> bool {
        let Place::Answering(key) = *seat.place() else {
            return false;
        };
        seat.seats.state().answering.contains_key(&key)
    }

    #[test]
    fn a_client_that_reads_outlives_any_number_that_do_not() {
        let seats = Seats::new(ROOM);
        let scraper = begun(&seats, 1);
        read(&scraper.0);
        let mut deaf = begun(&seats, 1);
        for _ in 0..1000 {
            let next = begun(&seats, 1);
            assert!(!is_open(&deaf) && is_open(&scraper));
            deaf = next;
        }
        assert_eq!(seats.state().answering.len(), 2);
    }

    #[test]
    fn stalled_reader_is_closed_first() {
        let seats = Seats::new(ROOM);
        let [stopped, reading] = [1, 2].map(|from| begun(&seats, from));
        for it in [&reading, &stopped, &reading] {
            read(&it.0);
        }
        let newest = begun(&seats, 3);
        assert_eq!(
            [&stopped, &reading, &newest].map(is_open),
            [false, true, true]
        );
    }

    #[test]
    fn the_address_with_most_connections_gives_way() {
        let seats = Seats::new(Room {
            answering: 3,
            ..ROOM
        });
        let first = begun(&seats, 1);
        let flood = [2, 2].map(|from| begun(&seats, from));
        let newest = begun(&seats, 3);
        assert!(is_open(&first) && is_open(&newest));
        assert_eq!([&flood[0], &flood[1]].map(is_open), [false, true]);
    }

    #[test]
    fn requests_are_refused_while_too_many_wait() {
        let seats = Seats::new(ROOM);
        let clients: [Arc<Seat>; 3] = std::array::from_fn(|_| seats.take(peer(1)));
        let first = clients[0].ask().expect("a place");
        let _second = clients[1].ask().expect("a place");
        assert!(clients[2].ask().is_none());
        first.begin(None);
        assert!(seats.take(peer(1)).ask().is_some());
    }
}
