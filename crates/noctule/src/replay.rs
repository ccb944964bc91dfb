//! Turns the batches of a recording into the snapshots of `/metrics`, as the agent does.

use std::sync::Arc;

use anyhow::Result;
use noctule_analysis::{Judge, Rollup, WaitReport};
use noctule_model::Batch;
use noctule_sinks::openmetrics::{Exporter, Options, Snapshot, View};

use crate::args::MetricNames;
use crate::config::Config;
use crate::{machine, wire};

/// Fills in the subjects, judges windows, and decides which series exist. Every batch of a span
/// must be passed, in order.
pub(crate) struct Replay {
    rollup: Rollup,
    judge: Judge,
    exporter: Exporter,
    /// Time of the batch that the last scrape showed. Before the first scrape, this is the time of
    /// the first batch, because counters in the first batch date from before the span.
    scraped_ns: Option<u64>,
}

impl Replay {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let exporter = Exporter::new(Options {
            recorded: true,
            // The facts of this machine are not those of the recorded one.
            machine: Arc::default(),
            ..options(config)?
        });
        Ok(Self {
            rollup: wire::rollup(config),
            judge: Judge::new(config.verdicts.judge()),
            exporter,
            scraped_ns: None,
        })
    }

    /// Adds the next batch. Returns the batch's snapshot, and the window's report if the batch ends
    /// a window.
    pub(crate) fn observe(&mut self, batch: &mut Batch) -> (Snapshot, Option<Arc<WaitReport>>) {
        self.rollup.apply(batch);
        let judged = self.judge.observe(batch);
        self.judge.mark(batch);
        self.scraped_ns.get_or_insert(batch.taken_ns);
        (self.exporter.observe(batch), judged)
    }

    /// Returns the view of the next scrape, which determines how new series are shown.
    pub(crate) fn view(&self) -> View {
        self.scraped_ns.map_or(View::Complete, View::Since)
    }

    /// Records that a scrape has shown the snapshot taken at this time.
    pub(crate) fn scraped(&mut self, taken_ns: u64) {
        self.scraped_ns = Some(taken_ns);
    }
}

/// Maximum time for which an exited process is kept, which covers two scrapes a minute apart. Many
/// processes are short-lived.
const MOST_PROCESS_GRACE_NS: u64 = 150_000_000_000;

/// Returns the options of `/metrics`.
pub(crate) fn options(config: &Config) -> Result<Options> {
    let grace_ns = (config.metrics.grace_seconds * 1e9) as u64;
    Ok(Options {
        process_level: config.metrics.processes,
        max_subjects: config.metrics.subject_rows,
        max_processes: config.metrics.process_rows,
        blame_pairs: config.metrics.blame_pairs,
        destinations: config.metrics.destinations,
        blame_grace_ns: grace_ns,
        short_ns: (config.metrics.short_seconds * 1e9) as u64,
        process_grace_ns: grace_ns.min(MOST_PROCESS_GRACE_NS),
        choice: config.metrics.choice()?,
        version: env!("CARGO_PKG_VERSION"),
        foreign: config.metrics.names.foreign(),
        machine: Arc::new(machine::read(&config.host)),
        kepler_node: (config.metrics.names == MetricNames::Kepler).then(|| config.host.name()),
        ..Options::default()
    })
}
