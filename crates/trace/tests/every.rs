//! Tests that every field of an event can be used as a key, as a value and in a filter, or is
//! rejected with a reason.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not recognize test helpers as tests"
)]

mod uses;

use std::fs;
use std::path::Path;

use noctule_trace::format::EventFormat;

#[test]
fn sample_fields_compile_or_are_rejected_with_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let (mut compiled, mut rejected) = (0, 0);
    for system in fs::read_dir(root).unwrap() {
        for event in fs::read_dir(system.unwrap().path()).unwrap() {
            let text = fs::read_to_string(event.unwrap().path()).unwrap();
            let format = EventFormat::parse(&text).unwrap();
            let counts = uses::check(&format);
            compiled += counts.0;
            rejected += counts.1;
        }
    }
    assert!(compiled > 800 && rejected > 100, "{compiled} {rejected}");
}
