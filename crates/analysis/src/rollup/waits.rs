//! What grew in the distributions of waits and in the matrix of victims and culprits.

use noctule_model::{Blame, BlameRow, CgroupId, Group, Histogram, WaitRow};

use super::growth::{Growth, step};

/// Distributions of one kind of wait.
#[derive(Debug)]
pub(super) struct Distributions {
    cgroups: Growth<(), Histogram>,
    /// Of the groups for which the kernel side had no row.
    unnamed: Histogram,
}

impl Distributions {
    pub(super) fn new() -> Self {
        Self {
            cgroups: Growth::new(None),
            unnamed: Histogram::default(),
        }
    }

    /// Growth of the distributions of known cgroups.
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

    /// Growth of the distribution of groups for which the kernel side had no row.
    pub(super) fn unnamed(&mut self, rows: &[WaitRow]) -> Histogram {
        let row = rows.iter().find(|row| row.group == Group::Unnamed);
        row.map_or_else(Histogram::default, |row| {
            step(&mut self.unnamed, &row.histogram)
        })
    }
}

/// The matrix.
#[derive(Debug)]
pub(super) struct Matrix {
    cells: Growth<Group, Blame>,
    /// Of the victims for which the kernel side had no row.
    unnamed: Blame,
}

impl Matrix {
    pub(super) fn new() -> Self {
        Self {
            cells: Growth::new(Some(Group::Unnamed)),
            unnamed: Blame::default(),
        }
    }

    /// Growth of the cells whose victim is a known cgroup, and whose culprit, if it is a cgroup, is
    /// known too.
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

    /// Growth of what groups waited for which the kernel side had no row.
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
    fn victims_without_a_name_are_told_apart_from_the_cells() {
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
