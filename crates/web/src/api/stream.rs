//! Server-sent events. Each client is notified when a batch is published, and then requests the
//! data that it shows. A slow client misses notifications; they are not queued.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use crate::connection::Limits;
use crate::peer::Peer;

/// Maximum number of streams. The number is below the number of connections, so that a scraper
/// always finds a free connection.
const STREAMS: usize = 32;

/// Maximum number of streams per address, or from this machine. If the page gets no stream, it
/// polls.
const STREAMS_EACH: usize = 8;

/// Lifetime of a stream. A stream ends before its connection does, so that the client can choose
/// when to reconnect. A browser reports an error if a stream is cut off.
const LIFE: Duration = Duration::from_secs(25);
const _: () = assert!(LIFE.as_secs() < Limits::DEFAULT.last_answer.as_secs());

/// Announces publications to all streams.
#[derive(Clone, Debug)]
pub struct Ticks(Arc<watch::Sender<Option<Bytes>>>);

impl Default for Ticks {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Some(Bytes::from_static(
            b": no data yet\n\n",
        )))))
    }
}

impl Ticks {
    /// Sends an event to every stream. `json` must be a single line.
    pub fn publish(&self, published: u64, json: &str) {
        let text = format!("id: {published}\nevent: tick\ndata: {json}\n\n");
        self.0.send_replace(Some(text.into()));
    }

    /// Ends every stream, so that stopping the server does not wait for them.
    pub fn close(&self) {
        self.0.send_replace(None);
    }
}

/// Number of open streams of each peer.
type Open = Arc<Mutex<HashMap<Peer, usize>>>;

/// Admits streams, up to the limits.
#[derive(Debug)]
pub(crate) struct Streams {
    ticks: watch::Receiver<Option<Bytes>>,
    open: Open,
}

impl Streams {
    pub(crate) fn new(ticks: &Ticks) -> Self {
        Self {
            ticks: ticks.0.subscribe(),
            open: Open::default(),
        }
    }

    /// Opens a stream that begins with the last tick; `None` if a limit is reached.
    pub(crate) fn open(&self, peer: Peer) -> Option<Response> {
        let place = Place::take(&self.open, peer)?;
        let mut ticks = self.ticks.clone();
        ticks.mark_changed();
        let body = Body::new(Stream {
            next: next(ticks),
            end: Box::pin(sleep(LIFE)),
            begun: false,
            _place: place,
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        Some((headers, body).into_response())
    }
}

/// The slot of one stream, which is released on drop.
#[derive(Debug)]
struct Place {
    open: Open,
    peer: Peer,
}

impl Place {
    fn take(open: &Open, peer: Peer) -> Option<Self> {
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(&peer).copied().unwrap_or(0);
        if own >= STREAMS_EACH || counts.values().sum::<usize>() >= STREAMS {
            return None;
        }
        counts.insert(peer, own + 1);
        let open = open.clone();
        Some(Self { open, peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
        }
        counts.retain(|_, count| *count > 0);
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Bytes, watch::Receiver<Option<Bytes>>)>> + Send>>;

/// Waits for the next tick; `None` when the agent stops.
fn next(mut ticks: watch::Receiver<Option<Bytes>>) -> Next {
    Box::pin(async move {
        ticks.changed().await.ok()?;
        let text = ticks.borrow_and_update().clone()?;
        Some((text, ticks))
    })
}

struct Stream {
    next: Next,
    end: Pin<Box<Sleep>>,
    begun: bool,
    _place: Place,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.begun {
            self.begun = true;
            // Makes the client reconnect after this many milliseconds.
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"retry: 500\n\n")))));
        }
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        match self.next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((text, ticks))) => {
                self.next = next(ticks);
                Poll::Ready(Some(Ok(Frame::data(text))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn one_peer_cannot_take_all_streams() {
        let open = Open::default();
        let peer = |number| Peer::from_address(Ipv4Addr::new(192, 0, 2, number).into());
        let mut places: Vec<Place> = (0..100)
            .map_while(|_| Place::take(&open, peer(1)))
            .collect();
        assert_eq!(places.len(), STREAMS_EACH);
        places.extend(Place::take(&open, peer(2)));
        assert_eq!(places.len(), STREAMS_EACH + 1);
        for number in 3..100 {
            places.extend(Place::take(&open, peer(number)));
        }
        assert_eq!(places.len(), STREAMS);
        places.clear();
        assert!(Place::take(&open, peer(1)).is_some());
    }
}
