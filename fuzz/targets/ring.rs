//! Fuzzes the parsers of ring buffer records. The first byte selects the ring. The rest is a record
//! as the BPF programs write it, except that its length and the lengths inside it are arbitrary.
//!
//! A parser must not depend on bytes outside the record. Each event must be representable in every
//! output format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use noctule_kernel::RawEvent;
use noctule_kernel::fuzzing::{Ring, cgroup, event, socket};
use noctule_model::{Event, EventProcess, Origin};
use noctule_sinks::events::{event_json, event_line};

/// Number of bytes before and after the record in the ring.
const BESIDE: usize = 4096;

/// Parses the record inside a larger buffer, with other bytes before and after it.
fn parse_within_ring<T>(byte: u8, record: &[u8], parse: impl Fn(&[u8]) -> T) -> T {
    let other = [byte; BESIDE];
    let ring = [&other[..], record, &other].concat();
    parse(&ring[BESIDE..BESIDE + record.len()])
}

fn same<T: PartialEq + std::fmt::Debug>(record: &[u8], parse: impl Fn(&[u8]) -> T) -> T {
    let read = parse_within_ring(0, record, &parse);
    assert_eq!(read, parse_within_ring(b'/', record, parse), "bytes of its neighbour");
    read
}

/// Completes an event as the collector and the identity step do, but without an owner.
fn named(raw: RawEvent) -> Event {
    let process = raw.process.map(|it| EventProcess {
        id: it.id,
        start_unix_ns: it.id.start_ns,
        comm: it.comm,
        thread: it.thread,
        cgroup: it.cgroup,
        owner: None,
    });
    Event {
        time_unix_ns: raw.time_ns,
        process,
        origin: Origin::Seen,
        what: raw.what,
    }
}

fn write(event: &Event) {
    let json = event_json(event);
    serde_json::from_str::<serde_json::Value>(&json).expect("an object");
    let line = event_line(event, 0);
    for text in [&line.who, &line.place, &line.what] {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, record)) = bytes.split_first() else {
        return;
    };
    let ring = match choice {
        b'c' => {
            let change = same(record, cgroup);
            let path = change.and_then(|change| change.path);
            assert!(path.is_none_or(|path| path.len() < record.len()));
            return;
        }
        b's' => {
            same(record, socket);
            return;
        }
        b'f' => Ring::Files,
        b'p' => Ring::Packets,
        _ => Ring::Facts,
    };
    if let Some(raw) = same(record, |record| event(ring, record)) {
        write(&named(raw));
    }
});
