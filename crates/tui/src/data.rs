//! Batches from the agent, prepared for display.

pub(crate) mod commands;
pub(crate) mod cpus;
pub(crate) mod history;
pub(crate) mod level;
pub(crate) mod waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{Detail, EnergyReport, ReportBuilder, Row, Selection, Thresholds};
use noctule_model::{
    AgentCost, Batch, CgroupId, CgroupRow, Counter, Counters, Feature, FeatureId, FeatureState,
    Joules, Level, Loss, Measured, Node, Owner, ProcessId, ProcessRow,
};
use noctule_text::escape;

use crate::data::cpus::Cpus;
use crate::data::history::{History, LENGTH, Used};
use crate::data::level::{Key, LEVELS};
use crate::data::waits::Waits;

/// The only key in the history of the node.
const NODE: Key = Key::Path(String::new());

/// One value per level.
type Rows<R> = [Vec<R>; LEVELS.len()];

/// All data that is derived from the batches up to one moment. A pause keeps a second copy.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The newest batch, without the processes that ended. The next window starts with it, and the
    /// tree looks up idle parents in it.
    pub(crate) last: Option<Batch>,
    /// The newest window; `None` until the second batch.
    pub(crate) window: Option<Window>,
    /// Waits of every group.
    pub(crate) waits: Waits,
    /// Use of each CPU.
    pub(crate) cpus: Cpus,
    selection: Selection,
    histories: [History; LEVELS.len()],
    node: History,
    losses: HashMap<(&'static str, &'static str), Losing>,
}

#[derive(Clone, Copy, Debug)]
struct Losing {
    count: u64,
    /// Number of windows since the loss last grew, at most [`LENGTH`].
    quiet: usize,
}

/// A warning for the whole screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) words: String,
    /// Whether data was lost within the last minute. Otherwise the warning is only about features.
    pub(crate) is_losing: bool,
}

/// The difference between two batches.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Length in nanoseconds.
    pub(crate) length_ns: u64,
    /// End of the window, in nanoseconds since 1970.
    pub(crate) time_unix_ns: u64,
    /// Boot time of the machine, in nanoseconds since 1970.
    pub(crate) boot_unix_ns: u64,
    /// Totals of the node in the window.
    pub(crate) node: Node,
    /// Which counters are measured.
    pub(crate) measured: Measured,
    /// Energy in the window by zone and its attribution; `None` without a meter.
    pub(crate) energy: Option<EnergyReport>,
    /// Cost of the agent in the window.
    pub(crate) agent: Agent,
    rows: Rows<Arc<Row>>,
}

/// Cost of the agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent {
    /// Share of one CPU in the window, in percent.
    pub(crate) cpu_percent: f64,
    /// Resident memory, in bytes.
    pub(crate) resident_bytes: u64,
    /// Average run time of a BPF program since the agent started; `None` if not measured. This is
    /// not an average over one window, because only some windows are measured.
    pub(crate) run_ns: Option<f64>,
}

impl Data {
    /// Creates an empty `Data`. `interval` is the time between two batches.
    pub(crate) fn new(interval: Duration, thresholds: Thresholds, selection: Selection) -> Self {
        Self {
            last: None,
            window: None,
            waits: Waits::new(interval, thresholds, selection.clone()),
            cpus: Cpus::default(),
            selection,
            histories: Default::default(),
            node: History::default(),
            losses: HashMap::new(),
        }
    }

