//! The way of the data, wired: the only place that names concrete parts.
//!
//! kernel side -> source -> identity -> rollup -> a batch. Every command drives this pipeline and
//! hands the batches to its sink.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use noctule_collect::{CgroupLife, CpuSource, Grace};
use noctule_identity::Registry;
use noctule_kernel::{
    Accounting, CgroupEvents, CounterSpec, Error, Facts, Hierarchy, Plan, WaitMode, Wanted,
};
use noctule_model::{Batch, CgroupEvent, CgroupId, Feature, FeatureState, Rollup};

use crate::config::{self, Config};
use crate::stop::{Signals, Woken};
use crate::verdicts;

/// A group whose directory was removed counts as released after that time: page cache that is charged
/// to it can keep the kernel from letting go of it for hours, while no thread can be in it.
const REMOVED_NS: u64 = 5_000_000_000;

/// Sources, identity and rollup together.
pub(crate) struct Pipeline {
    cpu: CpuSource,
    life: Option<CgroupLife>,
    registry: Registry,
    rollup: Rollup,
    released: Vec<CgroupId>,
    /// Groups of which the directory was removed, and when; the oldest first.
    removed: VecDeque<(u64, CgroupId)>,
}

impl Pipeline {
    /// Loads and attaches everything that works here.
    pub(crate) fn start(config: &Config) -> Result<Self> {
        let facts = Facts::probe(Path::new("/"));
        let wanted = wanted(config);
        let plan = Plan::new(&facts, &wanted)?;
        // The events come first: a group that is made during the walk is in at least one of both.
        let (life, names) = cgroup_life(&facts, wanted.ring_bytes);
        let registry = Registry::new(noctule_identity::Config {
            root: "/".into(),
            cgroup_mount: mount(&facts.hierarchy),
            remember: Duration::from_secs_f64(config.collect.dead_cgroup_memory_seconds),
            ..noctule_identity::Config::default()
        });
        let kernel = Accounting::load(&facts, &plan, &wanted)?;
        let programs = life
            .as_ref()
            .map(|life| life.kernel().programs())
            .unwrap_or_default();
        let others = [
            verdicts::hierarchy(&facts),
            names,
            verdicts::processes(&facts),
        ];
        let cpu = CpuSource::new(
            kernel,
            Grace::default(),
            facts.nominal_hertz,
            programs,
            &others,
        );
        let grace_ns = (config.metrics.grace_seconds * 1e9) as u64;
        Ok(Self {
            cpu,
            life,
            registry,
            rollup: Rollup::new(grace_ns),
            released: Vec::new(),
            removed: VecDeque::new(),
        })
    }

    /// From now on the children of this process are followed.
    pub(crate) fn follow_own_children(&mut self) {
        self.cpu.follow_children_of(std::process::id());
    }

    /// Takes a batch, with names.
    pub(crate) fn tick(&mut self) -> Result<Batch> {
        self.take_events()?;
        let losses: Vec<_> = self.life.iter().map(CgroupLife::loss).collect();
        let mut batch = self.cpu.collect(&self.released, &losses)?;
        self.released.clear();
        // Groups that were made while the batch was taken.
        self.take_events()?;
        self.registry.join(&mut batch);
        self.rollup.apply(&mut batch);
        Ok(batch)
    }

    /// Waits until `deadline` or a signal, and empties the rings when they ask for it.
    pub(crate) fn wait(&mut self, signals: &Signals, deadline: Instant) -> Result<Woken> {
        loop {
            let mut fds: Vec<BorrowedFd<'_>> = vec![self.cpu.wake_fd()];
            fds.extend(self.life.iter().map(|life| life.kernel().wake_fd()));
            match signals.wait(deadline, &fds)? {
                Woken::Data => {
                    self.cpu.drain()?;
                    self.take_events()?;
                }
                woken => return Ok(woken),
            }
        }
    }

    fn take_events(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let events = life.collect()?;
        let now = now_ns();
        for event in &events {
            match event {
                CgroupEvent::Released { id } => self.released.push(*id),
                CgroupEvent::Removed { id } => self.removed.push_back((now, *id)),
                CgroupEvent::Made { .. } | CgroupEvent::Renamed { .. } => {}
            }
        }
        while let Some((at, id)) = self.removed.front().copied()
            && now.saturating_sub(at) > REMOVED_NS
        {
            self.removed.pop_front();
            self.released.push(id);
        }
        self.registry.apply(&events, now);
        Ok(())
    }
}

/// `CLOCK_MONOTONIC`, the clock of the batches.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What this kernel, these privileges and these files allow; nothing stays loaded.
pub(crate) fn examine(config: &Config) -> Vec<Feature> {
    let facts = Facts::probe(Path::new("/"));
    let mut features = verdicts::machine(&facts);
    match Pipeline::start(config).and_then(|mut pipeline| pipeline.tick()) {
        Ok(batch) => features.extend(batch.features.iter().cloned()),
        Err(error) => features.push(Feature {
            name: "cpu_time",
            state: FeatureState::Off,
            reason: format!("{error:#}"),
            mend: String::new(),
        }),
    }
    features
}

fn wanted(config: &Config) -> Wanted {
    let collect = &config.collect;
    Wanted {
        counters: if collect.hardware_counters {
            CounterSpec::HARDWARE.to_vec()
        } else {
            vec![]
        },
        page_cache: collect.page_cache,
        softirqs: collect.softirqs,
        waits: match collect.waits {
            config::WaitMode::Off => WaitMode::Off,
            config::WaitMode::LowCost => WaitMode::LowCost,
            config::WaitMode::Full => WaitMode::Full,
        },
        blames: collect.blame_rows,
        cgroups: collect.cgroup_rows,
        processes: collect.process_rows,
        ring_bytes: collect.ring_bytes,
    }
}

fn mount(hierarchy: &Hierarchy) -> PathBuf {
    // A place where nothing is: ids then stay without paths, and the feature says why.
    hierarchy
        .mount
        .clone()
        .unwrap_or_else(|| PathBuf::from("/nonexistent"))
}

fn cgroup_life(facts: &Facts, ring_bytes: u32) -> (Option<CgroupLife>, Feature) {
    let name = "cgroup_events";
    match CgroupEvents::load(facts, ring_bytes) {
        Ok(events) => {
            let reason = "cgroup tracepoints: groups of any lifetime have a path".to_owned();
            let on = Feature {
                name,
                state: FeatureState::On,
                reason,
                mend: String::new(),
            };
            (Some(CgroupLife::new(events)), on)
        }
        Err(error) => {
            let reason = format!(
                "{}; groups that live less than a tick may have no path",
                chain(&error)
            );
            (
                None,
                Feature {
                    name,
                    state: FeatureState::Degraded,
                    reason,
                    mend: String::new(),
                },
            )
        }
    }
}

/// The error with its causes, on one line.
fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
