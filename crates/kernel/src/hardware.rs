//! Hardware counters: each CPU has one group of perf events, which counts everything that runs on
//! the CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use noctule_model::Counter;
use perf_event::events::{Hardware as HardwareEvent, Software as SoftwareEvent};
use perf_event::{Builder, Counter as PerfCounter};
use rustix::process::{Resource, getrlimit};

use crate::abi::CpuSlot;

/// Number of counters in `struct cpu_slot` and in the `hardware` map.
pub(crate) const SLOTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// A generic hardware event.
    Hardware(HardwareEvent),
    /// A software event. Software events exist on every machine, and replace hardware events in
    /// tests.
    Software(SoftwareEvent),
}

impl PerfEvent {
    pub const CYCLES: Self = Self::Hardware(HardwareEvent::CPU_CYCLES);
    /// Cycles of the reference clock.
    pub const REFERENCE_CYCLES: Self = Self::Hardware(HardwareEvent::REF_CPU_CYCLES);
    /// Retired instructions.
    pub const INSTRUCTIONS: Self = Self::Hardware(HardwareEvent::INSTRUCTIONS);
    /// Last-level cache misses.
    pub const CACHE_MISSES: Self = Self::Hardware(HardwareEvent::CACHE_MISSES);
    /// Page faults (software).
    pub const PAGE_FAULTS: Self = Self::Software(SoftwareEvent::PAGE_FAULTS);
    /// Time on the CPU in nanoseconds (software).
    pub const CPU_CLOCK: Self = Self::Software(SoftwareEvent::CPU_CLOCK);
    /// Minor page faults (software).
    pub const MINOR_FAULTS: Self = Self::Software(SoftwareEvent::PAGE_FAULTS_MIN);
    /// Context switches (software).
    pub const CONTEXT_SWITCHES: Self = Self::Software(SoftwareEvent::CONTEXT_SWITCHES);
}

/// A counter, and the event that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSpec {
    /// One of the four hardware counters.
    pub counter: Counter,
    pub event: PerfEvent,
}

impl CounterSpec {
    /// The four hardware counters.
    pub const HARDWARE: [Self; SLOTS] = [
        Self {
            counter: Counter::Cycles,
            event: PerfEvent::CYCLES,
        },
        Self {
            counter: Counter::ReferenceCycles,
            event: PerfEvent::REFERENCE_CYCLES,
        },
        Self {
            counter: Counter::Instructions,
            event: PerfEvent::INSTRUCTIONS,
        },
        Self {
            counter: Counter::CacheMisses,
            event: PerfEvent::CACHE_MISSES,
        },
    ];

    /// Returns the index among the four counters.
    fn slot(self) -> usize {
        self.counter.index() - Counter::Cycles.index()
    }
}

/// The open events.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    specs: Vec<CounterSpec>,
    cpus: BTreeMap<u32, Vec<PerfCounter>>,
    /// CPUs whose events are in the map. The events of the probed CPU are opened before the map
    /// exists.
    reported: BTreeSet<u32>,
    retry: Retry,
}

/// Descriptors reserved for programs and maps, for HTTP, and for reading /proc.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Retry schedule after a failure: after 1, 2, 4 and more ticks, and when CPUs come online or go
/// offline.
#[derive(Debug, Default)]
struct Retry {
    online: Vec<u32>,
    wait: u32,
    left: u32,
}

impl Retry {
    /// Maximum number of ticks between two attempts.
    const MOST: u32 = 1024;

    /// Returns whether to try now. Called once per tick.
    fn is_due(&mut self, online: &[u32]) -> bool {
        if self.online != online {
            *self = Self {
                online: online.to_vec(),
                ..Self::default()
            };
        }
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    fn refused(&mut self) {
        self.wait = (2 * self.wait).clamp(1, Self::MOST);
        self.left = self.wait;
    }
}

impl Hardware {
    /// Opens each event on one CPU to find out which events this machine has. All events are opened
    /// in one group, so that the counters of a time slice cover the same time. Events that do not
    /// fit into the group are rejected.
    pub(crate) fn probe(specs: &[CounterSpec], cpu: u32) -> (Self, Vec<(CounterSpec, io::Error)>) {
        let mut refused = Vec::new();
        let mut opened = Vec::new();
        let mut accepted = Vec::new();
        for &spec in specs {
            let counter = open(spec.event, cpu, opened.first_mut());
            match counter {
                Ok(counter) => {
                    opened.push(counter);
                    accepted.push(spec);
                }
                Err(error) => refused.push((spec, error)),
            }
        }
        let cpus = if opened.is_empty() {
            BTreeMap::new()
        } else {
            [(cpu, opened)].into()
        };
        (
            Self {
                specs: accepted,
                cpus,
                ..Self::default()
            },
            refused,
        )
    }

    /// Returns the value of `hardware_mask`.
    pub(crate) fn mask(&self) -> u32 {
        self.specs
            .iter()
            .fold(0, |mask, spec| mask | 1 << spec.slot())
    }

    /// Returns the open counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter> + '_ {
        self.specs.iter().map(|spec| spec.counter)
    }

