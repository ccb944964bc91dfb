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
