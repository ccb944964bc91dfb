//! What a probe found, before it is known which of it is read.

use std::path::PathBuf;

use noctule_model::{EnergySource, Zone, ZoneKind};

use super::battery::How;
use super::counter::Shape;

/// Processors update their counters about once in a millisecond.
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
    /// The folder of its device, by which it is known again.
    pub(super) device: PathBuf,
    pub(super) input: Input,
}

/// What it is read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
    /// A counter of microjoules.
    Counter {
        file: PathBuf,
        range_uj: Option<u64>,
    },
    /// An event of the PMU that is the device, on these CPUs.
    Perf { event: String, cpus: Vec<u32> },
    /// A sensor of microwatts, which has something new that often.
    Power { file: PathBuf, interval_ms: u64 },
    /// Nothing: it is computed.
    Model,
    /// A battery.
    Battery { how: How, interval_ms: u64 },
}

impl Input {
    /// How often it is sampled; `None`: it is a counter.
    pub(super) const fn interval_ns(&self) -> Option<u64> {
        match self {
            Self::Counter { .. } | Self::Perf { .. } | Self::Model => None,
            Self::Power { interval_ms, .. } | Self::Battery { interval_ms, .. } => {
                Some(*interval_ms * 1_000_000)
            }
        }
    }
}

/// Of two meters of one zone the one with the lower rank is read.
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
    /// Both are meters of one part of the machine. Two zones of one meter never are.
    pub(super) fn covers_the_same(&self, other: &Self) -> bool {
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

    /// What the operator's model computes: what the CPUs use, as a package does.
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

/// No part of a machine of today uses more; what reads more is broken. The largest processors use
/// 500 W, the largest nodes with accelerators some 15 kW.
pub(super) const fn most_watts(kind: ZoneKind) -> u64 {
    match kind {
        ZoneKind::Package | ZoneKind::Core | ZoneKind::Uncore | ZoneKind::Dram => 1000,
        ZoneKind::Gpu | ZoneKind::Other => 5000,
        ZoneKind::Psys | ZoneKind::Platform => 50_000,
    }
}

/// Gives each zone the place of the smallest one that contains it, by kind, socket and die.
pub(super) fn contain(zones: &mut [Zone]) {
    for at in 0..zones.len() {
        let own = &zones[at];
        let holds = |other: &Zone| {
            let same = |own: Option<u32>, others: Option<u32>| others.is_none() || own == others;
            // What is measured is never mixed with what is not.
            own.is_measured() == other.is_measured()
                && same(own.socket, other.socket)
                && same(own.die, other.die)
        };
        let parent = containers(own).iter().find_map(|kind| {
            let of_kind = |other: &Zone| other.kind == *kind && holds(other);
            // Of a socket first: a module of processor and accelerator is less than the machine.
            let near = |other: &Zone| of_kind(other) && other.socket.is_some();
            let far = |other: &Zone| of_kind(other) && other.socket.is_none();
            let near = zones.iter().position(near).filter(|_| own.kind != *kind);
            near.or_else(|| zones.iter().position(far))
        });
        zones[at].parent = parent;
    }
}

/// What contains a zone of a kind, the smallest first. Memory is not in the package: RAPL lists it
/// below the package and counts it beside it.
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
