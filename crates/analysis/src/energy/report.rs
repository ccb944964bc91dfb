//! What the meters counted in a window, and where it went.

use noctule_model::{
    Batch, Driver, EnergySource, FeatureState, Joules, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::counts_in_rows;

/// The energy of a window.
#[derive(Clone, Debug)]
pub struct EnergyReport {
    /// Every zone, in the order of the meters.
    pub zones: Vec<ZoneReport>,
    /// The kinds of zone of which rows have a part, in the order of [`ZoneKind::ALL`].
    pub kinds: Vec<KindReport>,
    /// What processes that ended without a record were charged; 0 at other levels than that of
    /// processes.
    pub unrecorded: Joules,
}

/// One zone in a window.
#[derive(Clone, Debug)]
pub struct ZoneReport {
    /// The zone.
    pub zone: Zone,
    /// Where its energy went in the window.
    pub account: ZoneAccount,
    /// Half-width of the relative error of its active energy; `None` where nothing was active.
    pub error_ratio: Option<f64>,
    /// The meter did not move in the window, although what it covers always uses power: the window is too
    /// short for it, and nothing is known.
    pub still: bool,
    /// Whether it could be read at the end.
    pub state: FeatureState,
    /// Why it is degraded.
    pub reason: Option<String>,
    /// Stretches of the window in which it could not be read, or its counter jumped.
    pub gaps: u64,
    /// How long these stretches were together, in nanoseconds.
    pub failed_ns: u64,
}

/// A kind of zone, over all sockets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindReport {
    /// Which.
    pub kind: ZoneKind,
    /// Its meter; of the zone that was found first where there are several.
    pub source: EnergySource,
    /// No other kind contains it, or those that do were not read all the time: what it has may be added up with other
    /// roots.
    pub root: bool,
}

impl EnergyReport {
    /// Of the window between two batches; `None` without a meter.
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
        // A zone that came within the window has only what was used since: no sum of rows is made of it, but where
        // there was no other.
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

    /// What was charged to rows, added up over the zones that rows have.
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

    /// Microjoules of a row over all kinds that do not contain each other.
    pub fn total_uj(&self, joules: &Joules) -> u64 {
        let roots = self.kinds.iter().filter(|kind| kind.root);
        roots.map(|kind| joules[kind.kind]).sum()
    }

    /// Whether every zone is the operator's model.
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

/// The kinds that rows are charged with, by the zones that have accounts: those are the first.
pub fn charged_kinds(zones: &[Zone], accounts: &[ZoneAccount]) -> Vec<KindReport> {
    charged_in_window(zones, accounts, |_| true)
}

/// The same in a window, whose accounts these are. `is_read`: whether a zone is read at its end.
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
    // Its meters have less than their parts together, so they were not read all the time, as that of a battery that
    // is charged: the parts say more. Nothing at all, of meters that are read, comes with their next step.
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
