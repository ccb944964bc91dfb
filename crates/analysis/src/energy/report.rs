//! Energy that the meters counted in a window, and what it was charged to.

use noctule_model::{
    Batch, Driver, EnergySource, FeatureState, Joules, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::counts_in_rows;

#[derive(Clone, Debug)]
pub struct EnergyReport {
    /// All zones, in the order of the meters.
    pub zones: Vec<ZoneReport>,
    /// The kinds of zones whose energy is charged to rows, in the order of [`ZoneKind::ALL`].
    pub kinds: Vec<KindReport>,
    /// Energy charged to processes that ended without a record; 0 at levels other than processes.
    pub unrecorded: Joules,
}

/// One zone in a window.
#[derive(Clone, Debug)]
pub struct ZoneReport {
    pub zone: Zone,
    /// How the energy of the zone was divided in the window.
    pub account: ZoneAccount,
    /// Half-width of the relative error of the active energy; `None` if there was no active energy.
    pub error_ratio: Option<f64>,
    /// Whether the meter did not move although the zone always uses power. If it did not, the
    /// window is too short for the meter, so the energy is unknown.
    pub still: bool,
    /// Whether the meter could be read at the end of the window.
    pub state: FeatureState,
    /// Why the meter is degraded.
    pub reason: Option<String>,
    /// Number of periods in the window in which the meter could not be read or its counter jumped.
    pub gaps: u64,
    /// Total length of these periods, in nanoseconds.
    pub failed_ns: u64,
}

/// A kind of zone, over all sockets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindReport {
    pub kind: ZoneKind,
    /// The meter. If there are several, the meter of the zone that was found first.
    pub source: EnergySource,
    /// Whether this kind may be added to other root kinds: either no other kind contains it, or the
    /// kinds that contain it were not read all the time.
    pub root: bool,
}

impl EnergyReport {
    /// Returns the report between two batches; `None` without a meter.
    pub(crate) fn between(first: &Batch, last: &Batch) -> Option<Self> {
        let energy = last.energy.as_ref()?;
        let nothing = ZoneAccount::default();
        let places = 0..energy.zones.len().min(last.zone_accounts.len());
        let zones = places.clone().map(|place| {
            let before = first.zone_accounts.get(place).unwrap_or(&nothing);
            let earlier = first.energy.as_ref().and_then(|e| e.readings.get(place));
            ZoneReport::new(
                &energy.zones[place],
                last.zone_accounts[place].since(before),
                &energy.readings[place],
                earlier,
            )
        });
        // A zone that appeared within the window only has energy since that time. Sums of rows do
        // not include it unless there were no zones before.
        let there = first.energy.as_ref().map_or(0, |energy| energy.zones.len());
        let known = match there {
            0 => places.end,
            there => there.min(places.end),
        };
        let zones: Vec<ZoneReport> = zones.collect();
        let accounts = zones[..known].iter().map(|zone| zone.account.clone());
        let accounts: Vec<ZoneAccount> = accounts.collect();
        Some(Self {
            kinds: charged_in_window(&energy.zones, &accounts, |place| {
                zones[place].state == FeatureState::On
            }),
            zones,
            unrecorded: Joules::default(),
        })
    }

    /// Returns the sum of the energy charged to rows.
    pub(crate) fn charged(&self) -> Joules {
        let zones: Vec<Zone> = self.zones.iter().map(|it| it.zone.clone()).collect();
        let mut sum = Joules::default();
        for (place, zone) in self.zones.iter().enumerate() {
            if counts_in_rows(place, &zones) {
                sum[zone.zone.kind] += zone.account.active_uj;
            }
        }
        sum
    }

    /// Returns the microjoules of a row over all kinds that do not contain each other.
    pub fn total_uj(&self, joules: &Joules) -> u64 {
        let roots = self.kinds.iter().filter(|kind| kind.root);
        roots.map(|kind| joules[kind.kind]).sum()
    }

    /// Returns whether [`Self::total_uj`] contains the energy of a zone.
    pub fn is_in_total(&self, zone: &ZoneReport) -> bool {
        let mut roots = self.kinds.iter().filter(|kind| kind.root);
        roots.any(|kind| kind.kind == zone.zone.kind)
    }

    /// Returns whether every zone is the operator's model.
    pub fn is_model(&self) -> bool {
        self.zones.iter().all(|zone| !zone.zone.is_measured())
    }
}

impl ZoneReport {
    fn new(
        zone: &Zone,
        account: ZoneAccount,
        reading: &ZoneReading,
        earlier: Option<&ZoneReading>,
    ) -> Self {
        let since = |of: fn(&ZoneReading) -> u64| of(reading).saturating_sub(earlier.map_or(0, of));
        Self {
            error_ratio: account.relative_error(zone.resolution_uj),
            still: account.total_uj == 0
                && zone.kind.always_moves()
                && reading.state == FeatureState::On,
            zone: zone.clone(),
            account,
            state: reading.state,
            reason: reading.reason.as_ref().map(ToString::to_string),
            gaps: since(|reading| reading.gaps),
            failed_ns: since(|reading| reading.failed_ns),
        }
    }
}

/// Returns the kinds whose energy is charged to rows. `accounts` belong to the first zones.
pub fn charged_kinds(zones: &[Zone], accounts: &[ZoneAccount]) -> Vec<KindReport> {
    charged_in_window(zones, accounts, |_| true)
}

/// Like [`charged_kinds`], for the accounts of a window. `is_read` returns whether a zone can be
/// read at its end.
fn charged_in_window(
    zones: &[Zone],
    accounts: &[ZoneAccount],
    is_read: impl Fn(usize) -> bool,
) -> Vec<KindReport> {
    let driven = |place: usize| {
        let account = accounts.get(place);
        account.is_some_and(|account| account.driver != Driver::Nothing)
    };
    let counted = || {
        let places = 0..zones.len();
        places.filter(|&place| counts_in_rows(place, zones) && driven(place))
    };
    let of_kind = |kind: ZoneKind| counted().filter(move |&place| zones[place].kind == kind);
    let sum = |places: &mut dyn Iterator<Item = usize>| -> u64 {
        places.map(|place| accounts[place].total_uj).sum()
    };
    // A meter that counted less than its parts, for example the meter of a charging battery, was
    // not read all the time. The parts are more complete. If it counted nothing although it can be
    // read, its energy will come with the next step of the meter.
    let has_missed = |kind: ZoneKind| {
        let is_part = |place: &usize| {
            let outer = zones[*place].parent;
            outer.is_some_and(|outer| zones[outer].kind == kind && driven(outer))
        };
        let own_uj = sum(&mut of_kind(kind));
        let parts_uj = sum(&mut counted().filter(is_part));
        own_uj < parts_uj && (own_uj > 0 || !of_kind(kind).all(&is_read))
    };
    let missed: Vec<ZoneKind> = ZoneKind::ALL
        .into_iter()
        .filter(|kind| has_missed(*kind))
        .collect();
    let is_inside_a_root = |place: usize| {
        let around = std::iter::successors(zones[place].parent, |&outer| zones[outer].parent);
        let mut around = around.take(zones.len());
        around.any(|outer| driven(outer) && !missed.contains(&zones[outer].kind))
    };
    let kinds = ZoneKind::ALL.into_iter();
    kinds
        .filter_map(|kind| {
            let source = of_kind(kind).map(|place| zones[place].source).next()?;
            let root = !missed.contains(&kind) && !of_kind(kind).any(is_inside_a_root);
            Some(KindReport { kind, source, root })
        })
        .collect()
}
