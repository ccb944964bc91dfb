//! What each group does to others.

use std::collections::HashMap;

use noctule_model::Level;

use super::{Hurts, WaitReportRow};
use crate::report::Key;

/// Adds up, for each row, what the others waited behind it.
pub(super) fn fill(rows: &mut [WaitReportRow], level: Level) {
    let mut sums: HashMap<Key, Hurts> = HashMap::new();
    for victim in rows.iter() {
        for culprit in &victim.culprits {
            let ns = culprit.blame.wait_ns;
            let hurts = sums.entry(culprit.party.key(level)).or_default();
            hurts.wait_ns += ns;
            if ns > hurts.most.as_ref().map_or(0, |(_, most)| *most) {
                hurts.most = Some((victim.party.clone(), ns));
            }
        }
    }
    for row in rows {
        row.hurts = sums.remove(&row.party.key(level)).unwrap_or_default();
    }
}
