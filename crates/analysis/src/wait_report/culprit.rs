//! Which group is named as the one behind whom another waited.

use super::{Party, WaitReportRow};

impl WaitReportRow {
    /// The one that the verdict names; else the one that had the CPU for most of the wait, unless that was
    /// below 1% of it. Nobody where the group does it to itself: who else had the CPU is not what holds it.
    pub fn main_culprit(&self) -> Option<&Party> {
        let most = self.culprits.first();
        let most = most.filter(|_| !self.verdict.kind.is_own());
        let most =
            most.filter(|it| it.blame.wait_ns > 0 && it.blame.wait_ns * 100 >= self.total_ns());
        self.verdict.culprit.as_ref().or(most.map(|it| &it.party))
    }
}
