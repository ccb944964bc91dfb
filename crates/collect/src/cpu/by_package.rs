//! One value for each package of the machine.

use noctule_model::{ByPackage, Counters, PackageUse};

/// Figures of a subject by package. The first package is stored inline, because most machines have
/// only one and most subjects use only one.
#[derive(Default)]
pub(super) struct Parts<T> {
    first: T,
    others: Vec<T>,
}

impl<T: Default> Parts<T> {
    /// Returns the value of the package with this index.
    pub(super) fn of(&mut self, package: u32) -> &mut T {
        let Some(other) = package.checked_sub(1) else {
            return &mut self.first;
        };
        let other = other as usize;
        if self.others.len() <= other {
            self.others.resize_with(other + 1, T::default);
        }
        &mut self.others[other]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Returns the sum of the counters over all packages. On a machine with several packages, also
    /// returns the counters of each package.
    pub(super) fn shown(
        &self,
        packages: usize,
        counters: impl Fn(&T) -> &Counters,
    ) -> (Counters, ByPackage) {
        let sum = |sum: Counters, part| sum + counters(part);
        let packages = match packages {
            ..2 => ByPackage::default(),
            _ => ByPackage::several(self.iter().map(|part| PackageUse::from(counters(part)))),
        };
        (self.iter().fold(Counters::default(), sum), packages)
    }
}
