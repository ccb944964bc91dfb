//! Energy zones: the reading of each meter, and the account of its energy.

use noctule_model::{Energy, Zone, ZoneAccount, ZoneReading};

use super::Owners;
use super::kept::{Flat, Keeps, Writing, record_of};
use super::status::keyed_by_place;
use crate::column::{Word, record};

record_of! {
    pub(crate) struct DescriptionRecord of Zone {
        name: String,
        kind: Word,
        socket: Option<u32>,
        die: Option<u32>,
        source: Word,
        parent: Option<u32>,
        resolution_uj: u64,
        update_ns: u64,
        path: String,
    }
}

record_of! {
    pub(crate) struct ReadingRecord of ZoneReading {
        energy_uj: u64,
        before_ns: u64,
        after_ns: u64,
        gaps: u64,
        lost_ns: u64,
        failed_ns: u64,
        state: Word,
        reason: Option<String>,
    }
}

record_of! {
    pub(crate) struct AccountRecord of ZoneAccount {
        total_uj: u64,
        idle_uj: u64,
        active_uj: u64,
        interrupts_uj: u64,
        other_uj: u64,
        unattributed_uj: u64,
        driver: Word,
        sockets_mixed: bool,
        exponent: Option<f64>,
        idle_watts: Option<f64>,
        idle_doubt_uj: f64,
        residual_uj2: f64,
        ticks: u64,
        skew_uj: f64,
        error_ratio: Option<f64>,
    }
}

record! {
    /// A zone with its description, its reading and its account.
    pub(crate) struct ZoneRecord {
        place: u32,
        zone: Flat<DescriptionRecord>,
        reading: Flat<ReadingRecord>,
        /// Whether the account is filled in. Otherwise its values are 0.
        accounted: bool,
        account: Flat<AccountRecord>,
    }
}

keyed_by_place!(ZoneRecord);

impl ZoneRecord {
    /// Returns the records of all zones of a batch.
    pub(crate) fn all(
        energy: &Energy,
        accounts: &[ZoneAccount],
        to: &mut Writing<'_>,
    ) -> Vec<Self> {
        let Energy { zones, readings } = energy;
        let zones = zones.iter().zip(readings).enumerate();
        let record = |(place, (zone, reading))| {
            let account = accounts.get(place).map(|it| Keeps::keep(it, to));
            Self {
                place: place as u32,
                zone: Keeps::keep(zone, to),
                reading: Keeps::keep(reading, to),
                accounted: account.is_some(),
                account: account.unwrap_or_default(),
            }
        };
        zones.map(record).collect()
    }

    /// Returns the energy and the zone accounts of a batch.
    pub(crate) fn energy<'a>(
        records: impl Iterator<Item = &'a Self> + Clone,
        owners: &Owners,
    ) -> (Energy, Vec<ZoneAccount>) {
        let count = records.clone().count();
        let zones = records.clone().map(|record| {
            let mut zone: Zone = record.zone.value(owners);
            // A forged file can name a parent that does not exist.
            zone.parent = zone.parent.filter(|parent| *parent < count);
            zone
        });
        let zones = zones.collect();
        let readings = records.clone().map(|record| record.reading.value(owners));
        let readings = readings.collect();
        let accounts = records.filter(|record| record.accounted);
        let accounts = accounts.map(|record| record.account.value(owners));
        (Energy { zones, readings }, accounts.collect())
    }
}
