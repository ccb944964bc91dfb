//! Continuous verdicts: judges each group in each window, against the group's own history.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noctule_model::{Batch, Level, Subject, VerdictKind};

use crate::command::RootUse;
use crate::report::Key;
use crate::{Baseline, Evidence, Party, ReportBuilder, Thresholds, WaitReport, WaitReportRow};

/// Options of a [`Judge`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeOptions {
    /// The level of the rows.
    pub level: Level,
    /// Length of a window, in nanoseconds. A window ends with the first batch at or after this
    /// time.
    pub window_ns: u64,
    /// Length of the history of a group, in nanoseconds.
    pub baseline_ns: u64,
    /// When a wait is long enough for a verdict.
    pub thresholds: Thresholds,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            level: Level::Container,
            window_ns: 10_000_000_000,
            baseline_ns: 300_000_000_000,
            thresholds: Thresholds::default(),
        }
    }
}

/// Interval at which batches are added to the window. Adding every batch would cost more.
///
/// Removed groups are listed for several seconds longer, so no group is missed. A culprit pair may
/// be dropped and reappear between two of these batches. If its new value is smaller, the judge
/// notices the reset. Otherwise the wait from before the reset stays unattributed.
const LOOK_NS: u64 = 4_000_000_000;

/// Minimum length of the first window for provisional verdicts.
const PROVISIONAL_NS: u64 = 1_000_000_000;

/// Minimum number of windows for a baseline.
const LEAST_WINDOWS: usize = 6;

/// Judges every group at the end of each window. The judge must observe every batch, in order.
#[derive(Clone, Debug)]
pub struct Judge {
    options: JudgeOptions,
    window: Option<ReportBuilder>,
    /// Processes of the root group in the window.
    root: RootUse,
    histories: HashMap<Key, History>,
    /// Verdicts of the last window, other than quiet; `None` before the first window ends.
    last: Option<HashMap<Subject, VerdictKind>>,
    /// Verdicts of the last window by row key. These verdicts add hysteresis to the thresholds.
    kinds: HashMap<Key, VerdictKind>,
}

#[derive(Clone, Debug, Default)]
struct History {
    /// 99th percentile and contended share of each window in which the group waited.
    windows: VecDeque<(u64, f64)>,
    seen_ns: u64,
}

impl Judge {
    /// Creates a judge without history.
    pub fn new(options: JudgeOptions) -> Self {
        Self {
            options,
            window: None,
            root: RootUse::default(),
            histories: HashMap::new(),
            last: None,
            kinds: HashMap::new(),
        }
    }

    /// Sets the verdict of each subject in the batch to its verdict in the last window. `level`
    /// must be [`Level::Container`].
    pub fn mark(&self, batch: &mut Batch) {
        let Some(last) = &self.last else { return };
        for row in &mut batch.subjects {
            let verdict = last.get(&row.subject).copied();
            row.verdict = Some(verdict.unwrap_or_default());
        }
    }

    /// Returns when the window in progress ends, in nanoseconds of the batches' clock.
    pub fn window_ends_ns(&self) -> Option<u64> {
        let window = self.window.as_ref()?;
        Some(window.started_ns() + self.options.window_ns)
    }

    /// Adds a batch. If the batch ends a window, returns the report of that window. Before the first window ends,
    /// returns provisional reports.
    pub fn observe(&mut self, batch: &Batch) -> Option<Arc<WaitReport>> {
        let Some(window) = &mut self.window else {
            self.window = Some(ReportBuilder::new(batch.without_processes()));
            self.root = RootUse::begin(batch);
            return None;
        };
        self.root.observe(batch);
        let length = batch.taken_ns.saturating_sub(window.started_ns());
        let ends = length >= self.options.window_ns;
        let provisional = !ends && self.last.is_none() && length >= PROVISIONAL_NS;
        let look = batch.taken_ns.saturating_sub(window.ended_ns()) >= LOOK_NS;
        if ends || provisional || look {
            window.add(batch.without_processes());
        }
        if !ends && !provisional {
            return None;
        }
        let mut report = window.waits(self.options.level, false, &self.options.thresholds);
        if provisional {
            self.root.name_in(&mut report, batch);
            report.provisional = true;
            return Some(Arc::new(report));
        }
        self.window = self
            .window
            .take()
            .map(|w| ReportBuilder::new(w.into_last()));
        let root = std::mem::replace(&mut self.root, RootUse::begin(batch));
        self.compare(&mut report, batch.taken_ns);
        root.name_in(&mut report, batch);
        let hurt = || {
            let rows = report.rows.iter();
            rows.filter(|row| row.verdict.kind != VerdictKind::Quiet)
        };
        let subjects = hurt().filter_map(|row| match &row.party {
            Party::Group(owner) => Some((owner.subject(), row.verdict.kind)),
            _ => None,
        });
        self.last = Some(subjects.collect());
        let key = |row: &WaitReportRow| (row.party.key(self.options.level), row.verdict.kind);
        self.kinds = hurt().map(key).collect();
        Some(Arc::new(report))
    }

