//! The columns of the table, and which of them fit.

use std::cmp::Ordering;
use std::sync::Arc;

use noctule_model::{Counter, Level, Measured, Row, escape_terminal};

use crate::figures;
use crate::level::{self, Key};
use crate::numbers;
use crate::text::Align;

/// What a column must know besides the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// What the rows stand for.
    pub(crate) level: Level,
    /// Length of the window in nanoseconds.
    pub(crate) window_ns: u64,
    /// Which counters mean anything.
    pub(crate) measured: Measured,
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
    Text(fn(&Item) -> String),
    /// The graph of the last minute; sorts by its average.
    Minute,
    /// A number and how it is written; `-` when there is none.
    Number(fn(&Facts, &Item) -> Option<f64>, fn(f64) -> String),
}

/// Position in [`COLUMNS`] of the column that sorts at first.
pub(crate) const CPU: usize = 3;

/// Every column, from left to right.
pub(crate) const COLUMNS: &[Column] = &[
    Column {
        title: "PID",
        help: "process id, as the agent sees it",
        width: 7,
        widest: 7,
        priority: 3,
        exists: is_process,
        cell: Cell::Number(figures::pid, |pid| format!("{pid:.0}")),
    },
    Column {
        title: "NAME",
        help: "command, container, unit, pod or path; [kernel thread]",
        width: 11,
        widest: 36,
        priority: 0,
        exists: always,
        cell: Cell::Name,
    },
    Column {
        title: "OWNER",
        help: "container or unit of the process",
        width: 14,
        widest: 24,
        priority: 5,
        exists: is_process,
        cell: Cell::Text(|item| escape_terminal(&item.row.name(Level::Container))),
    },
    Column {
        title: "CPU%",
        help: "CPU use in the window; 100 is one CPU",
        width: 6,
        widest: 6,
        priority: 1,
        exists: always,
        cell: Cell::Number(figures::cpu_percent, numbers::percent),
    },
    Column {
        title: "MINUTE",
        help: "the last 60 windows, each row to its own peak (half a CPU at least); sorts by average",
        width: 12,
        widest: 60,
        priority: 2,
        exists: always,
        cell: Cell::Minute,
    },
    Column {
        title: "TIME",
        help: "CPU time in the window",
        width: 6,
        widest: 6,
        priority: 4,
        exists: always,
        cell: Cell::Number(figures::cpu_time, numbers::duration),
    },
    Column {
        title: "FREQ",
        help: "average frequency while it ran, hertz",
        width: 5,
        widest: 5,
        priority: 6,
        exists: |facts| facts.measured.has(Counter::Cycles),
        cell: Cell::Number(figures::frequency, numbers::count),
    },
    Column {
        title: "IPC",
        help: "instructions per cycle",
        width: 5,
        widest: 5,
        priority: 7,
        exists: |facts| has_all(facts, &[Counter::Instructions, Counter::Cycles]),
        cell: Cell::Number(figures::instructions_per_cycle, numbers::ratio),
    },
    Column {
        title: "MISS/s",
        help: "misses of the last-level cache",
        width: 7,
        widest: 7,
        priority: 8,
        exists: |facts| facts.measured.has(Counter::CacheMisses),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::CacheMisses),
            numbers::count,
        ),
    },
    Column {
        title: "PGRD/s",
        help: "pages read through the page cache",
        width: 7,
        widest: 7,
        priority: 9,
        exists: |facts| facts.measured.has(Counter::PageReads),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::PageReads),
            numbers::count,
        ),
    },
    Column {
        title: "PGWR/s",
        help: "pages of the page cache made dirty",
        width: 7,
        widest: 7,
        priority: 10,
        exists: |facts| facts.measured.has(Counter::PageWrites),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::PageWrites),
            numbers::count,
        ),
    },
    Column {
        title: "SIRQ/s",
        help: "softirqs that ran on top of it",
        width: 7,
        widest: 7,
        priority: 11,
        exists: |facts| figures::softirqs().any(|vector| facts.measured.has(vector)),
        cell: Cell::Number(figures::softirq_rate, numbers::count),
    },
    Column {
        title: "VOL/s",
        help: "switches because it gave up the CPU",
        width: 6,
        widest: 6,
        priority: 12,
        exists: |facts| facts.measured.has(Counter::SwitchesVoluntary),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::SwitchesVoluntary),
            numbers::count,
        ),
    },
    Column {
        title: "PRE/s",
        help: "switches although it wanted to go on (preempted)",
        width: 6,
        widest: 6,
        priority: 13,
        exists: |facts| facts.measured.has(Counter::SwitchesPreempted),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::SwitchesPreempted),
            numbers::count,
        ),
    },
];

fn always(_: &Facts) -> bool {
    true
}

fn is_process(facts: &Facts) -> bool {
    facts.level == Level::Process
}

fn has_all(facts: &Facts, counters: &[Counter]) -> bool {
    counters.iter().all(|&counter| facts.measured.has(counter))
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
    /// What the row is sorted by in this column.
    pub(crate) fn sort_key(&self, facts: &Facts, item: &Item) -> SortKey {
        match &self.cell {
            Cell::Name => SortKey::Text(level::name(&item.row, facts.level).to_lowercase()),
            Cell::Text(text) => SortKey::Text(text(item).to_lowercase()),
            Cell::Minute => SortKey::Number(f64::from(item.mean)),
            Cell::Number(value, _) => SortKey::Number(value(facts, item).unwrap_or(-1.0)),
        }
    }

    /// Whether the largest is to stand at the top: so for what is used, not for names and ids.
    pub(crate) fn descends(&self) -> bool {
        self.title != "PID" && matches!(self.cell, Cell::Minute | Cell::Number(..))
    }

    /// At which edge the column stands.
    pub(crate) fn align(&self) -> Align {
        match self.cell {
            Cell::Number(..) => Align::Right,
            _ => Align::Left,
        }
    }
}
