//! Decides which client's page is made next.
//!
//! A few threads make the pages. Each peer can use at most one thread at a time. The requests of a
//! peer therefore wait for each other, but requests of other peers wait for at most one of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::peer::Peer;

/// The turns of all peers.
#[derive(Debug)]
pub(crate) struct Turns {
    threads: Arc<Semaphore>,
    peers: Mutex<HashMap<Option<Peer>, Weak<Semaphore>>>,
}

/// The right to make a page, for as long as this value exists.
#[derive(Debug)]
pub(crate) struct Turn {
    _thread: OwnedSemaphorePermit,
    _peer: OwnedSemaphorePermit,
}

impl Turns {
    /// Creates the turns. `threads` is the number of pages that are made at a time.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            peers: Mutex::default(),
        }
    }

    /// Waits until a page for this peer may be made. Returns `None` only when the server ends.
    pub(crate) async fn take(&self, peer: Option<Peer>) -> Option<Turn> {
        let own = self.of(peer);
        let peer = own.acquire_owned().await.ok()?;
        let thread = self.threads.clone().acquire_owned().await.ok()?;
        Some(Turn {
            _thread: thread,
            _peer: peer,
        })
    }

    fn of(&self, peer: Option<Peer>) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = peers.get(&peer).and_then(Weak::upgrade) {
            return own;
        }
        // Drops the peers that have no request.
        peers.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(1));
        peers.insert(peer, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn requests_are_queued_per_peer() {
        let turns = Turns::new(2);
        let peer = |number| Some(Peer::from_address(Ipv4Addr::new(192, 0, 2, number).into()));
        let mut context = Context::from_waker(Waker::noop());
        let mut flood: [_; 9] = std::array::from_fn(|_| Box::pin(turns.take(peer(1))));
        let first = flood[0].as_mut().poll(&mut context);
        assert!(first.is_ready());
        for later in &mut flood[1..] {
            assert!(later.as_mut().poll(&mut context).is_pending());
        }
        let other = pin!(turns.take(peer(2))).poll(&mut context);
        assert!(matches!(other, Poll::Ready(Some(_))));
        drop(first);
        assert!(flood[1].as_mut().poll(&mut context).is_ready());
    }
}
