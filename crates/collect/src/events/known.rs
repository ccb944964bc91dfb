//! What the stream has reported: live processes and open sockets. After a loss, this list is
//! compared with the current state.

use std::collections::{HashMap, HashSet};

use noctule_kernel::{RawEvent, RawProcess, SocketSample};
use noctule_model::{Batch, ProcessId, ProcessRow, Socket, TcpChange, What};

use super::Listeners;

/// Maximum number of ended processes to remember, because the kernel may still list their zombies.
/// Above this limit, processes that are no longer listed are dropped.
const ENDED: usize = 1024;

#[derive(Default)]
pub(super) struct Known {
    processes: HashMap<ProcessId, Lives>,
    /// Processes whose exit was reported.
    ended: HashSet<ProcessId>,
    /// Open sockets by id.
    sockets: HashMap<u64, Open>,
    /// Sockets whose close was reported since the stream was last known to be complete.
    closed: HashSet<u64>,
}

struct Lives {
    process: RawProcess,
    start: Start,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The start of the process was reported.
    Reported,
    /// The process is older than the stream.
    Before,
    /// The start was lost, or the process is older than the stream. Only later events were
    /// reported.
    Unknown,
}

struct Open {
    owner: RawProcess,
    socket: Socket,
    listens: bool,
    /// Whether the start of the connection or listener was reported.
    reported: bool,
}

/// Processes and sockets that are missing from the lists, although the event stream has reported
/// them as alive or open.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) processes: HashSet<ProcessId>,
    pub(super) sockets: HashSet<u64>,
}

impl Known {
    /// Returns whether the event was already reported. Each process and each socket starts and ends
    /// only once.
    pub(super) fn is_repeated(&self, event: &RawEvent) -> bool {
        let id = event.process.map(|process| process.id);
        match &event.what {
            What::ProcessStart { .. } => {
                let known = id.and_then(|id| self.processes.get(&id));
                known.is_some_and(|lives| lives.start == Start::Reported)
            }
            What::ProcessExit { .. } => id.is_some_and(|id| self.ended.contains(&id)),
            What::Tcp { change, socket } => match change {
                TcpChange::Listen | TcpChange::Connect { .. } | TcpChange::Accept => {
                    let known = self.sockets.get(&socket.id);
                    known.is_some_and(|open| open.reported)
                }
                TcpChange::ListenClose | TcpChange::Close { .. } => {
                    self.closed.contains(&socket.id)
                }
                TcpChange::ConnectFailed { .. } | TcpChange::Retransmit { .. } => false,
            },
            _ => false,
        }
    }

    /// Records an event that is reported, or a process or socket that exists without having been
    /// reported.
    pub(super) fn note(&mut self, event: &RawEvent, reported: bool) {
        let Some(process) = event.process else {
            return;
        };
        match &event.what {
            What::ProcessStart { .. } => {
                let start = if reported {
                    Start::Reported
                } else {
                    Start::Before
                };
                self.processes.insert(process.id, Lives { process, start });
            }
            What::ProcessExec { .. } => {
                let known = self.processes.get(&process.id);
                let start = known.map_or(Start::Unknown, |lives| lives.start);
                self.processes.insert(process.id, Lives { process, start });
            }
            What::ProcessExit { .. } => {
                self.processes.remove(&process.id);
                self.ended.insert(process.id);
            }
            What::Tcp { change, socket } => self.note_socket(process, *change, *socket, reported),
            What::ProcessExecFailed { .. }
            | What::ProcessSignal { .. }
            | What::OomKill { .. }
            | What::FileOpen { .. }
            | What::FileChange { .. }
            | What::DnsQuery(_)
            | What::UdpFlow(_)
            | What::Gap { .. } => {}
        }
    }

    fn note_socket(
        &mut self,
        owner: RawProcess,
        change: TcpChange,
        socket: Socket,
        reported: bool,
    ) {
        match change {
            TcpChange::Listen | TcpChange::Connect { .. } | TcpChange::Accept => {
                let open = Open {
                    owner,
                    socket,
                    listens: change == TcpChange::Listen,
                    reported,
                };
                self.sockets.insert(socket.id, open);
            }
            TcpChange::ListenClose | TcpChange::Close { .. } => {
                self.sockets.remove(&socket.id);
                self.closed.insert(socket.id);
            }
            TcpChange::ConnectFailed { .. } | TcpChange::Retransmit { .. } => {}
        }
    }

    /// Drops data that is only needed after a loss, and ended processes that are no longer listed.
    /// Must only be called while the stream is complete.
    pub(super) fn prune(&mut self, batch: &Batch) {
        self.closed.clear();
        if self.ended.len() >= ENDED {
            let listed = ids(batch);
            self.ended.retain(|id| listed.contains(id));
        }
    }

    /// Returns whether the batch has a process that the kernel no longer lists and whose exit was
    /// not reported.
    pub(super) fn awaits_exit(&self, batch: &Batch) -> bool {
        let mut gone = batch.processes.iter().filter(|row| row.gone);
        gone.any(|row| self.processes.contains_key(&row.id))
    }