    /// Adds the next batch. Every batch must be passed, in order.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.watch_losses(&batch.losses);
        self.waits.observe(&batch);
        let Some(previous) = self.last.take() else {
            self.keep_rows(&batch);
            self.last = Some(batch);
            return;
        };
        self.cpus.record(&previous, &batch);
        let agent_before_ns = previous.agent.cpu_ns;
        let detail = match self.selection.pids() {
            [] => Detail::Processes,
            _ => Detail::Trees,
        };
        let builder = ReportBuilder::new(previous).with(detail);
        let mut builder = builder.select(self.selection.clone());
        builder.add(batch);
        // All levels are computed, not only the visible one, so that another level has a full
        // minute of history when the user switches to it. The cost is five passes over the batch.
        let mut reports = LEVELS.map(|level| builder.report(level, false));
        let fresh: Rows<Row> = std::array::from_fn(|i| std::mem::take(&mut reports[i].rows));
        let [head, ..] = reports;
        self.waits.window(&builder);
        let batch = builder.into_last();
        let old = self.window.take().map(|window| window.rows);
        let sequence = batch.sequence;
        self.remember_node(sequence, &head.node);
        self.window = Some(Window {
            length_ns: head.window_ns,
            time_unix_ns: head.time_unix_ns,
            boot_unix_ns: head.boot_unix_ns,
            node: head.node,
            measured: head.measured,
            energy: head.energy,
            agent: Agent::new(&batch.agent, agent_before_ns, head.window_ns),
            rows: self.merge(
                sequence,
                fresh,
                old.unwrap_or_default(),
                &Present::new(&batch),
                head.window_ns,
            ),
        });
        self.keep_rows(&batch);
        self.last = Some(batch);
    }

    /// Records which rows exist.
    fn keep_rows(&mut self, batch: &Batch) {
        for (history, level) in self.histories.iter_mut().zip(LEVELS) {
            if level == Level::Process {
                let processes = batch.processes.iter();
                history.keep(processes.map(|row| Key::Process(row.id)));
            } else {
                let owners = batch.cgroups.iter().filter_map(|row| row.owner.as_ref());
                history.keep(owners.map(|owner| level::owner_key(owner, level)));
            }
        }
    }

    /// Records the rows of the window at every level, and adds rows that were idle in it.
    fn merge(
        &mut self,
        sequence: u64,
        fresh: Rows<Row>,
        old: Rows<Arc<Row>>,
        still: &Present<'_>,
        ns: u64,
    ) -> Rows<Arc<Row>> {
        let mut merged: Rows<Arc<Row>> = Rows::default();
        for (i, (fresh, old)) in fresh.into_iter().zip(old).enumerate() {
            let level = LEVELS[i];
            let used = |row: &Row| Used {
                key: level::key(row, level),
                cpus: row.counters[Counter::CpuTime] as f32 / ns.max(1) as f32,
                ended: row.process.as_ref().is_some_and(|process| process.exited),
            };
            self.histories[i].record(sequence, fresh.iter().map(used));
            merged[i] = fresh.into_iter().map(Arc::new).collect();
            let idle = idle_rows(level, &old, &merged[i], &self.histories[i], still);
            merged[i].extend(idle);
        }
        merged
    }

    /// Returns the rows that still exist and used CPU time within the last minute.
    pub(crate) fn rows(&self, level: Level) -> &[Arc<Row>] {
        self.window
            .as_ref()
            .map_or(&[], |window| &window.rows[level::index(level)])
    }

    /// Returns the last minute of each row of a level.
    pub(crate) fn history(&self, level: Level) -> &History {
        &self.histories[level::index(level)]
    }

    /// Returns the busy share of the node over the last minute, 0 to 1, oldest first.
    pub(crate) fn node_minute(&self, columns: usize) -> Vec<Option<f32>> {
        self.node
            .squeeze(&self.node.minute([&NODE]), columns.min(LENGTH))
    }

    /// Summarizes losses within the last minute, and features that a change on this machine can
    /// enable. Returns `None` if there are none.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let mut losing: Vec<_> = self
            .losses
            .iter()
            .filter(|(_, losing)| losing.quiet < LENGTH)
            .collect();
        losing.sort_by_key(|(place, _)| **place);
        let losing = losing.into_iter();
        let mut words: Vec<String> = losing
            .map(|((kind, _), losing)| format!("losing {kind} ({})", losing.count))
            .collect();
        let is_losing = !words.is_empty();
        let features = self.last.iter().flat_map(|batch| batch.features.iter());
        for feature in features.filter(|feature| feature.is_fixable_here()) {
            words.push(format!("{} {}", feature.id, feature.state.name()));
        }
        (!words.is_empty()).then(|| Warning {
            words: words.join(", "),
            is_losing,
        })
    }

    /// Returns the status of a feature, if the agent reports it.
    pub(crate) fn feature(&self, id: FeatureId) -> Option<&Feature> {
        let mut features = self.last.iter().flat_map(|batch| batch.features.iter());
        features.find(|feature| feature.id == id)
    }

    /// Explains why a figure is not measured; `None` if it is measured. The text is escaped.
    pub(crate) fn not_measured(&self, what: &str, id: FeatureId) -> Option<String> {
        let off = self.feature(id).filter(|it| it.state == FeatureState::Off);
        let Feature { reason, mend, .. } = off?;
        let explanation = match mend.is_empty() {
            true => format!("{what} is not measured here: {reason}"),
            false => format!("{what} is not measured here: {reason}; {mend}"),
        };
        Some(escape(&explanation))
    }

    fn watch_losses(&mut self, losses: &[Loss]) {
        for loss in losses {
            let known = self.losses.entry((loss.kind, loss.place));
            // There is no warning about losses before the first batch; `noctule doctor` lists them.
            let losing = known.or_insert(Losing {
                count: loss.count,
                quiet: LENGTH,
            });
            losing.quiet = match loss.count > losing.count {
                true => 0,
                false => LENGTH.min(losing.quiet + 1),
            };
            losing.count = loss.count;
        }
    }

    fn remember_node(&mut self, sequence: u64, node: &Node) {
        let busy = node.total[Counter::CpuTime] as f32 / node.elapsed_ns.max(1) as f32;
        let used = Used {
            key: NODE,
            cpus: busy,
            ended: false,
        };
        self.node.record(sequence, [used]);
    }
}

