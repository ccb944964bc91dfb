//! The section `[tape]`: the agent's flight recorder.

use std::path::PathBuf;
use std::time::Duration;

use noctule_tape::Limits;
use serde::{Deserialize, Deserializer};

use crate::args::{duration, size};
use crate::exit::Usage;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tape {
    /// Empty if recording is off.
    pub(crate) folder: PathBuf,
    #[serde(deserialize_with = "a_duration")]
    pub(crate) keep: Duration,
    #[serde(deserialize_with = "a_size")]
    pub(crate) bytes: u64,
    #[serde(deserialize_with = "a_duration")]
    pub(crate) segment: Duration,
}

impl Default for Tape {
    fn default() -> Self {
        Self {
            folder: PathBuf::new(),
            keep: Duration::from_secs(24 * 3600),
            bytes: 2 << 30,
            segment: crate::recording::SEGMENT,
        }
    }
}

impl Tape {
    /// Returns the directory, if the agent records.
    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        (!self.folder.as_os_str().is_empty()).then_some(&self.folder)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bytes: Some(self.bytes),
            age_ns: Some(self.keep.as_nanos() as u64),
        }
    }

    /// Returns an error if the size limit holds too few segments. Whole segments are removed, so
    /// there must be several.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let least = Duration::from_secs(10);
        if self.segment < least || self.segment * 2 > self.keep {
            return Err(Usage(format!(
                "tape.segment is {:?}: must be between {least:?} and half of tape.keep",
                self.segment
            )));
        }
        if self.bytes < 1 << 20 {
            return Err(Usage(format!(
                "tape.bytes is {}: must be 1MiB or more",
                self.bytes
            )));
        }
        Ok(())
    }
}

fn a_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    duration(&text).map_err(serde::de::Error::custom)
}

fn a_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    size::parse(&text).map_err(serde::de::Error::custom)
}
