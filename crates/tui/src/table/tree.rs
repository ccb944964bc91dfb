//! Builds the tree of rows: processes by parent, cgroups by path.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_analysis::Row;
use noctule_model::{Batch, CgroupId, Counters, Joules, Level, Owner, ProcessRow};
use noctule_text::escape;

use crate::data::Data;
use crate::data::level;
use crate::table::Item;

/// A row and its position in the tree.
pub(crate) struct Node {
    /// The row.
    pub(crate) item: Item,
    /// The name in the tree.
    pub(crate) name: String,
    /// Position of the parent.
    pub(crate) parent: Option<usize>,
    /// Whether the row matches the filter.
    pub(crate) matched: bool,
}

/// Returns the rows of the level with their ancestors, including idle ones.
pub(crate) fn nodes(data: &Data, level: Level) -> Vec<Node> {
    match (level, &data.last) {
        (Level::Process, Some(batch)) => processes(data, batch),
        (Level::Cgroup, Some(batch)) => cgroups(data, batch),
        _ => Vec::new(),
    }
}

fn processes(data: &Data, batch: &Batch) -> Vec<Node> {
    let listed: HashMap<u32, &ProcessRow> = batch
        .processes
        .iter()
        .map(|row| (row.id.pid, row))
        .collect();
    let mut nodes: Vec<Node> = data
        .rows(Level::Process)
        .iter()
        .map(|row| node(data, Level::Process, row.clone()))
        .collect();
    let mut position: HashMap<u32, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        // After pid reuse, an ended process and a live process have the same pid. The children
        // belong to the live process.
        if let Some(process) = &node.item.row.process
            && (!process.exited || !position.contains_key(&process.id.pid))
        {
            position.insert(process.id.pid, i);
        }
    }
    let mut i = 0;
    while i < nodes.len() {
        let parent = nodes[i].item.row.process.as_ref().map(|p| p.parent_pid);
        if let Some(parent) = parent {
            nodes[i].parent = position.get(&parent).copied();
            if let (None, Some(idle)) = (nodes[i].parent, listed.get(&parent)) {
                nodes[i].parent = Some(nodes.len());
                position.insert(parent, nodes.len());
                nodes.push(node(data, Level::Process, Arc::new(idle_process(idle))));
            }
        }
        i += 1;
    }
    nodes
}

fn idle_process(process: &ProcessRow) -> Row {
    let owner = process.owner.clone();
    Row {
        owner: owner.unwrap_or_else(|| Arc::new(Owner::unknown(process.cgroup))),
        counters: Counters::default(),
        joules: Joules::default(),
        packages: noctule_model::ByPackage::default(),
        events: None,
        process: Some(process.clone()),
        command: None,
    }
}

fn cgroups(data: &Data, batch: &Batch) -> Vec<Node> {
    let known: HashMap<&str, &Arc<Owner>> = batch
        .cgroups
        .iter()
        .filter_map(|row| row.owner.as_ref())
        .map(|owner| (owner.path.as_str(), owner))
        .collect();
    let mut nodes: Vec<Node> = data
        .rows(Level::Cgroup)
        .iter()
        .map(|row| node(data, Level::Cgroup, row.clone()))
        .collect();
    let mut position: HashMap<String, usize> = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| (node.item.row.owner.path.clone(), i))
        .collect();
    let mut i = 0;
    while i < nodes.len() {
        if let Some(above) = path_above(&nodes[i].item.row.owner.path).map(str::to_owned) {
            let next = nodes.len();
            let parent = *position.entry(above.clone()).or_insert(next);
            nodes[i].parent = Some(parent);
            if parent == next {
                let owner = known.get(above.as_str()).map(|&owner| owner.clone());
                let row = idle_cgroup(owner, above);
                nodes.push(node(data, Level::Cgroup, Arc::new(row)));
            }
        }
        nodes[i].name = last_part(&nodes[i].item.row.owner.path);
        i += 1;
    }
    nodes
}

/// Creates the row of a group without its own threads. The agent may never have seen the group, so
/// its id can be unknown.
fn idle_cgroup(owner: Option<Arc<Owner>>, path: String) -> Row {
    let unseen = || {
        Arc::new(Owner {
            path,
            ..Owner::unknown(CgroupId(0))
        })
    };
    Row {
        process: None,
        command: None,
        owner: owner.unwrap_or_else(unseen),
        counters: Counters::default(),
        joules: Joules::default(),
        packages: noctule_model::ByPackage::default(),
        events: None,
    }
}

fn path_above(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    match (above, name) {
        ("", "") => None,
        ("", _) => Some("/"),
        _ => Some(above),
    }
}

fn last_part(path: &str) -> String {
    let part = path.rsplit_once('/').map_or(path, |(_, name)| name);
    escape(if part.is_empty() { path } else { part })
}

fn node(data: &Data, level: Level, row: Arc<Row>) -> Node {
    let key = level::key(&row, level);
    Node {
        name: level::name(&row, level),
        parent: None,
        matched: true,
        item: Item {
            mean: data.history(level).mean(&key),
            key,
            row,
            waited: None,
            command: String::new(),
            user: None,
            resident_bytes: None,
        },
    }
}
