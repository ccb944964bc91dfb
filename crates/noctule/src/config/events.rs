//! The section `[events]`.

use std::path::PathBuf;

use noctule_model::{EventKind, EventKinds, What};
use noctule_sinks::events::redact;
use serde::Deserialize;

use super::{Count, RingSize};
use crate::event_file::Place;

/// Which events the agent watches, and where it writes them.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Events {
    pub(crate) processes: bool,
    pub(crate) exec_failures: bool,
    pub(crate) tcp: bool,
    pub(crate) files: bool,
    pub(crate) file_reads: bool,
    pub(crate) file_failures: bool,
    pub(crate) file_special: bool,
    pub(crate) dns: bool,
    pub(crate) udp: bool,
    pub(crate) args: Arguments,
    /// Empty if events are not written to a file.
    pub(crate) file: PathBuf,
    pub(crate) file_bytes: u64,
    pub(crate) file_keep: u32,
    pub(crate) latency_milliseconds: u32,
    pub(crate) ring_bytes: u32,
    pub(crate) bulk_ring_bytes: u32,
    pub(crate) destinations: u32,
}

/// How much of the arguments of programs is shown in events and command lines.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arguments {
    Off,
    /// All arguments except well-known secrets.
    Redacted,
    Full,
}

impl Arguments {
    /// Removes the arguments that an event must not contain.
    pub(crate) fn limit(self, what: &mut What) {
        let What::ProcessExec {
            args,
            args_truncated,
            ..
        } = what
        else {
            return;
        };
        *args_truncated |= self.limit_words(args);
    }

    /// Removes the arguments that a command line must not contain. Returns whether words are
    /// missing.
    pub(crate) fn limit_words(self, words: &mut Vec<Vec<u8>>) -> bool {
        match self {
            Self::Full => false,
            Self::Redacted => {
                redact(words);
                false
            }
            Self::Off => {
                let more = words.len() > 1;
                words.truncate(1);
                more
            }
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            processes: true,
            exec_failures: false,
            tcp: true,
            files: false,
            file_reads: false,
            file_failures: false,
            file_special: false,
            dns: false,
            udp: false,
            args: Arguments::Redacted,
            file: PathBuf::new(),
            file_bytes: 64 << 20,
            file_keep: 5,
            latency_milliseconds: 10,
            ring_bytes: 0,
            bulk_ring_bytes: 0,
            destinations: 4096,
        }
    }
}

impl Events {
    /// Returns the enabled kinds. OOM kills are enabled together with processes.
    pub(crate) fn kinds(&self) -> EventKinds {
        let switches = [
            (self.processes, EventKind::Process),
            (self.exec_failures, EventKind::ExecFailure),
            (self.processes, EventKind::Oom),
            (self.tcp, EventKind::Tcp),
            (self.files, EventKind::File),
            (self.dns, EventKind::Dns),
            (self.udp, EventKind::Udp),
        ];
        let on = switches.into_iter().filter(|(on, _)| *on);
        on.map(|(_, kind)| kind).collect()
    }

    /// Returns the file to which `run` writes events, if one is configured.
    pub(crate) fn place(&self) -> Option<Place> {
        (!self.file.as_os_str().is_empty()).then(|| Place {
            path: self.file.clone(),
            bytes: self.file_bytes,
            keep: self.file_keep,
        })
    }

    pub(super) fn counts(&self) -> [Count; 6] {
        [
            (
                "events.file_bytes (--events-size)",
                self.file_bytes,
                4096,
                1 << 50,
            ),
            (
                "events.file_keep (--events-keep)",
                self.file_keep.into(),
                0,
                10_000,
            ),
            (
                "events.latency_milliseconds",
                self.latency_milliseconds.into(),
                1,
                1000,
            ),
            (
                "events.ring_bytes (0: based on the number of CPUs)",
                RingSize::asked(self.ring_bytes),
                RingSize::LEAST,
                1 << 28,
            ),
            (
                "events.bulk_ring_bytes (0: based on the number of CPUs)",
                RingSize::asked(self.bulk_ring_bytes),
                RingSize::LEAST,
                1 << 28,
            ),
            ("events.destinations", self.destinations.into(), 1, 1 << 20),
        ]
    }
}
