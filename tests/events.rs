//! What happened: the events of a stream against what the tests do, and against the kernel's own
//! counters.

use serde_json::Value;

use super::support;
use super::support::load::Load;

mod connect;
mod counts;
mod files;
mod filters;
mod hostile;
mod identity;
mod listen;
mod loss;
mod oom;
mod output;
mod processes;
mod scenarios;
mod tcp;

/// Ends a load that does with sockets what it is told.
fn end(load: &mut Load) {
    load.say("end");
    load.wait_for_end();
    load.reap();
}

/// A whole number in an event.
#[track_caller]
fn number(event: &Value, key: &str) -> u64 {
    let value = event[key].as_u64();
    value.unwrap_or_else(|| panic!("no {key}: {event}"))
}

/// The port of an address with a port.
fn port(address: &str) -> u64 {
    let (_, port) = address.rsplit_once(':').expect("a port");
    port.parse().expect("a number")
}
