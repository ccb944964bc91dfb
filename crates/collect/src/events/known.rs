//! What the stream has told: the processes that live and the sockets that are open. After a loss it
//! is compared with what is there.

use std::collections::{HashMap, HashSet};

use noctule_kernel::{RawEvent, RawProcess, SocketSample};
use noctule_model::{Batch, ProcessId, ProcessRow, Socket, TcpChange, What};

use super::beginning;

/// Ended processes of which the kernel may still list a zombie: how many are remembered before
/// those that are gone are looked for.
const ENDED: usize = 1024;

#[derive(Default)]
pub(super) struct Known {
    processes: HashMap<ProcessId, RawProcess>,
    /// Their end was told.
    ended: HashSet<ProcessId>,
    /// By number.
    sockets: HashMap<u64, Open>,
}

struct Open {
    owner: RawProcess,
    socket: Socket,
    listens: bool,
}

impl Known {
    /// Takes note of what is told.
    pub(super) fn note(&mut self, event: &RawEvent) {
        let Some(process) = event.process else {
            return;
        };
        match &event.what {
            What::ProcessStart { .. } | What::ProcessExec { .. } => {
                self.processes.insert(process.id, process);
            }
            What::ProcessExit { .. } => {
                self.processes.remove(&process.id);
                self.ended.insert(process.id);
            }
            What::Tcp { change, socket } => self.note_socket(process, *change, *socket),
            What::OomKill { .. } | What::FileOpen { .. } | What::Gap { .. } => {}
        }
    }

    fn note_socket(&mut self, owner: RawProcess, change: TcpChange, socket: Socket) {
        match change {
            TcpChange::Listen | TcpChange::Connect { .. } | TcpChange::Accept => {
                let listens = change == TcpChange::Listen;
                self.sockets.insert(
                    socket.id,
                    Open {
                        owner,
                        socket,
                        listens,
                    },
                );
            }
            TcpChange::ListenClose | TcpChange::Close { .. } => {
                self.sockets.remove(&socket.id);
            }
            TcpChange::ConnectFailed { .. } | TcpChange::Retransmit { .. } => {}
        }
    }

    /// Forgets ended processes that nothing lists any more.
    pub(super) fn prune(&mut self, batch: &Batch) {
        if self.ended.len() < ENDED {
            return;
        }
        let listed: HashSet<ProcessId> = batch.processes.iter().map(|row| row.id).collect();
        self.ended.retain(|id| listed.contains(id));
    }