    /// Judges each row again using its history, and then adds the row to that history.
    fn compare(&mut self, report: &mut WaitReport, now: u64) {
        let most = (self.options.baseline_ns / self.options.window_ns.max(1)).max(1) as usize;
        for row in &mut report.rows {
            let key = row.party.key(self.options.level);
            let before = self.kinds.get(&key).copied().unwrap_or_default();
            let history = self.histories.entry(key).or_default();
            row.judge(
                report.window_ns,
                history.baseline(),
                before,
                &self.options.thresholds,
            );
            history.learn(&row.verdict.evidence, most);
            history.seen_ns = now;
        }
        let over = self.options.baseline_ns;
        self.histories
            .retain(|_, history| now.saturating_sub(history.seen_ns) <= over);
    }
}

impl History {
    fn baseline(&self) -> Option<Baseline> {
        if self.windows.len() < LEAST_WINDOWS {
            return None;
        }
        let mut p99: Vec<u64> = self.windows.iter().map(|(p99, _)| *p99).collect();
        let mut share: Vec<f64> = self.windows.iter().map(|(_, share)| *share).collect();
        let middle = self.windows.len() / 2;
        Some(Baseline {
            p99_ns: *p99.select_nth_unstable(middle).1,
            contended_share: *share.select_nth_unstable_by(middle, f64::total_cmp).1,
        })
    }