    /// Opens and closes events for CPUs that came online or went offline, and updates the map.
    /// Called once per tick. An event on a CPU that went offline no longer counts. Such an event is
    /// closed here and opened again when the CPU comes back online.
    pub(crate) fn follow(&mut self, online: &[u32], map: &MapHandle) -> Vec<(u32, io::Error)> {
        if self.specs.is_empty() {
            return Vec::new();
        }
        self.cpus.retain(|cpu, _| online.contains(cpu));
        self.reported.retain(|cpu| online.contains(cpu));
        let missing = |cpu: &&u32| !self.reported.contains(cpu);
        let missing: Vec<u32> = online.iter().filter(missing).copied().collect();
        if missing.is_empty() || !self.retry.is_due(online) {
            return Vec::new();
        }
        let room = descriptors_left().saturating_sub(RESERVED_DESCRIPTORS);
        let room = (room / self.specs.len() as u64) as usize;
        let mut problems = Vec::new();
        for (number, cpu) in missing.into_iter().enumerate() {
            let opened = if number < room {
                self.open_cpu(cpu, map)
            } else {
                self.cpus.remove(&cpu);
                Err(io::Error::other(
                    "too many open files: raise RLIMIT_NOFILE (ulimit -n)",
                ))
            };
            problems.extend(opened.err().map(|error| (cpu, error)));
        }
        if !problems.is_empty() {
            self.retry.refused();
        }
        problems
    }

    fn open_cpu(&mut self, cpu: u32, map: &MapHandle) -> io::Result<()> {
        if self.reported.contains(&cpu) {
            return Ok(());
        }
        let mut opened = self.cpus.remove(&cpu).unwrap_or_default();
        if opened.is_empty() {
            for spec in &self.specs {
                let counter = open(spec.event, cpu, opened.first_mut())?;
                opened.push(counter);
            }
        }
        start(&mut opened)?;
        for (spec, counter) in self.specs.iter().zip(&opened) {
            let key = cpu * SLOTS as u32 + spec.slot() as u32;
            let fd = counter.as_raw_fd() as u32;
            map.update(&key.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(io::Error::other)?;
        }
        self.reported.insert(cpu);
        self.cpus.insert(cpu, opened);
        Ok(())
    }

    /// Returns the counts of the thread running on the CPU since the last switch there, scaled as
    /// in the BPF program. The caller must have read `slot` immediately before.
    pub(crate) fn since_switch(&mut self, cpu: u32, slot: &CpuSlot) -> Vec<(Counter, u64)> {
        let Some(counters) = self.cpus.get_mut(&cpu) else {
            return Vec::new();
        };
        let mut growth = Vec::with_capacity(counters.len());
        for (spec, counter) in self.specs.iter().zip(counters) {
            let Ok(now) = counter.read_count_and_time() else {
                continue;
            };
            let last = &slot.last[spec.slot()];
            let count = now.count.saturating_sub(last.counter);
            let enabled = now.time_enabled.saturating_sub(last.enabled);
            let running = now.time_running.saturating_sub(last.running);
            growth.push((spec.counter, scaled(count, enabled, running)));
        }
        growth
    }
}

/// Returns how many more files can be opened; 0 if not known.
pub fn descriptors_left() -> u64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = fs::read_dir("/proc/self/fd").map_or(u64::MAX, |open| open.count() as u64);
    limit.saturating_sub(open)
}

fn scaled(count: u64, enabled: u64, running: u64) -> u64 {
    if running == 0 || running >= enabled {
        return count;
    }
    (u128::from(count) * u128::from(enabled) / u128::from(running)) as u64
}

/// Opens an event as leader or member of a group. The leader stays disabled until [`start`],
/// because the kernel does not schedule a member that joins a running group.
fn open(event: PerfEvent, cpu: u32, leader: Option<&mut PerfCounter>) -> io::Result<PerfCounter> {
    let mut builder = match event {
        PerfEvent::Hardware(event) => Builder::new(event),
        PerfEvent::Software(event) => Builder::new(event),
    };
    builder
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .include_hv();
    match leader {
        Some(leader) => builder.enabled(true).build_with_group(leader),
        None => builder.enabled(false).build(),
    }
}

/// Enables the group whose leader is the first event.
fn start(group: &mut [PerfCounter]) -> io::Result<()> {
    group.first_mut().map_or(Ok(()), PerfCounter::enable_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ticks, out of `ticks` in total, at which an attempt that always fails is made.
    fn tries(retry: &mut Retry, online: &[u32], ticks: u32) -> Vec<u32> {
        let mut tried = Vec::new();
        for tick in 0..ticks {
            if retry.is_due(online) {
                tried.push(tick);
                retry.refused();
            }
        }
        tried
    }

    #[test]
    fn refused_counters_are_retried_rarely_and_when_the_online_cpus_change() {
        let mut retry = Retry::default();
        assert_eq!(tries(&mut retry, &[0, 1], 20), [0, 2, 5, 10, 19]);
        assert_eq!(tries(&mut retry, &[0, 1], 10), [], "waits still");
        assert_eq!(tries(&mut retry, &[0], 3), [0, 2]);
        assert!(tries(&mut retry, &[0], 10_000).len() < 20);
    }
}
