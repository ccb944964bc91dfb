//! Windows with verdicts about containers whose names are not known yet.
//!
//! A verdict is sent once and cannot be corrected, so it waits for the names, as events do.

use std::collections::VecDeque;
use std::sync::Arc;

use noctule_analysis::{Party, WaitReport};
use noctule_model::{CgroupId, Owner};

use super::{SETTLE, is_settled};

/// Queued windows, in order.
#[derive(Default)]
pub(super) struct Verdicts(VecDeque<Window>);

pub(super) struct Window {
    pub(super) report: Arc<WaitReport>,
    /// Time at which the window ended, in nanoseconds since 1970.
    pub(super) time_unix_ns: u64,
    /// `CLOCK_MONOTONIC` at which the window was added.
    came_ns: u64,
}

impl Verdicts {
    pub(super) fn push(&mut self, report: Arc<WaitReport>, time_unix_ns: u64, now_ns: u64) {
        self.0.push_back(Window {
            report,
            time_unix_ns,
            came_ns: now_ns,
        });
    }

    /// Returns, in order, the first windows whose names are all known or that have waited long
    /// enough. `owner` returns the current owner of a group.
    pub(super) fn settled(
        &mut self,
        now_ns: u64,
        mut owner: impl FnMut(CgroupId) -> Arc<Owner>,
    ) -> Vec<Window> {
        let mut settled = Vec::new();
        while let Some(first) = self.0.front_mut() {
            let is_named = name(&mut first.report, &mut owner);
            let waits = now_ns.saturating_sub(first.came_ns) < SETTLE.as_nanos() as u64;
            if waits && !is_named {
                break;
            }
            settled.extend(self.0.pop_front());
        }
        settled
    }

    pub(super) fn rest(&mut self) -> Vec<Window> {
        self.0.drain(..).collect()
    }
}

/// Looks up missing names, and returns whether all are known.
fn name(report: &mut Arc<WaitReport>, mut owner: impl FnMut(CgroupId) -> Arc<Owner>) -> bool {
    let is_unnamed = |party: &Party| matches!(party, Party::Group(owner) if !is_settled(owner));
    if !report.blamed().any(is_unnamed) {
        return true;
    }
    let mut all = true;
    for party in Arc::make_mut(report).blamed_mut() {
        if let Party::Group(known) = party
            && !is_settled(known)
        {
            *known = owner(known.cgroup);
            all &= is_settled(known);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use noctule_analysis::{Culprit, Verdict, WaitReportRow};
    use noctule_model::{Blame, Container, ContainerRole, Measured, Runtime, VerdictKind};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const CONTAINER: CgroupId = CgroupId(7);

    fn container(name: Option<&str>) -> Arc<Owner> {
        Arc::new(Owner {
            container: Some(Container {
                id: "abc".to_owned(),
                runtime: Runtime::Docker,
                role: ContainerRole::Workload,
                name: name.map(str::to_owned),
                image: None,
                chain: Vec::new(),
            }),
            ..Owner::unknown(CONTAINER)
        })
    }

    /// Returns a window in which a group without a container waited for an unnamed container.
    fn window(kind: VerdictKind) -> Arc<WaitReport> {
        let culprit = Party::Group(container(None));
        let waiting = Party::Group(Arc::new(Owner::unknown(CgroupId(3))));
        let row = WaitReportRow {
            culprits: vec![Culprit {
                party: culprit.clone(),
                blame: Blame::default(),
            }],
            verdict: Verdict {
                kind,
                culprit: Some(culprit),
                ..Verdict::default()
            },
            ..WaitReportRow::quiet(waiting)
        };
        Arc::new(WaitReport {
            window_ns: SECOND,
            from_unix_ns: 0,
            time_unix_ns: SECOND,
            cpus: 1,
            provisional: false,
            rows: vec![row],
            disks: None,
            measured: Measured::default(),
            losses: Vec::new(),
            features: Vec::new().into(),
        })
    }

    fn names(report: &WaitReport) -> Vec<String> {
        let level = noctule_model::Level::Container;
        report.blamed().map(|party| party.name(level)).collect()
    }

    #[test]
    fn a_verdict_waits_for_the_name_of_its_culprit() {
        let mut verdicts = Verdicts::default();
        verdicts.push(window(VerdictKind::HurtByNeighbour), 5, SECOND);
        verdicts.push(window(VerdictKind::Quiet), 6, SECOND);
        // Later windows also wait, because each is compared with the previous one.
        assert!(verdicts.settled(SECOND, |_| container(None)).is_empty());
        let settled = verdicts.settled(2 * SECOND, |id| {
            assert_eq!(id, CONTAINER);
            container(Some("web"))
        });
        let times: Vec<u64> = settled.iter().map(|window| window.time_unix_ns).collect();
        assert_eq!(times, [5, 6]);
        let named = names(&settled[0].report);
        assert_eq!(
            named.iter().filter(|name| *name == "web").count(),
            2,
            "{named:?}"
        );
        assert!(verdicts.rest().is_empty());
    }

    #[test]
    fn verdict_waits_no_longer_than_an_event() {
        let mut verdicts = Verdicts::default();
        verdicts.push(window(VerdictKind::HurtByNeighbour), 5, SECOND);
        let settle = SETTLE.as_nanos() as u64;
        let before = verdicts.settled(SECOND + settle - 1, |_| container(None));
        assert!(before.is_empty());
        let after = verdicts.settled(SECOND + settle, |_| container(None));
        assert_eq!(after.len(), 1);
    }
}
