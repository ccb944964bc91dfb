//! Finds the energy meters of the machine and reads each zone.
//!
//! All meters are found below a given root of sysfs. A zone is read at each batch, and additionally
//! as often as its counter may wrap. If a zone fails, only that zone is degraded, with a reason.
//! The sum of the zone is kept, and the agent tries to read the zone again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use noctule_model::{Energy, Node, Unread, UnreadZone, Zone};

mod battery;
mod channel;
mod counter;
mod found;
mod hwmon;
mod integral;
mod model;
mod perf;

mod powercap;
mod sampler;
mod source;
#[cfg(test)]
mod tests;

pub use battery::NOT_DISCHARGED;
use channel::Channel;
use found::{Found, contain};
pub use model::CpuWatts;
use model::Model;
use sampler::Sampler;
use source::{Files, Open};

/// Interval between searches for meters that appeared later.
const PROBE_NS: u64 = 10_000_000_000;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// `CLOCK_MONOTONIC` in nanoseconds, the clock of the batches. This clock stops while the
    /// machine is suspended.
    pub at_ns: u64,
    /// How long the machine was suspended since boot: `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`.
    pub suspended_ns: u64,
}

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Maximum number of sensor threads, which is more than any known machine needs.
const MOST_SENSORS: usize = 32;

/// Why a counter that reads 0 is not a meter yet. Processor counters run from boot, but some
/// counters of virtual machines never change.
pub const NOTHING_COUNTED: &str =
    "its counter is still 0; on virtual machines such counters often never move";

/// How often and how many times to check at the start whether such a counter moves. Counters of
/// perf begin at 0 when they are opened, and processors update them about once per millisecond.
const FIRST_STEP: Duration = Duration::from_millis(1);
const FIRST_LOOKS: u32 = 10;
/// Interval of the checks in [`Meters::listen`].
const LISTENED: Duration = Duration::from_millis(10);

pub struct Meters {
    sys: PathBuf,
    clock: Clock,
    files: Arc<dyn Open>,
    /// Whether sensors get threads. Tests read sensors directly when they are due.
    threads: bool,
    meters: Vec<(Found, Reader)>,
    /// Counters that have counted nothing so far.
    silent: Vec<(Found, Box<Channel>)>,
    zones: Arc<[Zone]>,
    unread: Vec<UnreadZone>,
    probed_ns: u64,
    /// Whether the set of zones or their failures changed since the last call of
    /// [`Meters::has_changed`].
    changed: bool,
    /// For each zone, the reason why the last reading failed, if it did.
    failing: Vec<Option<Arc<str>>>,
}

/// How a meter is read.
enum Reader {
    /// Directly, because reading a counter of the processor does not block.
    Direct(Box<Channel>),
    /// By a thread that samples the sensor.
    Sampler(Sampler),
    /// Computed from the CPU time.
    Model(Model),
}

impl Reader {
    fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Direct(channel) => channel.due_ns(),
            Self::Sampler(_) | Self::Model(_) => None,
        }
    }
}

impl Meters {
    /// Finds the meters below this root of sysfs. If there is none, the model is used.
    pub fn probe(sys: &Path, clock: Clock, model: Option<CpuWatts>) -> Self {
        Self::with(sys, clock, model, Arc::new(Files), true)
    }

    fn with(
        sys: &Path,
        clock: Clock,
        model: Option<CpuWatts>,
        files: Arc<dyn Open>,
        threads: bool,
    ) -> Self {
        let mut meters = Self {
            sys: sys.to_owned(),
            clock,
            files,
            threads,
            meters: Vec::new(),
            silent: Vec::new(),
            zones: Arc::default(),
            unread: Vec::new(),
            probed_ns: 0,
            changed: false,
            failing: Vec::new(),
        };
        meters.search();
        for _ in 0..FIRST_LOOKS {
            if meters.silent.is_empty() || !threads {
                break;
            }
            thread::sleep(FIRST_STEP);
            meters.add_moving_counters();
        }
        if let Some(watts) = model.filter(|_| meters.meters.is_empty()) {
            let model = (Found::model(), Reader::Model(Model::new(watts)));
            meters.meters.push(model);
            meters.describe();
        }
        meters
    }

    fn now_ns(&self) -> u64 {
        (self.clock)().at_ns
    }

    /// Returns the zones that are read.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Returns the zones that exist but are not read.
    pub fn unread(&self) -> &[UnreadZone] {
        &self.unread
    }

    /// Returns when [`Meters::poll`] must be called, independently of batches.
    pub fn due_ns(&self) -> Option<u64> {
        let due = self.meters.iter().filter_map(|(_, reader)| reader.due_ns());
        due.min()
    }

    /// Reads the counters that could otherwise wrap unnoticed before the next batch.
    pub fn poll(&mut self) {
        let now = self.now_ns();
        for (_, reader) in &mut self.meters {
            if reader.due_ns().is_some_and(|due| due <= now)
                && let Reader::Direct(channel) = reader
            {
                channel.read(self.files.as_ref(), self.clock.as_ref());
            }
        }
    }

    /// Requests a sample from the sensors, so that a sample is ready when the batch is taken.
    pub fn prepare(&self) {
        for (_, reader) in &self.meters {
            if let Reader::Sampler(sampler) = reader {
                sampler.ask();
            }
        }
    }