    /// Returns the processes that are not listed, although they were reported as alive before the
    /// list was made.
    pub(super) fn missing_processes(&self, batch: &Batch) -> HashSet<ProcessId> {
        let listed = ids(batch);
        let known = self.processes.keys().copied();
        known.filter(|id| !listed.contains(id)).collect()
    }

    /// Returns the sockets that are not listed, although they were reported as open before the list
    /// was made.
    pub(super) fn missing_sockets(&self, there: &[SocketSample]) -> HashSet<u64> {
        let listed: HashSet<u64> = there.iter().map(|sample| sample.socket.id).collect();
        let known = self.sockets.keys().copied();
        known.filter(|id| !listed.contains(id)).collect()
    }

    pub(super) fn forget_sockets(&mut self, sockets: &HashSet<u64>) {
        self.sockets.retain(|id, _| !sockets.contains(id));
    }

    /// Returns an end event for each missing process or socket, unless its end was reported in the
    /// meantime.
    pub(super) fn ends(&self, missing: &Missing) -> Vec<RawEvent> {
        let processes = missing.processes.iter();
        let processes = processes.filter_map(|id| self.processes.get(id));
        let exits = processes.map(|lives| untimed(lives.process, What::UNKNOWN_EXIT));
        let sockets = missing.sockets.iter();
        let sockets = sockets.filter_map(|id| self.sockets.get(id));
        let closes = sockets.map(|open| {
            let change = match open.listens {
                true => TcpChange::ListenClose,
                false => TcpChange::UNKNOWN_CLOSE,
            };
            let socket = open.socket;
            untimed(open.owner, What::Tcp { change, socket })
        });
        exits.chain(closes).collect()
    }

    /// Returns the starts of listed processes that are wanted and not known.
    pub(super) fn starts(
        &self,
        batch: &Batch,
        wanted: impl Fn(&ProcessRow) -> bool,
    ) -> Vec<RawEvent> {
        let new = batch.processes.iter().filter(|row| {
            let lives = self.processes.get(&row.id);
            let known = lives.is_some_and(|lives| lives.start != Start::Unknown);
            !known && !self.ended.contains(&row.id) && wanted(row)
        });
        let start = |row: &ProcessRow| {
            let process = RawProcess {
                id: row.id,
                cgroup: row.cgroup,
                comm: row.comm,
                thread: None,
            };
            let parent_pid = row.parent_pid;
            untimed(
                process,
                What::ProcessStart {
                    parent_pid,
                    parent: None,
                },
            )
        };
        new.map(start).collect()
    }

    /// Returns a start event for each listed connection or listener that is not known yet.
    pub(super) fn begins(&self, there: &[SocketSample]) -> Vec<RawEvent> {
        let listeners = Listeners::among(there);
        let new = there.iter().filter(|sample| {
            let id = &sample.socket.id;
            let known = self.sockets.contains_key(id) || self.closed.contains(id);
            sample.begun && sample.wanted && !known
        });
        let begin = |sample: &SocketSample| {
            let change = listeners.beginning(sample);
            let socket = sample.socket;
            untimed(sample.owner, What::Tcp { change, socket })
        };
        new.map(begin).collect()
    }
}

fn ids(batch: &Batch) -> HashSet<ProcessId> {
    batch.processes.iter().map(|row| row.id).collect()
}

