//! What a scrape renders: the series that exist, with their figures at one moment.

use std::sync::Arc;

use noctule_model::{AgentCost, DestinationCounters, Feature, Loss, Measured, Node};

use super::budget::Line;
use super::choice::Choice;
use super::energy::Energy;
use super::foreign::ForeignNames;
use super::kepler::Names;
use super::pairs::PairLine;
use super::view::{Born, View};

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
    /// Scrapes by scrapers that are not remembered; `None` where none is.
    pub untracked_scrapes: Option<u64>,
}

/// Some rows of a level, with what belongs to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) name: &'static str,
    pub(super) lines: &'a [Line],
    pub(super) blames: &'a [PairLine<u64>],
    pub(super) destinations: &'a [PairLine<DestinationCounters>],
}

impl<'a> Rows<'a> {
    /// Some of the rows. All pairs are with the first of them.
    pub(super) fn portion(&self, lines: &'a [Line], is_first: bool) -> Self {
        let mut portion = *self;
        portion.lines = lines;
        if !is_first {
            portion.blames = &[];
            portion.destinations = &[];
        }
        portion
    }
}

impl Level {
    /// All of them.
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            name: self.name,
            lines: &self.lines,
            blames: &self.blames,
            destinations: &self.destinations,
        }
    }

    /// When each of its series began.
    fn born(&self) -> impl Iterator<Item = Born> {
        let lines = self.lines.iter().map(|line| line.born);
        let blames = self.blames.iter().map(|pair| pair.born);
        let destinations = self.destinations.iter().map(|pair| pair.born);
        lines.chain(blames).chain(destinations)
    }

    /// Each by itself, in order. Pairs stand in the order of their subjects.
    pub(super) fn each(&self) -> impl Iterator<Item = (&Line, Rows<'_>)> {
        let (mut blames, mut destinations) = (&self.blames[..], &self.destinations[..]);
        self.lines.iter().map(move |line| {
            let rows = Rows {
                name: self.name,
                lines: std::slice::from_ref(line),
                blames: take_of(&mut blames, line),
                destinations: take_of(&mut destinations, line),
            };
            (line, rows)
        })
    }
}

/// Takes the pairs of a row from those that are left.
fn take_of<'a, A>(left: &mut &'a [PairLine<A>], line: &Line) -> &'a [PairLine<A>] {
    let of = left.iter().take_while(|pair| pair.labels == line.labels);
    let (taken, rest) = left.split_at(of.count());
    *left = rest;
    taken
}

impl Snapshot {
    /// `CLOCK_MONOTONIC` at which the exporter's first figures were taken, in nanoseconds.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// The view that shows the same of this snapshot, whatever the reader saw before: pages of readers to whom the
    /// same series are new are equal.
    pub fn least_view(&self, view: View) -> View {
        let kepler = self.kepler.iter().flat_map(Names::born);
        let foreign = self.foreign.iter().flat_map(ForeignNames::born);
        let levels = self.levels.iter().flat_map(Level::born);
        let new = levels
            .chain(kepler)
            .chain(foreign)
            .filter(|born| view.is_new(*born, self.taken_ns));
        let first = new.map(|born| born.began_ns).min();
        first.map_or(View::Complete, |first_ns| View::Since(first_ns - 1))
    }

    /// Of the series of the node and of the agent: they begin with the agent.
    pub(super) fn born(&self) -> Born {
        Born {
            began_ns: 0,
            start_unix_ns: self.start_unix_ns,
        }
    }
}

/// Everything that a scrape shows, as of one batch. Cheap to share, never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) taken_ns: u64,
    /// As of the exporter's first batch.
    pub(super) first_ns: u64,
    /// Wall-clock time of the same moment, nanoseconds since 1970.
    pub(super) time_unix_ns: u64,
    /// Since when the counters of the node and of the agent count, nanoseconds since 1970.
    pub(super) start_unix_ns: u64,
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
    /// It is of a recording.
    pub(super) recorded: bool,
    pub(super) version: &'static str,
    pub(super) served: Served,
    /// Under Kepler's names, where these are wanted.
    pub(super) kepler: Option<Names>,
    /// Under the names of another exporter, where these are wanted.
    pub(super) foreign: Option<ForeignNames>,
}
