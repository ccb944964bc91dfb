//! What a column of the table is, and how rows are sorted by it.

use std::cmp::Ordering;
use std::sync::Arc;

use noctule_analysis::{KindReport, Row};
use noctule_model::{Joules, Level, Measured, ZoneKind};

use crate::data::level::{self, Key};
use crate::data::waits::Waited;
use crate::table::figures;
use crate::text::Align;

/// What the table is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Who uses the CPU.
    #[default]
    Use,
    /// Who waits for it.
    Waits,
    /// What it costs in energy.
    Energy,
}

/// The kinds of zone of which rows have energy, and which of them no other contains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged([Option<bool>; ZoneKind::ALL.len()]);

impl Charged {
    /// From the kinds of a window.
    pub(crate) fn new(kinds: &[KindReport]) -> Self {
        let of = |kind| kinds.iter().find(|it| it.kind == kind).map(|it| it.root);
        Self(ZoneKind::ALL.map(of))
    }

    /// Whether rows have energy of that kind.
    pub(crate) fn has(&self, wanted: ZoneKind) -> bool {
        self.kinds().any(|(kind, _)| kind == wanted)
    }

    /// Whether rows have any energy: there is a meter, or a model.
    pub(crate) fn is_any(&self) -> bool {
        self.kinds().next().is_some()
    }

    /// Microjoules over all kinds that do not contain each other; `None` without a meter.
    pub(crate) fn total_uj(&self, joules: &Joules) -> Option<u64> {
        let roots = self.kinds().filter(|(_, root)| *root);
        self.is_any()
            .then(|| roots.map(|(kind, _)| joules[kind]).sum())
    }

    fn kinds(&self) -> impl Iterator<Item = (ZoneKind, bool)> + '_ {
        let kinds = ZoneKind::ALL.into_iter().zip(self.0);
        kinds.filter_map(|(kind, root)| Some((kind, root?)))
    }
}

/// What a column must know besides the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// What the table is about.
    pub(crate) view: View,
    /// What the rows stand for.
    pub(crate) level: Level,
    /// Length of the window in nanoseconds.
    pub(crate) window_ns: u64,
    /// Which counters mean anything.
    pub(crate) measured: Measured,
    /// The kinds of zone of which rows have energy.
    pub(crate) charged: Charged,
    /// Frequency at which the reference cycles count.
    pub(crate) nominal_hertz: Option<u64>,
}

/// A row with what the table adds to it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Which row.
    pub(crate) key: Key,
    /// Its figures.
    pub(crate) row: Arc<Row>,
    /// Its average over the last minute, in CPUs.
    pub(crate) mean: f32,
    /// Its waits, in the view of waits.
    pub(crate) waited: Option<Arc<Waited>>,
}

/// One column.
pub(crate) struct Column {
    /// Its heading. The mark of the sort column follows it.
    pub(crate) title: &'static str,
    /// What it shows, for the help.
    pub(crate) help: &'static str,
    /// Columns of the terminal that it takes at least.
    pub(crate) width: usize,
    /// Columns that it takes at most when there is room.
    pub(crate) widest: usize,
    /// Columns with higher numbers are dropped first when the terminal is narrow.
    pub(crate) priority: u8,
    /// The views that have it.
    pub(crate) views: &'static [View],
    /// Whether the level has it and its counters are measured.
    pub(crate) exists: fn(&Facts) -> bool,
    /// What stands in it.
    pub(crate) cell: Cell,
}

/// What a column shows and sorts by.
pub(crate) enum Cell {
    /// The name, with the guides of the tree.
    Name,
    /// A text.
    Text(fn(&Facts, &Item) -> String),
    /// The graph of the last minute; sorts by its average.
    Minute,
    /// How many waits were how long. It is no order.
    Lengths,
    /// The causes of the waits, as a bar. It is no order.
    Causes,
    /// What is the matter; sorts by how bad it is.
    Verdict,
    /// A number and how it is written; `-` when there is none.
    Number(fn(&Facts, &Item) -> Option<f64>, fn(f64) -> String),
}

/// What a row is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SortKey {
    /// A number; negative when there is none.
    Number(f64),
    /// A text, in lower case.
    Text(String),
}

impl SortKey {
    /// Ascending order.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

impl Column {
    /// Whether it can be shown now.
    pub(crate) fn is_there(&self, facts: &Facts) -> bool {
        self.views.contains(&facts.view) && (self.exists)(facts)
    }

    /// What the row is sorted by in this column.
    pub(crate) fn sort_key(&self, facts: &Facts, item: &Item) -> SortKey {
        match &self.cell {
            Cell::Name => SortKey::Text(level::name(&item.row, facts.level).to_lowercase()),
            Cell::Text(text) => SortKey::Text(text(facts, item).to_lowercase()),
            Cell::Minute => SortKey::Number(f64::from(item.mean)),
            Cell::Lengths | Cell::Causes => SortKey::Number(0.0),
            Cell::Verdict => SortKey::Number(figures::severity(item).unwrap_or(-1.0)),
            Cell::Number(value, _) => SortKey::Number(value(facts, item).unwrap_or(-1.0)),
        }
    }

    /// Whether the largest is to stand at the top: so for what is used, not for names and ids.
    pub(crate) fn descends(&self) -> bool {
        let used = matches!(self.cell, Cell::Minute | Cell::Verdict | Cell::Number(..));
        self.title != "PID" && used
    }

    /// Whether rows can be sorted by it.
    pub(crate) fn sorts(&self) -> bool {
        !matches!(self.cell, Cell::Lengths | Cell::Causes)
    }

    /// At which edge the column stands.
    pub(crate) fn align(&self) -> Align {
        match self.cell {
            Cell::Number(..) => Align::Right,
            _ => Align::Left,
        }
    }
}
