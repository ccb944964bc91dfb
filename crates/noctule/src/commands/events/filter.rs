//! Filters the events of a recording as the BPF programs filter live events.

use std::collections::HashSet;

use anyhow::Result;
use noctule_analysis::{Descent, Selection};
use noctule_kernel::FileOptions;
use noctule_model::{Batch, Event, EventProcess, FileChange, FilePath, Origin, ProcessId, What};

use crate::exit::Usage;
use crate::scope::Scope;
use crate::select;

/// Access-mode bits of the flags of open(2).
const ACCESS: u32 = 3;

/// The selected processes and their descendants.
struct Tree {
    /// All processes that have ever been in the tree, because a connection can end after its
    /// process.
    members: HashSet<ProcessId>,
    /// Pids of the running members. Starts and ends arrive in order, so a reused pid belongs to the
    /// new process.
    running: HashSet<u32>,
}

impl Tree {
    /// Updates the tree and returns whether the event's process is in it.
    fn follow(&mut self, id: ProcessId, what: &What) -> bool {
        if let What::ProcessStart { parent_pid, .. } = what {
            if self.running.contains(parent_pid) {
                self.members.insert(id);
                self.running.insert(id.pid);
            } else if !self.members.contains(&id) {
                self.running.remove(&id.pid);
            }
        }
        let is_member = self.members.contains(&id);
        if is_member && matches!(what, What::ProcessExit { .. }) {
            self.running.remove(&id.pid);
        }
        is_member
    }
}

impl From<HashSet<ProcessId>> for Tree {
    fn from(members: HashSet<ProcessId>) -> Self {
        let running = members.iter().map(|id| id.pid).collect();
        Self { members, running }
    }
}

/// Selects the events that match a scope. Events must arrive in order.
pub(super) struct Filter<'a> {
    scope: &'a Scope,
    /// The path without a trailing `/`; empty for all paths.
    prefix: Vec<u8>,
    tree: Option<Tree>,
    selection: Selection,
}

impl<'a> Filter<'a> {
    /// Creates the filter; `first` is the batch at the start of the window.
    pub(super) fn new(scope: &'a Scope, first: &Batch) -> Result<Self> {
        let selection = select::recorded(&scope.names)?;
        let pids = selection.pids();
        let there = |pid: &&u32| first.processes.iter().any(|row| row.id.pid == **pid);
        if let Some(pid) = pids.iter().find(|pid| !there(pid)) {
            let words = format!("--pid {pid}: no such process at the start of the window");
            return Err(Usage(words).into());
        }
        let files = FileOptions {
            prefix: scope.path.as_deref(),
            ..FileOptions::default()
        };
        let tree = selection.tree(first.processes.iter().map(Descent::from));
        Ok(Self {
            scope,
            prefix: files.prefix_bytes()?,
            tree: tree.map(Tree::from),
            selection,
        })
    }

    /// Returns whether the event matches the scope.
    pub(super) fn passes(&mut self, event: &Event) -> bool {
        if matches!(event.what, What::Gap { .. }) {
            return true;
        }
        let of_tree = self.is_of_tree(event);
        let existing = event.origin == Origin::Existing;
        of_tree
            && (self.scope.existing || !existing)
            && self.is_of_kind(&event.what)
            && self.is_of_group(event.process.as_ref())
    }

    fn is_of_kind(&self, what: &What) -> bool {
        let scope = self.scope;
        let passes = match what {
            What::FileOpen { path, flags, error } => {
                self.is_below(path)
                    && (scope.reads || flags & ACCESS != 0 || error.is_some())
                    && (scope.failures || error.is_none())
            }
            What::FileChange {
                path,
                change,
                error,
            } => {
                let second = match change {
                    FileChange::SymbolicLink { .. } => None,
                    change => change.second(),
                };
                (self.is_below(path) || second.is_some_and(|path| self.is_below(path)))
                    && (scope.failures || error.is_none())
            }
            _ => true,
        };
        passes && what.kind().is_none_or(|kind| scope.kinds.has(kind))
    }

    /// Returns whether the path equals the prefix or is below it. A truncated path passes, because
    /// its full form is unknown.
    fn is_below(&self, path: &FilePath) -> bool {
        let rest = path.bytes.strip_prefix(self.prefix.as_slice());
        let is_below = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
        self.prefix.is_empty() || path.truncated || rest.is_some_and(is_below)
    }

    fn is_of_tree(&mut self, event: &Event) -> bool {
        let Some(tree) = &mut self.tree else {
            return true;
        };
        let process = event.process.as_ref();
        process.is_some_and(|process| tree.follow(process.id, &event.what))
    }

    fn is_of_group(&self, process: Option<&EventProcess>) -> bool {
        let owner = process.and_then(|process| process.owner.as_ref());
        !self.selection.has_names() || owner.is_some_and(|owner| self.selection.fits(owner))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const fn id(pid: u32, start_ns: u64) -> ProcessId {
        ProcessId { pid, start_ns }
    }

    fn start(parent_pid: u32) -> What {
        What::ProcessStart {
            parent_pid,
            parent: None,
        }
    }

    #[test]
    fn late_events_belong_to_the_ended_process() {
        let mut tree = Tree::from(HashSet::from([id(5, 1)]));
        // Represents the end of a connection.
        let close = What::ProcessSignal {
            signal: 15,
            code: 0,
            sender: None,
        };
        assert!(tree.follow(id(6, 2), &start(5)));
        assert!(tree.follow(id(6, 2), &What::UNKNOWN_EXIT));
        assert!(tree.follow(id(6, 2), &close));
        // The pid now belongs to a process outside the tree. The children of that process are
        // outside, too.
        assert!(!tree.follow(id(6, 9), &start(1)));
        assert!(!tree.follow(id(6, 9), &close));
        assert!(!tree.follow(id(7, 10), &start(6)));
        // The exit of one process was lost, and its pid is reused outside the tree.
        assert!(tree.follow(id(8, 11), &start(5)));
        assert!(!tree.follow(id(8, 12), &start(1)));
        assert!(!tree.follow(id(9, 13), &start(8)));
    }

    #[test]
    fn path_prefix_matches_whole_names() {
        let below = |prefix: &str, path: &str, truncated| {
            let scope = Scope {
                path: Some(Path::new(prefix).to_owned()),
                ..Scope::default()
            };
            let filter = Filter::new(&scope, &Batch::default()).expect("a prefix");
            filter.is_below(&FilePath {
                bytes: path.into(),
                truncated,
                ..FilePath::default()
            })
        };
        for path in ["/etc", "/etc/passwd"] {
            assert!(below("/etc", path, false) && below("/etc/", path, false));
        }
        assert!(!below("/etc", "/etcetera", false));
        assert!(below("/etc", "fig/etcetera", true));
        assert!(below("/", "/etcetera", false));
    }
}
