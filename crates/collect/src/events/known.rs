//! What the stream has told: the processes that live and the sockets that are open. After a loss it
//! is compared with what is there.

use std::collections::{HashMap, HashSet};

use noctule_kernel::{RawEvent, RawProcess, SocketSample};
use noctule_model::{Batch, ProcessId, ProcessRow, Socket, TcpChange, What};

use super::Listeners;

/// Ended processes of which the kernel may still list a zombie: how many are remembered before
/// those that are gone are looked for.
const ENDED: usize = 1024;

#[derive(Default)]
pub(super) struct Known {
    processes: HashMap<ProcessId, Lives>,
    /// Their end was told.
    ended: HashSet<ProcessId>,
    /// By number.
    sockets: HashMap<u64, Open>,
    /// Sockets of which the end was told since the last look began.
    closed: HashSet<u64>,
    /// What this look has found, and who was in what the one before has found.
    found: Vec<RawEvent>,
    found_before: HashSet<Difference>,
}

/// Who began or ended without being told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Difference {
    Process(ProcessId, bool),
    Socket(u64, bool),
}

impl Difference {
    fn of(event: &RawEvent) -> Option<Self> {
        match &event.what {
            What::ProcessStart { .. } => Some(Self::Process(event.process?.id, true)),
            What::ProcessExit { .. } => Some(Self::Process(event.process?.id, false)),
            What::Tcp { change, socket } => {
                let ends = matches!(change, TcpChange::ListenClose | TcpChange::Close { .. });
                Some(Self::Socket(socket.id, !ends))
            }
            _ => None,
        }
    }

    fn begins(self) -> bool {
        matches!(self, Self::Process(_, true) | Self::Socket(_, true))
    }
}

struct Lives {
    process: RawProcess,
    /// Its start was told. Of one that executes a program and started before the stream, or whose
    /// start was lost, it was not.
    started: bool,
}

struct Open {
    owner: RawProcess,
    socket: Socket,
    listens: bool,
}

impl Known {
    /// Whether an event is the start of a process that was told already.
    pub(super) fn has_started(&self, event: &RawEvent) -> bool {
        let starts = matches!(event.what, What::ProcessStart { .. });
        starts && event.process.is_some_and(|p| self.was_started(p.id))
    }

    fn was_started(&self, id: ProcessId) -> bool {
        self.processes.get(&id).is_some_and(|lives| lives.started)
    }

    /// Takes note of what is told.
    pub(super) fn note(&mut self, event: &RawEvent) {
        let Some(process) = event.process else {
            return;
        };
        match &event.what {
            What::ProcessStart { .. } => {
                let started = true;
                self.processes
                    .insert(process.id, Lives { process, started });
            }
            What::ProcessExec { .. } => {
                let started = self.was_started(process.id);
                self.processes
                    .insert(process.id, Lives { process, started });
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
                self.closed.insert(socket.id);
            }
            TcpChange::ConnectFailed { .. } | TcpChange::Retransmit { .. } => {}
        }
    }

    /// Between looks: forgets what only a look asks for, and ended processes that nothing lists any
    /// more.
    pub(super) fn prune(&mut self, batch: &Batch) {
        self.closed.clear();
        if self.ended.len() < ENDED {
            return;
        }
        let listed: HashSet<ProcessId> = batch.processes.iter().map(|row| row.id).collect();
        self.ended.retain(|id| listed.contains(id));
    }

    /// Before the lists of a look are made.
    pub(super) fn begin_look(&mut self) {
        self.closed.clear();
        let last = std::mem::take(&mut self.found);
        self.found_before = last.iter().filter_map(Difference::of).collect();
    }

    /// Takes out what the look has found that began.
    pub(super) fn take_new(&mut self) -> Vec<RawEvent> {
        let begins = |event: &RawEvent| Difference::of(event).is_some_and(Difference::begins);
        self.found.extract_if(.., |event| begins(event)).collect()
    }

    /// Takes out what the look before has found too.
    pub(super) fn take_confirmed(&mut self) -> Vec<RawEvent> {
        let before = std::mem::take(&mut self.found_before);
        let confirmed =
            |event: &RawEvent| Difference::of(event).is_some_and(|d| before.contains(&d));
        self.found
            .extract_if(.., |event| confirmed(event))
            .collect()
    }

