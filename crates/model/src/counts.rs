//! Arrays of counters, indexed by an enum.

use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Index, IndexMut};

/// A value that starts at 0 and never decreases.
pub trait Cumulative: Clone + Default + PartialEq + for<'a> AddAssign<&'a Self> {
    /// Returns the growth since `earlier`; 0 for parts that decreased.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;

    /// Returns whether any counter is smaller than in `earlier`. If so, the source dropped the row
    /// in between and restarted it from 0.
    fn restarted_since(&self, earlier: &Self) -> bool {
        earlier.since(self) != Self::default()
    }
}

impl Cumulative for u64 {
    fn since(&self, earlier: &Self) -> Self {
        self.saturating_sub(*earlier)
    }
}

/// A kind of counter, with a position in [`Counts`].
pub trait Countable: Copy {
    fn position(self) -> usize;
}

/// Returns the counters of a group, in the order of `$all`. `$counter` converts an item to a
/// counter.
macro_rules! group {
    ($all:expr => $counter:path) => {{
        let mut group = [$counter($all[0]); $all.len()];
        let mut at = 1;
        while at < $all.len() {
            group[at] = $counter($all[at]);
            at += 1;
        }
        group
    }};
}
pub(crate) use group;

/// A value for each counter. The batch's [`crate::Measured`] lists the counters that are measured.
/// A counter that is not measured must be shown as absent, never as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<K, const N: usize>([u64; N], PhantomData<K>);

impl<K, const N: usize> Counts<K, N> {
    /// Creates the value from an array in the order of [`Countable::position`].
    pub const fn from_array(values: [u64; N]) -> Self {
        Self(values, PhantomData)
    }

    /// Returns the growth since `earlier`. A counter that decreased gives 0; only a restart of the
    /// source can cause that.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    /// Returns the larger value of each counter, to build a series that never decreases.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Applies `change` to each counter.
    #[must_use]
    pub fn map(&self, change: impl Fn(u64) -> u64) -> Self {
        Self(self.0.map(change), PhantomData)
    }

    /// Returns whether every counter is 0.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&v| v == 0)
    }

    fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self::from_array(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<K, const N: usize> Default for Counts<K, N> {
    fn default() -> Self {
        Self::from_array([0; N])
    }
}

impl<K: Copy + PartialEq, const N: usize> Cumulative for Counts<K, N> {
    fn since(&self, earlier: &Self) -> Self {
        Self::since(self, earlier)
    }
}

impl<K: Countable, const N: usize> Index<K> for Counts<K, N> {
    type Output = u64;
    fn index(&self, counter: K) -> &u64 {
        &self.0[counter.position()]
    }
}

impl<K: Countable, const N: usize> IndexMut<K> for Counts<K, N> {
    fn index_mut(&mut self, counter: K) -> &mut u64 {
        &mut self.0[counter.position()]
    }
}

impl<K, const N: usize> AddAssign<&Self> for Counts<K, N> {
    fn add_assign(&mut self, other: &Self) {
        *self = self.zip(other, u64::wrapping_add);
    }
}

impl<K, const N: usize> Add<&Self> for Counts<K, N> {
    type Output = Self;
    fn add(self, other: &Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Counter, Counters};

    #[test]
    fn since_never_wraps() {
        let mut later = Counters::default();
        later[Counter::CpuTime] = 5;
        let mut earlier = later;
        earlier[Counter::Cycles] = 9;
        let delta = later.since(&earlier);
        assert!(delta.is_zero());
        assert_eq!((delta + &later)[Counter::CpuTime], 5);
    }
}
