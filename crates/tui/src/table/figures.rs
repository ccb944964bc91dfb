//! Figures of a row. A figure that was not measured is `None`.

use noctule_analysis::WaitReportRow;
use noctule_model::{BlockClass, Counter, Level, SOFTIRQ_VECTORS, VerdictKind, ZoneKind};
use noctule_text::escape;

use crate::table::{Facts, Item};

/// Returns the counters of all softirq vectors.
pub(crate) fn softirqs() -> impl Iterator<Item = Counter> {
    (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq)
}

/// Returns the process id, at the level of processes.
pub(crate) fn pid(_: &Facts, item: &Item) -> Option<f64> {
    item.row.process.as_ref().map(|row| f64::from(row.id.pid))
}

/// Returns the growth per second; `None` if the counter is not measured.
pub(crate) fn rate(facts: &Facts, item: &Item, counter: Counter) -> Option<f64> {
    let growth = facts.measured.value(&item.row.counters, counter)?;
    (facts.window_ns > 0).then(|| growth as f64 * 1e9 / facts.window_ns as f64)
}

/// Returns the CPU use in percent of one CPU.
pub(crate) fn cpu_percent(facts: &Facts, item: &Item) -> Option<f64> {
    // 10^7 nanoseconds per second are one percent.
    rate(facts, item, Counter::CpuTime).map(|rate| rate / 1e7)
}

/// Returns the active energy in the window, in microjoules, summed over kinds that no other kind
/// contains.
pub(crate) fn microjoules(facts: &Facts, item: &Item) -> Option<f64> {
    facts.charged.total_uj(&item.row.joules).map(|uj| uj as f64)
}

/// Returns the active power in watts, summed over kinds that no other kind contains.
pub(crate) fn watts(facts: &Facts, item: &Item) -> Option<f64> {
    power(facts, microjoules(facts, item)?)
}

/// Returns the active power of one kind of zone, in watts.
pub(crate) fn watts_of(facts: &Facts, item: &Item, kind: ZoneKind) -> Option<f64> {
    let uj = item.row.joules[kind] as f64;
    facts.charged.has(kind).then_some(())?;
    power(facts, uj)
}

fn power(facts: &Facts, uj: f64) -> Option<f64> {
    (facts.window_ns > 0).then(|| uj * 1e3 / facts.window_ns as f64)
}

/// Returns the CPU time in the window, in nanoseconds.
pub(crate) fn cpu_time(facts: &Facts, item: &Item) -> Option<f64> {
    let time = facts.measured.value(&item.row.counters, Counter::CpuTime)?;
    Some(time as f64)
}

/// Returns the average frequency while the row ran, in hertz.
pub(crate) fn frequency(facts: &Facts, item: &Item) -> Option<f64> {
    let counters = &item.row.counters;
    counters.frequency_hertz(facts.measured, facts.nominal_hertz)
}

/// Returns instructions per cycle; `None` if nothing ran.
pub(crate) fn instructions_per_cycle(facts: &Facts, item: &Item) -> Option<f64> {
    let value = |counter| facts.measured.value(&item.row.counters, counter);
    let (instructions, cycles) = (value(Counter::Instructions)?, value(Counter::Cycles)?);
    (cycles > 0).then(|| instructions as f64 / cycles as f64)
}

/// Returns softirqs per second, summed over all measured vectors.
pub(crate) fn softirq_rate(facts: &Facts, item: &Item) -> Option<f64> {
    softirqs()
        .filter_map(|vector| rate(facts, item, vector))
        .reduce(|a, b| a + b)
}

fn waits(item: &Item) -> Option<&WaitReportRow> {
    item.waited.as_ref().map(|waited| &waited.now)
}

/// Returns nanoseconds of waiting per second, summed over all threads.
pub(crate) fn wait_rate(facts: &Facts, item: &Item) -> Option<f64> {
    let waited = waits(item)?.total_ns();
    (facts.window_ns > 0).then(|| waited as f64 * 1e9 / facts.window_ns as f64)
}

/// Returns how long others waited for the row, in nanoseconds per second.
pub(crate) fn hurts_rate(facts: &Facts, item: &Item) -> Option<f64> {
    let hurts = waits(item)?.hurts.wait_ns;
    (facts.window_ns > 0).then(|| hurts as f64 * 1e9 / facts.window_ns as f64)
}

/// Returns the waits as a share of the CPU demand, in percent. The CPU demand is the time for which
/// threads ran or waited for a CPU. `None` without CPU demand.
pub(crate) fn wait_percent(_: &Facts, item: &Item) -> Option<f64> {
    let row = waits(item)?;
    let (waited, wanted) = (row.total_ns(), row.total_ns() + row.cpu_ns);
    (wanted > 0).then(|| waited as f64 * 100.0 / wanted as f64)
}

/// Returns the `q` quantile of wait lengths, in nanoseconds.
pub(crate) fn wait_quantile(item: &Item, q: f64) -> Option<f64> {
    Some(waits(item)?.histogram.quantile(q)? as f64)
}

/// Returns the longest wait, in nanoseconds.
pub(crate) fn longest_wait(_: &Facts, item: &Item) -> Option<f64> {
    Some(waits(item)?.histogram.max()? as f64)
}

/// Returns the longest wait still in progress, in nanoseconds; `None` if no thread is waiting.
pub(crate) fn waiting_now(_: &Facts, item: &Item) -> Option<f64> {
    let waiting = waits(item)?.waiting;
    (waiting.threads > 0).then_some(waiting.longest_ns as f64)
}