    /// Reads every zone. Returns `None` if there is neither a meter nor a model. `node` and
    /// `taken_ns` are from the batch. Both are the input of the model.
    pub fn read(&mut self, node: &Node, taken_ns: u64) -> Option<Energy> {
        if self.now_ns().saturating_sub(self.probed_ns) >= PROBE_NS {
            self.search();
        }
        self.add_moving_counters();
        let mut readings = Vec::with_capacity(self.meters.len());
        for (_, reader) in &mut self.meters {
            readings.push(match reader {
                Reader::Direct(channel) => {
                    channel.read(self.files.as_ref(), self.clock.as_ref());
                    channel.reading().clone()
                }
                Reader::Sampler(sampler) => sampler.reading((self.clock)().at_ns),
                Reader::Model(model) => model.read(node, taken_ns),
            });
        }
        let failing = readings.iter().map(|reading| reading.reason.clone());
        let failing: Vec<Option<Arc<str>>> = failing.collect();
        self.changed |= failing != self.failing;
        self.failing = failing;
        (!readings.is_empty()).then(|| Energy {
            zones: self.zones.clone(),
            readings,
        })
    }

    /// Checks the counters that have counted nothing so far, and adds those that have moved.
    fn add_moving_counters(&mut self) {
        let (known, silent) = (self.meters.len(), std::mem::take(&mut self.silent));
        let before = silent.len();
        for (found, mut channel) in silent {
            channel.read(self.files.as_ref(), self.clock.as_ref());
            if channel.has_counted_nothing() {
                self.silent.push((found, channel));
                continue;
            }
            self.unread.retain(|it| it.zone != found.zone());
            match self.covered(&found) {
                None => self.meters.push((found, Reader::Direct(channel))),
                Some(why) => self.leave(&found, why),
            }
        }
        self.take_in(known);
        self.changed |= self.silent.len() < before;
    }

    /// Waits up to `limit` for the first zone, if there is a counter that has counted nothing so
    /// far.
    pub fn listen(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.zones.is_empty() && !self.silent.is_empty() && Instant::now() < end {
            thread::sleep(LISTENED);
            self.add_moving_counters();
        }
    }

    /// Searches for zones that are not read yet, and tries the best meter of each zone first.
    fn search(&mut self) {
        self.probed_ns = self.now_ns();
        let mut found = [
            powercap::find(&self.sys),
            perf::find(&self.sys),
            hwmon::find(&self.sys),
            battery::find(&self.sys),
        ]
        .concat();
        found.sort_by_key(|it| it.rank);
        self.silent
            .retain(|(known, _)| found.iter().any(|it| known.is_known_as(it)));
        let unread = std::mem::take(&mut self.unread);
        let known = self.meters.len();
        for found in found {
            if self.meters.iter().any(|(it, _)| it.is_known_as(&found)) {
                continue;
            }
            let is_silent = || self.silent.iter().any(|(it, _)| it.is_known_as(&found));
            let why = match self.covered(&found) {
                Some(why) => Some(why),
                None if is_silent() => Some(Unread::Refused(NOTHING_COUNTED.to_owned())),
                None => self.add(&found).err(),
            };
            if let Some(why) = why {
                self.leave(&found, why);
            }
        }
        self.take_in(known);
        self.changed |= self.unread != unread;
    }

    fn leave(&mut self, found: &Found, why: Unread) {
        let zone = found.zone();
        self.unread.push(UnreadZone { zone, why });
    }

    /// Updates the zones if meters were added to the `known` ones.
    fn take_in(&mut self, known: usize) {
        if self.meters.len() > known {
            for (_, reader) in &mut self.meters {
                if let Reader::Model(model) = reader {
                    model.stop();
                }
            }
            self.describe();
            self.changed = true;
        }
    }

    /// Returns whether zones were added or removed, or their failures changed, since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn describe(&mut self) {
        let mut zones: Vec<Zone> = self.meters.iter().map(|(it, _)| it.zone()).collect();
        contain(&mut zones);
        self.zones = zones.into();
    }

    /// Returns why the meter is not read, if another one covers the same part of the machine.
    fn covered(&self, found: &Found) -> Option<Unread> {
        let mut read = self.meters.iter().map(|(it, _)| it);
        let other = read.find(|it| it.covers_same_part(found))?;
        Some(Unread::Covered(other.device.display().to_string()))
    }

    fn add(&mut self, found: &Found) -> Result<(), Unread> {
        let channel = Channel::open(found, self.files.as_ref(), self.clock.as_ref());
        let channel = channel.map_err(Unread::Refused)?;
        if channel.has_counted_nothing() {
            self.silent.push((found.clone(), Box::new(channel)));
            return Err(Unread::Refused(NOTHING_COUNTED.to_owned()));
        }
        let reader = match found.input.interval_ns() {
            Some(interval_ns) if self.threads => self.sampler(channel, interval_ns)?,
            _ => Reader::Direct(Box::new(channel)),
        };
        self.meters.push((found.clone(), reader));
        Ok(())
    }

    fn sampler(&self, channel: Channel, interval_ns: u64) -> Result<Reader, Unread> {
        let threads = self.meters.iter();
        let threads = threads.filter(|(_, it)| matches!(it, Reader::Sampler(_)));
        if threads.count() >= MOST_SENSORS {
            let why = format!("at most {MOST_SENSORS} power sensors are read");
            return Err(Unread::Refused(why));
        }
        Sampler::start(channel, interval_ns, self.files.clone(), self.clock.clone())
            .map(Reader::Sampler)
            .map_err(|error| Unread::Refused(error.to_string()))
    }
}
