//! The HTTP server of noctule: `/metrics`, `/livez`, `/readyz` and a page that names them.
//!
//! Nothing that a client sends changes anything: every answer is a function of what the agent last
//! published. The server knows neither batches nor formats; it gets [`Handlers`].
//!
//! It runs on a thread of its own and its resources are bounded whatever clients do: a fixed
//! number of connections, each with a bounded buffer and a bounded life. So neither a client that
//! sends its header a byte at a time nor one that never reads the answer can hold memory or keep the
//! agent from ending. What they can do is take all connections for some seconds; on an address
//! that strangers reach, a proxy belongs in front.

mod connection;
mod routes;
mod server;

pub use routes::{Handlers, Page};
pub use server::{Bound, Server, bind};
