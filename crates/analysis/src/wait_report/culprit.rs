//! Selects the culprit to name for a row.

use noctule_model::VerdictKind;

use super::WaitReportRow;
use crate::party::Party;

impl WaitReportRow {
    /// Returns the culprit of the verdict. If the verdict has none, returns the party that caused
    /// most of the wait, unless it caused less than 1%. If a quota binds, only parties that share
    /// the quota are candidates. Returns `None` if the group holds itself back or the CPU is not
    /// the cause, because then the other parties are not to blame.
    pub fn main_culprit(&self) -> Option<&Party> {
        let bound = self.verdict.kind == VerdictKind::QuotaAndNeighbours
            && self.verdict.evidence.quota_binds;
        let mut culprits = self.culprits.iter();
        let most = culprits.find(|it| !bound || self.uses_limit(&it.party));
        let kind = self.verdict.kind;
        let most = most.filter(|_| !kind.is_own() && !kind.is_stall());
        let most = most.filter(|it| self.is_worth_naming(it.blame.wait_ns));
        self.verdict.culprit.as_ref().or(most.map(|it| &it.party))
    }

    /// Returns the path of the group whose weight matters to the row. This group is the main
    /// culprit or, if its path is unknown, the first other culprit that is worth naming.
    pub fn rival(&self) -> Option<&str> {
        let main = self.main_culprit()?;
        let others = self.culprits.iter();
        let others = others.filter(|it| self.is_worth_naming(it.blame.wait_ns));
        let mut parties = std::iter::once(main).chain(others.map(|it| &it.party));
        parties.find_map(|party| match party {
            Party::Group(owner) => Some(owner.path.as_str()),
            Party::Below { path, .. } => Some(path.as_str()),
            _ => None,
        })
    }

    /// Returns the paths of the group and of its main culprit, if both have one.
    pub fn paths(&self) -> Option<(&str, &str)> {
        match &self.party {
            Party::Group(owner) => Some((&owner.path, self.rival()?)),
            _ => None,
        }
    }

    /// Returns how long the row waited for the main culprit, in nanoseconds.
    pub fn main_culprit_ns(&self) -> Option<u64> {
        let main = self.main_culprit()?;
        if let Party::Below { .. } = main {
            return Some(self.verdict.evidence.top_culprit_ns);
        }
        let mut culprits = self.culprits.iter();
        Some(culprits.find(|it| it.party == *main)?.blame.wait_ns)
    }
}
