//! The columns of the table, and which of them fit.

use std::cmp::Ordering;
use std::sync::Arc;

use noctule_model::{Counter, Level, Measured, Row, SOFTIRQ_VECTORS, escape_terminal};

use crate::level::{self, Key};
use crate::text::{self, Align};

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

/// Below this width of the table a few more columns are worth more than whole names.
const NARROW: usize = 60;
/// Width of the name then: with the CPU use it still fits into 20 columns.
const NARROW_NAME: usize = 11;

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
        cell: Cell::Number(pid, |pid| format!("{pid:.0}")),
    },
    Column {
        title: "NAME",
        help: "command, container, unit, pod or path; [kernel thread]",
        width: 16,
        widest: 28,
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
        cell: Cell::Number(cpu_percent, text::percent),
    },
    Column {
        title: "MINUTE",
        help: "the last 60 windows, each row to its own peak (10 % of a CPU at least); sorts by average",
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
        cell: Cell::Number(cpu_time, text::duration),
    },
    Column {
        title: "FREQ",
        help: "average frequency while it ran, hertz",
        width: 5,
        widest: 5,
        priority: 6,
        exists: |facts| facts.measured.has(Counter::Cycles),
        cell: Cell::Number(frequency, text::count),
    },
    Column {
        title: "IPC",
        help: "instructions per cycle",
        width: 5,
        widest: 5,
        priority: 7,
        exists: |facts| has_all(facts, &[Counter::Instructions, Counter::Cycles]),
        cell: Cell::Number(instructions_per_cycle, text::ratio),
    },
    Column {
        title: "MISS/s",
        help: "misses of the last-level cache",
        width: 7,
        widest: 7,
        priority: 8,
        exists: |facts| facts.measured.has(Counter::CacheMisses),
        cell: Cell::Number(|f, item| rate(f, item, Counter::CacheMisses), text::count),
    },
    Column {
        title: "PGRD/s",
        help: "pages read through the page cache",
        width: 7,
        widest: 7,
        priority: 9,
        exists: |facts| facts.measured.has(Counter::PageReads),
        cell: Cell::Number(|f, item| rate(f, item, Counter::PageReads), text::count),
    },
    Column {
        title: "PGWR/s",
        help: "pages of the page cache made dirty",
        width: 7,
        widest: 7,
        priority: 10,
        exists: |facts| facts.measured.has(Counter::PageWrites),
        cell: Cell::Number(|f, item| rate(f, item, Counter::PageWrites), text::count),
    },
    Column {
        title: "SIRQ/s",
        help: "softirqs that ran on top of it",
        width: 7,
        widest: 7,
        priority: 11,
        exists: |facts| softirqs().any(|vector| facts.measured.has(vector)),
        cell: Cell::Number(softirq_rate, text::count),
    },
    Column {
        title: "VOL/s",
        help: "switches because it gave up the CPU",
        width: 6,
        widest: 6,
        priority: 12,
        exists: |facts| facts.measured.has(Counter::SwitchesVoluntary),
        cell: Cell::Number(
            |f, item| rate(f, item, Counter::SwitchesVoluntary),
            text::count,
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
            |f, item| rate(f, item, Counter::SwitchesPreempted),
            text::count,
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

fn softirqs() -> impl Iterator<Item = Counter> {
    (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq)
}

fn pid(_: &Facts, item: &Item) -> Option<f64> {
    item.row.process.as_ref().map(|row| f64::from(row.id.pid))
}

/// Growth per second; `None` when the counter is not measured.
pub(crate) fn rate(facts: &Facts, item: &Item, counter: Counter) -> Option<f64> {
    let growth = facts.measured.value(&item.row.counters, counter)?;
    (facts.window_ns > 0).then(|| growth as f64 * 1e9 / facts.window_ns as f64)
}

/// Share of one CPU, in percent.
pub(crate) fn cpu_percent(facts: &Facts, item: &Item) -> Option<f64> {
    // Nanoseconds per second, of which 10^7 are one percent.
    rate(facts, item, Counter::CpuTime).map(|rate| rate / 1e7)
}

fn cpu_time(facts: &Facts, item: &Item) -> Option<f64> {
    let time = facts.measured.value(&item.row.counters, Counter::CpuTime)?;
    Some(time as f64)
}

/// Average frequency while the row ran, in hertz.
pub(crate) fn frequency(facts: &Facts, item: &Item) -> Option<f64> {
    let counters = &item.row.counters;
    counters.frequency_hertz(facts.measured, facts.nominal_hertz)
}

/// Instructions per cycle; `None` when nothing ran.
pub(crate) fn instructions_per_cycle(facts: &Facts, item: &Item) -> Option<f64> {
    let value = |counter| facts.measured.value(&item.row.counters, counter);
    let (instructions, cycles) = (value(Counter::Instructions)?, value(Counter::Cycles)?);
    (cycles > 0).then(|| instructions as f64 / cycles as f64)
}

fn softirq_rate(facts: &Facts, item: &Item) -> Option<f64> {
    softirqs()
        .filter_map(|vector| rate(facts, item, vector))
        .reduce(|a, b| a + b)
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

/// A column and the room that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Position in [`COLUMNS`].
    pub(crate) column: usize,
    /// Columns of the terminal.
    pub(crate) width: usize,
}

/// Chooses the columns that fit into `width`, each followed by one blank column, and gives them
/// the room that is left.
pub(crate) fn fit(facts: &Facts, width: usize) -> Vec<Placed> {
    let mut chosen: Vec<usize> = (0..COLUMNS.len())
        .filter(|&i| (COLUMNS[i].exists)(facts))
        .collect();
    chosen.sort_by_key(|&i| COLUMNS[i].priority);
    let least = |i: usize| match COLUMNS[i].cell {
        Cell::Name if width < NARROW => NARROW_NAME,
        _ => COLUMNS[i].width,
    };
    let mut used = 0;
    let fitting = chosen.iter().take_while(|&&i| {
        used += least(i) + 1;
        // The last column needs no blank after it.
        used <= width + 1
    });
    let count = fitting.count().max(1);
    chosen.truncate(count);
    chosen.sort_unstable();
    let mut placed: Vec<Placed> = chosen
        .into_iter()
        .map(|column| Placed {
            column,
            width: least(column),
        })
        .collect();
    let used: usize = placed.iter().map(|p| p.width + 1).sum();
    widen(&mut placed, (width + 1).saturating_sub(used));
    placed
}

/// Shares out what is left over: names first, then the graphs; the rest goes to the name, since
/// paths can be of any length.
fn widen(placed: &mut [Placed], mut room: usize) {
    let by_need = [is_name, is_text, is_graph];
    for needs in by_need {
        for place in placed.iter_mut() {
            let column = &COLUMNS[place.column];
            if needs(&column.cell) {
                let more = column.widest.saturating_sub(place.width).min(room);
                place.width += more;
                room -= more;
            }
        }
    }
    if let Some(name) = placed
        .iter_mut()
        .find(|place| is_name(&COLUMNS[place.column].cell))
    {
        name.width += room;
    }
}

fn is_name(cell: &Cell) -> bool {
    matches!(cell, Cell::Name)
}

fn is_text(cell: &Cell) -> bool {
    matches!(cell, Cell::Text(_))
}

fn is_graph(cell: &Cell) -> bool {
    matches!(cell, Cell::Minute)
}
