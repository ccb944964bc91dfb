//! Fuzzes configurations and web configurations. Each configuration must be accepted, or rejected
//! with a short message.
//!
//! The binary has no library, so its modules are compiled into this target.

#![no_main]
#![allow(dead_code, unused_imports, reason = "the modules have more than is called here")]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/noctule/src"]
mod noctule {
    pub(crate) mod args;
    pub(crate) mod changes;
    pub(crate) mod config;
    pub(crate) mod event_file;
    pub(crate) mod exit;
    pub(crate) mod patient;
    pub(crate) mod private;
    pub(crate) mod recording;
    pub(crate) mod rights;
    pub(crate) mod web_config;
}

/// The name of a recording is its start time. This target makes no recording.
mod wire {
    pub(crate) fn now_ns() -> u64 {
        0
    }
}

use noctule::{args, changes, config, event_file, exit, patient, private, recording, rights};
use noctule::{config::Config, web_config};

/// Upper bound of a message, which has up to five truncated lines.
const LONGEST_MESSAGE: usize = 4096;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("noctule-fuzz-config-{}", std::process::id());
    PathBuf::from("/dev/shm").join(name)
});

fuzz_target!(|bytes: &[u8]| {
    fs::write(&*FILE, bytes).expect("a file in memory");
    if let Err(error) = Config::load(Some(&FILE)) {
        let message = format!("{error:#}");
        assert!(message.len() <= LONGEST_MESSAGE, "{message}");
    }
    let _ = web_config::read(&FILE, &mut changes::Files::default());
});
