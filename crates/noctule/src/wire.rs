//! The way of the data, wired: the only place that names concrete parts.
//!
//! kernel side -> source -> identity -> rollup -> a batch. Every command drives this pipeline and
//! hands the batches to its sink.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use noctule_collect::{CgroupLife, CpuSource, Grace};
use noctule_identity::Registry;
use noctule_kernel::{
    Accounting, CgroupEvents, CgroupVersion, CounterSpec, Error, Facts, Hierarchy, Plan, Wanted,
};
use noctule_model::{Batch, CgroupEvent, CgroupId, Feature, FeatureState, Rollup};

use crate::config::Config;
use crate::stop::{Signals, Woken};

/// Sources, identity and rollup together.
pub(crate) struct Pipeline {
    cpu: CpuSource,
    life: Option<CgroupLife>,
    registry: Registry,
    rollup: Rollup,
    released: Vec<CgroupId>,
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
        let others = [hierarchy(&facts), names, processes(&facts)];
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
        self.released
            .extend(events.iter().filter_map(|event| match event {
                CgroupEvent::Released { id } => Some(*id),
                _ => None,
            }));
        self.registry.apply(&events, now_ns());
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
    let mut features = machine(&facts);
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
        cgroups: collect.cgroup_rows,
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

fn hierarchy(facts: &Facts) -> Feature {
    let name = "cgroup_paths";
    let version = match facts.hierarchy.version {
        CgroupVersion::V2 => "cgroup v2",
        CgroupVersion::V1 => "the cpu controller of cgroup v1",
    };
    let off = |reason: String, mend: &str| Feature {
        name,
        state: FeatureState::Degraded,
        reason,
        mend: mend.to_owned(),
    };
    let Some(mount) = &facts.hierarchy.mount else {
        return off(
            format!("{version} is not mounted here: groups are known by number only"),
            "mount it, or give the container the host's /sys/fs/cgroup read-only",
        );
    };
    if let Some(note) = noctule_identity::namespace_note(Path::new("/")) {
        return off(
            note,
            "run in the host's cgroup namespace (for a pod: hostPID, host /sys)",
        );
    }
    let reason = format!("{version} at {}", mount.display());
    Feature {
        name,
        state: FeatureState::On,
        reason,
        mend: String::new(),
    }
}

fn processes(facts: &Facts) -> Feature {
    let name = "all_processes";
    if facts.pid_namespace {
        return Feature {
            name,
            state: FeatureState::Degraded,
            reason: "runs in a pid namespace: only the processes in it are listed".into(),
            mend: "run in the host's pid namespace (docker --pid=host, hostPID: true)".into(),
        };
    }
    let reason = "runs in the host's pid namespace".to_owned();
    Feature {
        name,
        state: FeatureState::On,
        reason,
        mend: String::new(),
    }
}

/// Facts about the machine that explain the verdicts.
fn machine(facts: &Facts) -> Vec<Feature> {
    let verdict = |name, good: bool, bad_state, reason: String, mend: &str| Feature {
        name,
        state: if good { FeatureState::On } else { bad_state },
        reason,
        mend: if good { String::new() } else { mend.to_owned() },
    };
    let caps = facts.capabilities;
    let held = [
        ("CAP_BPF", caps.bpf),
        ("CAP_PERFMON", caps.perfmon),
        ("CAP_DAC_READ_SEARCH", caps.dac_read_search),
    ];
    let names = |want: bool| -> Vec<&str> {
        held.iter()
            .filter(|(_, has)| *has == want)
            .map(|(name, _)| *name)
            .collect()
    };
    let missing = names(false);
    let privileges = match missing.as_slice() {
        [] => format!("holds {}", names(true).join(", ")),
        missing => format!("lacks {}", missing.join(", ")),
    };
    let enough = caps.bpf && caps.perfmon;
    let lacking = if enough {
        FeatureState::Degraded
    } else {
        FeatureState::Off
    };
    let setcap = "run as root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search=ep noctule";
    let lockdown = facts.lockdown.as_deref();
    let paranoid = facts.perf_event_paranoid;
    vec![
        verdict(
            "privileges",
            missing.is_empty(),
            lacking,
            privileges,
            setcap,
        ),
        verdict(
            "btf",
            facts.btf,
            FeatureState::Off,
            format!(
                "kernel {}: /sys/kernel/btf/vmlinux is {}",
                facts.release,
                if facts.btf {
                    "there"
                } else {
                    "missing or not readable"
                }
            ),
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
        ),
        verdict(
            "tracefs",
            facts.tracefs.is_some(),
            FeatureState::Degraded,
            match &facts.tracefs {
                Some(path) => format!("mounted at {}", path.display()),
                None => "not mounted; nothing that runs now needs it".into(),
            },
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
        verdict(
            "lockdown",
            !matches!(lockdown, Some("confidentiality")),
            FeatureState::Off,
            lockdown.map_or("not active, or securityfs is not mounted".into(), |mode| {
                format!("mode {mode}")
            }),
            "boot without lockdown=confidentiality: it forbids BPF to read kernel memory",
        ),
        verdict(
            "perf_event_paranoid",
            caps.perfmon || paranoid.is_none_or(|level| level <= 0),
            FeatureState::Degraded,
            format!(
                "kernel.perf_event_paranoid is {}{}",
                paranoid.map_or("not readable".into(), |level| level.to_string()),
                if caps.perfmon {
                    "; CAP_PERFMON stands above it"
                } else {
                    ""
                }
            ),
            "sysctl kernel.perf_event_paranoid=0, or add CAP_PERFMON",
        ),
        verdict(
            "nominal_frequency",
            facts.nominal_hertz.is_some(),
            FeatureState::Degraded,
            match facts.nominal_hertz {
                Some(hertz) => format!("{:.2} GHz", hertz as f64 / 1e9),
                None => "the machine does not tell it: frequencies are cycles / CPU time".into(),
            },
            "",
        ),
    ]
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
