//! The open connections, and which of them closes when there are too many.
//!
//! Connections are counted in three states, so that no state can keep a scraper out. If a state is
//! full, a connection is closed or refused as follows:
//!
//! - Without a complete request: the oldest connection is closed.
//! - The response is being made: the newest request of the peer with the most requests is closed in
//!   favour of a peer with fewer. Otherwise the new request is refused, because earlier requests
//!   are served first.
//! - The response is being sent: a response that its client does not read is closed. If there is
//!   none, the response without progress for the longest time is closed.

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

use crate::page::{Sent, Shared};
use crate::peer::Peer;

/// Maximum number of connections of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Connections without a complete request: new, idle, or slow to send.
    pub(crate) waiting: usize,
    /// Connections with a request whose response is not ready.
    pub(crate) asking: usize,
    /// Connections whose response is being sent.
    pub(crate) answering: usize,
    /// Bytes of shared pages held only by responses that are being sent. The two newest pages are
    /// not included.
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

/// The connections, oldest first.
#[derive(Debug)]
pub(crate) struct Seats {
    room: Room,
    state: Mutex<State>,
    /// Counts the writes of all connections, which orders them by progress.
    writes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Increases whenever a connection changes its state, so that keys are ordered by age.
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
    asking: BTreeMap<u64, Asking>,
    answering: BTreeMap<u64, Answering>,
}

#[derive(Debug)]
struct Asking {
    close: Arc<Notify>,
    peer: Peer,
}

#[derive(Debug)]
struct Answering {
    close: Arc<Notify>,
    page: Option<Arc<Shared>>,
    peer: Peer,
    progress: Arc<Progress>,
}

/// Progress of a response.
#[derive(Debug, Default)]
struct Progress {
    /// Number of the last write that the socket accepted.
    last_write: AtomicU64,
    bytes: AtomicU64,
}

/// More than the kernel accepts for a client that does not read: the send buffer plus the largest
/// receive buffer of an unprivileged process (twice `net.core.rmem_max`: 416 KiB by default).
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

    /// Returns whether the client must have read some of the response.
    fn is_read(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > UNREAD_BYTES
    }
}

/// The slot of one connection, which is released on drop.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    close: Arc<Notify>,
    peer: Peer,
    progress: Arc<Progress>,
    place: Mutex<Place>,
    /// Called after the next flush, when the connection has the whole response.
    sent: Mutex<Option<Sent>>,
}

