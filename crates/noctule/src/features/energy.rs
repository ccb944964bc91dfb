//! The status of the meters of energy.

use std::collections::BTreeMap;

use noctule_model::{Feature, FeatureId, Unread, UnreadZone, Zone};

const NONE: &str = "no meter: no zone of powercap, no power PMU, no sensor of energy or power, no \
                    battery that is being discharged";
const MEND_NONE: &str = "on a physical machine load the driver (intel_rapl_msr for Intel and AMD Zen, \
                         acpi_power_meter, or that of the board's sensors); in a virtual machine, \
                         whose host keeps the meters, say in [energy.model] of the configuration what \
                         its CPUs use";
const MEND_MODEL: &str = "on a physical machine load the driver (intel_rapl_msr for Intel and AMD \
                          Zen, acpi_power_meter, or that of the board's sensors)";
const MEND_REFUSED: &str = "powercap is readable for root alone: run as root or with \
                            CAP_DAC_READ_SEARCH";

/// Whether there are meters, from what is read and what is not.
pub(crate) fn energy(zones: &[Zone], unread: &[UnreadZone]) -> Feature {
    let id = FeatureId::Energy;
    let refused: Vec<String> = unread
        .iter()
        .filter_map(|it| match &it.why {
            Unread::Refused(why) => Some(format!("{} at {}: {why}", it.zone.name, it.zone.path)),
            Unread::Covered(_) => None,
        })
        .collect();
    let read = by_source(zones);
    match (zones.first(), refused.is_empty()) {
        (None, true) => Feature::off(id, NONE).mended_by(MEND_NONE),
        (None, false) => Feature::off(id, refused.join("; ")).mended_by(MEND_REFUSED),
        (Some(zone), _) if !zone.is_measured() => Feature::degraded(
            id,
            "no meter: the energy of the CPUs is that of the operator's model",
        )
        .mended_by(MEND_MODEL),
        (Some(_), true) => Feature::on(id, read),
        (Some(_), false) => {
            let reason = format!("{read}; not read: {}", refused.join("; "));
            Feature::degraded(id, reason).mended_by(MEND_REFUSED)
        }
    }
}

/// `powercap: package-0, dram; battery: BAT0`.
fn by_source(zones: &[Zone]) -> String {
    let mut sources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for zone in zones {
        sources
            .entry(zone.source.name())
            .or_default()
            .push(&zone.name);
    }
    let sources = sources.iter();
    let words: Vec<String> = sources
        .map(|(source, names)| format!("{source}: {}", names.join(", ")))
        .collect();
    words.join("; ")
}
