//! The HTTP server of noctule: `/metrics`, `/livez`, `/readyz`, the JSON API and the page.
//!
//! Nothing that a client sends changes anything: every answer is a function of what the agent last
//! published. The server knows neither batches nor formats; it gets [`Handlers`].
//!
//! It runs on a thread of its own and its resources are bounded whatever clients do: a fixed
//! number of connections, each with a bounded buffer and a bounded life, and one copy of a page for
//! all of them. So neither a client that sends its header a byte at a time nor one that never reads the
//! answer can hold memory or keep the agent from ending. Nor can they keep a scraper out: the oldest
//! connection without a request, or the oldest answer, gives way to a new one.
//!
//! [`Security`] is TLS, names with passwords, and headers. It may be replaced while the server runs.

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
mod ui;

pub use api::{Agent, Api, RESOURCES, Refusal, Resource, Ticks};
pub use basic::Users;
pub use host::Hosts;
pub use noctule_tls::{TlsError, TlsPart};
pub use page::{Packer, Page, Shared};
pub use query::Query;
pub use refusals::{Refusals, Refused};
pub use routes::{Handlers, Wish};
pub use secured::{Headers, Secured, Security};
pub use server::{Bound, Server, bind, take};
pub use tls::{ClientAuth, Tls, TlsVersion, TlsWish};