    fn learn(&mut self, evidence: &Evidence, most: usize) {
        let Some(p99) = evidence.p99_ns else { return };
        let share = evidence.share(evidence.contended_ns());
        self.windows.push_back((p99, share));
        while self.windows.len() > most {
            self.windows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{
        Blame, BlameRow, Cause, CgroupId, CgroupRow, Counter, Group, Histogram, Owner, WaitRow,
    };

    use super::*;
    use crate::Rollup;

    const SECOND: u64 = 1_000_000_000;
    const VICTIM: CgroupId = CgroupId(7);

    /// Totals of the victim since the start: CPU time, and waits for another group.
    #[derive(Clone, Default)]
    struct Machine {
        at: u64,
        cpu_ns: u64,
        waits: Histogram,
        blame: Blame,
    }

    impl Machine {
        /// Adds one second: the victim runs for 0.9 s and waits `count` times for `wait_ns`.
        fn step(&mut self, count: u64, wait_ns: u64) -> Batch {
            self.at += SECOND;
            self.cpu_ns += SECOND / 10 * 9;
            let mut counts = vec![0; Histogram::BUCKETS];
            counts[Histogram::bucket(wait_ns)] = count;
            self.waits += &Histogram::from_counts(counts);
            self.blame.wait_ns += count * wait_ns;
            let mut victim = CgroupRow {
                id: VICTIM,
                ..CgroupRow::default()
            };
            victim.counters[Counter::CpuTime] = self.cpu_ns;
            victim.counters[Counter::Wait(Cause::Neighbour)] = self.blame.wait_ns;
            let group = Group::Cgroup(VICTIM);
            let culprit = Group::Cgroup(CgroupId(8));
            Batch {
                taken_ns: self.at,
                cgroups: vec![victim],
                waits: vec![WaitRow {
                    group,
                    histogram: self.waits.clone(),
                }],
                blames: vec![BlameRow {
                    victim: group,
                    culprit,
                    blame: self.blame,
                }],
                ..Batch::default()
            }
        }
    }

    fn judge() -> Judge {
        Judge::new(JudgeOptions {
            window_ns: SECOND,
            ..JudgeOptions::default()
        })
    }

    #[test]
    fn unusually_long_wait_is_reported_despite_a_small_share() {
        let (mut judge, mut machine) = (judge(), Machine::default());
        let kinds: Vec<VerdictKind> = (0..10)
            .map(|second| machine.step(10, if second < 9 { 100_000 } else { 4_000_000 }))
            .filter_map(|batch| judge.observe(&batch))
            .map(|report| report.rows[0].verdict.kind)
            .collect();
        assert_eq!(kinds[..8], [VerdictKind::Quiet; 8]);
        assert_eq!(kinds[8..], [VerdictKind::HurtByNeighbour]);
    }

    #[test]
    fn only_the_first_window_has_provisional_verdicts() {
        let mut judge = Judge::new(JudgeOptions {
            window_ns: 3 * SECOND,
            ..JudgeOptions::default()
        });
        let mut machine = Machine::default();
        let provisional: Vec<Option<bool>> = (0..8)
            .map(|_| judge.observe(&machine.step(100, 4_000_000)))
            .map(|report| report.map(|report| report.provisional))
            .collect();
        let expected = [None, Some(true), Some(true), Some(false), None, None];
        assert_eq!(provisional[..6], expected);
    }

    #[test]
    fn verdict_ends_with_the_first_quiet_window() {
        let (mut judge, mut machine) = (judge(), Machine::default());
        let kinds: Vec<VerdictKind> = [0, 100, 0, 0]
            .map(|waits| machine.step(waits, 4_000_000))
            .iter()
            .filter_map(|batch| judge.observe(batch))
            .map(|report| report.rows[0].verdict.kind)
            .collect();
        let quiet = VerdictKind::Quiet;
        assert_eq!(kinds, [VerdictKind::HurtByNeighbour, quiet, quiet]);
    }

    /// The row of a removed group is kept for minutes. Without this rule, its alert would fire for
    /// minutes after the removal.
    #[test]
    fn removed_group_is_quiet_from_the_next_window() {
        let mut judge = Judge::new(JudgeOptions {
            window_ns: 2 * SECOND,
            ..JudgeOptions::default()
        });
        let (mut rollup, mut machine) = (Rollup::new(300 * SECOND), Machine::default());
        let mut verdict = |batch: &mut Batch| {
            rollup.apply(batch);
            judge.observe(batch);
            judge.mark(batch);
            batch.subjects[0].verdict
        };
        let owner = Arc::new(Owner::unknown(VICTIM));
        let (hurt, quiet) = (VerdictKind::HurtByNeighbour, VerdictKind::Quiet);
        let mut last = Batch::default();
        for expected in [None, None, Some(hurt), Some(hurt)] {
            last = machine.step(100, 4_000_000);
            last.cgroups[0].owner = Some(owner.clone());
            assert_eq!(verdict(&mut last), expected);
        }
        // The group is removed in the middle of a window in which it was hurt. The row of the group
        // is kept for a while.
        for expected in [hurt, hurt, quiet, quiet] {
            last.taken_ns += SECOND;
            assert_eq!(verdict(&mut last), Some(expected));
        }
        for _ in 0..3 {
            let taken_ns = last.taken_ns + SECOND;
            last = Batch {
                taken_ns,
                ..Batch::default()
            };
            assert_eq!(verdict(&mut last), Some(quiet));
        }
    }

    #[test]
    fn usual_waits_stay_quiet() {
        let (mut judge, mut machine) = (judge(), Machine::default());
        for _ in 0..10 {
            if let Some(report) = judge.observe(&machine.step(10, 4_000_000)) {
                assert_eq!(report.rows[0].verdict.kind, VerdictKind::Quiet);
            }
        }
    }

    #[test]
    fn removed_group_is_forgotten_with_its_history() {
        let (mut judge, mut machine) = (judge(), Machine::default());
        (0..3).for_each(|_| drop(judge.observe(&machine.step(10, 100_000))));
        assert_eq!(judge.histories.len(), 1);
        let empty = |at| Batch {
            taken_ns: at,
            ..Batch::default()
        };
        judge.observe(&empty(400 * SECOND));
        assert!(judge.histories.is_empty());
    }
}
