//! The figures of a row; `None` where nothing was measured.

use noctule_model::{Counter, SOFTIRQ_VECTORS};

use crate::table::{Facts, Item};

/// The counters of all softirqs.
pub(crate) fn softirqs() -> impl Iterator<Item = Counter> {
    (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq)
}

/// The process id, at that level.
pub(crate) fn pid(_: &Facts, item: &Item) -> Option<f64> {
    item.row.process.as_ref().map(|row| f64::from(row.id.pid))
}

/// Growth per second; `None` when the counter is not measured.
pub(crate) fn rate(facts: &Facts, item: &Item, counter: Counter) -> Option<f64> {
    let growth = facts.measured.value(&item.row.counters, counter)?;
    (facts.window_ns > 0).then(|| growth as f64 * 1e9 / facts.window_ns as f64)
}

/// Share of one CPU, in percent.
pub(crate) fn cpu_percent(facts: &Facts, item: &Item) -> Option<f64> {
    // Nanoseconds per second, of which 10^7 are one percent.
    rate(facts, item, Counter::CpuTime).map(|rate| rate / 1e7)
}

/// CPU time in the window, in nanoseconds.
pub(crate) fn cpu_time(facts: &Facts, item: &Item) -> Option<f64> {
    let time = facts.measured.value(&item.row.counters, Counter::CpuTime)?;
    Some(time as f64)
}

/// Average frequency while the row ran, in hertz.
pub(crate) fn frequency(facts: &Facts, item: &Item) -> Option<f64> {
    let counters = &item.row.counters;
    counters.frequency_hertz(facts.measured, facts.nominal_hertz)
}

/// Instructions per cycle; `None` when nothing ran.
pub(crate) fn instructions_per_cycle(facts: &Facts, item: &Item) -> Option<f64> {
    let value = |counter| facts.measured.value(&item.row.counters, counter);
    let (instructions, cycles) = (value(Counter::Instructions)?, value(Counter::Cycles)?);
    (cycles > 0).then(|| instructions as f64 / cycles as f64)
}

/// Softirqs of all measured vectors per second.
pub(crate) fn softirq_rate(facts: &Facts, item: &Item) -> Option<f64> {
    softirqs()
        .filter_map(|vector| rate(facts, item, vector))
        .reduce(|a, b| a + b)
}
