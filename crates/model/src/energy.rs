//! Energy counted by the meters of the node.

use std::sync::Arc;

use crate::FeatureState;
use crate::named::named_values;

/// All zones of all meters, and their readings at one moment.
///
/// A zone keeps its position while the agent runs. New zones are appended. A zone that disappears
/// keeps its position and its last sum, with the state degraded. `readings[i]` therefore belongs to
/// `zones[i]`, and two batches are compared position by position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Energy {
    /// The zones. The list is replaced only when zones are added or their description changes.
    pub zones: Arc<[Zone]>,
    /// The reading of each zone, in the same order.
    pub readings: Vec<ZoneReading>,
}

/// The part of the machine that one energy counter covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Name given by the meter: `package-0`, `dram`, `energy-pkg`, `Module Power Socket 0`. Names
    /// are not unique: each package has a zone `dram`.
    pub name: String,
    /// The kind of part.
    pub kind: ZoneKind,
    /// Number of the socket, equal to `physical_package_id` of its CPUs. `None` means that the zone
    /// covers the whole machine, or that the meter does not report the socket.
    pub socket: Option<u32>,
    /// Number of the die within the socket, if a socket has several zones of one kind.
    pub die: Option<u32>,
    /// The kind of meter.
    pub source: EnergySource,
    /// Position of the smallest zone that contains this one. A zone without a parent is a root, and
    /// only roots may be added up.
    pub parent: Option<usize>,
    /// Smallest step of the counter, in microjoules. For integrated power, the energy of the
    /// smallest power step over one sampling interval. At least 1.
    pub resolution_uj: u64,
    /// Update interval of the meter, in nanoseconds. A reading can be this old.
    pub update_ns: u64,
    /// Path from which the zone is read, for people.
    pub path: String,
}

impl Zone {
    /// Returns a root of powercap without socket and path.
    pub fn powercap(kind: ZoneKind, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            socket: None,
            die: None,
            source: EnergySource::Powercap,
            parent: None,
            resolution_uj: 61,
            update_ns: 1_000_000,
            path: String::new(),
        }
    }

    /// Returns whether the energy is measured directly or integrated from measured power, rather
    /// than modelled.
    pub const fn is_measured(&self) -> bool {
        !matches!(self.source, EnergySource::Model)
    }
}

/// A zone that exists but has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadZone {
    /// The zone, described as if it were read.
    pub zone: Zone,
    /// Why the zone is not read.
    pub why: Unread,
}

/// Why a zone has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Reading failed, for this reason.
    Refused(String),
    /// Another meter, at this path, covers the same part of the machine.
    Covered(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReading {
    /// Energy since the agent first read the zone, in microjoules. The energy never decreases,
    /// because noctule corrects for wraps of the meter's counter.
    pub energy_uj: u64,
    /// `CLOCK_MONOTONIC` just before the read that returned `energy_uj`, in nanoseconds. The read
    /// can precede the batch by the sampling interval of a power sensor, or by more if reads fail.
    pub before_ns: u64,
    /// `CLOCK_MONOTONIC` just after the read that returned `energy_uj`, in nanoseconds.
    pub after_ns: u64,
    /// Number of gaps in which the zone could not be read or its counter jumped. If the meter kept
    /// counting, the energy of the gap is in the first reading after it. Otherwise the energy is
    /// missing, and `lost_ns` grows. Nothing is missing between two readings with the same number
    /// of gaps.
    pub gaps: u64,
    /// Time since the first read whose energy is permanently lost, in nanoseconds of the same
    /// clock. Late energy is not lost: a counter keeps counting while it cannot be read, and power
    /// is interpolated over short pauses. 0 in recordings of versions without this field.
    pub lost_ns: u64,
    /// Total length of the gaps, in nanoseconds. In a gap the zone could not be read, or a counter
    /// that should always advance did not. The energy of a gap is late or lost. 0 in recordings of
    /// versions without this field.
    pub failed_ns: u64,
    /// Degraded if the last read failed or returned an implausible value, so that `energy_uj` is
    /// from an older read. Otherwise on; never off.
    pub state: FeatureState,
    /// Why the zone is degraded; `None` if it is on.
    pub reason: Option<Arc<str>>,
}

impl ZoneReading {
    /// Returns a reading without gaps and times.
    pub fn of(energy_uj: u64) -> Self {
        Self {
            energy_uj,
            before_ns: 0,
            after_ns: 0,
            gaps: 0,
            lost_ns: 0,
            failed_ns: 0,
            state: FeatureState::On,
            reason: None,
        }
    }
}

named_values! {
    /// The part of the machine that a zone covers.
    ///
    /// The name is the word used in every output.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ZoneKind {
        /// A processor package: cores, caches and memory controller. On servers the package does
        /// not include memory.
        Package: "package",
        /// The cores of a package (power plane 0).
        Core: "core",
        /// The package without its cores. On client processors, this is the graphics (power plane
        /// 1).
        Uncore: "uncore",
        /// Memory of a socket.
        Dram: "dram",
        /// The platform as metered by the processor, including packages. On most laptops the
        /// platform is the whole machine.
        Psys: "psys",
        /// The whole machine, metered at its power supply or battery.
        Platform: "platform",
        /// A graphics processor or another accelerator.
        Gpu: "gpu",
        /// A part that the meter does not describe further.
        Other: "other",
    }
}

impl ZoneKind {
    /// Returns whether the covered part always uses power, so that a meter that does not move must
    /// be faulty.
    pub const fn always_moves(self) -> bool {
        matches!(
            self,
            Self::Package | Self::Dram | Self::Psys | Self::Platform
        )
    }
}

named_values! {
    /// The kind of meter of a zone.
    ///
    /// The name is the value of the label `source`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum EnergySource {
        /// `/sys/class/powercap`: RAPL of Intel and AMD, and other drivers that register with
        /// powercap.
        Powercap: "powercap",
        /// The `power` PMU of perf, which reads the same processor counters.
        Perf: "perf",
        /// An energy counter of a hardware monitor, `energyN_input`.
        HwmonEnergy: "hwmon",
        /// Power from a hardware monitor, `powerN_average` or `powerN_input`, integrated over time.
        HwmonPower: "hwmon_integrated",
        /// An ACPI power meter, integrated over time.
        AcpiPower: "acpi_integrated",
        /// A discharging battery.
        Battery: "battery",
        /// No meter: the configuration gives the power of an idle and a busy CPU.
        Model: "model",
    }
}
