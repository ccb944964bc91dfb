//! Tests of the event stream against the actions of the tests and the kernel's own counters.

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

/// Ends a load that executes socket commands.
fn end(load: &mut Load) {
    load.say("end");
    load.wait_for_end();
    load.reap();
}

/// Returns whether a connection failed unseen, because the kernel skips a program that interrupts
/// itself. Such a failure is reported when the socket is released, possibly without a reason, and a
/// gap must record the skipped program.
fn was_skipped(stream: &Stream, failed: &Value, before: u64) -> bool {
    let unknown = failed["error.type"] == "other";
    if unknown {
        support::wait_until("a gap says that a program was skipped", || {
            stream.lost("skipped") > before
        });
    }
    unknown
}

/// Returns an integer of an event.
#[track_caller]
fn number(event: &Value, key: &str) -> u64 {
    let value = event[key].as_u64();
    value.unwrap_or_else(|| panic!("no {key}: {event}"))
}

/// Returns the port of an address.
fn port(address: &str) -> u64 {
    let (_, port) = address.rsplit_once(':').expect("a port");
    port.parse().expect("a number")
}
