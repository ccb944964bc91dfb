//! A simulated machine: processes start, execute and end in any order. Rings are read late and lose
//! records, and batches are taken at any time. After a while without losses, starts = ends + alive
//! + lost must hold for every order of events.
//!
//! `NOCTULE_STEPS=10000000 cargo test --release -p noctule-collect interleavings` sets the number
//! of steps.

use std::collections::{HashMap, VecDeque};

use noctule_kernel::{RawEvent, RawProcess};
use noctule_model::{Batch, ProcessId, ProcessRow, What};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::TestRunner;

use super::START_NS;
use super::known::{Known, Missing};
use super::relist::Relist;
use crate::testing::{event, exec, process, start};

const SECOND: u64 = 1_000_000_000;

/// How long a process stays listed if its exit was lost in the ring of accounts, as in
/// `Grace::default` and `cpu::processes`.
const GRACE_NS: u64 = 5 * SECOND;
const MISSED: u32 = 3;

/// Capacity of the ring of events.
const ROOM: usize = 6;

const STEPS: usize = 400;

/// A step of the machine.
#[derive(Clone, Debug)]
enum Step {
    Fork,
    Exec(u8),
    /// `recorded`: the ring of accounts contains the exit. `zombie`: the kernel lists the process
    /// one more time.
    Exit {
        which: u8,
        recorded: bool,
        zombie: bool,
    },
    /// Reads the ring of events.
    Read,
    /// Takes a batch. The first steps happen between the batch and the comparison, and the second
    /// steps happen during the comparison.
    Tick(Vec<Step>, Vec<Step>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let life = prop_oneof![
        4 => Just(Step::Fork),
        1 => any::<u8>().prop_map(Step::Exec),
        4 => (any::<u8>(), any::<bool>(), any::<bool>()).prop_map(|(which, recorded, zombie)| {
            Step::Exit { which, recorded, zombie }
        }),
    ];
    let life = life.boxed();
    let few = vec(life.clone(), 0..3);
    let tick = (few.clone(), few).prop_map(|(before, within)| Step::Tick(before, within));
    let step = prop_oneof![8 => life, 3 => Just(Step::Read), 2 => tick];
    vec(step, STEPS)
}

/// The life of a process, and the events that the stream has reported about the process.
#[derive(Debug, Default)]
struct ReportedLife {
    /// Whether the process is older than the stream.
    before: bool,
    ended: bool,
    starts: u32,
    exits: u32,
}

/// A process that has ended but is still listed in batches.
struct Listed {
    process: RawProcess,
    /// Whether the kernel lists the process.
    zombie: bool,
    gone_ns: Option<u64>,
    missed: u32,
}

#[derive(Default)]
struct Lost {
    starts: usize,
    execs: usize,
    exits: usize,
}

impl Lost {
    fn all(&self) -> usize {
        self.starts + self.execs + self.exits
    }
}

/// The simulated machine, and the stream as `EventSource` drives it.
struct World {
    now_ns: u64,
    interval_ns: u64,
    batch_ns: u64,
    alive: Vec<RawProcess>,
    listed: Vec<Listed>,
    ring: VecDeque<RawEvent>,
    lost: Lost,
    told: HashMap<ProcessId, ReportedLife>,
    known: Known,
    relist: Relist,
    lost_before: usize,
    gap: bool,
    whole_ns: u64,
}

impl World {
    /// Creates a machine with some processes that are older than the stream.
    fn new(interval_s: u64) -> Self {
        let mut this = Self {
            now_ns: 100 * SECOND,
            interval_ns: interval_s * SECOND,
            batch_ns: 100 * SECOND,
            alive: Vec::new(),
            listed: Vec::new(),
            ring: VecDeque::new(),
            lost: Lost::default(),
            told: HashMap::new(),
            known: Known::default(),
            relist: Relist::new(GRACE_NS),
            lost_before: 0,
            gap: false,
            whole_ns: 100 * SECOND,
        };
        for pid in 1..4 {
            let process = process(pid, SECOND);
            this.known.note(&start(process), false);
            let older = ReportedLife {
                before: true,
                ..ReportedLife::default()
            };
            this.told.insert(process.id, older);
            this.alive.push(process);
        }
        this
    }

    fn step(&mut self, step: &Step) {
        // Each record has its own time.
        self.now_ns += 1_000_000;
        match step {
            Step::Fork => self.fork(),
            Step::Exec(which) => {
                if let Some(at) = self.pick(*which) {
                    self.record(exec(self.alive[at]));
                }
            }
            Step::Exit {
                which,
                recorded,
                zombie,
            } => {
                if let Some(at) = self.pick(*which) {
                    self.exit(at, *recorded, *zombie);
                }
            }
            Step::Read => self.read(),
            Step::Tick(before, within) => self.tick(before, within),
        }
    }

    fn pick(&self, which: u8) -> Option<usize> {
        (usize::from(which)).checked_rem(self.alive.len())
    }

    /// Starts a process with the lowest free PID, so that PIDs are reused.
    fn fork(&mut self) {
        let free = |pid: &u32| self.alive.iter().all(|other| other.id.pid != *pid);
        let Some(pid) = (1..).find(free) else { return };
        let process = process(pid, self.now_ns);
        self.told.insert(process.id, ReportedLife::default());
        self.alive.push(process);
        self.record(start(process));
    }

