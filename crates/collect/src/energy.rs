//! The meters of energy: which the machine has, and what each zone has counted.
//!
//! Everything is found under a root of sysfs that is given. A zone is read at each batch, and between
//! batches as often as its counter wraps. Each fails by itself: it is then degraded with a reason, its
//! sum stays, and it is tried again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use noctule_model::{Energy, Zone};

mod channel;
mod counter;
mod found;
mod powercap;
mod source;
#[cfg(test)]
mod tests;

use channel::Channel;
use found::{Found, contain};
use source::{Files, Open};

/// How often it is looked for meters that came late.
const PROBE_NS: u64 = 10_000_000_000;

/// Tells `CLOCK_MONOTONIC` in nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// All meters of the machine.
pub struct Meters {
    sys: PathBuf,
    clock: Clock,
    files: Arc<dyn Open>,
    channels: Vec<Channel>,
    zones: Arc<[Zone]>,
    unread: Vec<Unread>,
    probed_ns: u64,
}

/// A zone that exists and has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The zone, as it would be listed.
    pub zone: Zone,
    /// Why it is not read.
    pub why: Why,
}

/// Why a zone has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It cannot be read, for this reason.
    Refused(String),
    /// Another meter, at this path, covers the same part of the machine.
    Covered(String),
}

impl Meters {
    /// Looks for the meters below this root of sysfs.
    pub fn probe(sys: &Path, clock: Clock) -> Self {
        Self::with(sys, clock, Arc::new(Files))
    }

    fn with(sys: &Path, clock: Clock, files: Arc<dyn Open>) -> Self {
        let mut meters = Self {
            sys: sys.to_owned(),
            clock,
            files,
            channels: Vec::new(),
            zones: Arc::default(),
            unread: Vec::new(),
            probed_ns: 0,
        };
        meters.look();
        meters
    }

    /// What exists and is not read.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// When [`Meters::poll`] is to be called, whatever the batches do.
    pub fn due_ns(&self) -> Option<u64> {
        self.channels.iter().filter_map(Channel::due_ns).min()
    }

    /// Reads the counters that would wrap unseen.
    pub fn poll(&mut self) {
        let now = (self.clock)();
        for channel in &mut self.channels {
            if channel.due_ns().is_some_and(|due| due <= now) {
                channel.read(self.files.as_ref(), self.clock.as_ref());
            }
        }
    }

    /// Reads every zone. `None`: there is no meter.
    pub fn read(&mut self) -> Option<Energy> {
        if (self.clock)().saturating_sub(self.probed_ns) >= PROBE_NS {
            self.look();
        }
        for channel in &mut self.channels {
            channel.read(self.files.as_ref(), self.clock.as_ref());
        }
        let readings = self.channels.iter().map(|it| it.reading().clone());
        (!self.channels.is_empty()).then(|| Energy {
            zones: self.zones.clone(),
            readings: readings.collect(),
        })
    }

    /// Looks for zones that are not read yet, the best meter of each first.
    fn look(&mut self) {
        self.probed_ns = (self.clock)();
        let mut found = powercap::find(&self.sys);
        found.sort_by_key(|it| it.rank);
        self.unread.clear();
        let known = self.channels.len();
        for found in found {
            if !self.channels.iter().any(|it| it.found.is_known_as(&found)) {
                self.add(found);
            }
        }
        if self.channels.len() > known {
            let mut zones: Vec<Zone> = self.channels.iter().map(|it| it.found.zone()).collect();
            contain(&mut zones);
            self.zones = zones.into();
        }
    }

    fn add(&mut self, found: Found) {
        let zone = found.zone();
        let mut read = self.channels.iter().map(|it| &it.found);
        if let Some(other) = read.find(|it| it.covers_the_same(&found)) {
            let why = Why::Covered(other.device.display().to_string());
            self.unread.push(Unread { zone, why });
            return;
        }
        match Channel::open(found, self.files.as_ref(), self.clock.as_ref()) {
            Ok(channel) => self.channels.push(channel),
            Err(reason) => {
                let why = Why::Refused(reason);
                self.unread.push(Unread { zone, why });
            }
        }
    }
}
