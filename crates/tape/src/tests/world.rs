//! Batches and events of a simulated machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use noctule_model::{
    AgentCost, Batch, Blame, BlameRow, BlockClass, Blocked, ByPackage, CgroupId, CgroupRow,
    CloseReason, Comm, ConnectError, Container, ContainerRole, Countable, Counter, Counts, CpuRow,
    DestinationCounter, DestinationRow, DnsAnswer, DnsQuery, DnsQuestion, Driver, Energy,
    EnergySource, Event, EventCounter, EventProcess, ExecContext, ExitStatus, Feature, FeatureId,
    FeatureState, FileChange, FilePath, Group, Histogram, Loss, MapFill, Measured, MemoryRow,
    Namespace, Node, Origin, Owner, PackageRow, PackageUse, Parent, Pod, ProcessId, ProcessRow,
    ProgramCost, QuotaRow, Runtime, Socket, Sockets, TcpChange, ThreadRoom, UdpFlow, WaitRow,
    Waiting, What, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

/// Pseudo-random numbers.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a number below `end`.
    pub(super) fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn happens(&mut self, of: u64) -> bool {
        self.roll(of) == 0
    }

    /// Returns some blocked threads of random classes.
    fn blocked(&mut self) -> Blocked {
        let mut blocked = Blocked::default();
        for class in BlockClass::ALL {
            let threads = self.roll(3) as u32;
            blocked.add(class, threads, u64::from(threads) * self.roll(1 << 40));
        }
        blocked
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.roll(2) == 0).then_some(value)
    }

    fn grow<K: Countable, const N: usize>(
        &mut self,
        counts: &mut Counts<K, N>,
        counters: impl Iterator<Item = K>,
    ) {
        for counter in counters {
            if self.happens(3) {
                counts[counter] += self.roll(1 << 30);
            }
        }
    }

    fn holder(&mut self) -> (Group, u64) {
        let group = match self.roll(4) {
            0 => Group::Kernel,
            1 => Group::Followed,
            2 => Group::Unnamed,
            _ => Group::Cgroup(CgroupId(self.roll(5))),
        };
        (group, self.roll(99))
    }

    fn used(&mut self) -> PackageUse {
        PackageUse {
            cpu_ns: self.roll(99),
            sibling_busy_ns: self.roll(99),
            cycles: self.roll(99),
            reference_cycles: self.roll(99),
            cache_misses: self.roll(99),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.roll(9)).map(|_| self.roll(256) as u8).collect()
    }

    fn address(&mut self) -> SocketAddr {
        let text = ["10.0.0.1:80", "[::1]:443", "[fe80::1%3]:9"][self.roll(3) as usize];
        text.parse().expect("an address")
    }

    fn owner(&mut self, cgroup: CgroupId) -> Arc<Owner> {
        let container = Container {
            id: "c".repeat(64),
            runtime: Runtime::Crio,
            role: ContainerRole::Sandbox,
            name: self.maybe("web".into()),
            image: self.maybe("web:1".into()),
            chain: self.maybe(vec!["a".into(), "b".into()]).unwrap_or_default(),
        };
        let pod = Pod {
            uid: "u-1".into(),
            qos: "burstable",
            name: self.maybe("p".into()),
            namespace: self.maybe("n".into()),
        };
        Arc::new(Owner {
            cgroup,
            path: format!("/g/{}\u{1b}", cgroup.0),
            container: self.maybe(container),
            pod: self.maybe(pod),
            unit: self.maybe("x.service".into()),
        })
    }
}