    fn exit(&mut self, at: usize, recorded: bool, zombie: bool) {
        let process = self.alive.swap_remove(at);
        self.told.entry(process.id).or_default().ended = true;
        if !recorded || zombie {
            self.listed.push(Listed {
                process,
                zombie,
                gone_ns: None,
                // If its exit was recorded, the process disappears as soon as the kernel stops
                // listing it.
                missed: if recorded { u32::MAX } else { 0 },
            });
        }
        self.record(exit(process));
    }

    fn record(&mut self, event: RawEvent) {
        if self.ring.len() < ROOM {
            return self.ring.push_back(event);
        }
        match event.what {
            What::ProcessStart { .. } => self.lost.starts += 1,
            What::ProcessExit { .. } => self.lost.exits += 1,
            _ => self.lost.execs += 1,
        }
    }

    /// Works like `EventSource::collect`.
    fn read(&mut self) {
        for event in std::mem::take(&mut self.ring) {
            self.report(&event);
        }
        if self.lost.all() != self.lost_before {
            self.lost_before = self.lost.all();
            self.gap = true;
        }
    }

    /// Reports an event. No process may start or end twice, and no live process may end.
    fn report(&mut self, event: &RawEvent) {
        if self.known.is_repeated(event) {
            return;
        }
        self.known.note(event, true);
        let id = event.process.expect("each has one").id;
        let told = self.told.get_mut(&id).expect("it was there");
        match event.what {
            What::ProcessStart { .. } => {
                told.starts += 1;
                assert!(told.starts == 1 && !told.before, "{id:?}: {told:?}");
            }
            What::ProcessExit { .. } => {
                told.exits += 1;
                assert!(told.exits == 1 && told.ended, "{id:?}: {told:?}");
            }
            _ => {}
        }
    }

    /// Works like `Pipeline::tick` with `EventSource::reconcile` and `EventSource::relist`.
    fn tick(&mut self, before: &[Step], within: &[Step]) {
        self.now_ns = self.now_ns.max(self.batch_ns + self.interval_ns);
        let now_ns = self.now_ns;
        let batch = self.batch();
        before.iter().for_each(|step| self.step(step));
        if std::mem::take(&mut self.gap) {
            self.relist.begin(now_ns);
        }
        let losing = self.lost.all() != self.lost_before;
        let waits = self.known.awaits_exit(&batch);
        if self.relist.is_over(now_ns, losing, waits) {
            self.whole_ns = self.now_ns;
            self.known.prune(&batch);
            return;
        }
        let missing = Missing {
            processes: self.known.missing_processes(&batch),
            ..Missing::default()
        };
        within.iter().for_each(|step| self.step(step));
        self.read();
        let mut found = self.known.ends(&missing);
        let whole_ns = self.whole_ns;
        let began = |row: &ProcessRow| row.id.start_ns + START_NS > whole_ns;
        found.extend(self.known.starts(&batch, began));
        found.iter().for_each(|event| self.report(event));
    }

    /// Returns a batch with live processes and with ended processes that are still listed.
    fn batch(&mut self) -> Batch {
        let before_ns = std::mem::replace(&mut self.batch_ns, self.now_ns);
        let now_ns = self.now_ns;
        let row = |process: &RawProcess, gone| ProcessRow {
            id: process.id,
            gone,
            ..ProcessRow::default()
        };
        let mut processes: Vec<_> = self.alive.iter().map(|it| row(it, false)).collect();
        self.listed.retain_mut(|it| {
            if std::mem::take(&mut it.zombie) {
                processes.push(row(&it.process, false));
                return true;
            }
            let gone_ns = *it.gone_ns.get_or_insert(before_ns);
            it.missed = it.missed.saturating_add(1);
            let recorded = it.missed == u32::MAX;
            let stays = !recorded && (it.missed <= MISSED || now_ns - gone_ns <= GRACE_NS);
            if stays {
                processes.push(row(&it.process, true));
            }
            stays
        });
        Batch {
            taken_ns: self.now_ns,
            processes,
            ..Batch::default()
        }
    }

    /// Checks the invariant after a while without losses.
    fn settle(&mut self) {
        for _ in 0..10 {
            self.read();
            self.tick(&[], &[]);
        }
        self.read();
        let told = || self.told.values();
        for told in told() {
            let began = u32::from(!told.before);
            match told.ended {
                false => assert_eq!((told.starts, told.exits), (began, 0), "{told:?}"),
                true if told.starts == began => assert_eq!(told.exits, 1, "{told:?}"),
                true => {}
            }
        }
        let exits = told().filter(|told| told.exits == 1).count();
        let unseen = told().filter(|told| told.ended && told.exits == 0).count();
        assert_eq!(told().count(), exits + self.alive.len() + unseen);
        assert!(
            unseen <= self.lost.exits,
            "no gap counts {unseen} of the ends"
        );
        let silent = told().filter(|told| !told.before && told.starts == 0);
        assert!(
            silent.count() <= self.lost.starts,
            "no gap counts the missing starts"
        );
    }
}

fn exit(process: RawProcess) -> RawEvent {
    event(process, What::UNKNOWN_EXIT)
}

#[test]
fn starts_equal_exits_plus_alive_plus_lost() {
    let wanted = std::env::var("NOCTULE_STEPS");
    let wanted: usize = wanted.map_or(100_000, |text| text.parse().expect("a number"));
    let cases = wanted.div_ceil(STEPS) as u32;
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    });
    let run = runner.run(&(1..12_u64, steps()), |(interval_s, steps)| {
        let mut world = World::new(interval_s);
        steps.iter().for_each(|step| world.step(step));
        world.settle();
        Ok(())
    });
    run.expect("the property holds in every order");
}
