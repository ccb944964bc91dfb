//! Growth of wait histograms and of the blame matrix.

use noctule_model::{Blame, BlameRow, CgroupId, Group, Histogram, WaitRow};

use super::growth::{Growth, step};

/// Histograms of one kind of wait.
#[derive(Debug)]
pub(super) struct Distributions {
    cgroups: Growth<(), Histogram>,
    /// The histogram of cgroups without a row on the kernel side.
    unnamed: Histogram,
}

impl Distributions {
    pub(super) fn new() -> Self {
        Self {
            cgroups: Growth::new(None),
            unnamed: Histogram::default(),
        }
    }

    /// Returns the growth of the histograms of known cgroups.
    pub(super) fn of(
        &mut self,
        rows: &[WaitRow],
        known: impl Fn(CgroupId) -> bool,
    ) -> impl Iterator<Item = (CgroupId, Histogram)> {
        let rows = rows.iter().filter_map(|row| match row.group {
            Group::Cgroup(id) => Some((id, (), &row.histogram)),
            _ => None,
        });
        let grown = self.cgroups.of(rows, |id, ()| known(id));
        grown.into_iter().map(|(id, (), growth)| (id, growth))
    }

    /// Returns the growth of the histogram of cgroups without a row on the kernel side.
    pub(super) fn unnamed(&mut self, rows: &[WaitRow]) -> Histogram {
        let row = rows.iter().find(|row| row.group == Group::Unnamed);
        row.map_or_else(Histogram::default, |row| {
            step(&mut self.unnamed, &row.histogram)
        })
    }
}

/// The blame matrix.
#[derive(Debug)]
pub(super) struct Matrix {
    cells: Growth<Group, Blame>,
    /// Waits of victims without a row on the kernel side.
    unnamed: Blame,
}

impl Matrix {
    pub(super) fn new() -> Self {
        Self {
            cells: Growth::new(Some(Group::Unnamed)),
            unnamed: Blame::default(),
        }
    }

    /// Returns the growth of cells whose victim is a known cgroup. If the culprit is a cgroup, it
    /// must also be known.
    pub(super) fn of(
        &mut self,
        rows: &[BlameRow],
        known: impl Fn(CgroupId) -> bool,
    ) -> Vec<(CgroupId, Group, Blame)> {
        let rows = rows.iter().filter_map(|row| match row.victim {
            Group::Cgroup(victim) => Some((victim, row.culprit, &row.blame)),
            _ => None,
        });
        self.cells.of(rows, |victim, culprit| {
            let named = match culprit {
                Group::Cgroup(culprit) => known(*culprit),
                _ => true,
            };
            named && known(victim)
        })
    }

    /// Returns the growth of waits of victims without a row on the kernel side.
    pub(super) fn unnamed(&mut self, rows: &[BlameRow]) -> Blame {
        let mut sum = Blame::default();
        for row in rows.iter().filter(|row| row.victim == Group::Unnamed) {
            sum += &row.blame;
        }
        step(&mut self.unnamed, &sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Group = Group::Cgroup(CgroupId(1));

    fn row(victim: Group, culprit: Group, wait_ns: u64) -> BlameRow {
        let preemptions = 0;
        BlameRow {
            victim,
            culprit,
            blame: Blame {
                wait_ns,
                preemptions,
            },
        }
    }

    #[test]
    fn unnamed_victims_are_counted_separately() {
        let mut matrix = Matrix::new();
        let cells = [row(Group::Followed, A, 1), row(Group::Unnamed, A, 2)];
        assert_eq!(matrix.of(&cells, |_| true), []);
        let mut unnamed = |wait_ns| {
            let rows = [row(Group::Unnamed, Group::Unnamed, wait_ns)];
            matrix.unnamed(&rows).wait_ns
        };
        assert_eq!([unnamed(2), unnamed(2), unnamed(9)], [2, 0, 7]);
    }
}
