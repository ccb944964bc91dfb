//! The rows that the table shows, filtered and in order.

use std::collections::HashSet;
use std::sync::Arc;

use noctule_model::{Level, Row, escape_terminal};

use crate::data::Data;
use crate::level::{self, Key};
use crate::table::{Column, Facts, Item};
use crate::{arrange, tree};

/// Whether rows stand below a row of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// None do.
    Leaf,
    /// They are shown.
    Open,
    /// They are hidden, and their figures are added to those of the row.
    Closed,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The row.
    pub(crate) item: Item,
    /// The guides of the tree before its name.
    pub(crate) guide: String,
    /// The name, safe for a terminal.
    pub(crate) name: String,
    /// False when it is here only because something below it matches the filter.
    pub(crate) matched: bool,
    /// Its place in the tree.
    pub(crate) fold: Fold,
    /// The rows that are folded into it.
    pub(crate) below: Vec<Key>,
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
    /// As a tree, where the level has one.
    pub(crate) tree: bool,
    /// Folded rows of the tree.
    pub(crate) folded: &'a HashSet<Key>,
}

/// The lines of the table.
pub(crate) fn lines(data: &Data, wish: &Wish<'_>) -> Vec<Line> {
    let level = wish.facts.level;
    let sort_key = |item: &Item| wish.column.sort_key(&wish.facts, item);
    if wish.tree && level::has_tree(level) {
        let mut nodes = tree::nodes(data, level);
        for node in &mut nodes {
            node.matched = matches(&node.item.row, level, wish.filter);
        }
        return arrange::arrange(nodes, wish.folded, sort_key, wish.descending);
    }
    let rows = data.rows(level).iter();
    let mut sorted: Vec<_> = rows
        .filter(|row| matches(row, level, wish.filter))
        .map(|row| {
            let line = flat(data, level, row);
            (sort_key(&line.item), line)
        })
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
        fold: Fold::Leaf,
        below: Vec::new(),
        item: Item {
            mean: data.history(level).mean(&key),
            key,
            row: row.clone(),
        },
    }
}

/// Whether the row's name, owner, pid, container id or path contains the filter. Names are compared
/// as they are shown, so that what can be read can be typed.
fn matches(row: &Row, level: Level, filter: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(filter);
    filter.is_empty()
        || contains(&level::name(row, level))
        || contains(&escape_terminal(&row.name(Level::Container)))
        || contains(&escape_terminal(&row.owner.path))
        || row
            .owner
            .container
            .as_ref()
            .is_some_and(|c| contains(&c.id))
        || (row.process.as_ref()).is_some_and(|p| p.id.pid.to_string().contains(filter))
}