/// Returns the name of the culprit that caused most of the wait, escaped for a terminal; empty if
/// there is none. The name is formatted for the level.
pub(crate) fn culprit(level: Level, item: &Item) -> String {
    let culprit = waits(item).and_then(WaitReportRow::main_culprit);
    culprit.map_or_else(String::new, |party| escape(&party.name(level)))
}

/// Returns the main culprit's share of the waits for others, in percent.
pub(crate) fn culprit_percent(_: &Facts, item: &Item) -> Option<f64> {
    let row = waits(item)?;
    let others = row.wait_on_others_ns();
    let share = row.main_culprit_ns()? as f64 * 100.0 / others as f64;
    (others > 0).then_some(share)
}

/// Returns the latest verdict; `None` before the first verdict.
pub(crate) fn verdict(item: &Item) -> Option<VerdictKind> {
    let last = item.waited.as_ref()?.verdict.as_ref()?;
    Some(last.row().verdict.kind)
}

/// Returns whether the latest verdict blames something, and the row is still held up: in this
/// window it waited for a CPU, was stalled, or was blocked on a lock.
pub(crate) fn is_hurt(item: &Item) -> bool {
    let hurt = verdict(item).is_some_and(|kind| kind != VerdictKind::Quiet);
    hurt && item.waited.as_ref().is_some_and(|waited| waited.is_held())
}

/// Returns the severity of the verdict: the time lost per second in the verdict's window, in
/// nanoseconds. Time lost to others ranks before time that the group cost itself. 0 if the row is
/// not hurt now.
pub(crate) fn severity(item: &Item) -> f64 {
    match item
        .waited
        .as_ref()
        .and_then(|waited| waited.verdict.as_ref())
    {
        Some(last) if is_hurt(item) => last.severity(),
        _ => 0.0,
    }
}

/// Names what hurts the row, escaped for a terminal; empty if the row is not hurt. Of several
/// culprits, only the first is named.
pub(crate) fn blamed(level: Level, item: &Item) -> String {
    let verdict = item
        .waited
        .as_ref()
        .and_then(|waited| waited.verdict.as_ref());
    let Some(last) = verdict.filter(|_| is_hurt(item)) else {
        return String::new();
    };
    let reason = last.reason(level);
    let limit = || match &reason.quota {
        Some(quota) => format!("limit of {}", noctule_text::cpus(quota.cpus)),
        None => "a CPU limit".to_owned(),
    };
    let memory = reason
        .memory
        .as_ref()
        .and_then(|memory| memory.limit.as_ref());
    let others = match reason.culprits.as_slice() {
        [] => None,
        [one] => Some(one.name.clone()),
        [first, others @ ..] => Some(format!("{} +{}", first.name, others.len())),
    };
    let others_or = |words: &str| others.clone().unwrap_or_else(|| words.to_owned());
    escape(&match reason.kind {
        VerdictKind::Quiet | VerdictKind::Stopped => String::new(),
        VerdictKind::HurtByNeighbour | VerdictKind::HurtByNeighbours => others_or("unknown"),
        VerdictKind::HeldByQuota => limit(),
        VerdictKind::QuotaAndNeighbours => format!("{}, {}", limit(), others_or("others")),
        VerdictKind::TooManyThreads => "its own threads".to_owned(),
        VerdictKind::HurtByKernel => "kernel threads".to_owned(),
        VerdictKind::HurtByHost => "the hypervisor".to_owned(),
        VerdictKind::HurtByInterrupts => "interrupts".to_owned(),
        VerdictKind::HeldByDisk => others_or("the disk"),
        VerdictKind::HeldByFilesystem => "the file system".to_owned(),
        VerdictKind::HeldByLock => others_or("locks"),
        VerdictKind::HeldByReclaim => "memory reclaim".to_owned(),
        VerdictKind::HeldByMemoryLimit => match memory {
            Some(limit) => format!("limit of {}", noctule_text::bytes(limit.bytes)),
            None => "a memory limit".to_owned(),
        },
    })
}

/// Returns the waiting time as a share of the time for which the threads wanted a CPU, in percent.
pub(crate) fn runnable_percent(_: &Facts, item: &Item) -> Option<f64> {
    let (waited, ran) = (waited_ns(item), item.row.counters[Counter::CpuTime]);
    share(waited, waited + ran)
}

/// Returns the average number of threads that waited for a CPU.
pub(crate) fn waiting_threads(facts: &Facts, item: &Item) -> Option<f64> {
    (facts.window_ns > 0).then(|| waited_ns(item) as f64 / facts.window_ns as f64)
}

/// Returns the time for which the row's threads were blocked although they had work, as a share of
/// their active time, in percent. A wait for a lock counts if the verdict blames another holder.
pub(crate) fn stalled_percent(_: &Facts, item: &Item) -> Option<f64> {
    let by_lock = verdict(item) == Some(VerdictKind::HeldByLock);
    let is_meant = |class: &BlockClass| {
        let is_running = *class != BlockClass::Stopped;
        (class.is_stall() && is_running) || (by_lock && *class == BlockClass::Lock)
    };
    let classes = BlockClass::ALL.into_iter().filter(is_meant);
    let stalled: u64 = classes
        .map(|class| item.row.counters[Counter::Blocked(class)])
        .sum();
    share(
        stalled,
        stalled + waited_ns(item) + item.row.counters[Counter::CpuTime],
    )
}

fn waited_ns(item: &Item) -> u64 {
    Counter::WAITS
        .iter()
        .map(|&counter| item.row.counters[counter])
        .sum()
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 * 100.0 / all as f64)
}