    /// Starts and ends that were not told. What has started since the batch is not in it.
    pub(super) fn compare_processes(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Vec<RawEvent> {
        let since_boot = batch.time_unix_ns.saturating_sub(batch.boot_unix_ns);
        let listed: HashSet<ProcessId> = batch.processes.iter().map(|row| row.id).collect();
        let mut told = Vec::new();
        for row in &batch.processes {
            let known = self.processes.contains_key(&row.id) || self.ended.contains(&row.id);
            if known || !wanted(row) {
                continue;
            }
            told.push(untimed(
                RawProcess {
                    id: row.id,
                    cgroup: row.cgroup,
                    comm: row.comm,
                },
                What::ProcessStart {
                    parent_pid: row.parent_pid,
                },
            ));
        }
        let gone = self
            .processes
            .values()
            .filter(|process| !listed.contains(&process.id) && process.id.start_ns < since_boot);
        told.extend(gone.map(|process| {
            untimed(
                *process,
                What::ProcessExit {
                    status: None,
                    oom_killed: false,
                    duration_ns: None,
                    cpu_ns: None,
                    rss_peak_bytes: None,
                },
            )
        }));
        told.iter().for_each(|event| self.note(event));
        self.ended.retain(|id| listed.contains(id));
        told
    }

    /// The same for sockets. `numbered` had a number before the list was made.
    pub(super) fn compare_sockets(
        &mut self,
        there: &[SocketSample],
        numbered: u64,
    ) -> Vec<RawEvent> {
        let listed: HashSet<u64> = there.iter().map(|sample| sample.socket.id).collect();
        let new = there
            .iter()
            .filter(|sample| sample.wanted && !self.sockets.contains_key(&sample.socket.id))
            .map(|sample| {
                let change = beginning(sample, there);
                let socket = sample.socket;
                untimed(sample.owner, What::Tcp { change, socket })
            });
        let mut told: Vec<RawEvent> = new.collect();
        let gone = self
            .sockets
            .values()
            .filter(|open| open.socket.id <= numbered && !listed.contains(&open.socket.id));
        told.extend(gone.map(|open| {
            let change = if open.listens {
                TcpChange::ListenClose
            } else {
                TcpChange::Close {
                    bytes_sent: None,
                    bytes_received: None,
                    duration_ns: None,
                    retransmits: None,
                    rtt_us: None,
                }
            };
            let socket = open.socket;
            untimed(open.owner, What::Tcp { change, socket })
        }));
        told.iter().for_each(|event| self.note(event));
        told
    }
}

/// An event of which the moment is not known.
fn untimed(process: RawProcess, what: What) -> RawEvent {
    RawEvent {
        time_ns: 0,
        process: Some(process),
        what,
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, Comm, ExitStatus};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn process(pid: u32, start_ns: u64) -> RawProcess {
        RawProcess {
            id: ProcessId { pid, start_ns },
            cgroup: CgroupId(1),
            comm: Comm::new(b"some"),
        }
    }

    fn event(process: RawProcess, what: What) -> RawEvent {
        RawEvent {
            time_ns: 1,
            process: Some(process),
            what,
        }
    }

    fn start(process: RawProcess) -> RawEvent {
        event(process, What::ProcessStart { parent_pid: 1 })
    }

    fn exit(process: RawProcess) -> RawEvent {
        let what = What::ProcessExit {
            status: Some(ExitStatus::Code(0)),
            oom_killed: false,
            duration_ns: Some(1),
            cpu_ns: None,
            rss_peak_bytes: None,
        };
        event(process, what)
    }

    /// A batch that was taken 100 s after boot.
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

    fn names(told: &[RawEvent]) -> Vec<(&'static str, u32)> {
        let name = |event: &RawEvent| (event.what.name(), event.process.map_or(0, |p| p.id.pid));
        told.iter().map(name).collect()
    }

    fn all(_: &ProcessRow) -> bool {
        true
    }

    #[test]
    fn what_was_lost_is_told_once() {
        let mut known = Known::default();
        let (lives, ended, missed) = (process(1, SECOND), process(2, SECOND), process(3, SECOND));
        known.note(&start(lives));
        known.note(&start(ended));
        let batch = batch(&[lives, missed]);
        let told = known.compare_processes(&batch, &all);
        assert_eq!(names(&told), [("process.start", 3), ("process.exit", 2)]);
        assert_eq!(known.compare_processes(&batch, &all), []);
    }

    #[test]
    fn a_zombie_does_not_start_again_and_a_later_process_has_not_ended() {
        let mut known = Known::default();
        let (zombie, later) = (process(1, SECOND), process(2, 101 * SECOND));
        known.note(&start(zombie));
        known.note(&exit(zombie));
        known.note(&start(later));
        assert_eq!(known.compare_processes(&batch(&[zombie]), &all), []);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut known = Known::default();
        known.note(&start(process(7, SECOND)));
        let told = known.compare_processes(&batch(&[process(7, 2 * SECOND)]), &all);
        assert_eq!(names(&told), [("process.start", 7), ("process.exit", 7)]);
    }

    #[test]
    fn nobody_is_told_who_is_not_wanted() {
        let mut known = Known::default();
        let told = known.compare_processes(&batch(&[process(1, SECOND)]), &|_| false);
        assert_eq!(told, []);
    }

    fn sample(id: u64, port: u16, listens: bool) -> SocketSample {
        SocketSample {
            owner: process(1, SECOND),
            socket: Socket {
                id,
                local: Some(([127, 0, 0, 1], port).into()),
                peer: (!listens).then(|| ([127, 0, 0, 1], 9).into()),
                netns_cookie: Some(1),
            },
            listens,
            accepted: None,
            existed: true,
            wanted: true,
        }
    }

    #[test]
    fn a_connection_from_before_was_accepted_where_somebody_listens() {
        let mut known = Known::default();
        let there = [
            sample(1, 80, true),
            sample(2, 80, false),
            sample(3, 4242, false),
        ];
        let told = known.compare_sockets(&there, 3);
        let told: Vec<_> = told.iter().map(|event| event.what.name()).collect();
        assert_eq!(told, ["tcp.listen", "tcp.accept", "tcp.connect"]);
        assert_eq!(known.compare_sockets(&there, 3), []);
    }

    #[test]
    fn a_socket_that_is_gone_is_closed_unless_it_is_younger_than_the_list() {
        let mut known = Known::default();
        known.compare_sockets(&[sample(1, 80, true), sample(2, 80, false)], 2);
        let young = sample(3, 4242, false);
        let what = What::Tcp {
            change: TcpChange::Connect { duration_ns: None },
            socket: young.socket,
        };
        known.note(&event(young.owner, what));
        let told = known.compare_sockets(&[], 2);
        let mut told: Vec<_> = told.iter().map(|event| event.what.name()).collect();
        told.sort_unstable();
        assert_eq!(told, ["tcp.close", "tcp.listen_close"]);
    }
}
