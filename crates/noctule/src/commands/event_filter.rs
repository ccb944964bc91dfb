//! Which events of a recording are meant: what the kernel side filters when it is live.

use std::collections::HashSet;

use anyhow::Result;
use noctule_analysis::{Descent, Selection};
use noctule_model::{Batch, Event, EventProcess, FileChange, FilePath, Origin, What};

use crate::exit::Usage;
use crate::select;
use crate::wire::Scope;

/// Bits of the flags of open(2) in which the access mode is.
const ACCESS: u32 = 3;

/// Lets the events of a scope through, in order.
pub(super) struct Filter<'a> {
    scope: &'a Scope,
    /// The pids of the tree that is asked about. A pid that is used again is its new process, because
    /// ends and starts come in order.
    tree: Option<HashSet<u32>>,
    selection: Selection,
}

impl<'a> Filter<'a> {
    /// `first` is the batch at the begin of the window.
    pub(super) fn new(scope: &'a Scope, first: &Batch) -> Result<Self> {
        let selection = select::recorded(&scope.names)?;
        let pids = selection.pids();
        let there = |pid: &&u32| first.processes.iter().any(|row| row.id.pid == **pid);
        if let Some(pid) = pids.iter().find(|pid| !there(pid)) {
            let words = format!("--pid {pid}: there was no such process when the window began");
            return Err(Usage(words).into());
        }
        let tree = selection.tree(first.processes.iter().map(Descent::from));
        Ok(Self {
            scope,
            tree: tree.map(|tree| tree.into_iter().map(|id| id.pid).collect()),
            selection,
        })
    }

    /// Whether the event is one of those.
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
        match what {
            What::ProcessStart { .. } | What::ProcessExec { .. } | What::ProcessExit { .. } => {
                scope.process
            }
            What::ProcessExecFailed { .. } => scope.exec_failures,
            What::ProcessSignal { .. } => scope.signal,
            What::OomKill { .. } => scope.oom,
            What::Tcp { .. } => scope.tcp,
            What::FileOpen { path, flags, error } => {
                scope.file
                    && self.is_below(path)
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
                scope.file
                    && (self.is_below(path) || second.is_some_and(|path| self.is_below(path)))
                    && (scope.failures || error.is_none())
            }
            What::DnsQuery(_) => scope.dns,
            What::UdpFlow(_) => scope.udp,
            What::Gap { .. } => true,
        }
    }

    /// Whether the path begins as those that are asked about.
    fn is_below(&self, path: &FilePath) -> bool {
        let path = String::from_utf8_lossy(&path.bytes);
        let prefix = self.scope.path.as_ref();
        let prefix = prefix.map(|prefix| prefix.to_string_lossy());
        prefix.is_none_or(|prefix| path.starts_with(&*prefix))
    }

    fn is_of_tree(&mut self, event: &Event) -> bool {
        let Some(tree) = &mut self.tree else {
            return true;
        };
        let Some(process) = &event.process else {
            return false;
        };
        let pid = process.id.pid;
        match &event.what {
            What::ProcessStart { parent_pid, .. } if tree.contains(parent_pid) => {
                tree.insert(pid);
                true
            }
            What::ProcessExit { .. } => tree.remove(&pid),
            _ => tree.contains(&pid),
        }
    }

    fn is_of_group(&self, process: Option<&EventProcess>) -> bool {
        let owner = process.and_then(|process| process.owner.as_ref());
        !self.selection.has_names() || owner.is_some_and(|owner| self.selection.fits(owner))
    }
}
