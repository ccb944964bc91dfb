//! The rows that the table shows, filtered and in order.

use std::collections::HashSet;
use std::sync::Arc;

use noctule_analysis::{Named, Row};
use noctule_model::{Level, VerdictKind};
use noctule_text::escape;

use crate::data::Data;
use crate::data::level::{self, Key};
use crate::data::waits::Waited;
use crate::table::arrange;
use crate::table::below::Below;
use crate::table::figures;
use crate::table::tree;
use crate::table::{Column, Facts, Item, View};

/// Whether rows stand below a row of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// None do.
    Leaf,
    /// They are shown.
    Open,
    /// They are hidden.
    Collapsed,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The row; of a tree, with the figures of all below it.
    pub(crate) item: Item,
    /// The guides of the tree before its name.
    pub(crate) guide: String,
    /// The name, safe for a terminal.
    pub(crate) name: String,
    /// False when it is here only because something below it matches the filter.
    pub(crate) matched: bool,
    /// Its place in the tree.
    pub(crate) branch: Branch,
    /// The rows below it, whose figures are in its own.
    pub(crate) below: Below,
}

/// What decides which lines there are, and their order.
pub(crate) struct Wish<'a> {
    /// The level and the window.
    pub(crate) facts: Facts,
    /// What a row must contain, in lower case; empty for all.
    pub(crate) filter: &'a str,
    /// What sorts them.
    pub(crate) column: &'a Column,
    /// Largest first.
    pub(crate) descending: bool,
    /// As a tree, which the level has.
    pub(crate) tree: bool,
    /// Collapsed rows of the tree.
    pub(crate) collapsed: &'a HashSet<Key>,
}

/// The lines of the table.
pub(crate) fn lines(data: &Data, wish: &Wish<'_>) -> Vec<Line> {
    let level = wish.facts.level;
    let sort_key = |item: &Item| wish.column.sort_key(&wish.facts, item);
    if wish.tree {
        let mut nodes = tree::nodes(data, level);
        for node in &mut nodes {
            node.matched = matches(&node.item.row, level, wish.filter);
        }
        return arrange::arrange(nodes, wish.collapsed, sort_key, wish.descending);
    }
    let shown: Vec<Line> = match wish.facts.view {
        View::Energy if !wish.facts.charged.is_any() => Vec::new(),
        View::Use | View::Energy => {
            let rows = data.rows(level).iter();
            let rows = rows.filter(|row| matches(row, level, wish.filter));
            rows.map(|row| flat(data, level, row)).collect()
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
        // Equal rows keep their places from one window to the next.
        order.then_with(|| line_a.item.key.cmp(&line_b.item.key))
    });
    sorted.into_iter().map(|(_, line)| line).collect()
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
        },
    }
}

/// As [`matches`], and also by the name of the culprit and of the verdict: a search for a noisy one is a
/// search for its victims.
fn finds(line: &Line, level: Level, filter: &str) -> bool {
    let verdict = figures::verdict(&line.item).map_or("", VerdictKind::name);
    matches(&line.item.row, level, filter)
        || figures::culprit(level, &line.item)
            .to_lowercase()
            .contains(filter)
        || verdict.contains(filter)
}

/// Whether the row's name, pid, container id or path contains the filter, or the name of its
/// namespace, pod, container or unit. Names are compared
/// as they are shown, so that what can be read can be typed.
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
