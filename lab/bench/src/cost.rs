//! Measures the cost of BPF programs during some work.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;

use super::figures::{self, Figures, Place};
use super::host::{self, Run, Statistics};
use super::load::{Load, Subject};

/// The divisor of the cost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Per {
    /// Context switches of the machine.
    Switch,
    /// Operations of the load.
    Operation(u64),
}

impl Per {
    pub(super) fn of(load: Load, operations: u64) -> Self {
        match load.subject() {
            Subject::Accounting => Self::Switch,
            _ => Self::Operation(operations),
        }
    }
}

/// Measures the programs of these processes while `work` runs. Without programs, only runs `work`.
pub(super) fn measure(
    pids: &[u32],
    place: Place,
    per: Per,
    figures: &mut Figures,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if programs(pids)?.is_empty() {
        return Ok(());
    }
    let names = host::program_names();
    let _statistics = Statistics::on()?;
    let (before, switches_before) = (programs(pids)?, host::switches()?);
    let began = Instant::now();
    work()?;
    let seconds = began.elapsed().as_secs_f64();
    let switches = (host::switches()? - switches_before).max(1) as f64;
    let by_name = sum_by_name(&grown(&before, &programs(pids)?), &names);
    let sum: u64 = by_name.values().map(|run| run.ns).sum();
    let mut add = |kind, program, value| figures.add_of(place, kind, program, value);
    let (sum_kind, program_kind, units) = match per {
        Per::Switch => (
            &figures::BPF_PER_SWITCH,
            &figures::PROGRAM_PER_SWITCH,
            switches,
        ),
        Per::Operation(operations) => (
            &figures::BPF_PER_OPERATION,
            &figures::PROGRAM_PER_OPERATION,
            operations as f64,
        ),
    };
    add(sum_kind, None, sum as f64 / units);
    add(&figures::BPF_SHARE, None, sum as f64 / seconds / 1e7);
    add(&figures::MACHINE_SWITCHES, None, switches / seconds);
    for (name, run) in by_name.iter().filter(|(_, run)| run.count > 0) {
        let name = Some(name.as_str());
        let ns = run.ns as f64;
        add(&figures::PROGRAM_RUN, name, ns / run.count as f64);
        add(program_kind, name, ns / units);
        add(&figures::PROGRAM_RUNS, name, run.count as f64 / seconds);
    }
    Ok(())
}

/// Returns the programs of all processes, by id.
fn programs(pids: &[u32]) -> Result<BTreeMap<u32, Run>> {
    let mut all = BTreeMap::new();
    for &pid in pids {
        all.extend(host::programs(pid)?);
    }
    Ok(all)
}

/// Returns by how much the run time and the number of runs of each program grew. A new program
/// counts from 0.
fn grown(before: &BTreeMap<u32, Run>, after: &BTreeMap<u32, Run>) -> BTreeMap<u32, Run> {
    let growth = |(id, run): (&u32, &Run)| {
        let old = before.get(id).copied().unwrap_or_default();
        let run = Run {
            ns: run.ns.saturating_sub(old.ns),
            count: run.count.saturating_sub(old.count),
        };
        (*id, run)
    };
    after.iter().map(growth).collect()
}

/// Adds up the programs that have the same name, such as one per CPU or per generation of a hook.
fn sum_by_name(runs: &BTreeMap<u32, Run>, names: &BTreeMap<u32, String>) -> BTreeMap<String, Run> {
    let mut sums = BTreeMap::<String, Run>::new();
    for (id, run) in runs {
        let name = names.get(id).filter(|name| !name.is_empty());
        let name = name.cloned().unwrap_or_else(|| format!("#{id}"));
        let sum = sums.entry(name).or_default();
        sum.ns += run.ns;
        sum.count += run.count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_cost_is_growth_summed_by_name() {
        let run = |ns, count| Run { ns, count };
        let before = BTreeMap::from([(1, run(100, 10))]);
        let after = BTreeMap::from([(1, run(150, 11)), (2, run(7, 1)), (3, run(5, 1))]);
        let names = BTreeMap::from([(1, "a".to_owned()), (2, "a".to_owned())]);
        let sums = sum_by_name(&grown(&before, &after), &names);
        let expected = [("#3".to_owned(), run(5, 1)), ("a".to_owned(), run(57, 2))];
        assert_eq!(sums, BTreeMap::from(expected));
    }
}
