//! Selects batches for a history, because a recording can have more batches than a history has
//! points.

use noctule_model::Batch;

/// Selects the batches of a recording to add to a history. The caller must pass every batch, in
/// order.
#[derive(Debug)]
pub struct Thinned {
    every: u64,
    place: u64,
    /// The previous batch, if it was left out.
    skipped: Option<Batch>,
}

impl Thinned {
    /// Creates a selection of every `every`th batch. `every` is at least 1.
    pub fn new(every: u64) -> Self {
        Self {
            every: every.max(1),
            place: 0,
            skipped: None,
        }
    }

    /// Takes the next batch, and returns the batches to add to the history, in order. Always
    /// returns the last two batches of a recording, because tables show the last interval.
    pub fn take(&mut self, mut batch: Batch, is_last: bool) -> impl Iterator<Item = Batch> + use<> {
        let mut chosen = [None, None];
        if let Some(skipped) = self.skipped.take() {
            match is_last {
                true => chosen[0] = Some(skipped),
                false => batch.add_holders(&skipped),
            }
        }
        let is_chosen = self.place.is_multiple_of(self.every) || is_last;
        self.place += 1;
        match is_chosen {
            true => chosen[1] = Some(batch),
            false => self.skipped = Some(batch),
        }
        chosen.into_iter().flatten()
    }

    /// Returns the number of batches taken.
    pub fn count(&self) -> u64 {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{CgroupId, CpuRow, Group};

    use super::*;
    use crate::{Timeline, TimelineLimits};

    /// Returns a batch with one CPU that two groups held in turn, for 60 and 30 of each 100 ns.
    fn batch(at: u64) -> Batch {
        let group = Group::Cgroup(CgroupId(1 + at % 2));
        Batch {
            sequence: at,
            taken_ns: at * 100_000,
            cpus: vec![CpuRow {
                cpu: 3,
                elapsed_ns: at * 100_000,
                idle_ns: at * 10_000,
                holders: vec![(group, 60_000), (Group::Kernel, 30_000)],
                ..CpuRow::default()
            }],
            ..Batch::default()
        }
    }

    #[test]
    fn merged_point_has_the_cpu_holders_of_all_batches() {
        let mut thinned = Thinned::new(4);
        let mut history = Timeline::new(TimelineLimits::default());
        for at in 0..=10 {
            for batch in thinned.take(batch(at), at == 10) {
                history.observe(&Arc::new(batch));
            }
        }
        assert_eq!(thinned.count(), 11);
        let view = history.view();
        let points: Vec<(u64, u64, Vec<u64>)> = view
            .points
            .iter()
            .map(|point| {
                let cpu = point.rows.unpack().cpus[0];
                let had = cpu.holders.iter().filter(|(id, _)| *id != 0);
                let had = had.map(|(_, us)| *us).collect();
                (point.sequence, cpu.elapsed_us, had)
            })
            .collect();
        let expected = [
            (4, 400, vec![120; 3]),
            (8, 400, vec![120; 3]),
            // The last two batches.
            (9, 100, vec![60, 30]),
            (10, 100, vec![60, 30]),
        ];
        assert_eq!(points, expected);
    }
}
