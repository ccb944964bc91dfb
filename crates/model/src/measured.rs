//! The set of measured counters.

use crate::{BlockClass, Countable, Counter, Counts};

/// A counter that some machines cannot measure.
pub trait Measurable: Countable {
    /// Bit in [`Measured`] of the counter at position 0. The following counters use the following
    /// bits.
    const FIRST_BIT: u32;

    /// Returns the name of the counter within its group, such as a cause of waits; empty if the
    /// counter belongs to no group.
    fn part(self) -> &'static str;
}

/// The counters that this machine can measure with the agent's privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured(u128);

impl Measured {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the union of two sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set with one more counter.
    #[must_use]
    pub fn with<K: Measurable>(self, counter: K) -> Self {
        Self(self.0 | bit(counter))
    }

    pub fn has<K: Measurable>(self, counter: K) -> bool {
        self.0 & bit(counter) != 0
    }

    /// Returns whether waits for the CPU are measured. Single causes may still be missing.
    pub fn has_waits(self) -> bool {
        Counter::WAITS.into_iter().any(|wait| self.has(wait))
    }

    /// Returns whether blocked time is measured.
    pub fn has_blocked(self) -> bool {
        self.has(Counter::Blocked(BlockClass::Other))
    }

    /// Returns the counter's value, or `None` if it is not measured.
    pub fn value<K: Measurable, const N: usize>(
        self,
        counts: &Counts<K, N>,
        counter: K,
    ) -> Option<u64> {
        self.has(counter).then(|| counts[counter])
    }
}

fn bit<K: Measurable>(counter: K) -> u128 {
    1 << (K::FIRST_BIT + counter.position() as u32)
}

impl<K: Measurable> Extend<K> for Measured {
    fn extend<I: IntoIterator<Item = K>>(&mut self, counters: I) {
        *self = counters.into_iter().fold(*self, Self::with);
    }
}

impl<K: Measurable> FromIterator<K> for Measured {
    fn from_iter<I: IntoIterator<Item = K>>(counters: I) -> Self {
        counters.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Counter, Counters, Measured};

    #[test]
    fn unmeasured_is_none_not_zero() {
        let measured = Measured::from_iter([Counter::CpuTime, Counter::Softirq(9)]);
        let counters = Counters::default();
        assert_eq!(measured.value(&counters, Counter::Softirq(9)), Some(0));
        assert_eq!(measured.value(&counters, Counter::Cycles), None);
    }
}