/// The state of a connection, with its key.
#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting(u64),
    Asking(u64),
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

    /// Gives a new connection a slot. If all slots are taken, closes the oldest connection without
    /// a request.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Arc<Seat> {
        let close = Arc::new(Notify::new());
        let key = self.state().wait(close.clone(), self.room.waiting);
        Arc::new(Seat {
            seats: self.clone(),
            close,
            peer,
            progress: Arc::default(),
            place: Mutex::new(Place::Waiting(key)),
            sent: Mutex::default(),
        })
    }

    /// Closes the connection that matters least, if there is any.
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

    /// Returns whether a request of this peer may wait for its response. If there is no room, the
    /// newest request of the peer with the most requests is closed, if that peer has at least two
    /// more.
    fn may_ask(&mut self, peer: Peer, room: usize) -> bool {
        if self.asking.len() < room {
            return true;
        }
        let mut counts: HashMap<Peer, usize> = HashMap::new();
        for it in self.asking.values() {
            *counts.entry(it.peer).or_default() += 1;
        }
        let own = counts.get(&peer).copied().unwrap_or(0);
        let count = |it: &Asking| counts[&it.peer];
        let able = self.asking.iter().filter(|(_, it)| count(it) >= own + 2);
        let Some(key) = able
            .max_by_key(|(key, it)| (count(it), **key))
            .map(|it| *it.0)
        else {
            return false;
        };
        if let Some(gone) = self.asking.remove(&key) {
            gone.close.notify_one();
        }
        true
    }

    /// Closes responses until there is room for one more. Responses from which the client did not
    /// read are closed first. Among them, the address with the most responses comes first, and then
    /// the response with the oldest last write.
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

    /// Returns the pages held by responses, oldest first, except the newest page.
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

    /// Closes the oldest responses until old pages take at most `most` bytes. The page before the
    /// newest is not included, so that two alternating scrapers each receive a whole page of any
    /// size.
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
    /// Waits until the connection must make room.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Records that a request is complete. Returns `None` if too many responses are being made.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<Answer> {
        let mut place = self.place();
        let mut state = self.seats.state();
        // A connection that was closed in the meantime has lost its slot and gets no new one.
        if let Place::Waiting(key) = *place
            && state.waiting.contains_key(&key)
        {
            if !state.may_ask(self.peer, self.seats.room.asking) {
                return None;
            }
            state.waiting.remove(&key);
            let key = state.key();
            *place = Place::Asking(key);
            let (close, peer) = (self.close.clone(), self.peer);
            state.asking.insert(key, Asking { close, peer });
        }
        Some(Answer(self.clone()))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Option<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the slot.
    fn leave(&self, place: Place) {
        let mut state = self.seats.state();
        match place {
            Place::Waiting(key) => drop(state.waiting.remove(&key)),
            Place::Asking(key) => drop(state.asking.remove(&key)),
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

/// A response that is being made or sent.
#[derive(Debug)]
pub(crate) struct Answer(Arc<Seat>);

impl Answer {
    /// Records that the response is ready and is being sent; other responses may have to close.
    /// `page` is the page that the response holds.
    pub(crate) fn begin(&self, page: Option<&Arc<Shared>>) {
        let Seat {
            seats,
            close,
            peer,
            progress,
            ..
        } = &*self.0;
        let mut place = self.0.place();
        let Place::Asking(key) = *place else { return };
        let mut state = seats.state();
        // A connection that was closed in the meantime gets no other slot.
        if state.asking.remove(&key).is_none() {
            return;
        }
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
            Place::Asking(key) => state.asking.remove(&key).is_some(),
            Place::Answering(key) => state.answering.remove(&key).is_some(),
        };
        if had_place {
            *place = Place::Waiting(state.wait(seat.close.clone(), seat.seats.room.waiting));
        }
    }
}

/// A body that counts as being sent until the connection has read all of it.
pub(crate) struct Kept {
    pub(crate) body: Body,
    /// `None` for a short response without a slot.
    pub(crate) answer: Option<Answer>,
    /// Called when the whole body was sent.
    pub(crate) sent: Option<Sent>,
}

impl Drop for Kept {
    /// Called when the connection has read the whole body, or has given up. The bytes that the
    /// connection read are sent at its next flush.
    fn drop(&mut self) {
        if self.body.is_end_stream()
            && let Some(Answer(seat)) = &self.answer
        {
            *seat.sent() = self.sent.take();
        }
    }
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

/// A stream that records in its slot how much the client reads.
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

    /// hyper calls this when its own buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        let sent = self.seat.sent().take();
        sent.iter().for_each(Sent::call);
        Poll::Ready(Ok(()))
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

    /// Simulates that the client read more than a socket buffers.
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
    fn a_reading_client_outlives_clients_that_do_not_read() {
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

    #[test]
    fn requests_of_one_peer_do_not_block_other_peers() {
        let seats = Seats::new(Room { asking: 4, ..ROOM });
        let ask = |from| {
            let seat = seats.take(peer(from));
            (seat.clone(), seat.ask())
        };
        let flood: [_; 4] = std::array::from_fn(|_| ask(1));
        let others = [2, 3].map(ask);
        assert!(others.iter().all(|(_, answer)| answer.is_some()));
        // Each peer has two requests, or each has one.
        assert!(ask(1).1.is_none() && ask(2).1.is_none());
        let asks = |(seat, _): &(Arc<Seat>, _)| match *seat.place() {
            Place::Asking(key) => seats.state().asking.contains_key(&key),
            _ => false,
        };
        assert_eq!(flood.each_ref().map(asks), [true, true, false, false]);
    }
}
