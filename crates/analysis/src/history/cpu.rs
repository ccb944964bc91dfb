//! Individual CPUs: how busy each CPU was, and which owners it ran.

use std::collections::{BTreeMap, HashMap};

use noctule_model::{Batch, Level};
use serde::{Deserialize, Serialize};

use super::point::{Micros, Numbers, micros, nanos};
use super::{OwnerId, PartyRef};
use crate::{CpuWindow, Party};

/// Maximum number of CPUs in a point, from the lowest number.
const CPUS: usize = 256;
/// Maximum number of owners listed for a CPU. The owners that had the CPU longest are kept.
const HOLDERS: usize = 3;

/// One CPU between two batches. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPoint {
    pub cpu: u32,
    /// Time for which the CPU was online.
    pub elapsed_us: Micros,
    /// Time for which the CPU was not idle.
    pub busy_us: Micros,
    /// Time that interrupts and the host took: the sum of the values that the kernel measures.
    /// `None` if it measures neither.
    pub taken_us: Option<Micros>,
    /// The owners that had the CPU, each with its time. Unused entries have the owner 0.
    pub holders: [(OwnerId, Micros); HOLDERS],
}

/// One CPU in a time range.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuStrip {
    pub cpu: u32,
    /// The steps of the range.
    pub steps: Vec<CpuStep>,
}

/// One CPU in a step. Values are fractions of the CPU's time, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuStep {
    /// Fraction in which the CPU was not idle; `None` if the CPU was offline or nothing was
    /// collected.
    pub busy: Option<f64>,
    /// Fraction that interrupts and the host took; `None` if the kernel measures neither.
    pub taken: Option<f64>,
    /// The owner that had the CPU longest, and its fraction.
    pub holder: Option<(OwnerId, f64)>,
}

/// Returns the CPUs between two batches, in ascending order.
pub(super) fn points(first: &Batch, last: &Batch, numbers: &mut Numbers) -> Vec<CpuPoint> {
    let mut window = CpuWindow::default();
    window.observe(first);
    window.observe(last);
    let cpus = window.cpus(Level::Container).into_iter().take(CPUS);
    let points = cpus.map(|cpu| {
        let mut holders = [(0, 0); HOLDERS];
        let known = cpu.holders.iter().filter_map(|(party, ns)| {
            let id = match party {
                Party::Group(owner) => {
                    numbers.id(PartyRef::from(&owner.subject()), last, Some(owner))
                }
                Party::Kernel => numbers.id(PartyRef::Kernel, last, None),
                Party::Unnamed => numbers.id(PartyRef::Unnamed, last, None),
                Party::Command | Party::Below { .. } => return None,
            };
            Some((id, micros(*ns)))
        });
        for (place, holder) in holders.iter_mut().zip(known) {
            *place = holder;
        }
        CpuPoint {
            cpu: cpu.cpu,
            elapsed_us: micros(cpu.elapsed_ns),
            busy_us: micros(cpu.elapsed_ns.saturating_sub(cpu.idle_ns)),
            taken_us: cpu.taken_ns().map(micros),
            holders,
        }
    });
    points.collect()
}

/// Adds up the CPUs over a time range.
#[derive(Debug)]
pub(super) struct Strips {
    steps: usize,
    cpus: BTreeMap<u32, Vec<Sums>>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    elapsed_ns: u64,
    busy_ns: u64,
    taken_ns: Option<u64>,
    holders: HashMap<OwnerId, u64>,
}

impl Strips {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            steps,
            cpus: BTreeMap::new(),
        }
    }

    /// Adds a part of a point to a step, for the first `most` CPUs of the point.
    pub(super) fn add(
        &mut self,
        cpus: &[CpuPoint],
        part: impl Fn(u64) -> u64,
        step: usize,
        most: usize,
    ) {
        for cpu in cpus.iter().take(most) {
            let steps = self.cpus.entry(cpu.cpu);
            let sums = &mut steps.or_insert_with(|| vec![Sums::default(); self.steps])[step];
            sums.elapsed_ns += part(nanos(cpu.elapsed_us));
            sums.busy_ns += part(nanos(cpu.busy_us));
            if let Some(taken) = cpu.taken_us {
                *sums.taken_ns.get_or_insert_default() += part(nanos(taken));
            }
            for &(owner, us) in cpu.holders.iter().filter(|(owner, _)| *owner != 0) {
                *sums.holders.entry(owner).or_default() += part(nanos(us));
            }
        }
    }

    pub(super) fn finish(self) -> Vec<CpuStrip> {
        let strip = |(cpu, steps): (u32, Vec<Sums>)| CpuStrip {
            cpu,
            steps: steps.iter().map(Sums::step).collect(),
        };
        self.cpus.into_iter().map(strip).collect()
    }
}

impl Sums {
    fn step(&self) -> CpuStep {
        let part = |ns: u64| ns as f64 / self.elapsed_ns.max(1) as f64;
        let online = self.elapsed_ns > 0;
        let most = self.holders.iter();
        let most = most.max_by_key(|(owner, ns)| (**ns, std::cmp::Reverse(**owner)));
        CpuStep {
            busy: online.then(|| part(self.busy_ns)),
            taken: self.taken_ns.filter(|_| online).map(part),
            holder: most.map(|(owner, ns)| (*owner, part(*ns))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(cpu: u32, busy_us: Micros, holders: [(OwnerId, Micros); HOLDERS]) -> [CpuPoint; 1] {
        [CpuPoint {
            cpu,
            elapsed_us: 1000,
            busy_us,
            taken_us: (cpu == 3).then_some(10),
            holders,
        }]
    }

    #[test]
    fn step_names_the_longest_cpu_holder() {
        let mut strips = Strips::new(2);
        let all = |ns: u64| ns;
        strips.add(&point(3, 800, [(7, 500), (8, 300), (0, 0)]), all, 0, 9);
        strips.add(&point(3, 400, [(8, 400), (0, 0), (0, 0)]), all, 0, 9);
        strips.add(&point(1, 0, [(0, 0); HOLDERS]), all, 1, 9);
        // Adds nothing, because `most` is 0.
        strips.add(&point(5, 0, [(0, 0); HOLDERS]), all, 1, 0);
        let strips = strips.finish();
        let numbers: Vec<u32> = strips.iter().map(|strip| strip.cpu).collect();
        assert_eq!(numbers, [1, 3]);
        let gap = CpuStep::default();
        let idle = CpuStep {
            busy: Some(0.0),
            taken: None,
            holder: None,
        };
        assert_eq!(strips[0].steps, [gap, idle]);
        let busy = CpuStep {
            busy: Some(0.6),
            taken: Some(0.01),
            holder: Some((8, 0.35)),
        };
        assert_eq!(strips[1].steps, [busy, gap]);
    }
}
