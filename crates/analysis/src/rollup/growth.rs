//! Growth of rows that belong to cgroups.

use std::collections::hash_map::Entry;
use std::hash::Hash;

use noctule_model::{CgroupId, Cumulative, IdMap};

/// The values that were charged so far for each row: a cell of the blame matrix, a histogram, or a
/// destination. A row whose cgroup is not known yet is skipped. Once the cgroup is known, the whole
/// value counts as growth.
#[derive(Debug)]
pub(super) struct Growth<K, V> {
    tick: u64,
    cells: IdMap<(CgroupId, K), Cell<V>>,
    /// The key of the row to which the source adds rows that it drops. `None` if the source drops
    /// rows only with their cgroup.
    rest: Option<K>,
}

#[derive(Debug, Default)]
struct Cell<V> {
    charged: V,
    /// The last tick in which the row was listed.
    tick: u64,
}

impl<K: Eq + Hash + Clone, V: Cumulative> Growth<K, V> {
    pub(super) fn new(rest: Option<K>) -> Self {
        Self {
            tick: 0,
            cells: IdMap::default(),
            rest,
        }
    }

    /// Returns the growth of rows for which `known` returns `true`. In a large batch most rows did
    /// not grow; each such row costs one table lookup.
    pub(super) fn of<'a>(
        &mut self,
        rows: impl Iterator<Item = (CgroupId, K, &'a V)>,
        known: impl Fn(CgroupId, &K) -> bool,
    ) -> Vec<(CgroupId, K, V)>
    where
        V: 'a,
    {
        self.tick += 1;
        let mut listed = 0;
        let mut grown = Vec::new();
        let mut forgotten = Vec::new();
        let mut rests = Vec::new();
        for (cgroup, key, value) in rows {
            let is_rest = self.rest.as_ref() == Some(&key);
            let cell = match self.cells.entry((cgroup, key.clone())) {
                Entry::Occupied(cell) => cell.into_mut(),
                Entry::Vacant(cell) if is_rest || known(cgroup, &key) => {
                    cell.insert(Cell::default())
                }
                Entry::Vacant(_) => continue,
            };
            listed += usize::from(cell.tick != self.tick);
            cell.tick = self.tick;
            if is_rest {
                rests.push((cgroup, key, value));
                continue;
            }
            if cell.charged == *value {
                continue;
            }
            if self.rest.is_some() && value.restarted_since(&cell.charged) {
                forgotten.push((cgroup, std::mem::take(&mut cell.charged)));
            }
            if known(cgroup, &key) {
                grown.extend(cell.grow(value).map(|growth| (cgroup, key, growth)));
            }
        }
        if listed < self.cells.len() {
            forgotten.extend(self.take_missing_rows());
        }
        self.charge_to_rest_row(forgotten);
        // Rest rows come last: the value of a dropped row was already charged before it was moved
        // to the rest row.
        for (cgroup, key, value) in rests {
            if let Some(cell) = self.cells.get_mut(&(cgroup, key.clone()))
                && known(cgroup, &key)
            {
                grown.extend(cell.grow(value).map(|growth| (cgroup, key, growth)));
            }
        }
        grown
    }

    /// Removes the rows that are missing from the batch, and returns the values that were charged
    /// for them.
    fn take_missing_rows(&mut self) -> Vec<(CgroupId, V)> {
        let tick = self.tick;
        let mut gone: Vec<(CgroupId, V)> = Vec::new();
        self.cells.retain(|(cgroup, _), cell| {
            if cell.tick != tick {
                gone.push((*cgroup, std::mem::take(&mut cell.charged)));
            }
            cell.tick == tick
        });
        gone
    }

    /// Counts the charged values of dropped rows as charged for the rest row.
    fn charge_to_rest_row(&mut self, forgotten: Vec<(CgroupId, V)>) {
        let Some(rest) = &self.rest else { return };
        for (cgroup, value) in forgotten {
            if let Some(cell) = self.cells.get_mut(&(cgroup, rest.clone())) {
                cell.charged += &value;
            }
        }
    }
}

