//! Adds up the waits that each group caused to others.

use std::cmp::Ordering;
use std::collections::HashMap;

use noctule_model::Level;

use super::{Hurts, WaitReportRow};
use crate::party::Party;
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
            // If two victims waited equally long, the first by name is selected, so that a
            // recording gives the same result as the live window.
            let is_more = |(party, most): &(Party, u64)| match ns.cmp(most) {
                Ordering::Equal => victim.party.name(level) < party.name(level),
                order => order == Ordering::Greater,
            };
            if ns > 0 && hurts.most.as_ref().is_none_or(is_more) {
                hurts.most = Some((victim.party.clone(), ns));
            }
        }
    }
    Sums(sums)
}

impl Sums {
    /// Moves each sum into the row of its culprit.
    pub(super) fn note(mut self, rows: &mut [WaitReportRow], level: Level) {
        for row in rows {
            row.hurts = self.0.remove(&row.party.key(level)).unwrap_or_default();
        }
    }
}
