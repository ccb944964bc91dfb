//! What grew in the distributions of waits and in the matrix of victims and culprits.

use std::collections::HashMap;

use crate::{Blame, BlameRow, CgroupId, Group, Histogram, WaitRow};

/// What was charged so far, of each cgroup and of each cell of the matrix. What belongs to a cgroup
/// that is not known is left, and grows in full once the cgroup is.
#[derive(Debug, Default)]
pub(super) struct WaitGrowth {
    tick: u64,
    histograms: HashMap<CgroupId, Charged<Histogram>>,
    cells: HashMap<(CgroupId, Group), Charged<Blame>>,
    /// Of the groups for which the kernel side had no row.
    unnamed: (Histogram, Blame),
}

#[derive(Debug, Default)]
struct Charged<T> {
    value: T,
    /// The last batch that has the row.
    tick: u64,
}

impl WaitGrowth {
    /// Growth of the distributions of known cgroups.
    pub(super) fn histograms(
        &mut self,
        rows: &[WaitRow],
        known: impl Fn(CgroupId) -> bool,
    ) -> Vec<(CgroupId, Histogram)> {
        self.tick += 1;
        let mut grown = Vec::new();
        for row in rows {
            let Group::Cgroup(id) = row.group else {
                continue;
            };
            if !known(id) {
                continue;
            }
            let charged = self.histograms.entry(id).or_default();
            charged.tick = self.tick;
            let growth = row.histogram.since(&charged.value);
            if !growth.is_empty() {
                charged.value += &growth;
                grown.push((id, growth));
            }
        }
        let tick = self.tick;
        self.histograms.retain(|_, charged| charged.tick == tick);
        grown
    }

    /// Growth of what groups waited for which the kernel side had no row.
    pub(super) fn unnamed(&mut self, waits: &[WaitRow], blames: &[BlameRow]) -> (Histogram, Blame) {
        let (histogram, blame) = &mut self.unnamed;
        let mut grown = (Histogram::default(), Blame::default());
        if let Some(row) = waits.iter().find(|row| row.group == Group::Unnamed) {
            grown.0 = row.histogram.since(histogram);
            *histogram = row.histogram.clone();
        }
        let mut sum = Blame::default();
        for row in blames.iter().filter(|row| row.victim == Group::Unnamed) {
            sum += &row.blame;
        }
        grown.1 = sum.since(blame);
        *blame = sum;
        grown
    }

    /// Growth of the cells whose victim is a known cgroup, and whose culprit, if it is a cgroup, is
    /// known too.
    pub(super) fn blames(
        &mut self,
        rows: &[BlameRow],
        known: impl Fn(CgroupId) -> bool,
    ) -> Vec<(CgroupId, Group, Blame)> {
        self.tick += 1;
        let cgroups = || {
            rows.iter().filter_map(|row| match row.victim {
                Group::Cgroup(victim) => Some((victim, row)),
                _ => None,
            })
        };
        for (victim, row) in cgroups() {
            if let Some(cell) = self.cells.get_mut(&(victim, row.culprit)) {
                cell.tick = self.tick;
            } else if row.culprit == Group::Unnamed {
                let cell = Charged {
                    tick: self.tick,
                    ..Charged::default()
                };
                self.cells.insert((victim, Group::Unnamed), cell);
            }
        }
        self.merge_the_gone();
        let mut grown = Vec::new();
        for (victim, row) in cgroups() {
            let named = match row.culprit {
                Group::Cgroup(culprit) => known(culprit),
                _ => true,
            };
            if !named || !known(victim) {
                continue;
            }
            let cell = self.cells.entry((victim, row.culprit)).or_default();
            cell.tick = self.tick;
            let growth = row.blame.since(&cell.value);
            if growth != Blame::default() {
                cell.value += &growth;
                grown.push((victim, row.culprit, growth));
            }
        }
        grown
    }

