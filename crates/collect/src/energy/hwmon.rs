//! Hardware monitors: energy counters and power sensors, including those of ACPI.

use std::fs;
use std::path::{Path, PathBuf};

use noctule_model::{EnergySource, ZoneKind};

use super::found::{Found, Input, Rank};
use super::source::line;

/// Sampling interval if the chip does not report its own.
const INTERVAL_MS: u64 = 250;

/// Bounds of the sampling interval.
const BOUNDS_MS: (u64, u64) = (50, 10_000);

/// Name of ACPI power meters.
const ACPI: &str = "power_meter";

/// Finds every energy counter and power sensor.
pub(super) fn find(sys: &Path) -> Vec<Found> {
    let mut chips: Vec<PathBuf> = fs::read_dir(sys.join("class/hwmon"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // Sorts hwmon2 before hwmon10.
    chips.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    chips.iter().flat_map(|chip| sensors(chip)).collect()
}

fn sensors(chip: &Path) -> Vec<Found> {
    // Older drivers, including the ACPI driver, have their attributes in the device directory.
    let folders = [chip.to_owned(), chip.join("device")];
    let Some(name) = folders.iter().find_map(|it| line(&it.join("name"))) else {
        return Vec::new();
    };
    let found = folders.iter().map(|folder| {
        let mut files: Vec<String> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        files.sort_by_key(|file| (file.len(), file.clone()));
        let sensors = files.iter();
        let sensors = sensors.filter_map(|file| sensor(&name, chip, folder, file));
        sensors.collect::<Vec<_>>()
    });
    found
        .into_iter()
        .find(|it| !it.is_empty())
        .unwrap_or_default()
}

fn sensor(name: &str, chip: &Path, folder: &Path, file: &str) -> Option<Found> {
    let (stem, what) = file.split_once('_')?;
    let numbered = |word: &str| {
        let number = stem.strip_prefix(word)?;
        number.parse::<u32>().ok()
    };
    let file = folder.join(file);
    let (source, rank, input) = match what {
        "input" if numbered("energy").is_some() => {
            let range_uj = None;
            let input = Input::Counter { file, range_uj };
            (EnergySource::HwmonEnergy, Rank::HWMON_ENERGY, input)
        }
        // The average over an interval is better than an instantaneous value.
        "input" if folder.join(format!("{stem}_average")).exists() => return None,
        "input" | "average" if numbered("power").is_some() => {
            let interval_ms = interval_ms(folder, stem);
            let input = Input::Power { file, interval_ms };
            match name {
                ACPI => (EnergySource::AcpiPower, Rank::ACPI, input),
                _ => (EnergySource::HwmonPower, Rank::HWMON_POWER, input),
            }
        }
        _ => return None,
    };
    let label = ["label", "oem_info"]
        .iter()
        .find_map(|it| line(&folder.join(format!("{stem}_{it}"))))
        .filter(|label| !label.is_empty());
    let (kind, socket) = kind(name, label.as_deref())?;
    Some(Found {
        name: label.unwrap_or_else(|| format!("{name} {stem}")),
        kind,
        socket,
        die: None,
        source,
        rank,
        resolution_uj: match &input {
            // Most sensors count in steps of several milliwatts.
            Input::Power { interval_ms, .. } => *interval_ms,
            _ => 1,
        },
        device: chip.to_owned(),
        input,
    })
}

/// Returns the update interval of the sensor.
fn interval_ms(folder: &Path, stem: &str) -> u64 {
    [
        format!("{stem}_average_interval"),
        "update_interval".to_owned(),
    ]
    .iter()
    .find_map(|file| line(&folder.join(file))?.parse().ok())
    .unwrap_or(INTERVAL_MS)
    .clamp(BOUNDS_MS.0, BOUNDS_MS.1)
}

/// Returns the part of the machine that a sensor covers, and the socket. Returns `None` if that
/// part is included in the part of another sensor that is read.
fn kind(chip: &str, label: Option<&str>) -> Option<(ZoneKind, Option<u32>)> {
    let numbered = |begin: &str| -> Option<u32> { label?.strip_prefix(begin)?.parse().ok() };
    // On NVIDIA Grace, the module includes processor, memory and accelerator; "Grace" is the
    // processor.
    for (begin, kind) in [
        ("Module Power Socket ", ZoneKind::Platform),
        ("Grace Power Socket ", ZoneKind::Package),
        ("CPU Power Socket ", ZoneKind::Core),
        ("SysIO Power Socket ", ZoneKind::Uncore),
        // Driver amd_energy: whole sockets.
        ("Esocket", ZoneKind::Package),
    ] {
        if let Some(socket) = numbered(begin) {
            return Some((kind, Some(socket)));
        }
    }
    Some(match (chip, label) {
        // Sensors of single cores, which the sensors of the sockets include.
        ("amd_energy", Some(label)) if label.starts_with("Ecore") => return None,
        // Ampere and APM (xgene-hwmon): the cores and their caches.
        ("apm_xgene", Some("CPU power")) => (ZoneKind::Package, None),
        ("amdgpu" | "radeon" | "nouveau" | "i915" | "xe", _) => (ZoneKind::Gpu, None),
        (ACPI, None) => (ZoneKind::Platform, None),
        _ => (ZoneKind::Other, None),
    })
}
