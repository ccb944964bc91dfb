//! Merges culprits with a common ancestor, such as short jobs that each run in their own cgroup.

use std::collections::HashMap;

use super::WaitReportRow;
use crate::party::{Party, is_below};

/// Minimum number of groups to merge. Fewer groups are named one by one.
const MANY: usize = 5;

/// Returns the deepest common ancestor of many culprits, and the wait that they caused. The
/// ancestor and its descendants must have caused at least `share` of the wait for the groups that
/// `is_meant` accepts. The result is never an ancestor of the row itself.
pub(super) fn of_many(
    row: &WaitReportRow,
    share: f64,
    is_meant: impl Fn(&Party) -> bool,
) -> Option<(Party, u64)> {
    let victim = match &row.party {
        Party::Group(owner) => owner.path.as_str(),
        _ => "",
    };
    let mut sums: HashMap<&str, (usize, u64)> = HashMap::new();
    let mut all = 0;
    for culprit in row.culprits.iter().filter(|c| is_meant(&c.party)) {
        match &culprit.party {
            Party::Kernel => continue,
            Party::Group(owner) => {
                let own = (owner.path.as_str(), 0);
                let families = parents(&owner.path).map(|above| (above, 1)).chain([own]);
                for (above, job) in families.filter(|(above, _)| !is_below(victim, above)) {
                    let sum = sums.entry(above).or_default();
                    *sum = (sum.0 + job, sum.1 + culprit.blame.wait_ns);
                }
            }
            Party::Command | Party::Below { .. } | Party::Unnamed => {}
        }
        all += culprit.blame.wait_ns;
    }
    let most = sums
        .into_iter()
        .filter(|(_, (groups, ns))| *groups >= MANY && *ns as f64 >= share * all as f64)
        .max_by_key(|(path, (_, ns))| (path.len(), *ns, *path));
    most.map(|(path, (groups, ns))| {
        let path = path.to_owned();
        (Party::Below { path, groups }, ns)
    })
}

/// Yields the ancestors of a path, except the root.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    ends.filter(|at| *at > 0).map(|at| &path[..at])
}
