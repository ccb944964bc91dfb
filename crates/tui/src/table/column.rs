//! Columns of the table, and how rows are sorted by them.

use std::cmp::Ordering;
use std::sync::Arc;

use noctule_analysis::{KindReport, Row};
use noctule_model::{EnergySource, Joules, Level, Measured, ZoneKind};

use crate::data::level::{self, Key};
use crate::data::waits::Waited;
use crate::table::figures;
use crate::text::Align;

/// A view of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The groups that are hurt, their culprits, and the extent.
    #[default]
    Overview,
    /// Use of the CPU.
    Use,
    /// Waits for the CPU.
    Waits,
    Energy,
}

impl View {
    pub(crate) const ALL: [Self; 4] = [Self::Overview, Self::Use, Self::Waits, Self::Energy];
}

/// The kinds of energy zone whose energy is attributed to rows. The value is `true` for an
/// outermost kind, which no other kind contains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged {
    kinds: [Option<bool>; ZoneKind::ALL.len()],
    /// Whether the energy comes from the model in the configuration instead of a meter.
    is_model: bool,
}

impl Charged {
    /// Collects the kinds of a window.
    pub(crate) fn new(kinds: &[KindReport]) -> Self {
        let of = |kind| kinds.iter().find(|it| it.kind == kind).map(|it| it.root);
        Self {
            kinds: ZoneKind::ALL.map(of),
            is_model: kinds.iter().all(|it| it.source == EnergySource::Model),
        }
    }

    /// Returns whether a model in the configuration replaces the meters.
    pub(crate) const fn is_model(&self) -> bool {
        self.is_model
    }

    /// Returns whether energy of that kind is attributed to rows.
    pub(crate) fn has(&self, wanted: ZoneKind) -> bool {
        self.kinds().any(|(kind, _)| kind == wanted)
    }

    /// Returns whether any energy is attributed to rows, from a meter or a model.
    pub(crate) fn is_any(&self) -> bool {
        self.kinds().next().is_some()
    }

    /// Returns the sum over all kinds that no other kind contains, in microjoules; `None` without a
    /// meter.
    pub(crate) fn total_uj(&self, joules: &Joules) -> Option<u64> {
        let roots = self.kinds().filter(|(_, root)| *root);
        self.is_any()
            .then(|| roots.map(|(kind, _)| joules[kind]).sum())
    }

    fn kinds(&self) -> impl Iterator<Item = (ZoneKind, bool)> + '_ {
        let kinds = ZoneKind::ALL.into_iter().zip(self.kinds);
        kinds.filter_map(|(kind, root)| Some((kind, root?)))
    }
}

/// Facts that columns need in addition to the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The current view.
    pub(crate) view: View,
    /// The level of the rows.
    pub(crate) level: Level,
    /// Length of the window in nanoseconds.
    pub(crate) window_ns: u64,
    /// Which counters are measured.
    pub(crate) measured: Measured,
    /// The kinds of zone that are attributed to rows.
    pub(crate) charged: Charged,
    /// Frequency of the reference cycles.
    pub(crate) nominal_hertz: Option<u64>,
    /// Whether the files of rows are read: live, and not in a tree.
    pub(crate) has_files: bool,
}

/// A row, with values that the table adds to it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The row's identity.
    pub(crate) key: Key,
    /// Figures of the row.
    pub(crate) row: Arc<Row>,
    /// Average over the last minute, in CPUs.
    pub(crate) mean: f32,
    /// Waits of the row, in the overview and in the view of waits.
    pub(crate) waited: Option<Arc<Waited>>,
    /// The busiest command of the group, in the overview; empty if unknown.
    pub(crate) command: String,
    /// The user of the process, if the files of the row were read.
    pub(crate) user: Option<String>,
    /// Resident memory, if the files of the row were read.
    pub(crate) resident_bytes: Option<u64>,
}

/// A column of the table.
pub(crate) struct Column {
    /// The heading. In the sort column, a mark follows the heading.
    pub(crate) title: &'static str,
    /// Description for the help.
    pub(crate) help: &'static str,
    /// Minimum width on the terminal.
    pub(crate) width: usize,
    /// Maximum width if there is room.
    pub(crate) widest: usize,
    /// Narrow terminals drop columns with higher numbers first.
    pub(crate) priority: u8,
    /// The views that offer the column.
    pub(crate) views: &'static [View],
    /// Returns whether the level has the column and its counters are measured.
    pub(crate) exists: fn(&Facts) -> bool,
    /// The contents.
    pub(crate) cell: Cell,
}

/// Contents of a column, which also determine how rows are sorted by it.
pub(crate) enum Cell {
    /// The name, with the guides of the tree.
    Name,
    Text(fn(&Facts, &Item) -> String),
    /// The user of a process, by which rows cannot be sorted, because only rows on the screen have
    /// one.
    User,
    /// Resident memory. Rows cannot be sorted by it for the same reason.
    Memory,
    /// The graph of the last minute, which is sorted by average.
    Minute,
    /// The histogram of wait lengths, by which rows cannot be sorted.
    Lengths,
    /// The causes of the waits, as a bar, by which rows cannot be sorted.
    Causes,
    /// The verdict, which is sorted by severity.
    Verdict,
    /// A number and its format; `-` if the number is missing.
    Number(fn(&Facts, &Item) -> Option<f64>, fn(f64) -> String),
}

/// The value by which a row is sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SortKey {
    /// A number; negative if it is missing.
    Number(f64),
    /// A text in lower case.
    Text(String),
}

impl SortKey {
    /// Compares two keys in ascending order.
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
    /// Returns whether the column can be shown now.
    pub(crate) fn is_available(&self, facts: &Facts) -> bool {
        self.views.contains(&facts.view) && (self.exists)(facts)
    }

    /// Returns the row's sort key in this column.
    pub(crate) fn sort_key(&self, facts: &Facts, item: &Item) -> SortKey {
        match &self.cell {
            Cell::Name => SortKey::Text(level::name(&item.row, facts.level).to_lowercase()),
            Cell::Text(text) => SortKey::Text(text(facts, item).to_lowercase()),
            Cell::Minute => SortKey::Number(f64::from(item.mean)),
            Cell::Lengths | Cell::Causes | Cell::User | Cell::Memory => SortKey::Number(0.0),
            Cell::Verdict => SortKey::Number(figures::severity(item)),
            Cell::Number(value, _) => SortKey::Number(value(facts, item).unwrap_or(-1.0)),
        }
    }

    /// Returns whether the largest value comes first by default: true for amounts, false for names
    /// and ids.
    pub(crate) fn descends(&self) -> bool {
        let used = matches!(self.cell, Cell::Minute | Cell::Verdict | Cell::Number(..));
        self.title != "PID" && used
    }

    /// Returns whether rows can be sorted by the column.
    pub(crate) fn sorts(&self) -> bool {
        !matches!(
            self.cell,
            Cell::Lengths | Cell::Causes | Cell::User | Cell::Memory
        )
    }

    pub(crate) fn align(&self) -> Align {
        match self.cell {
            Cell::Number(..) | Cell::Memory => Align::Right,
            _ => Align::Left,
        }
    }
}