impl Agent {
    fn new(cost: &AgentCost, before_ns: u64, window_ns: u64) -> Self {
        let used = cost.cpu_ns.saturating_sub(before_ns) as f64;
        let run_ns = cost.programs.as_ref().and_then(|programs| {
            let runs: u64 = programs.iter().map(|program| program.runs).sum();
            let time: u64 = programs.iter().map(|program| program.run_ns).sum();
            (runs > 0).then(|| time as f64 / runs as f64)
        });
        Self {
            cpu_percent: used / window_ns.max(1) as f64 * 100.0,
            resident_bytes: cost.resident_bytes,
            run_ns,
        }
    }
}

/// Processes and cgroups that the newest batch lists.
struct Present<'a> {
    processes: HashMap<ProcessId, &'a ProcessRow>,
    owners: HashMap<CgroupId, &'a Arc<Owner>>,
}

impl<'a> Present<'a> {
    fn new(batch: &'a Batch) -> Self {
        let owner = |row: &'a CgroupRow| Some((row.id, row.owner.as_ref()?));
        Self {
            processes: batch.processes.iter().map(|row| (row.id, row)).collect(),
            owners: batch.cgroups.iter().filter_map(owner).collect(),
        }
    }

    /// Refreshes an idle row of the previous window. An idle process can still change its cgroup or
    /// lose its parent, and the name of an idle container can arrive. Returns `None` if the row no
    /// longer exists.
    fn refresh(&self, row: &Row) -> Option<Row> {
        let (process, owner) = match &row.process {
            Some(process) if process.exited => return None,
            Some(process) => {
                let now = *self.processes.get(&process.id)?;
                (Some(now.clone()), now.owner.as_ref())
            }
            None => (None, Some(*self.owners.get(&row.owner.cgroup)?)),
        };
        Some(Row {
            process,
            command: None,
            owner: Arc::clone(owner.unwrap_or(&row.owner)),
            counters: Counters::default(),
            joules: Joules::default(),
            packages: noctule_model::ByPackage::default(),
            events: None,
        })
    }
}

/// Returns the rows of the previous window that were idle in this one. Such rows are kept for a
/// minute with zeros, because a table whose rows come and go with each pause is unreadable.
fn idle_rows(
    level: Level,
    old: &[Arc<Row>],
    fresh: &[Arc<Row>],
    history: &History,
    present: &Present<'_>,
) -> Vec<Arc<Row>> {
    let busy: HashSet<Key> = fresh.iter().map(|row| level::key(row, level)).collect();
    let paused = |row: &Arc<Row>| {
        let key = level::key(row, level);
        !busy.contains(&key) && history.was_active(&key)
    };
    let rows = old.iter().filter(|row| paused(row));
    rows.filter_map(|row| present.refresh(row).map(Arc::new))
        .collect()
}