    /// Finds starts and ends that were not told.
    pub(super) fn compare_processes(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) {
        let listed: HashSet<ProcessId> = batch.processes.iter().map(|row| row.id).collect();
        for row in &batch.processes {
            let known = self.was_started(row.id) || self.ended.contains(&row.id);
            if known || !wanted(row) {
                continue;
            }
            self.found.push(untimed(
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
            .filter(|lives| !listed.contains(&lives.process.id));
        self.found.extend(gone.map(|lives| {
            untimed(
                lives.process,
                What::ProcessExit {
                    status: None,
                    oom_killed: false,
                    duration_ns: None,
                    cpu_ns: None,
                    rss_peak_bytes: None,
                },
            )
        }));
        self.ended.retain(|id| listed.contains(id));
    }

    /// The same for sockets.
    pub(super) fn compare_sockets(&mut self, there: &[SocketSample]) {
        let listed: HashSet<u64> = there.iter().map(|sample| sample.socket.id).collect();
        let listeners = Listeners::among(there);
        let new = there
            .iter()
            .filter(|sample| {
                let id = &sample.socket.id;
                sample.wanted && !self.sockets.contains_key(id) && !self.closed.contains(id)
            })
            .map(|sample| {
                let change = listeners.beginning(sample);
                let socket = sample.socket;
                untimed(sample.owner, What::Tcp { change, socket })
            });
        self.found.extend(new);
        let gone = self
            .sockets
            .values()
            .filter(|open| !listed.contains(&open.socket.id));
        self.found.extend(gone.map(|open| {
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
    use noctule_model::{CgroupId, Comm, ExitStatus, FilePath};

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

    /// Two looks at the same, and what is told then.
    fn look_twice(known: &mut Known, look: impl Fn(&mut Known)) -> Vec<RawEvent> {
        for _ in 0..2 {
            known.begin_look();
            look(known);
        }
        let told = known.take_confirmed();
        told.iter().for_each(|event| known.note(event));
        told
    }

    #[test]
    fn what_was_lost_is_told_once() {
        let mut known = Known::default();
        let (lives, ended, missed) = (process(1, SECOND), process(2, SECOND), process(3, SECOND));
        known.note(&start(lives));
        known.note(&start(ended));
        let batch = batch(&[lives, missed]);
        let look = |known: &mut Known| known.compare_processes(&batch, &all);
        let told = look_twice(&mut known, look);
        assert_eq!(names(&told), [("process.start", 3), ("process.exit", 2)]);
        assert_eq!(look_twice(&mut known, look), []);
    }

    #[test]
    fn a_process_that_was_listed_starts_no_second_time() {
        let mut known = Known::default();
        let listed = process(1, SECOND);
        assert!(!known.has_started(&start(listed)));
        known.begin_look();
        known.compare_processes(&batch(&[listed]), &all);
        known.take_new().iter().for_each(|event| known.note(event));
        assert!(known.has_started(&start(listed)));
        assert!(!known.has_started(&exit(listed)));
        assert!(!known.has_started(&start(process(1, 2 * SECOND))));
    }

    #[test]
    fn to_execute_a_program_is_not_to_start() {
        let mut known = Known::default();
        let forked_before = process(1, SECOND);
        let what = What::ProcessExec {
            path: FilePath::default(),
            args: Vec::new(),
            args_truncated: false,
            uid: 0,
        };
        known.note(&event(forked_before, what));
        known.begin_look();
        known.compare_processes(&batch(&[forked_before]), &all);
        assert_eq!(names(&known.take_new()), [("process.start", 1)]);
    }

    #[test]
    fn what_happens_during_a_look_is_no_loss() {
        let mut known = Known::default();
        let (starts, ends) = (process(1, SECOND), process(2, SECOND));
        known.note(&start(starts));
        known.note(&start(ends));
        // One is not in the list yet; the record of the other's end is on its way.
        known.begin_look();
        known.compare_processes(&batch(&[]), &all);
        known.note(&exit(ends));
        known.begin_look();
        known.compare_processes(&batch(&[starts]), &all);
        assert_eq!(known.take_confirmed(), []);
    }

    #[test]
    fn a_zombie_does_not_start_again() {
        let mut known = Known::default();
        let zombie = process(1, SECOND);
        known.note(&start(zombie));
        known.note(&exit(zombie));
        let told = look_twice(&mut known, |known| {
            known.compare_processes(&batch(&[zombie]), &all);
        });
        assert_eq!(told, []);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut known = Known::default();
        known.note(&start(process(7, SECOND)));
        let told = look_twice(&mut known, |known| {
            known.compare_processes(&batch(&[process(7, 2 * SECOND)]), &all);
        });
        assert_eq!(names(&told), [("process.start", 7), ("process.exit", 7)]);
    }

    #[test]
    fn nobody_is_told_who_is_not_wanted() {
        let mut known = Known::default();
        let told = look_twice(&mut known, |known| {
            known.compare_processes(&batch(&[process(1, SECOND)]), &|_| false);
        });
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
            wanted: true,
        }
    }

    fn changes(told: &[RawEvent]) -> Vec<&'static str> {
        let mut told: Vec<_> = told.iter().map(|event| event.what.name()).collect();
        told.sort_unstable();
        told
    }

    #[test]
    fn a_connection_from_before_was_accepted_where_somebody_listens() {
        let mut known = Known::default();
        let there = [
            sample(1, 80, true),
            sample(2, 80, false),
            sample(3, 4242, false),
        ];
        known.begin_look();
        known.compare_sockets(&there);
        let told = known.take_new();
        assert_eq!(changes(&told), ["tcp.accept", "tcp.connect", "tcp.listen"]);
        told.iter().for_each(|event| known.note(event));
        known.begin_look();
        known.compare_sockets(&there);
        assert_eq!(known.take_new(), []);
    }

    #[test]
    fn sockets_that_are_gone_are_closed() {
        let mut known = Known::default();
        let there = [sample(1, 80, true), sample(2, 80, false)];
        known.begin_look();
        known.compare_sockets(&there);
        known.take_new().iter().for_each(|event| known.note(event));
        let told = look_twice(&mut known, |known| known.compare_sockets(&[]));
        assert_eq!(changes(&told), ["tcp.close", "tcp.listen_close"]);
    }

    #[test]
    fn a_socket_that_is_closed_after_it_was_listed_does_not_begin() {
        let mut known = Known::default();
        let gone = sample(1, 80, false);
        known.begin_look();
        let what = What::Tcp {
            change: TcpChange::Close {
                bytes_sent: None,
                bytes_received: None,
                duration_ns: None,
                retransmits: None,
                rtt_us: None,
            },
            socket: gone.socket,
        };
        known.note(&event(gone.owner, what));
        known.compare_sockets(&[gone]);
        assert_eq!(known.take_new(), []);
    }
}
