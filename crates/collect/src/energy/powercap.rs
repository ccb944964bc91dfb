//! Reads zones from `/sys/class/powercap`, where drivers such as RAPL for Intel and AMD register
//! their zones.

use std::fs;
use std::path::Path;

use noctule_model::{EnergySource, ZoneKind};

use super::found::{Found, Input, Rank};
use super::source::line;

/// Finds every zone with an energy counter.
pub(super) fn find(sys: &Path) -> Vec<Found> {
    let class = sys.join("class/powercap");
    let mut entries: Vec<String> = fs::read_dir(&class)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| class.join(name).join("energy_uj").exists())
        .collect();
    entries.sort();
    let zones = entries.iter().filter_map(|entry| zone(&class, entry));
    let of_one_core = has_counter_per_core(sys);
    let zones = zones.filter(|zone| zone.kind != ZoneKind::Core || !of_one_core);
    zones.collect()
}

/// Returns whether the processor has an energy counter for each core, as processors of AMD and
/// Hygon do. Powercap reads the counter of one core of the package and reports the value for all
/// cores. Perf adds up all cores.
fn has_counter_per_core(sys: &Path) -> bool {
    let vendors = ["ven0002", "ven0009"];
    let modalias = line(&sys.join("devices/system/cpu/modalias")).unwrap_or_default();
    modalias.starts_with("cpu:type:x86,") && vendors.iter().any(|vendor| modalias.contains(vendor))
}

fn zone(class: &Path, entry: &str) -> Option<Found> {
    let folder = class.join(entry);
    let name = line(&folder.join("name"))?;
    let (kind, own) = kind(&name);
    // A zone within a package only has the name `dram`. The package is its parent entry.
    let package = entry
        .rsplit_once(':')
        .and_then(|(above, _)| line(&class.join(above).join("name")))
        .map(|above| self::kind(&above));
    let (socket, die) = match (own, package) {
        ((Some(socket), die), _) => (Some(socket), die),
        (_, Some((ZoneKind::Package, above))) => above,
        (none, _) => none,
    };
    let range_uj: Option<u64> = line(&folder.join("max_energy_range_uj"))
        .and_then(|range| range.parse().ok())
        .filter(|range| *range > 0);
    // The range of RAPL has 2^32 units. Other drivers do not report their resolution.
    let unit = range_uj.map_or(1, |range| (range / u64::from(u32::MAX)).max(1));
    Some(Found {
        name,
        kind,
        socket,
        die,
        source: EnergySource::Powercap,
        // Memory-mapped registers provide the same counters, but fewer machines have all zones
        // there.
        rank: if entry.starts_with("intel-rapl-mmio") {
            Rank::POWERCAP_MMIO
        } else {
            Rank::POWERCAP
        },
        resolution_uj: unit,
        device: folder.clone(),
        input: Input::Counter {
            file: folder.join("energy_uj"),
            range_uj,
        },
    })
}

/// Returns the kind of the zone with that name, and its socket and die.
fn kind(name: &str) -> (ZoneKind, (Option<u32>, Option<u32>)) {
    let none = (None, None);
    if let Some(number) = name.strip_prefix("package-") {
        let (socket, die) = match number.split_once("-die-") {
            Some((socket, die)) => (socket, die.parse().ok()),
            None => (number, None),
        };
        return (ZoneKind::Package, (socket.parse().ok(), die));
    }
    match name {
        "core" => (ZoneKind::Core, none),
        "uncore" => (ZoneKind::Uncore, none),
        "dram" => (ZoneKind::Dram, none),
        "psys" => (ZoneKind::Psys, none),
        _ => (ZoneKind::Other, none),
    }
}
