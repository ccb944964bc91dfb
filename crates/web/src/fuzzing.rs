//! Entry point for the fuzz targets in `fuzz/`, not part of the released binary.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::watch;

use crate::api::{self, Api};
use crate::connection::{Door, Limits, talk};
use crate::host::Hosts;
use crate::peer::Peer;
use crate::refusals::Refusals;
use crate::routes::{Handlers, router};
use crate::seats::{Room, Seats};
use crate::secured::{Guard, Secured};
use crate::ui;

/// Capacity of a connection, which is more than any response except a stream needs.
const ROOM: usize = 1 << 20;

/// Limits that end a stream of events. All other connections end by themselves.
const LIMITS: Limits = Limits {
    header: Duration::from_millis(10),
    life: Duration::from_millis(10),
    last_answer: Duration::from_millis(10),
};

/// A server on a loopback address without a socket.
pub struct Front(Arc<Door>);

impl Front {
    /// Creates the same routes as [`crate::Bound::serve_with_api`].
    pub fn new(handlers: Handlers, api: Api, secured: Arc<Secured>) -> Self {
        let routes = router(handlers, Some(Hosts::default()))
            .merge(ui::routes(api.hosts.clone()))
            .merge(api::routes(api));
        Self(Arc::new(Door {
            router: routes,
            guard: Guard::new(secured, Arc::<Refusals>::default()),
            limits: LIMITS,
        }))
    }

    /// Returns everything that a connection sends in response to `sent`, after which the client
    /// closes its side.
    pub async fn answer(&self, sent: &[u8]) -> Vec<u8> {
        let (mut client, server) = duplex(ROOM);
        let (_stop, stopped) = watch::channel(false);
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let seat = Seats::new(Room::DEFAULT).take(Peer::from_address(from));
        let serve = talk(server, from, self.0.clone(), seat, stopped);
        let ask = async {
            let mut answer = Vec::new();
            // The server may already have closed the connection.
            let _ = client.write_all(sent).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut answer).await;
            answer
        };
        let ((), answer) = tokio::join!(serve, ask);
        answer
    }
}
