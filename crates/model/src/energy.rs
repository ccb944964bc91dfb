//! Energy that the meters of the node counted.

use std::sync::Arc;

use crate::FeatureState;

/// Every zone of every meter, and what each read at one moment.
///
/// A zone keeps its place for as long as the agent runs: new zones are appended, and one that
/// disappears stays, with its last sum, as degraded. So `readings[i]` belongs to `zones[i]`, and two
/// batches are compared place by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Energy {
    /// The zones. It is another list only when zones were added or described anew.
    pub zones: Arc<[Zone]>,
    /// What each zone read: as many as there are zones, in the same order.
    pub readings: Vec<ZoneReading>,
}

/// What one counter of energy covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name as the meter gives it: `package-0`, `dram`, `energy-pkg`, `Module Power Socket 0`. Not
    /// unique: each package has a zone `dram`.
    pub name: String,
    /// What part of the machine it covers.
    pub kind: ZoneKind,
    /// Number of the socket that it belongs to, as `physical_package_id` of its CPUs. `None`: it covers
    /// the whole machine, or the meter does not say.
    pub socket: Option<u32>,
    /// Number of the die within the socket, where a socket has several zones of one kind.
    pub die: Option<u32>,
    /// Which meter counts it.
    pub source: EnergySource,
    /// Place of the smallest zone that contains this one. A zone without one is a root; only roots may
    /// be added up.
    pub parent: Option<usize>,
    /// The smallest step of the counter, in microjoules; for integrated power, what the smallest step
    /// of power adds in one interval of sampling. At least 1.
    pub resolution_uj: u64,
    /// How often the meter has something new, in nanoseconds: what it shows can be so old.
    pub update_ns: u64,
    /// Where it is read, for people.
    pub path: String,
}

impl Zone {
    /// Its energy is counted, or integrated from power that is measured: it is no model.
    pub const fn is_measured(&self) -> bool {
        !matches!(self.source, EnergySource::Model)
    }
}

/// A zone that exists and has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadZone {
    /// The zone, as it would be listed.
    pub zone: Zone,
    /// Why it is not read.
    pub why: Unread,
}

/// Why a zone has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It cannot be read, for this reason.
    Refused(String),
    /// Another meter, at this path, covers the same part of the machine.
    Covered(String),
}

/// One reading of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReading {
    /// Energy since the agent first read the zone, in microjoules. It only goes up: wraps of the
    /// meter's own counter are resolved.
    pub energy_uj: u64,
    /// `CLOCK_MONOTONIC` just before the read that `energy_uj` comes from, nanoseconds. It can be older
    /// than the batch: by the sampling interval of a power sensor, or by more where reads fail.
    pub before_ns: u64,
    /// The same clock just after that read.
    pub after_ns: u64,
    /// Stretches of time in which the zone could not be read, or its counter jumped. Their energy is
    /// in the first reading after them if the meter counted on meanwhile, and missing if not, which
    /// `lost_ns` tells apart. Between two readings with the same number nothing is missing.
    pub gaps: u64,
    /// How much of the time since the first read is known to be missing in `energy_uj` for good,
    /// nanoseconds of the same clock. What comes late is not in it: a counter goes on while it cannot be
    /// read, and power is joined over a short pause. 0 in recordings of versions that did not have it.
    pub lost_ns: u64,
    /// How long the gaps were together, in nanoseconds: time in which the zone could not be read, or in which a
    /// counter that always moves stood still. Its energy is late or lost. 0 in recordings of versions that did not
    /// have it.
    pub failed_ns: u64,
    /// On, or degraded: the last attempt failed, or was not plausible, and `energy_uj` is that of an
    /// older read. Never off.
    pub state: FeatureState,
    /// Why it is degraded; `None` when it is on.
    pub reason: Option<Arc<str>>,
}

/// The part of the machine that a zone covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// A processor package: cores, caches, memory controller; on servers not the memory itself.
    Package,
    /// The cores of a package (power plane 0).
    Core,
    /// What is in the package beside the cores, on client processors its graphics (power plane 1).
    Uncore,
    /// Memory of a socket.
    Dram,
    /// The platform as the processor meters it, packages included: on most laptops the whole machine.
    Psys,
    /// The whole machine: its power supply, or its battery.
    Platform,
    /// A graphics processor or another accelerator.
    Gpu,
    /// What the meter does not say more of.
    Other,
}

impl ZoneKind {
    /// What it covers always uses some power: a meter that does not move has nothing to show.
    pub const fn always_moves(self) -> bool {
        matches!(
            self,
            Self::Package | Self::Dram | Self::Psys | Self::Platform
        )
    }

    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Core => "core",
            Self::Uncore => "uncore",
            Self::Dram => "dram",
            Self::Psys => "psys",
            Self::Platform => "platform",
            Self::Gpu => "gpu",
            Self::Other => "other",
        }
    }
}

/// Which kind of meter counts a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnergySource {
    /// `/sys/class/powercap`: RAPL of Intel and AMD, and what else registers there.
    Powercap,
    /// The `power` PMU of perf: the same counters of the processor.
    Perf,
    /// A counter of energy of a hardware monitor, `energyN_input`.
    HwmonEnergy,
    /// Power of a hardware monitor, `powerN_average` or `powerN_input`, integrated over time.
    HwmonPower,
    /// An ACPI power meter, integrated over time.
    AcpiPower,
    /// A battery that is discharged.
    Battery,
    /// No meter: the operator's watts for each idle and busy CPU.
    Model,
}

impl EnergySource {
    /// The word for it in every output: the label `source`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Powercap => "powercap",
            Self::Perf => "perf",
            Self::HwmonEnergy => "hwmon",
            Self::HwmonPower => "hwmon_integrated",
            Self::AcpiPower => "acpi_integrated",
            Self::Battery => "battery",
            Self::Model => "model",
        }
    }
}