/// The simulated machine, whose counters only increase.
pub(super) struct World {
    pub(super) dice: Dice,
    batch: Batch,
    histograms: BTreeMap<Group, Histogram>,
    measured: Vec<Counter>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let measured: Vec<Counter> = Counter::all().filter(|_| !dice.happens(4)).collect();
        let mut all: Measured = measured.iter().copied().collect();
        all.extend(EventCounter::all());
        let batch = Batch {
            sequence: 1,
            time_unix_ns: 1_790_000_000_000_000_000,
            boot_unix_ns: 1_780_000_000_000_000_000,
            taken_ns: 5,
            measured: all,
            energy: dice.maybe(Energy::default()),
            packages: vec![PackageRow::default(); 1 + dice.roll(2) as usize],
            ..Batch::default()
        };
        Self {
            dice,
            batch,
            histograms: BTreeMap::new(),
            measured,
        }
    }

    /// Advances by some seconds. Returns the events until then, and the batch.
    pub(super) fn tick(&mut self) -> (Vec<Event>, Batch) {
        self.batch.sequence += 1 + self.dice.roll(2);
        self.batch.taken_ns += 1_000_000_000;
        self.batch.time_unix_ns += 1_000_000_001;
        self.node();
        self.processes();
        self.groups();
        self.waits();
        self.quotas();
        self.memory();
        self.status();
        self.energy();
        let events = (0..self.dice.roll(6)).map(|_| self.event()).collect();
        (events, self.batch.clone())
    }

    fn node(&mut self) {
        let dice = &mut self.dice;
        let node = &mut self.batch.node;
        dice.grow(&mut node.total, self.measured.iter().copied());
        dice.grow(&mut node.events, EventCounter::all());
        *node = Node {
            cpus: 2,
            elapsed_ns: node.elapsed_ns + dice.roll(99),
            interrupt_ns: dice.maybe(7),
            steal_ns: dice.maybe(0),
            steal_included_ns: dice.maybe(5),
            sockets: Sockets {
                connections: dice.roll(9),
                listeners: dice.roll(9),
            },
            nominal_hertz: dice.maybe(3_000_000_000),
            outside_unseen: dice.happens(2),
            ..*node
        };
        for package in &mut self.batch.packages {
            package.id = -1;
            package.idle_ns += dice.roll(5);
            package.used = dice.used();
        }
        self.batch.cpus.retain(|_| !dice.happens(9));
        if self.batch.cpus.is_empty() {
            let cpu = |cpu| CpuRow {
                cpu,
                ..CpuRow::default()
            };
            self.batch.cpus = (0..3).map(cpu).collect();
        }
        for row in &mut self.batch.cpus {
            row.elapsed_ns += dice.roll(9);
            row.steal_ns = dice.maybe(row.elapsed_ns);
            row.holders = (0..dice.roll(4)).map(|_| dice.holder()).collect();
        }
        self.batch.followed_pending = dice.happens(2);
    }

    fn processes(&mut self) {
        let dice = &mut self.dice;
        let rows = &mut self.batch.processes;
        self.batch.exited.clear();
        rows.retain(|row| {
            let ends = dice.happens(6);
            if ends {
                self.batch.exited.push(ProcessRow {
                    exited: true,
                    ..row.clone()
                });
            }
            !ends
        });
        for _ in 0..dice.roll(4) {
            let pid = dice.roll(1000) as u32;
            let cgroup = CgroupId(dice.roll(5));
            let owner = dice.owner(cgroup);
            rows.push(ProcessRow {
                id: ProcessId {
                    pid,
                    start_ns: self.batch.sequence * 1000 + rows.len() as u64,
                },
                parent_pid: 1,
                comm: Comm::new(&dice.bytes()),
                cgroup,
                owner: dice.maybe(owner),
                kernel_thread: dice.happens(2),
                followed: dice.happens(2),
                gone: dice.happens(5),
                ..ProcessRow::default()
            });
        }
        for row in rows.iter_mut() {
            if dice.happens(2) {
                dice.grow(&mut row.counters, self.measured.iter().copied());
                if self.batch.energy.is_some() {
                    dice.grow(&mut row.joules, ZoneKind::ALL.into_iter());
                }
                row.packages = ByPackage::several((0..dice.roll(3)).map(|_| dice.used()));
                row.blocked = dice.blocked();
            }
        }
        rows.sort_by_key(|row| row.id);
    }

    fn groups(&mut self) {
        let dice = &mut self.dice;
        let rows = &mut self.batch.cgroups;
        rows.retain(|_| !dice.happens(6));
        let id = CgroupId(dice.roll(50));
        if rows.iter().all(|row| row.id != id) {
            let owner = dice.owner(id);
            rows.push(CgroupRow {
                id,
                owner: dice.maybe(owner),
                ..CgroupRow::default()
            });
        }
        for row in rows.iter_mut() {
            dice.grow(&mut row.counters, self.measured.iter().copied());
            dice.grow(&mut row.events, EventCounter::all());
            row.removed = dice.happens(5);
            row.sockets.connections = dice.roll(3);
            row.waiting = Waiting::thread(dice.roll(3));
            row.blocked = dice.blocked();
            let room = ThreadRoom {
                threads: dice.roll(9) as u32,
                cpus: dice.roll(3) as u32,
            };
            row.room = dice.maybe(room);
        }
        rows.sort_by_key(|row| row.id);
        let rows = &mut self.batch.destinations;
        rows.retain(|_| !dice.happens(3));
        let (cgroup, address) = (CgroupId(dice.roll(3)), dice.address());
        let destination = dice.maybe(address);
        if rows
            .iter()
            .all(|row| (row.cgroup, row.destination) != (cgroup, destination))
        {
            rows.push(DestinationRow {
                cgroup,
                destination,
                counters: Counts::default(),
            });
        }
        for row in rows.iter_mut() {
            dice.grow(&mut row.counters, DestinationCounter::ALL.into_iter());
        }
        rows.sort_by_key(|row| (row.cgroup, row.destination));
    }

    fn waits(&mut self) {
        let dice = &mut self.dice;
        let groups = [
            Group::Cgroup(CgroupId(dice.roll(9))),
            Group::Kernel,
            Group::Followed,
            Group::Unnamed,
        ];
        let group = groups[dice.roll(4) as usize];
        let histogram = self.histograms.entry(group).or_default();
        for _ in 0..dice.roll(3) {
            *histogram += &Histogram::from_buckets([(dice.roll(1 << 41), 1 + dice.roll(9))]);
            self.batch.all_waits += histogram;
        }
        if dice.happens(5) {
            self.histograms.pop_first();
        }
        let rows = self.histograms.iter().map(|(group, histogram)| WaitRow {
            group: *group,
            histogram: histogram.clone(),
        });
        self.batch.waits = rows.collect();
        self.batch.connects = self.batch.waits.iter().step_by(2).cloned().collect();
        self.batch.all_connects = self.batch.all_waits.clone();
        // A pair only increases until it is removed together with its victim.
        let before = std::mem::take(&mut self.batch.blames);
        let victims = self.histograms.keys();
        let pairs = victims.map(|victim| {
            let known = before.iter().find(|row| row.victim == *victim);
            let mut blame = known.map_or_else(Blame::default, |row| row.blame);
            blame += &Blame {
                wait_ns: dice.roll(99),
                preemptions: dice.roll(9),
            };
            BlameRow {
                victim: *victim,
                culprit: Group::Kernel,
                blame,
            }
        });
        self.batch.blames = pairs.collect();
    }

    fn quotas(&mut self) {
        let dice = &mut self.dice;
        let rows = &mut self.batch.quotas;
        rows.retain(|_| !dice.happens(6));
        let cgroup = CgroupId(dice.roll(9));
        if rows.iter().all(|row| row.cgroup != cgroup) {
            rows.push(QuotaRow {
                cgroup,
                path: format!("/{}", dice.roll(9)),
                cpus: 0.5,
                period_ns: 100_000_000,
                periods: 0,
                throttled_periods: 0,
                throttled_ns: 0,
                ended: false,
            });
        }
        for row in rows.iter_mut().step_by(2) {
            row.cpus = 1.0 + dice.roll(9) as f64 / 7.0;
            row.period_ns = 1_000_000 * dice.roll(9);
            row.ended = dice.happens(3);
            row.periods += dice.roll(11);
            row.throttled_periods += dice.roll(3);
            // When a quota is set again, the kernel counts from 0.
            row.throttled_ns = [0, row.throttled_ns + dice.roll(1 << 30)][dice.roll(2) as usize];
        }
        // Sorts the rows as if they had been read from the cgroup hierarchy.
        rows.sort_by(|a, b| (&a.path, a.cgroup).cmp(&(&b.path, b.cgroup)));
    }

    fn memory(&mut self) {
        let dice = &mut self.dice;
        let rows = &mut self.batch.memory;
        rows.retain(|_| !dice.happens(6));
        let cgroup = CgroupId(dice.roll(9));
        if rows.iter().all(|row| row.cgroup != cgroup) {
            rows.push(MemoryRow {
                cgroup,
                path: format!("/{}", dice.roll(9)),
                taken_ns: 0,
                limit_bytes: None,
                hits: None,
                reread_bytes: 0,
                read_bytes: None,
                under_oom: false,
            });
        }
        for row in rows.iter_mut().step_by(2) {
            row.limit_bytes = dice.happens(2).then(|| dice.roll(1 << 40));
            row.under_oom = dice.happens(3);
            row.taken_ns += dice.roll(1 << 30);
            for (count, sides) in [(&mut row.hits, 11), (&mut row.read_bytes, 1 << 30)] {
                let grown = count.unwrap_or(0) + dice.roll(sides);
                *count = (!dice.happens(4)).then_some(grown);
            }
            row.reread_bytes += 4096 * dice.roll(99);
        }
        // The rows are in the order of a live batch.
        rows.sort_by(|a, b| (&a.path, a.cgroup).cmp(&(&b.path, b.cgroup)));
    }

    fn status(&mut self) {
        let dice = &mut self.dice;
        let states = [FeatureState::On, FeatureState::Degraded, FeatureState::Off];
        let features = FeatureId::ALL.iter().map(|id| Feature {
            id: *id,
            state: states[dice.roll(3) as usize],
            reason: format!("because {}", dice.roll(9)),
            mend: String::new(),
        });
        let features: Vec<_> = features.collect();
        if self.batch.features.is_empty() || dice.happens(5) {
            self.batch.features = features.into();
        }
        self.batch.losses = vec![
            Loss {
                kind: "exit_record",
                place: "switch.exits",
                count: dice.roll(3),
            };
            dice.roll(3) as usize
        ];
        self.batch.agent = AgentCost {
            cpu_ns: dice.roll(99),
            resident_bytes: 1 << 24,
            collect_ns: 5,
            programs: dice.maybe(vec![ProgramCost {
                name: "p".into(),
                run_ns: self.batch.sequence,
                ..ProgramCost::default()
            }]),
            programs_window_ns: 3,
            maps: vec![MapFill {
                name: "tasks",
                entries: dice.roll(9),
                capacity: 9,
            }],
            ..AgentCost::default()
        };
    }

    fn energy(&mut self) {
        let dice = &mut self.dice;
        let Some(energy) = &mut self.batch.energy else {
            return;
        };
        if energy.zones.is_empty() {
            let zone = |kind, parent| Zone {
                socket: Some(0),
                source: EnergySource::HwmonPower,
                parent,
                path: "/sys/z".into(),
                ..Zone::powercap(kind, "z")
            };
            energy.zones = [zone(ZoneKind::Psys, None), zone(ZoneKind::Dram, Some(0))].into();
        }
        let reading = |dice: &mut Dice| ZoneReading {
            energy_uj: dice.roll(u64::MAX),
            before_ns: 1,
            after_ns: 2,
            gaps: 0,
            lost_ns: 7,
            failed_ns: 9,
            state: FeatureState::Degraded,
            reason: dice.maybe("late".into()),
        };
        energy.readings = vec![reading(dice), reading(dice)];
        let account = |dice: &mut Dice| ZoneAccount {
            total_uj: dice.roll(99),
            driver: Driver::Parts,
            sockets_mixed: dice.happens(2),
            exponent: dice.maybe(1.0 / 3.0),
            idle_doubt_uj: dice.roll(1 << 60) as f64 / 7.0,
            error_ratio: dice.maybe(0.1),
            ..ZoneAccount::default()
        };
        self.batch.zone_accounts = vec![account(dice), account(dice)];
    }

    /// Returns events that do not depend on the content of batches.
    pub(super) fn events(seed: u64, count: usize) -> Vec<Event> {
        let mut world = Self {
            dice: Dice::new(seed),
            ..Self::new(seed)
        };
        (0..count).map(|_| world.event()).collect()
    }

    fn event(&mut self) -> Event {
        let now = self.batch.time_unix_ns;
        let dice = &mut self.dice;
        let cgroup = CgroupId(dice.roll(5));
        let owner = dice.owner(cgroup);
        let process = EventProcess {
            id: ProcessId {
                pid: 7,
                start_ns: 8,
            },
            start_unix_ns: now - 5,
            comm: Comm::new(&dice.bytes()),
            thread: {
                let name = Comm::new(&dice.bytes());
                dice.maybe(name)
            },
            cgroup,
            owner: dice.maybe(owner),
        };
        let origins = [Origin::Seen, Origin::Existing, Origin::Reconciled];
        Event {
            time_unix_ns: now - dice.roll(1 << 30),
            origin: origins[dice.roll(3) as usize],
            what: random_what(dice),
            process: dice.maybe(process),
        }
    }
}

