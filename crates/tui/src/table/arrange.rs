//! Orders rows as a tree, with guides.

use std::collections::HashSet;
use std::sync::Arc;

use noctule_analysis::Row;
use noctule_model::{Counters, Joules};

use crate::data::level::Key;
use crate::table::below::{Below, below_each};
use crate::table::lines::{Branch, Line};
use crate::table::tree::Node;
use crate::table::{Item, SortKey};

/// Maximum indentation in levels. Without a limit, untrusted users could choose the depth of trees.
const MAX_INDENT: usize = 24;

/// Orders the nodes as a tree. Siblings are sorted by the sum over their subtrees, and every row
/// shows that sum. Rows that match are kept, with their ancestors.
pub(crate) fn arrange(
    mut nodes: Vec<Node>,
    collapsed: &HashSet<Key>,
    sort_key: impl Fn(&Item) -> SortKey,
    descending: bool,
) -> Vec<Line> {
    let order = top_down(&mut nodes);
    let mut sums: Vec<Sum> = nodes.iter().map(Sum::from_node).collect();
    for &i in order.iter().rev() {
        if let Some(parent) = nodes[i].parent {
            let below = sums[i].clone();
            sums[parent].add(&below);
        }
    }
    let keys: Vec<SortKey> = nodes
        .iter()
        .zip(&sums)
        .map(|(node, sum)| sort_key(&sum.item(node)))
        .collect();
    let (mut roots, mut children) = (Vec::new(), vec![Vec::new(); nodes.len()]);
    for &i in order.iter().filter(|&&i| sums[i].kept) {
        match nodes[i].parent {
            Some(parent) => children[parent].push(i),
            None => roots.push(i),
        }
    }
    for brothers in children.iter_mut().chain([&mut roots]) {
        brothers.sort_by(|&a, &b| {
            let order = keys[a].compare(&keys[b]);
            let order = if descending { order.reverse() } else { order };
            order.then_with(|| nodes[a].item.key.cmp(&nodes[b].item.key))
        });
    }
    let below = below_each(&roots, &children, |node| nodes[node].item.key.clone());
    let tree = Tree {
        nodes: &nodes,
        children: &children,
        below: &below,
        sums: &sums,
        collapsed,
    };
    tree.lines(&roots)
}

/// Orders every node after its parent. If parents form a cycle, which pid reuse between two reads
/// can cause, breaks the cycle.
fn top_down(nodes: &mut [Node]) -> Vec<usize> {
    let mut children = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent].push(i);
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    let mut seen = vec![false; nodes.len()];
    let roots: Vec<usize> = (0..nodes.len())
        .filter(|&i| nodes[i].parent.is_none())
        .collect();
    for start in roots.into_iter().chain(0..nodes.len()) {
        if seen[start] {
            continue;
        }
        nodes[start].parent = None;
        seen[start] = true;
        let mut next = vec![start];
        while let Some(i) = next.pop() {
            order.push(i);
            for &child in &children[i] {
                if !std::mem::replace(&mut seen[child], true) {
                    next.push(child);
                }
            }
        }
    }
    order
}

/// Sums over a node and its descendants.
#[derive(Clone)]
struct Sum {
    counters: Counters,
    joules: Joules,
    mean: f32,
    kept: bool,
}

impl Sum {
    fn from_node(node: &Node) -> Self {
        Self {
            counters: node.item.row.counters,
            joules: node.item.row.joules,
            mean: node.item.mean,
            kept: node.matched,
        }
    }

    fn add(&mut self, other: &Self) {
        self.counters += &other.counters;
        self.joules += &other.joules;
        self.mean += other.mean;
        self.kept |= other.kept;
    }

    fn item(&self, node: &Node) -> Item {
        Item {
            key: node.item.key.clone(),
            row: Arc::new(Row {
                counters: self.counters,
                joules: self.joules,
                ..Row::clone(&node.item.row)
            }),
            mean: self.mean,
            waited: node.item.waited.clone(),
            command: node.item.command.clone(),
            user: None,
            resident_bytes: None,
        }
    }
}

struct Tree<'a> {
    nodes: &'a [Node],
    children: &'a [Vec<usize>],
    below: &'a [Below],
    sums: &'a [Sum],
    collapsed: &'a HashSet<Key>,
}

/// A node that is not yet a line.
struct Waiting {
    node: usize,
    /// Guides of the ancestors.
    above: String,
    depth: usize,
    last: bool,
}

impl Tree<'_> {
    fn lines(&self, roots: &[usize]) -> Vec<Line> {
        let mut lines = Vec::with_capacity(self.nodes.len());
        let mut waiting: Vec<Waiting> = Vec::new();
        let wait = |waiting: &mut Vec<Waiting>, nodes: &[usize], above: &str, depth| {
            for (i, &node) in nodes.iter().enumerate().rev() {
                waiting.push(Waiting {
                    node,
                    above: above.to_owned(),
                    depth,
                    last: i + 1 == nodes.len(),
                });
            }
        };
        wait(&mut waiting, roots, "", 0);
        while let Some(next) = waiting.pop() {
            let line = self.line(&next);
            if line.branch == Branch::Open {
                let grown = match (next.depth, next.last) {
                    (0, _) | (MAX_INDENT.., _) => next.above.clone(),
                    (_, true) => next.above.clone() + "  ",
                    (_, false) => next.above.clone() + "│ ",
                };
                let children = &self.children[next.node];
                wait(&mut waiting, children, &grown, next.depth + 1);
            }
            lines.push(line);
        }
        lines
    }

    fn line(&self, place: &Waiting) -> Line {
        let node = &self.nodes[place.node];
        let branch = match (place.depth, place.last) {
            (0, _) => "",
            (_, true) => "└─",
            (_, false) => "├─",
        };
        let mut line = Line {
            item: node.item.clone(),
            guide: format!("{}{branch}", place.above),
            name: node.name.clone(),
            matched: node.matched,
            branch: Branch::Leaf,
            below: Below::default(),
        };
        if self.children[place.node].is_empty() {
            return line;
        }
        line.branch = match self.collapsed.contains(&node.item.key) {
            true => Branch::Collapsed,
            false => Branch::Open,
        };
        line.below = self.below[place.node].clone();
        line.item = self.sums[place.node].item(node);
        line
    }
}
