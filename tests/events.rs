//! What happened: the events of a stream against what the tests do, and against the kernel's own
//! counters.

use serde_json::Value;

use super::support;
use super::support::load::Load;
use super::support::stream::Stream;

mod changes;
mod connect;
mod counts;
mod files;
mod filters;
mod floods;
mod hostile;
mod identity;
mod listen;
mod loss;
mod oom;
mod output;
mod processes;
mod scenarios;
mod story;
mod tcp;
mod udp;

/// Ends a load that does with sockets what it is told.
fn end(load: &mut Load) {
    load.say("end");
    load.wait_for_end();
    load.reap();
}

/// Whether a connection failed unseen: the kernel skips a program that interrupts itself. Then it is told
/// when the socket is given back, which may have forgotten why, and a gap has to say so.
fn was_skipped(stream: &Stream, failed: &Value, before: u64) -> bool {
    let unknown = failed["error.type"] == "other";
    if unknown {
        support::wait_until("a gap says that a program was skipped", || {
            stream.lost("skipped") > before
        });
    }
    unknown
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