fn random_what(dice: &mut Dice) -> What {
    let path = FilePath {
        bytes: dice.bytes(),
        truncated: dice.happens(2),
        deleted: dice.happens(2),
        unreachable: dice.happens(2),
    };
    match dice.roll(12) {
        0 => What::ProcessStart {
            parent_pid: 3,
            parent: parent(dice),
        },
        1 => What::ProcessExec {
            path,
            args: (0..dice.roll(4)).map(|_| dice.bytes()).collect(),
            args_truncated: dice.happens(2),
            uid: 1000,
            context: Box::new(context(dice)),
        },
        2 => What::ProcessExit {
            status: [None, Some(ExitStatus::Code(0)), Some(ExitStatus::Signal(9))]
                [dice.roll(3) as usize],
            oom_killed: dice.happens(2),
            core_dumped: dice.happens(2),
            parent: parent(dice),
            duration_ns: dice.maybe(0),
            cpu_ns: dice.maybe(1),
            rss_peak_bytes: dice.maybe(2),
        },
        3 => What::OomKill {
            rss_bytes: dice.maybe(0),
            limit_bytes: dice.maybe(1),
        },
        4 => What::FileOpen {
            path,
            flags: dice.roll(1 << 20) as u32,
            error: dice.maybe(2),
        },
        5 => What::Gap {
            lost: vec![("tcp.close", 5), ("process.exit", 1)],
            since_unix_ns: dice.maybe(7),
        },
        6 => What::ProcessSignal {
            signal: 9,
            code: -1,
            sender: parent(dice),
        },
        7 => What::FileChange {
            change: file_change(dice),
            path,
            error: dice.maybe(13),
        },
        8 => What::DnsQuery(Box::new(dns_query(dice, path))),
        9 => What::UdpFlow(UdpFlow {
            socket: socket(dice),
            bytes_sent: dice.roll(1 << 40),
            bytes_received: 1,
            packets_sent: 2,
            packets_received: 3,
            duration_ns: 4,
            closed: dice.happens(2),
        }),
        10 => exec_failed(dice, path.bytes),
        _ => What::Tcp {
            change: change(dice),
            socket: socket(dice),
        },
    }
}

