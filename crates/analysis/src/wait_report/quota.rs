//! The quota that held a group back.

use noctule_model::{QuotaRow, QuotaUse};

use super::Party;
use super::parent::is_below;

/// The quota of the group, of one above it or of one inside it that throttled for longest in the
/// window.
pub(super) fn of(party: &Party, first: &[QuotaRow], last: &[QuotaRow]) -> Option<QuotaUse> {
    let Party::Group(owner) = party else {
        return None;
    };
    let before = |row: &QuotaRow| first.iter().find(|b| b.cgroup == row.cgroup);
    // Every group is inside the root group, whose row has the processes of none of them.
    let inside = |row: &QuotaRow| owner.path != "/" && is_below(&row.path, &owner.path);
    let concerns = |row: &&QuotaRow| is_below(&owner.path, &row.path) || inside(row);
    let grown = last.iter().filter(concerns).map(|row| {
        let before = before(row);
        let since = |now: u64, then: fn(&QuotaRow) -> u64| {
            // Of one that was not read at the beginning it is not known what belongs to the window.
            before.map_or(0, |before| now.saturating_sub(then(before)))
        };
        let throttled_ns = match before {
            Some(before) => row.throttled_ns.saturating_sub(before.throttled_ns),
            None => row.throttled_ns,
        };
        let quota = QuotaUse {
            cpus: row.cpus,
            group: (row.path != owner.path).then(|| row.path.clone()),
            periods: since(row.periods, |b| b.periods),
            throttled_periods: since(row.throttled_periods, |b| b.throttled_periods),
        };
        (throttled_ns, quota)
    });
    let most = grown.max_by_key(|(throttled_ns, _)| *throttled_ns);
    most.filter(|(throttled_ns, _)| *throttled_ns > 0)
        .map(|(_, quota)| quota)
}
