//! Selects the events of a load from everything that a stream reports.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use super::{Change, Event, Format};

/// The kind of events that a load makes. The load's process identifies the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Children of the process.
    Processes,
    /// Connections to the process's address.
    Connections,
    /// Opens below the process's directory.
    Opens,
}

impl Sort {
    /// Returns the number of events that a tool of this format must report for one operation.
    pub(crate) fn of_operation(self, format: Format) -> u64 {
        match (self, format) {
            // Start, exec and exit.
            (Self::Processes, Format::Noctule) => 3,
            // Both sides report the establishment and the close.
            (Self::Connections, Format::Noctule | Format::Tcpstates) => 4,
            (Self::Connections, Format::Tcplife) => 2,
            (Self::Processes, Format::Execsnoop | Format::Exitsnoop)
            | (Self::Opens, Format::Noctule | Format::Opensnoop) => 1,
            _ => 0,
        }
    }
}

/// Returns an address that only this process uses, so that ports that an earlier run still occupies
/// do not conflict.
pub(crate) fn address_of(pid: u32) -> Ipv4Addr {
    // Pids have at most 22 bits. 127.0.x.x is used by other programs.
    let [_, high, middle, low] = pid.to_be_bytes();
    Ipv4Addr::new(127, 1 + (high & 0x7f), middle, low)
}

/// Returns a directory that only this process uses.
pub(crate) fn folder_of(pid: u32) -> PathBuf {
    std::env::temp_dir().join(format!("noctule-bench-{pid}"))
}

/// The loads that ran, identified by their processes.
#[derive(Debug)]
pub(crate) struct Marks {
    sort: Sort,
    pids: BTreeSet<u32>,
    addresses: BTreeSet<IpAddr>,
    folders: Vec<String>,
}

impl Marks {
    pub(crate) fn new(sort: Sort, pids: &[u32]) -> Self {
        let folder = |pid: &u32| format!("{}/", folder_of(*pid).display());
        Self {
            sort,
            pids: pids.iter().copied().collect(),
            addresses: pids.iter().map(|&pid| address_of(pid).into()).collect(),
            folders: pids.iter().map(folder).collect(),
        }
    }

    /// Returns the number of events of the loads, and the number that the tool reports as lost.
    pub(crate) fn count(&self, format: Format, output: &str) -> (u64, u64) {
        let (mut delivered, mut lost) = (0, 0);
        let mut others = BTreeSet::new();
        let mut children = BTreeSet::new();
        for reported in output.lines().filter_map(|line| format.read(line)) {
            match &reported.event {
                Event::Gap(gap) => lost += gap.values().sum::<u64>(),
                Event::Start { pid, parent } => {
                    let own = parent.is_some_and(|parent| self.pids.contains(&parent));
                    let (to, from) = match own {
                        true => (&mut children, &mut others),
                        false => (&mut others, &mut children),
                    };
                    from.remove(pid);
                    to.insert(*pid);
                }
                _ => {}
            }
            // A child whose start event was lost is recognized by its name.
            let is_child = |pid: &u32, parent: Option<u32>, name: &str| match parent {
                Some(parent) => self.pids.contains(&parent),
                None => children.contains(pid) || name == "true" && !others.contains(pid),
            };
            let is_own = match (&reported.event, self.sort) {
                (Event::Start { pid, .. }, Sort::Processes) => children.contains(pid),
                (
                    Event::Exec {
                        pid, parent, name, ..
                    }
                    | Event::Exit {
                        pid, parent, name, ..
                    },
                    Sort::Processes,
                ) => is_child(pid, *parent, name),
                (Event::Tcp(change, ends), Sort::Connections) => {
                    let counted = [Change::Connect, Change::Accept, Change::Close];
                    let has = |address| self.addresses.contains(&address);
                    counted.contains(change) && (has(ends.local.ip()) || has(ends.peer.ip()))
                }
                (Event::Open { path, .. }, Sort::Opens) => {
                    self.folders.iter().any(|folder| path.starts_with(folder))
                }
                _ => false,
            };
            delivered += u64::from(is_own);
        }
        (delivered, lost)
    }
}

/// Parses a third-party tool's report of lost events: `Lost 3 events on CPU #0!`, `Lost 3 events`.
pub(crate) fn lost_words(errors: &str) -> u64 {
    let count = |line: &str| {
        let line = line.to_ascii_lowercase();
        let (_, after) = line.split_once("lost ")?;
        after.split(' ').next()?.parse::<u64>().ok()
    };
    errors.lines().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_the_load_count() {
        let start = |pid: u32, parent: u32| {
            format!(
                "{{\"event.name\":\"process.start\",\"process.pid\":{pid},\
                 \"process.parent_pid\":{parent}}}\n"
            )
        };
        let exit = |pid: u32| {
            format!(
                "{{\"event.name\":\"process.exit\",\"process.pid\":{pid},\
                 \"process.executable.name\":\"true\",\"process.exit.code\":0}}\n"
            )
        };
        let gap = "{\"event.name\":\"gap\",\"lost\":{\"process.start\":1}}\n";
        // A child of the load, a child of another process, and a child whose start is missing.
        let text = [
            start(11, 10),
            start(21, 20),
            gap.into(),
            exit(11),
            exit(21),
            exit(12),
        ];
        let marks = Marks::new(Sort::Processes, &[10]);
        assert_eq!(marks.count(Format::Noctule, &text.concat()), (3, 1));
    }

    #[test]
    fn connections_are_matched_by_address() {
        let address = address_of(70_000);
        assert_eq!(address.to_string(), "127.2.17.112");
        let line = |peer: &str| {
            format!("ffff 1 x  127.0.0.1  5  {peer}  6  SYN_SENT -> ESTABLISHED 0.1\n")
        };
        let text = [line(&address.to_string()), line("127.0.0.1")].concat();
        let marks = Marks::new(Sort::Connections, &[70_000]);
        assert_eq!(marks.count(Format::Tcpstates, &text), (1, 0));
    }
}
