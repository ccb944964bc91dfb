//! Energy of the zones and of the rows, in joules.

use noctule_analysis::{KindReport, charged_kinds};
use noctule_model::{Batch, Metric, Zone, ZoneAccount};

use super::snapshot::Rows;
use super::text::Value;
use super::writer::Writer;

/// The energy that a scrape shows; empty if the machine has no power sensor.
#[derive(Clone, Debug, Default)]
pub(super) struct Energy {
    /// The kinds of zone that are charged to rows.
    pub(super) kinds: Vec<KindReport>,
    /// The energy of each zone. The dies of a socket are summed, because labels do not distinguish
    /// them.
    pub(super) zones: Vec<ZoneLine>,
}

/// The zones of one kind, socket and source.
#[derive(Clone, Debug)]
pub(super) struct ZoneLine {
    /// Values of the labels `zone`, `socket` and `source`.
    pub(super) labels: [String; 3],
    /// Microjoules, by the account to which they were charged.
    pub(super) parts: [(&'static str, u64); 5],
    pub(super) error_ratio: Option<f64>,
}

impl Energy {
    pub(super) fn of(batch: &Batch) -> Self {
        let Some(energy) = &batch.energy else {
            return Self::default();
        };
        let mut zones: Vec<ZoneLine> = Vec::new();
        for (zone, account) in energy.zones.iter().zip(&batch.zone_accounts) {
            let line = ZoneLine::new(zone, account);
            match zones.iter_mut().find(|known| known.labels == line.labels) {
                Some(known) => known.add(&line),
                None => zones.push(line),
            }
        }
        Self {
            kinds: charged_kinds(&energy.zones, &batch.zone_accounts),
            zones,
        }
    }
}

impl ZoneLine {
    fn new(zone: &Zone, account: &ZoneAccount) -> Self {
        Self {
            labels: [
                zone.kind.name().to_owned(),
                zone.socket
                    .map_or_else(String::new, |socket| socket.to_string()),
                zone.source.name().to_owned(),
            ],
            parts: account.parts(),
            error_ratio: account.error_ratio,
        }
    }

    fn add(&mut self, other: &Self) {
        for (part, (_, uj)) in self.parts.iter_mut().zip(other.parts) {
            part.1 += uj;
        }
        let ratios = [self.error_ratio, other.error_ratio];
        self.error_ratio = ratios.into_iter().flatten().reduce(f64::max);
    }
}

/// Writes the energy that was charged to the rows of a level.
pub(super) fn rows(text: &mut Writer, level: &Rows<'_>, metric: &Metric, energy: &Energy) {
    if energy.kinds.is_empty() {
        return;
    }
    text.family(level.name, metric);
    for line in level.lines {
        for kind in &energy.kinds {
            let values = [kind.kind.name(), kind.source.name()];
            let value = Value::Microjoules(line.figures.joules[kind.kind]);
            text.sample(line.born, &line.labels, (metric.labels, &values), value);
        }
    }
}