fn dns_query(dice: &mut Dice, path: FilePath) -> DnsQuery {
    DnsQuery {
        socket: socket(dice),
        question: DnsQuestion {
            name: path.bytes,
            truncated: path.truncated,
            kind: 28,
        },
        attempts: 2,
        answer: dice.maybe(DnsAnswer {
            code: 3,
            records: 65_535,
            duration_ns: 9,
        }),
        unread: dice.happens(2),
    }
}

fn exec_failed(dice: &mut Dice, bytes: Vec<u8>) -> What {
    What::ProcessExecFailed {
        path: FilePath {
            bytes,
            ..FilePath::default()
        },
        uid: 7,
        parent: parent(dice),
        errno: 13,
    }
}

fn socket(dice: &mut Dice) -> Socket {
    Socket {
        id: dice.roll(9),
        local: {
            let address = dice.address();
            dice.maybe(address)
        },
        peer: None,
        netns_cookie: dice.maybe(1),
        multipath: dice.happens(2),
    }
}

fn file_change(dice: &mut Dice) -> FileChange {
    let second = FilePath {
        bytes: dice.bytes(),
        truncated: dice.happens(2),
        ..FilePath::default()
    };
    match dice.roll(5) {
        0 => FileChange::Delete {
            directory: dice.happens(2),
        },
        1 => FileChange::Rename {
            to: second,
            exchanged: dice.happens(2),
        },
        2 => FileChange::HardLink { to: second },
        3 => FileChange::SymbolicLink { target: second },
        _ => FileChange::Chmod { mode: 0o4755 },
    }
}

