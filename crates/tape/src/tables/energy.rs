//! Energy zones: the reading of each meter, and the account of its energy.

use noctule_model::{
    Driver, Energy, EnergySource, FeatureState, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::Keyed;
use super::status::STATES;
use crate::column::{Word, record};
use crate::names::named;

const SOURCES: [EnergySource; 7] = [
    EnergySource::Powercap,
    EnergySource::Perf,
    EnergySource::HwmonEnergy,
    EnergySource::HwmonPower,
    EnergySource::AcpiPower,
    EnergySource::Battery,
    EnergySource::Model,
];

const DRIVERS: [Driver; 5] = [
    Driver::Cycles,
    Driver::CpuTime,
    Driver::CacheMisses,
    Driver::Parts,
    Driver::Nothing,
];

record! {
    /// A zone with its description, its reading and its account.
    pub(crate) struct ZoneRecord {
        place: u32,
        name: String,
        kind: Word,
        socket: Option<u32>,
        die: Option<u32>,
        source: Word,
        parent: Option<u32>,
        resolution_uj: u64,
        update_ns: u64,
        path: String,
        energy_uj: u64,
        before_ns: u64,
        after_ns: u64,
        gaps: u64,
        lost_ns: u64,
        failed_ns: u64,
        state: Word,
        reason: Option<String>,
        /// Whether the following fields, the account, are filled; otherwise they are 0.
        accounted: bool,
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

impl Keyed for ZoneRecord {
    type Key = u32;

    fn key(&self) -> u32 {
        self.place
    }
}

impl ZoneRecord {
    /// Returns the records of all zones of a batch.
    pub(crate) fn all(energy: &Energy, accounts: &[ZoneAccount]) -> Vec<Self> {
        let Energy { zones, readings } = energy;
        let zones = zones.iter().zip(readings).enumerate();
        let record = |(place, (zone, reading))| {
            let mut record = Self::zone(place, zone);
            record.read(reading);
            if let Some(account) = accounts.get(place) {
                record.charge(account);
            }
            record
        };
        zones.map(record).collect()
    }

    fn zone(place: usize, zone: &Zone) -> Self {
        let Zone {
            name,
            kind,
            socket,
            die,
            source,
            parent,
            resolution_uj,
            update_ns,
            path,
        } = zone;
        Self {
            place: place as u32,
            name: name.clone(),
            kind: Word(kind.name()),
            socket: *socket,
            die: *die,
            source: Word(source.name()),
            parent: parent.map(|parent| parent as u32),
            resolution_uj: *resolution_uj,
            update_ns: *update_ns,
            path: path.clone(),
            ..Self::default()
        }
    }

    fn read(&mut self, reading: &ZoneReading) {
        let ZoneReading {
            energy_uj,
            before_ns,
            after_ns,
            gaps,
            lost_ns,
            failed_ns,
            state,
            reason,
        } = reading;
        self.energy_uj = *energy_uj;
        self.before_ns = *before_ns;
        self.after_ns = *after_ns;
        self.gaps = *gaps;
        self.lost_ns = *lost_ns;
        self.failed_ns = *failed_ns;
        self.state = Word(state.name());
        self.reason = reason.as_deref().map(str::to_owned);
    }

    fn charge(&mut self, account: &ZoneAccount) {
        let ZoneAccount {
            total_uj,
            idle_uj,
            active_uj,
            interrupts_uj,
            other_uj,
            unattributed_uj,
            driver,
            sockets_mixed,
            exponent,
            idle_watts,
            idle_doubt_uj,
            residual_uj2,
            ticks,
            skew_uj,
            error_ratio,
        } = account;
        self.accounted = true;
        self.total_uj = *total_uj;
        self.idle_uj = *idle_uj;
        self.active_uj = *active_uj;
        self.interrupts_uj = *interrupts_uj;
        self.other_uj = *other_uj;
        self.unattributed_uj = *unattributed_uj;
        self.driver = Word(driver.name());
        self.sockets_mixed = *sockets_mixed;
        self.exponent = *exponent;
        self.idle_watts = *idle_watts;
        self.idle_doubt_uj = *idle_doubt_uj;
        self.residual_uj2 = *residual_uj2;
        self.ticks = *ticks;
        self.skew_uj = *skew_uj;
        self.error_ratio = *error_ratio;
    }

    /// Returns the energy and the zone accounts of a batch.
    pub(crate) fn energy<'a>(
        records: impl Iterator<Item = &'a Self> + Clone,
    ) -> (Energy, Vec<ZoneAccount>) {
        let count = records.clone().count();
        let zones = records.clone().map(|record| {
            let mut zone = record.of_zone();
            // A forged file can name a parent that does not exist.
            zone.parent = zone.parent.filter(|parent| *parent < count);
            zone
        });
        let zones = zones.collect();
        let readings = records.clone().map(Self::reading).collect();
        let accounts = records.filter(|record| record.accounted);
        (
            Energy { zones, readings },
            accounts.map(Self::account).collect(),
        )
    }

    fn of_zone(&self) -> Zone {
        Zone {
            name: self.name.clone(),
            kind: named(&ZoneKind::ALL, ZoneKind::name, self.kind.0).unwrap_or(ZoneKind::Other),
            socket: self.socket,
            die: self.die,
            // For a meter unknown to this version, `Model` avoids claiming that its energy was
            // measured.
            source: named(&SOURCES, EnergySource::name, self.source.0)
                .unwrap_or(EnergySource::Model),
            parent: self.parent.map(|parent| parent as usize),
            resolution_uj: self.resolution_uj,
            update_ns: self.update_ns,
            path: self.path.clone(),
        }
    }

    fn reading(&self) -> ZoneReading {
        ZoneReading {
            energy_uj: self.energy_uj,
            before_ns: self.before_ns,
            after_ns: self.after_ns,
            gaps: self.gaps,
            lost_ns: self.lost_ns,
            failed_ns: self.failed_ns,
            state: named(&STATES, FeatureState::name, self.state.0)
                .unwrap_or(FeatureState::Degraded),
            reason: self.reason.as_deref().map(Into::into),
        }
    }

    fn account(&self) -> ZoneAccount {
        ZoneAccount {
            total_uj: self.total_uj,
            idle_uj: self.idle_uj,
            active_uj: self.active_uj,
            interrupts_uj: self.interrupts_uj,
            other_uj: self.other_uj,
            unattributed_uj: self.unattributed_uj,
            driver: named(&DRIVERS, Driver::name, self.driver.0).unwrap_or(Driver::Nothing),
            sockets_mixed: self.sockets_mixed,
            exponent: self.exponent,
            idle_watts: self.idle_watts,
            idle_doubt_uj: self.idle_doubt_uj,
            residual_uj2: self.residual_uj2,
            ticks: self.ticks,
            skew_uj: self.skew_uj,
            error_ratio: self.error_ratio,
        }
    }
}
