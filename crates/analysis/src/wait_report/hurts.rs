//! Adds up the waits that each group caused to others.

use std::collections::HashMap;

use noctule_model::Level;

use super::{Hurts, WaitReportRow};
use crate::report::Key;

/// Sums by culprit.
pub(super) struct Sums(HashMap<Key, Hurts>);

/// Adds up the waits of these victims for each culprit.
pub(super) fn of(victims: &[WaitReportRow], level: Level) -> Sums {
    let mut sums: HashMap<Key, Hurts> = HashMap::new();
    for victim in victims {
        for culprit in &victim.culprits {
            let ns = culprit.blame.wait_ns;
            let hurts = sums.entry(culprit.party.key(level)).or_default();
            hurts.wait_ns += ns;
            if ns > hurts.most.as_ref().map_or(0, |(_, most)| *most) {
                hurts.most = Some((victim.party.clone(), ns));
            }
        }
    }
    Sums(sums)
}

impl Sums {
    /// Stores the sums in the rows of the culprits.
    pub(super) fn note(mut self, rows: &mut [WaitReportRow], level: Level) {
        for row in rows {
            row.hurts = self.0.remove(&row.party.key(level)).unwrap_or_default();
        }
    }
}