/// Returns an event whose time is unknown.
fn untimed(process: RawProcess, what: What) -> RawEvent {
    RawEvent {
        time_ns: 0,
        // The thread that caused the event is also unknown.
        process: Some(RawProcess {
            thread: None,
            ..process
        }),
        what,
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::ExitStatus;

    use super::*;
    use crate::testing::{event, exec, process, start};

    const SECOND: u64 = 1_000_000_000;

    fn exit(process: RawProcess) -> RawEvent {
        let what = What::ProcessExit {
            status: Some(ExitStatus::Code(0)),
            oom_killed: false,
            core_dumped: false,
            parent: None,
            duration_ns: Some(1),
            cpu_ns: None,
            rss_peak_bytes: None,
        };
        event(process, what)
    }

    /// Returns a batch taken 100 s after boot.
    fn batch(processes: &[RawProcess]) -> Batch {
        let row = |process: &RawProcess| ProcessRow {
            id: process.id,
            ..ProcessRow::default()
        };
        Batch {
            time_unix_ns: 100 * SECOND,
            processes: processes.iter().map(row).collect(),
            ..Batch::default()
        }
    }

    fn names(reported: &[RawEvent]) -> Vec<(&'static str, u32)> {
        let name = |event: &RawEvent| (event.what.name(), event.process.map_or(0, |p| p.id.pid));
        reported.iter().map(name).collect()
    }

    /// Returns the start and end events that a comparison of processes finds.
    fn relist(known: &mut Known, batch: &Batch) -> Vec<RawEvent> {
        let processes = known.missing_processes(batch);
        let missing = Missing {
            processes,
            ..Missing::default()
        };
        let mut found = known.ends(&missing);
        found.extend(known.starts(batch, |_| true));
        found.iter().for_each(|event| known.note(event, true));
        found
    }

    #[test]
    fn losses_are_reported_once() {
        let mut known = Known::default();
        let (lives, ended, missed) = (process(1, SECOND), process(2, SECOND), process(3, SECOND));
        known.note(&start(lives), true);
        known.note(&start(ended), true);
        let batch = batch(&[lives, missed]);
        let reported = relist(&mut known, &batch);
        assert_eq!(
            names(&reported),
            [("process.exit", 2), ("process.start", 3)]
        );
        assert_eq!(relist(&mut known, &batch), []);
        // The record was not lost, only late.
        assert!(known.is_repeated(&exit(ended)));
        assert!(known.is_repeated(&start(missed)));
        assert!(!known.is_repeated(&exit(missed)));
        assert!(!known.is_repeated(&start(process(3, 2 * SECOND))));
    }

    #[test]
    fn a_process_that_existed_before_is_not_reported_as_started() {
        let mut known = Known::default();
        let older = process(1, SECOND);
        known.note(&start(older), false);
        assert_eq!(relist(&mut known, &batch(&[older])), []);
        // The process was in the list before its start was reported.
        assert!(!known.is_repeated(&start(older)));
        let reported = relist(&mut known, &batch(&[]));
        assert_eq!(names(&reported), [("process.exit", 1)]);
    }

    #[test]
    fn exec_is_not_a_start() {
        let mut known = Known::default();
        let forked_before = process(1, SECOND);
        known.note(&exec(forked_before), true);
        let reported = relist(&mut known, &batch(&[forked_before]));
        assert_eq!(names(&reported), [("process.start", 1)]);
    }

    #[test]
    fn changes_while_the_lists_are_made_are_no_losses() {
        let mut known = Known::default();
        let (starts, ends) = (process(1, SECOND), process(2, SECOND));
        known.note(&start(ends), true);
        // Process 1 starts after the list is made. The exit record of process 2 is read after the
        // list.
        let missing = Missing {
            processes: known.missing_processes(&batch(&[])),
            ..Missing::default()
        };
        known.note(&start(starts), true);
        known.note(&exit(ends), true);
        assert_eq!(known.ends(&missing), []);
    }

    #[test]
    fn a_zombie_does_not_start_again() {
        let mut known = Known::default();
        let zombie = process(1, SECOND);
        known.note(&start(zombie), true);
        known.note(&exit(zombie), true);
        assert_eq!(relist(&mut known, &batch(&[zombie])), []);
    }

    #[test]
    fn reused_pid_is_another_process() {
        let mut known = Known::default();
        known.note(&start(process(7, SECOND)), true);
        let reported = relist(&mut known, &batch(&[process(7, 2 * SECOND)]));
        assert_eq!(
            names(&reported),
            [("process.exit", 7), ("process.start", 7)]
        );
    }

    fn sample(id: u64, port: u16, listens: bool) -> SocketSample {
        SocketSample {
            owner: process(1, SECOND),
            socket: Socket {
                id,
                local: Some(([127, 0, 0, 1], port).into()),
                peer: (!listens).then(|| ([127, 0, 0, 1], 9).into()),
                netns_cookie: Some(1),
                multipath: false,
            },
            listens,
            accepted: None,
            begun: true,
            wanted: true,
        }
    }

    fn changes(reported: &[RawEvent]) -> Vec<&'static str> {
        let mut reported: Vec<_> = reported.iter().map(|event| event.what.name()).collect();
        reported.sort_unstable();
        reported
    }

    #[test]
    fn existing_connection_to_a_listener_was_accepted() {
        let mut known = Known::default();
        let there = [
            sample(1, 80, true),
            sample(2, 80, false),
            sample(3, 4242, false),
        ];
        let reported = known.begins(&there);
        assert_eq!(
            changes(&reported),
            ["tcp.accept", "tcp.connect", "tcp.listen"]
        );
        reported.iter().for_each(|event| known.note(event, true));
        assert_eq!(known.begins(&there), []);
    }

    #[test]
    fn connecting_socket_is_neither_open_nor_missing() {
        let mut known = Known::default();
        let connects = SocketSample {
            begun: false,
            ..sample(1, 80, false)
        };
        assert_eq!(known.begins(&[connects]), []);
        let reported = known.begins(&[sample(1, 80, false)]);
        reported.iter().for_each(|event| known.note(event, true));
        assert!(known.missing_sockets(&[connects]).is_empty());
    }

    #[test]
    fn missing_sockets_are_closed_once() {
        let mut known = Known::default();
        let there = [sample(1, 80, true), sample(2, 80, false)];
        let reported = known.begins(&there);
        reported.iter().for_each(|event| known.note(event, true));
        let missing = Missing {
            sockets: known.missing_sockets(&[]),
            ..Missing::default()
        };
        let reported = known.ends(&missing);
        assert_eq!(changes(&reported), ["tcp.close", "tcp.listen_close"]);
        reported.iter().for_each(|event| known.note(event, true));
        assert!(reported.iter().all(|event| known.is_repeated(event)));
        // A process or socket that was listed before is not reported as new again.
        assert_eq!(known.begins(&there), []);
    }
}