impl<V: Cumulative> Cell<V> {
    /// Charges the growth, and returns it unless it is zero.
    fn grow(&mut self, now: &V) -> Option<V> {
        let growth = step(&mut self.charged, now);
        (growth != V::default()).then_some(growth)
    }
}

/// Charges the growth of a value, and returns it.
pub(super) fn step<V: Cumulative>(charged: &mut V, now: &V) -> V {
    let growth = now.since(charged);
    *charged += &growth;
    growth
}

#[cfg(test)]
mod tests {
    use noctule_model::Histogram;

    use super::*;

    const A: CgroupId = CgroupId(1);
    /// Returns a row of a cgroup, and its rest row.
    const B: Option<u64> = Some(2);
    const REST: Option<u64> = None;

    fn with_rest() -> Growth<Option<u64>, u64> {
        Growth::new(Some(REST))
    }

    type Row = (CgroupId, Option<u64>, u64);

    /// Returns the growth for these rows if these cgroups are known.
    fn grown(growth: &mut Growth<Option<u64>, u64>, rows: &[Row], known: &[u64]) -> Vec<u64> {
        let rows = rows
            .iter()
            .map(|(cgroup, key, value)| (*cgroup, *key, value));
        let known = |id: CgroupId, key: &Option<u64>| {
            known.contains(&id.0) && key.is_none_or(|key| known.contains(&key))
        };
        let grown = growth.of(rows, known);
        grown.iter().map(|(.., value)| *value).collect()
    }

    #[test]
    fn row_waits_until_both_cgroups_are_known() {
        let mut growth = with_rest();
        for known in [&[][..], &[1], &[2]] {
            assert_eq!(grown(&mut growth, &[(A, B, 10)], known), []);
        }
        assert_eq!(grown(&mut growth, &[(A, B, 15)], &[1, 2]), [15]);
        assert_eq!(grown(&mut growth, &[(A, B, 15)], &[1, 2]), []);
        assert_eq!(grown(&mut growth, &[(A, B, 18)], &[1, 2]), [3]);
    }

    #[test]
    fn counts_moved_to_the_rest_are_not_counted_twice() {
        let rest = |value| (A, REST, value);
        for early in [vec![], vec![rest(5)]] {
            let mut growth = with_rest();
            let before = early.first().map_or(0, |cell| cell.2);
            let cells = [vec![(A, B, 10)], early].concat();
            grown(&mut growth, &cells, &[1, 2]);
            // B grew by 2 and the rest by 4 when B's row was dropped.
            let now = [rest(before + 12 + 4)];
            assert_eq!(grown(&mut growth, &now, &[]), [], "the cgroup is not known");
            assert_eq!(grown(&mut growth, &now, &[1]), [2 + 4]);
        }
    }

    #[test]
    fn recreated_row_grows_by_its_new_value() {
        let mut growth = with_rest();
        let rows = |row, rest| [(A, B, row), (A, REST, rest)];
        assert_eq!(grown(&mut growth, &rows(100, 7), &[1, 2]), [100, 7]);
        assert_eq!(grown(&mut growth, &rows(3, 107), &[1, 2]), [3]);
        assert_eq!(grown(&mut growth, &rows(5, 108), &[1, 2]), [2, 1]);
    }

    #[test]
    fn a_distribution_waits_until_its_cgroup_is_known() {
        let mut growth = Growth::new(None);
        let mut step = |count, known: bool| {
            let histogram = Histogram::from_counts([0, 0, count]);
            let rows = [(A, (), &histogram)];
            let grown = growth.of(rows.into_iter(), |_, ()| known);
            grown.iter().map(|(.., h)| h.count()).sum::<u64>()
        };
        let steps = [step(4, false), step(5, true), step(5, true), step(9, true)];
        assert_eq!(steps, [0, 5, 0, 4]);
    }
}