    /// The source adds the cells of culprits that are gone for long to the victim's unnamed cell.
    /// What was charged already of such a cell is charged of the unnamed one from now on.
    fn merge_the_gone(&mut self) {
        let tick = self.tick;
        let mut gone: Vec<(CgroupId, Blame)> = Vec::new();
        self.cells.retain(|(victim, _), cell| {
            if cell.tick != tick {
                gone.push((*victim, cell.value));
            }
            cell.tick == tick
        });
        for (victim, blame) in gone {
            if let Some(unnamed) = self.cells.get_mut(&(victim, Group::Unnamed)) {
                unnamed.value += &blame;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Group = Group::Cgroup(CgroupId(1));
    const B: Group = Group::Cgroup(CgroupId(2));

    /// Waiting that grew, by culprit, when the matrix is so and these cgroups are known.
    fn step(growth: &mut WaitGrowth, cells: &[(Group, Group, u64)], known: &[u64]) -> Vec<u64> {
        let row = |&(victim, culprit, wait_ns): &(Group, Group, u64)| BlameRow {
            victim,
            culprit,
            blame: Blame {
                wait_ns,
                preemptions: 0,
            },
        };
        let rows: Vec<BlameRow> = cells.iter().map(row).collect();
        let grown = growth.blames(&rows, |id| known.contains(&id.0));
        grown.iter().map(|(.., blame)| blame.wait_ns).collect()
    }

    #[test]
    fn a_cell_waits_until_both_are_known() {
        let mut growth = WaitGrowth::default();
        for known in [&[][..], &[1], &[2]] {
            assert_eq!(step(&mut growth, &[(A, B, 10)], known), []);
        }
        assert_eq!(step(&mut growth, &[(A, B, 15)], &[1, 2]), [15]);
        assert_eq!(step(&mut growth, &[(A, B, 15)], &[1, 2]), []);
        assert_eq!(step(&mut growth, &[(A, B, 18)], &[1, 2]), [3]);
    }

    #[test]
    fn what_moves_to_the_unnamed_culprit_does_not_count_again() {
        let unnamed = |ns| (A, Group::Unnamed, ns);
        for early in [vec![], vec![unnamed(5)]] {
            let mut growth = WaitGrowth::default();
            let before = early.first().map_or(0, |cell| cell.2);
            let cells = [vec![(A, B, 10)], early].concat();
            step(&mut growth, &cells, &[1, 2]);
            // 2 more of B and 4 more of the unnamed, as B's cell goes.
            let now = [unnamed(before + 12 + 4)];
            assert_eq!(step(&mut growth, &now, &[]), [], "the victim is not known");
            assert_eq!(step(&mut growth, &now, &[1]), [2 + 4]);
        }
    }

    #[test]
    fn victims_without_a_name_are_told_apart_from_the_cells() {
        let mut growth = WaitGrowth::default();
        let cells = [(Group::Followed, A, 1), (Group::Unnamed, A, 2)];
        assert_eq!(step(&mut growth, &cells, &[1]), []);
        let mut unnamed = |wait_ns| {
            let preemptions = 0;
            let row = BlameRow {
                victim: Group::Unnamed,
                culprit: Group::Unnamed,
                blame: Blame {
                    wait_ns,
                    preemptions,
                },
            };
            growth.unnamed(&[], &[row]).1.wait_ns
        };
        assert_eq!([unnamed(2), unnamed(2), unnamed(9)], [2, 0, 7]);
    }

    #[test]
    fn a_distribution_waits_until_its_cgroup_is_known() {
        let mut growth = WaitGrowth::default();
        let mut step = |count, known: bool| {
            let rows = [WaitRow {
                group: A,
                histogram: Histogram::from_counts([0, 0, count]),
            }];
            let grown = growth.histograms(&rows, |_| known);
            grown.iter().map(|(_, h)| h.count()).sum::<u64>()
        };
        let steps = [step(4, false), step(5, true), step(5, true), step(9, true)];
        assert_eq!(steps, [0, 5, 0, 4]);
    }
}
