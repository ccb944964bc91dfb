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
}

/// A kind of zone, over all sockets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindReport {
    /// Which.
    pub kind: ZoneKind,
    /// Its meter; of the zone that was found first where there are several.
    pub source: EnergySource,
    /// No other kind contains it: what it has may be added up with other roots.
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
            let gaps = first.energy.as_ref().and_then(|e| e.readings.get(place));
            ZoneReport::new(
                &energy.zones[place],
                last.zone_accounts[place].since(before),
                &energy.readings[place],
                gaps.map_or(0, |reading| reading.gaps),
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
            kinds: charged_kinds(&energy.zones, &accounts),
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
    fn new(zone: &Zone, account: ZoneAccount, reading: &ZoneReading, gaps: u64) -> Self {
        Self {
            error_ratio: account.relative_error(zone.resolution_uj),
            still: account.total_uj == 0
                && zone.kind.always_moves()
                && reading.state == FeatureState::On,
            zone: zone.clone(),
            account,
            state: reading.state,
            reason: reading.reason.as_ref().map(ToString::to_string),
            gaps: reading.gaps.saturating_sub(gaps),
        }
    }
}

/// The kinds that rows are charged with, by the zones that have accounts of the window: those are the first.
pub fn charged_kinds(zones: &[Zone], accounts: &[ZoneAccount]) -> Vec<KindReport> {
    let charged = Charged { zones, accounts };
    let of_kind = |kind: ZoneKind| {
        let places = 0..zones.len();
        places.filter(move |&place| {
            zones[place].kind == kind && counts_in_rows(place, zones) && charged.driven(place)
        })
    };
    let kinds = ZoneKind::ALL.into_iter();
    kinds
        .filter_map(|kind| {
            let source = of_kind(kind).map(|place| zones[place].source).next()?;
            let root = of_kind(kind).all(|place| charged.is_root(place));
            Some(KindReport { kind, source, root })
        })
        .collect()
}

/// Zones, and what was charged of those that have accounts.
#[derive(Clone, Copy)]
struct Charged<'a> {
    zones: &'a [Zone],
    accounts: &'a [ZoneAccount],
}

impl Charged<'_> {
    fn driven(self, place: usize) -> bool {
        let account = self.accounts.get(place);
        account.is_some_and(|account| account.driver != Driver::Nothing)
    }

    /// Whether it has less than its parts together. Its meter was not read all the time, as that of a battery that
    /// is charged: the parts say more.
    fn has_missed(self, place: usize) -> bool {
        let is_part =
            |at: &usize| self.zones[*at].parent == Some(place) && counts_in_rows(*at, self.zones);
        let parts = (0..self.accounts.len()).filter(is_part);
        let parts_uj: u64 = parts.map(|at| self.accounts[at].total_uj).sum();
        self.accounts[place].total_uj < parts_uj
    }

    /// Whether rows are charged with all that it has by this zone, and by none that contains it.
    fn is_root(self, place: usize) -> bool {
        let takes = |place| self.driven(place) && !self.has_missed(place);
        let around = std::iter::successors(self.zones[place].parent, |&at| self.zones[at].parent);
        !self.has_missed(place) && !around.take(self.zones.len()).any(takes)
    }
}
