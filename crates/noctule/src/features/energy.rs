//! The status of the meters of energy.

use std::collections::BTreeMap;

use noctule_collect::{NOT_DISCHARGED, NOTHING_COUNTED};
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

const MEND_BROKEN: &str = "the driver of that meter fails: the kernel's log (dmesg) may say why";

/// Whether there are meters, from what is read and what is not.
pub(crate) fn energy(zones: &[Zone], unread: &[UnreadZone]) -> Feature {
    let id = FeatureId::Energy;
    let refused: Vec<String> = unread
        .iter()
        .filter_map(|it| match &it.why {
            Unread::Refused(why) if why == NOT_DISCHARGED => None,
            // Many servers have a zone that is no meter beside those that are.
            Unread::Refused(why) if why == NOTHING_COUNTED && !zones.is_empty() => None,
            Unread::Refused(why) => Some(format!("{} at {}: {why}", it.zone.name, it.zone.path)),
            Unread::Covered(_) => None,
        })
        .collect();
    let denied = refused.iter().any(|why| why.ends_with("Permission denied"));
    let silent = refused.iter().all(|why| why.ends_with(NOTHING_COUNTED));
    let mend = match (denied, silent) {
        (true, _) => MEND_REFUSED,
        (_, true) => MEND_NONE,
        _ => MEND_BROKEN,
    };
    let read = by_source(zones);
    match (zones.first(), refused.is_empty()) {
        (None, true) => Feature::off(id, NONE).mended_by(MEND_NONE),
        (None, false) => Feature::off(id, refused.join("; ")).mended_by(mend),
        (Some(zone), _) if !zone.is_measured() => Feature::degraded(
            id,
            "no meter: the energy of the CPUs is that of the operator's model",
        )
        .mended_by(MEND_MODEL),
        (Some(_), true) => Feature::on(id, read),
        (Some(_), false) => {
            let reason = format!("{read}; not read: {}", refused.join("; "));
            Feature::degraded(id, reason).mended_by(mend)
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

#[cfg(test)]
mod tests {
    use noctule_model::{EnergySource, FeatureState, ZoneKind};

    use super::*;

    fn zone(name: &str) -> Zone {
        Zone {
            name: name.into(),
            kind: ZoneKind::Package,
            socket: Some(0),
            die: None,
            source: EnergySource::Powercap,
            parent: None,
            resolution_uj: 61,
            update_ns: 1_000_000,
            path: format!("/sys/{name}"),
        }
    }

    #[test]
    fn what_is_not_read_has_the_mend_for_its_reason() {
        // Whether another zone is read, why this one is not, and the status.
        let cases = [
            (false, "Permission denied", FeatureState::Off, MEND_REFUSED),
            (
                true,
                "Permission denied",
                FeatureState::Degraded,
                MEND_REFUSED,
            ),
            (
                true,
                "not a whole number",
                FeatureState::Degraded,
                MEND_BROKEN,
            ),
            (true, NOT_DISCHARGED, FeatureState::On, ""),
            (false, NOT_DISCHARGED, FeatureState::Off, MEND_NONE),
            (true, NOTHING_COUNTED, FeatureState::On, ""),
            (false, NOTHING_COUNTED, FeatureState::Off, MEND_NONE),
        ];
        for (reads, why, state, mend) in cases {
            let unread = UnreadZone {
                zone: zone("dram"),
                why: Unread::Refused(why.into()),
            };
            let read = [zone("package-0")];
            let read = if reads { &read[..] } else { &[] };
            let status = energy(read, &[unread]);
            assert_eq!((status.state, &*status.mend), (state, mend), "{why}");
        }
    }
}
