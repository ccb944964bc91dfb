//! Fuzzes the readers of ELF objects, which must accept or reject any input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use noctule_trace::elf::{find_function, inspect, read_legacy};

fuzz_target!(|bytes: &[u8]| {
    let _ = inspect(bytes);
    let _ = read_legacy(bytes);
    let _ = find_function(bytes, "main");
});
