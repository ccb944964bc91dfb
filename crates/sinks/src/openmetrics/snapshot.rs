//! What a scrape renders: the series that exist, with their figures at one moment.

use std::sync::Arc;

use noctule_model::{AgentCost, DestinationCounters, Feature, Loss, Measured, Node};

use super::budget::Line;
use super::choice::Choice;
use super::energy::Energy;
use super::foreign::ForeignNames;
use super::kepler::Names;
use super::pairs::PairLine;

/// One level, ready to be rendered.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) name: &'static str,
    pub(super) lines: Vec<Line>,
    pub(super) blames: Vec<PairLine<u64>>,
    pub(super) destinations: Vec<PairLine<DestinationCounters>>,
    /// Rows in the overflow; `None` where there is no budget.
    pub(super) overflowed: Option<usize>,
}

/// What the agent's own server has done, up to a batch.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Requests that were refused, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Whether the web configuration is in effect; `None` without one.
    pub config_valid: Option<bool>,
}

/// Everything that a scrape shows, as of one batch. Cheap to share, never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) taken_ns: u64,
    pub(super) node: Node,
    pub(super) energy: Energy,
    pub(super) measured: Measured,
    pub(super) levels: Vec<Level>,
    /// Pairs of a victim and a culprit that found no place.
    pub(super) overflow_blames: usize,
    pub(super) overflow_destinations: usize,
    pub(super) features: Arc<[Feature]>,
    pub(super) losses: Vec<Loss>,
    pub(super) agent: AgentCost,
    pub(super) choice: Arc<Choice>,
    pub(super) version: &'static str,
    pub(super) served: Served,
    /// Under Kepler's names, where these are wanted.
    pub(super) kepler: Option<Names>,
    /// Under the names of another exporter, where these are wanted.
    pub(super) foreign: Option<ForeignNames>,
}
