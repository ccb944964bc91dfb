//! The status of the energy meters.

use std::collections::BTreeMap;

use noctule_collect::{Meters, NOT_DISCHARGED, NOTHING_COUNTED};
use noctule_model::{
    Batch, Feature, FeatureId, FeatureState, Unread, UnreadZone, Zone, ZoneReading,
};
use noctule_text::{duration, escape};

const NONE: &str = "no meter: no powercap zone, no power PMU, no energy or power sensor, no \
                    discharging battery";
const MEND_NONE: &str = "on a physical machine, load the driver (intel_rapl_msr for Intel and AMD \
                         Zen, acpi_power_meter, or the driver of the board's sensors); in a \
                         virtual machine, where only the host has meters, set what its CPUs use in \
                         [energy.model] of the configuration";
const MEND_MODEL: &str = "on a physical machine, load the driver (intel_rapl_msr for Intel and AMD \
                          Zen, acpi_power_meter, or the driver of the board's sensors)";
const MEND_REFUSED: &str = "only root can read powercap: run as root or with CAP_DAC_READ_SEARCH";

const MEND_BROKEN: &str = "the driver of the meter fails: the kernel log (dmesg) may show the \
                           reason";

/// Returns the status of energy, based on the meters that are read and those that are not.
/// `readings` contains the last reading of each zone, if any.
pub(crate) fn energy(zones: &[Zone], unread: &[UnreadZone], readings: &[ZoneReading]) -> Feature {
    let id = FeatureId::Energy;
    let refused: Vec<String> = unread
        .iter()
        .filter_map(|it| match &it.why {
            Unread::Refused(why) if why == NOT_DISCHARGED => None,
            // Many servers have one zone that never counts, in addition to working zones.
            Unread::Refused(why) if why == NOTHING_COUNTED && !zones.is_empty() => None,
            Unread::Refused(why) => Some(format!("{} at {}: {why}", it.zone.name, it.zone.path)),
            Unread::Covered(_) => None,
        })
        .chain(zones.iter().zip(readings).filter_map(failure))
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
        (None, true) => Feature::off(id, NONE).with_fix(MEND_NONE),
        (None, false) => Feature::off(id, refused.join("; ")).with_fix(mend),
        (Some(zone), _) if !zone.is_measured() => Feature::degraded(
            id,
            "no meter: CPU energy comes from the model in the configuration",
        )
        .with_fix(MEND_MODEL),
        (Some(_), true) => Feature::on(id, read),
        (Some(_), false) => {
            let reason = format!("{read}; not read: {}", refused.join("; "));
            Feature::degraded(id, reason).with_fix(mend)
        }
    }
}

/// Returns the problem of a zone that was read before. A charged battery is not a problem.
fn failure((zone, reading): (&Zone, &ZoneReading)) -> Option<String> {
    let failing = reading.state != FeatureState::On;
    let why = reading.reason.as_deref().unwrap_or("unknown");
    (failing && why != NOT_DISCHARGED).then(|| format!("{} at {}: {why}", zone.name, zone.path))
}

/// Minimum time between warnings about one zone, because some meters fail every few seconds.
const QUIET_NS: u64 = 600_000_000_000;

/// Logs when a zone stops being readable, and when it recovers.
#[derive(Debug, Default)]
pub(crate) struct ZoneWarnings(Vec<Warned>);

#[derive(Clone, Copy, Debug, Default)]
struct Warned {
    failing: bool,
    /// Total failure time of the zone when the current failure began.
    failed_ns: u64,
    warned_ns: Option<u64>,
}

impl ZoneWarnings {
    /// Logs the warnings of a batch. Returns the status of the feature if it changed.
    pub(crate) fn follow(&mut self, meters: &mut Meters, batch: &Batch) -> Option<Feature> {
        let energy = batch.energy.as_ref();
        let readings = energy.map_or(&[][..], |energy| &energy.readings);
        for words in self.of(meters.zones(), readings, batch.taken_ns) {
            tracing::warn!("{}", escape(&words));
        }
        let changed = meters.has_changed();
        changed.then(|| self::energy(meters.zones(), meters.unread(), readings))
    }

