//! The rows of the table, filtered and sorted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use noctule_analysis::{Named, Row, by_command};
use noctule_model::{Counter, Level, VerdictKind};
use noctule_text::escape;

use crate::data::Data;
use crate::data::commands::Commands;
use crate::data::level::{self, Key};
use crate::data::waits::Waited;
use crate::table::arrange;
use crate::table::below::Below;
use crate::table::figures;
use crate::table::tree;
use crate::table::{Cell, Column, Facts, Item, View};

/// Whether a row of the tree has children, and whether they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// No children.
    Leaf,
    /// Children are shown.
    Open,
    /// Children are hidden.
    Collapsed,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The row. In a tree, its figures include all descendants.
    pub(crate) item: Item,
    /// The tree guides before the name.
    pub(crate) guide: String,
    /// The name, escaped for a terminal.
    pub(crate) name: String,
    /// Whether the row itself matches the filter; false if only a descendant does.
    pub(crate) matched: bool,
    /// Whether the row has children in the tree.
    pub(crate) branch: Branch,
    /// The descendants, whose figures are included in the row's own figures.
    pub(crate) below: Below,
}

/// Determines which lines the table has, and their order.
pub(crate) struct Wish<'a> {
    /// The level and the window.
    pub(crate) facts: Facts,
    /// Lower-case text that a row must contain; empty for all rows.
    pub(crate) filter: &'a str,
    /// The sort column.
    pub(crate) column: &'a Column,
    /// Whether the largest value comes first.
    pub(crate) descending: bool,
    /// Whether to build a tree, which requires a level that has one.
    pub(crate) tree: bool,
    /// Collapsed rows of the tree.
    pub(crate) collapsed: &'a HashSet<Key>,
    /// Whether the processes of a command are added up.
    pub(crate) merged: bool,
    /// The commands of each group, for the overview.
    pub(crate) commands: &'a Commands,
}

/// Returns the lines of the table.
pub(crate) fn lines(data: &Data, wish: &Wish<'_>) -> Vec<Line> {
    let level = wish.facts.level;
    let sort_key = |item: &Item| wish.column.sort_key(&wish.facts, item);
    if wish.tree {
        let mut nodes = tree::nodes(data, level);
        for node in &mut nodes {
            node.matched = matches(&node.item.row, level, wish.filter);
            node.item.command = wish.commands.busiest(&node.item.key);
        }
        if wish.facts.view == View::Overview {
            let waits = waits_by_key(data, level);
            for node in &mut nodes {
                node.item.waited = waits.get(&node.item.key).map(|&it| it.clone());
            }
        }
        return arrange::arrange(nodes, wish.collapsed, sort_key, wish.descending);
    }
    let shown: Vec<Line> = match wish.facts.view {
        View::Energy if !wish.facts.charged.is_any() => Vec::new(),
        View::Overview | View::Use | View::Energy if wish.merged && level == Level::Process => {
            merged(data, wish.filter)
        }
        View::Use | View::Energy => {
            let rows = data.rows(level).iter();
            let rows = rows.filter(|row| matches(row, level, wish.filter));
            rows.map(|row| flat(data, level, row)).collect()
        }
        View::Overview => {
            let lines = overview(data, wish).into_iter();
            lines
                .filter(|line| finds(line, level, wish.filter))
                .collect()
        }
        View::Waits => {
            let lines = data.waits.rows(level).iter().map(|row| waited(row, level));
            lines
                .filter(|line| finds(line, level, wish.filter))
                .collect()
        }
    };
    let mut sorted: Vec<_> = shown
        .into_iter()
        .map(|line| (sort_key(&line.item), line))
        .collect();
    sorted.sort_by(|(a, line_a), (b, line_b)| {
        let order = a.compare(b);
        let order = if wish.descending {
            order.reverse()
        } else {
            order
        };
        let cpu = |line: &Line| line.item.row.counters[Counter::CpuTime];
        let order = match wish.column.cell {
            // Most rows are not hurt and have equal sort keys, so they are sorted by CPU time.
            Cell::Verdict => order.then_with(|| cpu(line_b).cmp(&cpu(line_a))),
            _ => order,
        };
        // Rows with equal sort keys keep their order from one window to the next.
        order.then_with(|| line_a.item.key.cmp(&line_b.item.key))
    });
    sorted.into_iter().map(|(_, line)| line).collect()
}

