//! The data that a scrape renders: the series that exist, with their values at one time.

use std::sync::Arc;

use noctule_model::{AgentCost, DestinationCounters, Feature, Loss, Measured, Node};

use super::budget::Line;
use super::choice::Choice;
use super::energy::Energy;
use super::foreign::ForeignNames;
use super::kepler::Names;
use super::pairs::PairLine;
use super::view::{Born, View};

/// The rows and pairs of one level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) name: &'static str,
    pub(super) lines: Vec<Line>,
    pub(super) blames: Vec<PairLine<u64>>,
    pub(super) destinations: Vec<PairLine<DestinationCounters>>,
    /// Number of rows in the overflow; `None` if the level has no limit.
    pub(super) overflowed: Option<usize>,
}

/// Counters of the agent's HTTP server at the time of a batch.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Refused requests by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Whether the web configuration is in effect; `None` if there is none.
    pub config_valid: Option<bool>,
    /// Scrapes from addresses that are not tracked; `None` if no scraper is tracked.
    pub untracked_scrapes: Option<u64>,
}

/// Some rows of a level, with their pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) name: &'static str,
    pub(super) lines: &'a [Line],
    pub(super) blames: &'a [PairLine<u64>],
    pub(super) destinations: &'a [PairLine<DestinationCounters>],
}

impl<'a> Rows<'a> {
    /// Returns some of the rows. The first portion contains all pairs.
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
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            name: self.name,
            lines: &self.lines,
            blames: &self.blames,
            destinations: &self.destinations,
        }
    }

    /// Returns when each of the series began.
    fn born(&self) -> impl Iterator<Item = Born> {
        let lines = self.lines.iter().map(|line| line.born);
        let blames = self.blames.iter().map(|pair| pair.born);
        let destinations = self.destinations.iter().map(|pair| pair.born);
        lines.chain(blames).chain(destinations)
    }

    /// Returns each row with its pairs. Pairs are sorted in the order of their subjects.
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

/// Takes the pairs of a row off the front of `left`.
fn take_of<'a, A>(left: &mut &'a [PairLine<A>], line: &Line) -> &'a [PairLine<A>] {
    let of = left.iter().take_while(|pair| pair.labels == line.labels);
    let (taken, rest) = left.split_at(of.count());
    *left = rest;
    taken
}

impl Snapshot {
    /// Returns the time of the exporter's first figures, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// Returns the smallest view that shows the same page as `view`. Readers for which the same
    /// series are new get equal views, so they can share a rendered page.
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

    /// Returns the start of the series of the node and the agent, which began when the agent
    /// started.
    pub(super) fn born(&self) -> Born {
        Born {
            began_ns: 0,
            start_unix_ns: self.start_unix_ns,
        }
    }
}

/// Everything that a scrape shows after one batch. Immutable.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) taken_ns: u64,
    /// Time of the exporter's first batch.
    pub(super) first_ns: u64,
    /// Wall-clock time of `taken_ns`, nanoseconds since 1970.
    pub(super) time_unix_ns: u64,
    /// When the counters of the node and the agent started, nanoseconds since 1970.
    pub(super) start_unix_ns: u64,
    pub(super) node: Node,
    pub(super) energy: Energy,
    pub(super) measured: Measured,
    pub(super) levels: Vec<Level>,
    /// Number of victim and culprit pairs without series because of the limit.
    pub(super) overflow_blames: usize,
    pub(super) overflow_destinations: usize,
    pub(super) features: Arc<[Feature]>,
    pub(super) losses: Vec<Loss>,
    pub(super) agent: AgentCost,
    pub(super) choice: Arc<Choice>,
    /// Whether the data comes from a recording.
    pub(super) recorded: bool,
    pub(super) version: &'static str,
    pub(super) served: Served,
    /// The series under Kepler's names, if enabled.
    pub(super) kepler: Option<Names>,
    /// The series under another exporter's names, if enabled.
    pub(super) foreign: Option<ForeignNames>,
}
