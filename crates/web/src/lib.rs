//! The HTTP server of noctule: `/metrics`, `/livez`, `/readyz`, the JSON API and the page.
//!
//! No request changes anything: every response is a function of the last published data. The server
//! depends on neither batches nor formats; the caller passes [`Handlers`].
//!
//! The server runs on its own thread, and its resources are bounded whatever clients do. The number
//! of connections is limited, and so are the buffer and the lifetime of each. All connections share
//! one copy of a page. A client that sends its header byte by byte, or never reads the response,
//! can neither hold memory nor delay the agent's exit. Neither can such clients lock out a scraper:
//! the server closes the oldest connection without a request, or the oldest response, to make room
//! for a new one.
//!
//! [`Security`] contains TLS settings, users with passwords, and headers. These settings can be
//! replaced while the server runs.

mod api;
mod basic;
mod connection;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
mod page;
mod peer;
mod query;
mod refusals;
mod routes;
mod seats;
mod secure;
mod secured;
mod server;
mod tls;
mod turns;
mod ui;

pub use api::{Agent, Api, RESOURCES, Refusal, Resource, Ticks};
pub use basic::Users;
pub use host::Hosts;
pub use noctule_tls::{TlsError, TlsPart};
pub use page::{Packer, Page, Sent, Shared};
pub use peer::Peer;
pub use query::Query;
pub use refusals::{Refusals, Refused};
pub use routes::{Handlers, Scraper, Wish};
pub use secured::{Headers, Secured, Security};
pub use server::{Bound, Server, bind, take};
pub use tls::{ClientAuth, Tls, TlsVersion, TlsWish};