fn parent(dice: &mut Dice) -> Option<Parent> {
    let comm = Comm::new(&dice.bytes());
    dice.maybe(Parent {
        id: ProcessId {
            pid: 5,
            start_ns: 6,
        },
        start_unix_ns: 7,
        comm,
    })
}

fn context(dice: &mut Dice) -> ExecContext {
    ExecContext {
        parent: parent(dice),
        ancestors: (0..dice.roll(3))
            .map(|_| Comm::new(&dice.bytes()))
            .collect(),
        effective_uid: 1,
        gid: 2,
        effective_gid: 3,
        capabilities: dice.roll(u64::MAX),
        login_uid: dice.maybe(4),
        audit_session: dice.maybe(5),
        tty: dice.maybe(Comm::new(b"pts0")),
        namespaces: vec![Namespace {
            kind: "mnt",
            inode: 9,
            of_host: [None, Some(true), Some(false)][dice.roll(3) as usize],
        }],
        directory: FilePath {
            bytes: dice.bytes(),
            deleted: dice.happens(2),
            ..FilePath::default()
        },
    }
}

fn change(dice: &mut Dice) -> TcpChange {
    match dice.roll(7) {
        0 => TcpChange::Listen,
        1 => TcpChange::ListenClose,
        2 => TcpChange::Accept,
        3 => TcpChange::Connect {
            duration_ns: dice.maybe(0),
        },
        4 => TcpChange::ConnectFailed {
            reason: ConnectError::ALL[dice.roll(5) as usize],
            errno: 110,
            duration_ns: dice.maybe(5),
        },
        5 => TcpChange::Retransmit {
            segments: 2,
            failed: dice.roll(2) as u32,
        },
        _ => TcpChange::Close {
            bytes_sent: dice.maybe(0),
            bytes_received: dice.maybe(1),
            duration_ns: dice.maybe(2),
            reason: dice.maybe(CloseReason::Keepalive),
            closed_here: {
                let here = dice.happens(2);
                dice.maybe(here)
            },
            retransmits: dice.maybe(3),
            rtt_us: dice.maybe(4),
        },
    }
}
