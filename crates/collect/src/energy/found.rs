//! Meters that were found, before the agent decides which of them to read.

use std::path::PathBuf;

use noctule_model::{EnergySource, Zone, ZoneKind};

use super::counter::Shape;

/// Processors update their counters about once per millisecond.
const COUNTER_NS: u64 = 1_000_000;

/// A zone that exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) kind: ZoneKind,
    pub(super) socket: Option<u32>,
    pub(super) die: Option<u32>,
    pub(super) source: EnergySource,
    pub(super) rank: Rank,
    pub(super) resolution_uj: u64,
    /// The directory of the device, which identifies the zone later.
    pub(super) device: PathBuf,
    pub(super) input: Input,
}

/// The source of a zone's values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
    /// A counter of microjoules.
    Counter {
        file: PathBuf,
        range_uj: Option<u64>,
    },
    /// An event of the device's PMU, on these CPUs.
    Perf {
        event: String,
        cpus: Vec<u32>,
    },
    /// A sensor of microwatts, and its update interval.
    Power {
        file: PathBuf,
        interval_ms: u64,
    },
    /// Computed by the operator's model.
    Model,
    Battery {
        how: How,
        interval_ms: u64,
    },
}

/// How the energy of a battery is measured, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `power_now`, in microwatts.
    Power,
    /// `current_now` in microamperes times `voltage_now` in microvolts.
    Current,
    /// Decrease of `energy_now`, in microwatt-hours.
    Energy,
    /// Decrease of `charge_now`, in microampere-hours, times `voltage_now`.
    Charge,
}

impl How {
    pub(super) const ALL: [Self; 4] = [Self::Power, Self::Current, Self::Energy, Self::Charge];

    pub(super) const fn files(self) -> &'static [&'static str] {
        match self {
            Self::Power => &["power_now"],
            Self::Current => &["current_now", "voltage_now"],
            Self::Energy => &["energy_now"],
            Self::Charge => &["charge_now", "voltage_now"],
        }
    }
}

impl Input {
    /// Returns the sampling interval; `None` for a counter or the model.
    pub(super) const fn interval_ns(&self) -> Option<u64> {
        match self {
            Self::Counter { .. } | Self::Perf { .. } | Self::Model => None,
            Self::Power { interval_ms, .. } | Self::Battery { interval_ms, .. } => {
                Some(*interval_ms * 1_000_000)
            }
        }
    }
}

/// Priority among meters of the same zone. The one with the lowest rank is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u8);

impl Rank {
    pub(super) const POWERCAP: Self = Self(0);
    pub(super) const POWERCAP_MMIO: Self = Self(1);
    pub(super) const PERF: Self = Self(2);
    pub(super) const HWMON_ENERGY: Self = Self(3);
    pub(super) const HWMON_POWER: Self = Self(4);
    pub(super) const ACPI: Self = Self(5);
    pub(super) const BATTERY: Self = Self(6);
    pub(super) const MODEL: Self = Self(7);
}

impl Found {
    /// Returns whether both meters cover the same part of the machine. Two zones of the same meter
    /// never do.
    pub(super) fn covers_same_part(&self, other: &Self) -> bool {
        let same =
            |one: Option<u32>, two: Option<u32>| one.is_none() || two.is_none() || one == two;
        self.rank != other.rank
            && self.rank != Rank::MODEL
            && other.rank != Rank::MODEL
            && self.kind == other.kind
            && self.kind != ZoneKind::Other
            && self.kind != ZoneKind::Gpu
            && same(self.socket, other.socket)
            && same(self.die, other.die)
    }

    /// Returns the zone of the operator's model, which computes the power of the CPUs, like a
    /// package.
    pub(super) fn model() -> Self {
        Self {
            name: "cpus".into(),
            kind: ZoneKind::Package,
            socket: None,
            die: None,
            source: EnergySource::Model,
            rank: Rank::MODEL,
            resolution_uj: 1,
            device: "the section [energy.model] of the configuration".into(),
            input: Input::Model,
        }
    }

    pub(super) fn is_known_as(&self, other: &Self) -> bool {
        self.device == other.device && self.name == other.name && self.socket == other.socket
    }

    pub(super) fn shape(&self) -> Shape {
        Shape {
            range_uj: match self.input {
                Input::Counter { range_uj, .. } => range_uj,
                _ => None,
            },
            step_uj: self.resolution_uj,
            most_watts: most_watts(self.kind),
            always_moves: self.kind.always_moves(),
        }
    }

    pub(super) fn zone(&self) -> Zone {
        Zone {
            name: self.name.clone(),
            kind: self.kind,
            socket: self.socket,
            die: self.die,
            source: self.source,
            parent: None,
            resolution_uj: self.resolution_uj,
            update_ns: match self.input {
                Input::Model => 0,
                _ => self.input.interval_ns().unwrap_or(COUNTER_NS),
            },
            path: self.device.display().to_string(),
        }
    }
}

/// Returns an upper bound of the power of a zone. A meter that reports more is broken. Today's
/// largest processors use 500 W, and the largest nodes with accelerators about 15 kW.
pub(super) const fn most_watts(kind: ZoneKind) -> u64 {
    match kind {
        ZoneKind::Package | ZoneKind::Core | ZoneKind::Uncore | ZoneKind::Dram => 1000,
        ZoneKind::Gpu | ZoneKind::Other => 5000,
        ZoneKind::Psys | ZoneKind::Platform => 50_000,
    }
}

/// For each zone, sets the parent to the smallest zone that contains it, by kind, socket and die.
pub(super) fn contain(zones: &mut [Zone]) {
    for at in 0..zones.len() {
        let own = &zones[at];
        let holds = |other: &Zone| {
            let same = |own: Option<u32>, others: Option<u32>| others.is_none() || own == others;
            // Measured zones are never combined with computed ones.
            own.is_measured() == other.is_measured()
                && same(own.socket, other.socket)
                && same(own.die, other.die)
        };
        let parent = containers(own).iter().find_map(|kind| {
            let of_kind = |other: &Zone| other.kind == *kind && holds(other);
            // Prefers a zone of the same socket, because a module of processor and accelerator is
            // smaller than the machine.
            let near = |other: &Zone| of_kind(other) && other.socket.is_some();
            let far = |other: &Zone| of_kind(other) && other.socket.is_none();
            let near = zones.iter().position(near).filter(|_| own.kind != *kind);
            near.or_else(|| zones.iter().position(far))
        });
        zones[at].parent = parent;
    }
}

/// Returns the kinds that contain a zone, the smallest first. Memory is not part of the package:
/// RAPL lists it below the package but counts it separately.
fn containers(zone: &Zone) -> &'static [ZoneKind] {
    use ZoneKind::{Core, Dram, Gpu, Other, Package, Platform, Psys, Uncore};
    match zone.kind {
        Core | Uncore => &[Package, Psys, Platform],
        Package | Dram => &[Psys, Platform],
        Psys | Gpu => &[Platform],
        Platform if zone.socket.is_some() => &[Platform],
        Platform | Other => &[],
    }
}