/// Returns the rows that used CPU time within the last minute, each with its waits, and the groups
/// that only waited.
fn overview(data: &Data, wish: &Wish<'_>) -> Vec<Line> {
    let level = wish.facts.level;
    let mut waits = waits_by_key(data, level);
    let rows = data.rows(level).iter().map(|row| {
        let mut line = flat(data, level, row);
        line.item.waited = waits.remove(&line.item.key).cloned();
        line.item.command = wish.commands.busiest(&line.item.key);
        line
    });
    let mut lines: Vec<Line> = rows.collect();
    lines.extend(waits.into_values().map(|row| waited(row, level)));
    lines
}

/// Returns a line for each command: the processes of one name in one group.
fn merged(data: &Data, filter: &str) -> Vec<Line> {
    let rows = data.rows(Level::Process).iter();
    let rows: Vec<&Arc<Row>> = rows
        .filter(|row| matches(row, Level::Process, filter))
        .collect();
    let mut members: HashMap<Key, Vec<Key>> = HashMap::new();
    for row in &rows {
        if let Some(command) = level::command_key(row) {
            let members = members.entry(command).or_default();
            members.push(level::key(row, Level::Process));
        }
    }
    let history = data.history(Level::Process);
    let sums = by_command(rows.into_iter().map(|row| Row::clone(row)));
    let lines = sums.into_iter().map(|row| {
        let mut line = flat(data, Level::Process, &Arc::new(row));
        let members = members.remove(&line.item.key).unwrap_or_default();
        line.item.mean = members.iter().map(|key| history.mean(key)).sum();
        line.below = members.into();
        line
    });
    lines.collect()
}

/// Returns the groups with waits. The waits of processes have no verdicts.
fn waits_by_key(data: &Data, level: Level) -> HashMap<Key, &Arc<Waited>> {
    let rows = match level {
        Level::Process => &[],
        _ => data.waits.rows(level),
    };
    rows.iter().map(|row| (row.key.clone(), row)).collect()
}

fn flat(data: &Data, level: Level, row: &Arc<Row>) -> Line {
    let key = level::key(row, level);
    Line {
        name: level::name(row, level),
        guide: String::new(),
        matched: true,
        branch: Branch::Leaf,
        below: Below::default(),
        item: Item {
            mean: data.history(level).mean(&key),
            key,
            row: row.clone(),
            waited: None,
            command: String::new(),
            user: None,
            resident_bytes: None,
        },
    }
}

fn waited(waited: &Arc<Waited>, level: Level) -> Line {
    Line {
        name: waited.name(level),
        guide: String::new(),
        matched: true,
        branch: Branch::Leaf,
        below: Below::default(),
        item: Item {
            key: waited.key.clone(),
            row: Arc::new(waited.as_row()),
            mean: 0.0,
            waited: Some(waited.clone()),
            command: String::new(),
            user: None,
            resident_bytes: None,
        },
    }
}

/// Returns whether the line matches by [`matches`], by its culprit or by its verdict. A search for
/// a noisy group therefore also finds its victims.
fn finds(line: &Line, level: Level, filter: &str) -> bool {
    let verdict = figures::verdict(&line.item).map_or("", VerdictKind::name);
    matches(&line.item.row, level, filter)
        || figures::culprit(level, &line.item)
            .to_lowercase()
            .contains(filter)
        || line.item.command.to_lowercase().contains(filter)
        || verdict.contains(filter)
}

/// Returns whether the filter occurs in the row's name, pid, container id or path, or in its
/// namespace, pod, container or unit. Names are compared as they are shown, so that users can type
/// what they read.
fn matches(row: &Row, level: Level, filter: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(filter);
    filter.is_empty()
        || contains(&level::name(row, level))
        || contains(&escape(&row.name(Level::Container)))
        || contains(&escape(&row.owner.path))
        || Named::ALL.iter().any(|named| {
            let name = named.of(&row.owner);
            name.is_some_and(|name| contains(&escape(&name)))
        })
        || row
            .owner
            .container
            .as_ref()
            .is_some_and(|c| contains(&c.id))
        || (row.process.as_ref()).is_some_and(|p| p.id.pid.to_string().contains(filter))
}
