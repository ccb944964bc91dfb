//! What was used on each package (socket): energy is metered by package.

use std::ops::AddAssign;

use crate::{Counter, Counters};

/// What was used on the CPUs of one package. As [`Counters`], it starts at 0 when the agent starts
/// and only goes up; which of it means anything says [`crate::Measured`], by [`Counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageUse {
    /// [`Counter::CpuTime`].
    pub cpu_ns: u64,
    /// [`Counter::SiblingBusy`].
    pub sibling_busy_ns: u64,
    /// [`Counter::Cycles`].
    pub cycles: u64,
    /// [`Counter::ReferenceCycles`].
    pub reference_cycles: u64,
    /// [`Counter::CacheMisses`].
    pub cache_misses: u64,
}

impl From<&Counters> for PackageUse {
    fn from(counters: &Counters) -> Self {
        Self {
            cpu_ns: counters[Counter::CpuTime],
            sibling_busy_ns: counters[Counter::SiblingBusy],
            cycles: counters[Counter::Cycles],
            reference_cycles: counters[Counter::ReferenceCycles],
            cache_misses: counters[Counter::CacheMisses],
        }
    }
}

impl AddAssign<&Self> for ByPackage {
    fn add_assign(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            let mut parts = self.0.to_vec();
            parts.resize(other.0.len(), PackageUse::default());
            self.0 = parts.into();
        }
        for (part, other) in self.0.iter_mut().zip(&other.0) {
            *part += other;
        }
    }
}

impl PackageUse {
    /// What was used since `earlier`; 0 where it went back.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            sibling_busy_ns: self.sibling_busy_ns.saturating_sub(earlier.sibling_busy_ns),
            cycles: self.cycles.saturating_sub(earlier.cycles),
            reference_cycles: self
                .reference_cycles
                .saturating_sub(earlier.reference_cycles),
            cache_misses: self.cache_misses.saturating_sub(earlier.cache_misses),
        }
    }
}

impl AddAssign<&Self> for PackageUse {
    fn add_assign(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.sibling_busy_ns += other.sibling_busy_ns;
        self.cycles += other.cycles;
        self.reference_cycles += other.reference_cycles;
        self.cache_misses += other.cache_misses;
    }
}

/// What a process or group used, by package, in the order of [`crate::Batch::packages`]. The sum is
/// what its counters say. Nothing is kept apart on a machine with one package (the default).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByPackage(Box<[PackageUse]>);

impl ByPackage {
    /// Of a machine with several packages; the last may be left out when they were not used.
    pub fn several(parts: impl IntoIterator<Item = PackageUse>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// What was used on each package; empty on a machine with one.
    pub fn parts(&self) -> &[PackageUse] {
        &self.0
    }

    /// What was used since `earlier`; 0 where it went back.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |package| earlier.0.get(package).copied().unwrap_or_default();
        let parts = self.0.iter().enumerate();
        Self::several(parts.map(|(package, part)| part.since(&before(package))))
    }

    /// What was used on the package at that position; `all`: the counters of the same row.
    pub fn of(&self, package: usize, all: &Counters) -> PackageUse {
        match (&*self.0, package) {
            ([], 0) => all.into(),
            (parts, _) => parts.get(package).copied().unwrap_or_default(),
        }
    }
}

/// One package: its CPUs, their time, and what was used on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageRow {
    /// The kernel's number of it (physical_package_id); numbers need not follow each other.
    pub id: i32,
    /// CPUs that are online now.
    pub cpus: u32,
    /// Time that its online CPUs had since the agent started, summed over them, in nanoseconds.
    pub elapsed_ns: u64,
    /// The part of it in which they were idle.
    pub idle_ns: u64,
    /// Sum over all cgroups and, of the hardware counters, idle CPUs.
    pub used: PackageUse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_package_has_all_the_use() {
        let mut all = Counters::default();
        all[Counter::CpuTime] = 7;
        let one = ByPackage::default();
        assert_eq!(one.of(0, &all).cpu_ns, 7);
        assert_eq!(one.of(1, &all), PackageUse::default());
        let used = PackageUse {
            cpu_ns: 7,
            ..PackageUse::default()
        };
        let second = ByPackage::several([PackageUse::default(), used]);
        assert_eq!([0, 1, 2].map(|p| second.of(p, &all).cpu_ns), [0, 7, 0]);
        // The others were not used.
        let first = ByPackage::several([used]);
        assert_eq!([0, 1].map(|p| first.of(p, &all).cpu_ns), [7, 0]);
        let mut sum = first.clone();
        sum += &second;
        assert_eq!([0, 1].map(|p| sum.of(p, &all).cpu_ns), [7, 7]);
        assert_eq!(sum.since(&first), second);
    }
}