    /// Returns the warnings for these readings.
    fn of(&mut self, zones: &[Zone], readings: &[ZoneReading], now_ns: u64) -> Vec<String> {
        self.0.resize(zones.len(), Warned::default());
        let zones = zones.iter().zip(readings).zip(&mut self.0);
        zones
            .filter_map(|((zone, reading), warned)| warned.note(zone, reading, now_ns))
            .collect()
    }
}

impl Warned {
    fn note(&mut self, zone: &Zone, reading: &ZoneReading, now_ns: u64) -> Option<String> {
        let failure = failure((zone, reading));
        let failed_before = std::mem::replace(&mut self.failing, failure.is_some());
        let quiet = |warned: u64| now_ns.saturating_sub(warned) < QUIET_NS;
        match failure {
            Some(words) if !failed_before => {
                if self.warned_ns.is_some_and(quiet) {
                    // The recovery is not logged either.
                    self.failing = false;
                    return None;
                }
                self.warned_ns = Some(now_ns);
                Some(format!("energy is degraded: {words}"))
            }
            Some(_) => None,
            None => {
                let failed_ns = reading.failed_ns - self.failed_ns.min(reading.failed_ns);
                self.failed_ns = reading.failed_ns;
                failed_before.then(|| {
                    let lasted = duration(failed_ns);
                    let Zone { name, path, .. } = zone;
                    format!(
                        "energy: {name} at {path} can be read again; the energy used during the \
                         failure ({lasted}) is reported late or lost"
                    )
                })
            }
        }
    }
}

/// Formats the zones by source, as in `powercap: package-0, dram; battery: BAT0`.
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
    use noctule_model::ZoneKind;

    use super::*;

    fn zone(name: &str) -> Zone {
        Zone {
            socket: Some(0),
            path: format!("/sys/{name}"),
            ..Zone::powercap(ZoneKind::Package, name)
        }
    }

    #[test]
    fn unread_zone_has_advice_for_its_reason() {
        // Whether another zone is read, why this zone is not read, the expected status, and the
        // advice.
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
            let status = energy(read, &[unread], &[]);
            assert_eq!((status.state, &*status.mend), (state, mend), "{why}");
        }
    }

    #[test]
    fn stalled_meter_is_degraded_with_one_warning() {
        let zones = [zone("package-0")];
        let reading = |reason: Option<&str>, failed_seconds: u64| ZoneReading {
            energy_uj: 0,
            before_ns: 0,
            after_ns: 0,
            gaps: 0,
            lost_ns: 0,
            failed_ns: failed_seconds * 1_000_000_000,
            state: match reason {
                Some(_) => FeatureState::Degraded,
                None => FeatureState::On,
            },
            reason: reason.map(Into::into),
        };
        let charged = reading(Some(NOT_DISCHARGED), 0);
        assert_eq!(energy(&zones, &[], &[charged]).state, FeatureState::On);
        let mut warnings = ZoneWarnings::default();
        let still = Some("the counter has not moved for 10 s");
        // The time in seconds, the reading, the expected status, and whether a warning is logged.
        let steps = [
            (1, reading(None, 0), FeatureState::On, false),
            (11, reading(still, 10), FeatureState::Degraded, true),
            (12, reading(still, 11), FeatureState::Degraded, false),
            (23, reading(None, 22), FeatureState::On, true),
            // The zone fails again too soon for another warning.
            (33, reading(still, 32), FeatureState::Degraded, false),
            (34, reading(None, 33), FeatureState::On, false),
            (700, reading(still, 43), FeatureState::Degraded, true),
        ];
        for (second, reading, state, said) in steps {
            let status = energy(&zones, &[], std::slice::from_ref(&reading));
            assert_eq!(status.state, state, "{second}");
            let words = warnings.of(&zones, &[reading], second * 1_000_000_000);
            assert_eq!(!words.is_empty(), said, "{second}: {words:?}");
            if second == 23 {
                assert!(words[0].contains("22"), "{words:?}");
            }
        }
    }
}
