//! Which group is named as the one behind whom another waited.

use noctule_model::VerdictKind;

use super::{Party, WaitReportRow};

impl WaitReportRow {
    /// The one that the verdict names; else the one that had the CPU for most of the wait, of those that use
    /// the limit where that binds, unless that was below 1% of it. Nobody where the group does it to itself: who
    /// else had the CPU is not what holds it.
    pub fn main_culprit(&self) -> Option<&Party> {
        let bound = self.verdict.kind == VerdictKind::QuotaAndNeighbours
            && self.verdict.evidence.quota_binds;
        let mut culprits = self.culprits.iter();
        let most = culprits.find(|it| !bound || self.uses_limit(&it.party));
        let most = most.filter(|_| !self.verdict.kind.is_own());
        let most = most.filter(|it| self.is_worth_naming(it.blame.wait_ns));
        self.verdict.culprit.as_ref().or(most.map(|it| &it.party))
    }

    /// The group whose weight counts beside that of the row: that one, or the first that is worth naming where that
    /// one has no path.
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

    /// How long the row waited behind that one, or behind all of many, nanoseconds.
    pub fn main_culprit_ns(&self) -> Option<u64> {
        let main = self.main_culprit()?;
        if let Party::Below { .. } = main {
            return Some(self.verdict.evidence.top_culprit_ns);
        }
        let mut culprits = self.culprits.iter();
        Some(culprits.find(|it| it.party == *main)?.blame.wait_ns)
    }
}
