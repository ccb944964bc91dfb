//! Use by package (socket), because energy is metered by package.

use std::ops::AddAssign;

use crate::{Counter, Counters};

/// Use of the CPUs of one package. Like [`Counters`], the values start at 0 when the agent starts
/// and never decrease. [`crate::Measured`] lists, by [`Counter`], which fields are measured.
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
    /// Returns the use since `earlier`; 0 for fields that decreased.
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

/// Resource use of a process or group on each package, in the order of [`crate::Batch::packages`].
/// The packages add up to the counters of the row. On a machine with one package (the usual case),
/// the list is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByPackage(Box<[PackageUse]>);

impl ByPackage {
    /// Creates the value for a machine with several packages. Unused packages at the end may be
    /// left out.
    pub fn several(parts: impl IntoIterator<Item = PackageUse>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Returns the use of each package; empty on a machine with one package.
    pub fn parts(&self) -> &[PackageUse] {
        &self.0
    }

    /// Returns the use since `earlier`; 0 for fields that decreased.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |package| earlier.0.get(package).copied().unwrap_or_default();
        let parts = self.0.iter().enumerate();
        Self::several(parts.map(|(package, part)| part.since(&before(package))))
    }

    /// Returns the use of the package at a position. `all` must be the counters of the row that
    /// this value belongs to.
    pub fn of(&self, package: usize, all: &Counters) -> PackageUse {
        match (&*self.0, package) {
            ([], 0) => all.into(),
            (parts, _) => parts.get(package).copied().unwrap_or_default(),
        }
    }
}

/// A package: the time of its CPUs, and how they were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageRow {
    /// The kernel's number of the package (physical_package_id). Numbers may have gaps.
    pub id: i32,
    /// CPUs online now.
    pub cpus: u32,
    /// Elapsed time of the package's online CPUs since the agent started, summed over CPUs, in
    /// nanoseconds.
    pub elapsed_ns: u64,
    /// How much of the elapsed time the CPUs were idle.
    pub idle_ns: u64,
    /// Sum over all cgroups. Hardware counters also include idle CPUs.
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
        // The other packages were not used.
        let first = ByPackage::several([used]);
        assert_eq!([0, 1].map(|p| first.of(p, &all).cpu_ns), [7, 0]);
        let mut sum = first.clone();
        sum += &second;
        assert_eq!([0, 1].map(|p| sum.of(p, &all).cpu_ns), [7, 7]);
        assert_eq!(sum.since(&first), second);
    }
}
