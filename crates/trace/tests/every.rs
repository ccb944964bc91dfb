//! Every field of an event is a key, a value and part of a filter, or the words say why not.

#![allow(clippy::unwrap_used, reason = "clippy takes helpers of tests for code")]

mod uses;

use std::fs;
use std::path::Path;

use noctule_trace::format::EventFormat;

#[test]
fn fields_of_the_sample_are_used_or_refused_with_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let (mut compiled, mut refused) = (0, 0);
    for system in fs::read_dir(root).unwrap() {
        for event in fs::read_dir(system.unwrap().path()).unwrap() {
            let text = fs::read_to_string(event.unwrap().path()).unwrap();
            let format = EventFormat::parse(&text).unwrap();
            let counts = uses::check(&format);
            compiled += counts.0;
            refused += counts.1;
        }
    }
    assert!(compiled > 800 && refused > 100, "{compiled} {refused}");
}
