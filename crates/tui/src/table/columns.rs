//! The columns of all views.

use noctule_model::{Cause, Counter, Level, ZoneKind};
use noctule_text::{decimal, escape, joules, percent, rate, ratio, watts_alone};

use crate::table::figures;
use crate::table::{Cell, Column, Facts, View};
use crate::text;

/// Position in [`COLUMNS`] of the default sort column in the overview.
pub(crate) const VERDICT: usize = position("VERDICT");

/// Position in [`COLUMNS`] of the default sort column in the view of CPU use.
pub(crate) const CPU: usize = position("CPU%");

/// Position in [`COLUMNS`] of the default sort column in the view of waits.
pub(crate) const WAIT: usize = position("WAIT/s");

/// Position in [`COLUMNS`] of the default sort column in the view of energy.
pub(crate) const WATTS: usize = position("W");

/// Returns the position of the first column with this title. If there is none, compilation fails.
const fn position(title: &str) -> usize {
    let mut index = 0;
    while !equal(COLUMNS[index].title.as_bytes(), title.as_bytes()) {
        index += 1;
    }
    index
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

const OVERVIEW: &[View] = &[View::Overview];
const USE: &[View] = &[View::Use];
const WAITS: &[View] = &[View::Waits];
const ENERGY: &[View] = &[View::Energy];
const OVERVIEW_AND_USE: &[View] = &[View::Overview, View::Use];
/// The views with rows of processes.
const OF_PROCESSES: &[View] = &[View::Overview, View::Use, View::Energy];

/// All columns, from left to right. The columns of a view are adjacent, except for columns that
/// several views share.
pub(crate) const COLUMNS: &[Column] = &[
    Column {
        title: "PID",
        help: "process id, as the agent sees it",
        width: 7,
        widest: 7,
        priority: 3,
        views: OF_PROCESSES,
        exists: is_process,
        cell: Cell::Number(figures::pid, |pid| format!("{pid:.0}")),
    },
    Column {
        title: "NAME",
        help: "command, container, unit, pod or path; [kernel thread]",
        width: 11,
        widest: 36,
        priority: 0,
        views: &[View::Overview, View::Use, View::Waits, View::Energy],
        exists: always,
        cell: Cell::Name,
    },
    Column {
        title: "OWNER",
        help: "container or unit of the process",
        width: 14,
        widest: 24,
        priority: 5,
        views: OF_PROCESSES,
        exists: is_process,
        cell: Cell::Text(|_, item| escape(&item.row.name(Level::Container))),
    },
    Column {
        title: "USER",
        help: "the effective user of the process",
        width: 8,
        widest: 12,
        priority: 7,
        views: OVERVIEW,
        exists: |facts| facts.has_files && is_process(facts),
        cell: Cell::User,
    },
    Column {
        title: "CPU%",
        help: "CPU use in the window; 100 is one CPU",
        width: 6,
        widest: 6,
        priority: 1,
        views: OVERVIEW_AND_USE,
        exists: always,
        cell: Cell::Number(figures::cpu_percent, decimal),
    },
    Column {
        title: "WAIT%",
        help: "time runnable but not running, as a share of the CPU demand (running and waiting)",
        width: 6,
        widest: 6,
        priority: 4,
        views: OVERVIEW,
        exists: has_waits,
        cell: Cell::Number(figures::runnable_percent, decimal),
    },
    Column {
        title: "BLOCK%",
        help: "time blocked on disk, file system or memory, as a share of the active time",
        width: 7,
        widest: 7,
        priority: 6,
        views: OVERVIEW,
        exists: |facts| facts.measured.has_blocked(),
        cell: Cell::Number(figures::stalled_percent, decimal),
    },
    Column {
        title: "WAITING",
        help: "average number of threads that were runnable but not running",
        width: 8,
        widest: 8,
        priority: 11,
        views: OVERVIEW,
        exists: has_waits,
        cell: Cell::Number(figures::waiting_threads, ratio),
    },
    Column {
        title: "VERDICT",
        help: "verdict on the last window, compared with the group's own history; sorts by lost time, first lost to others",
        width: 11,
        widest: 20,
        priority: 2,
        views: OVERVIEW,
        exists: has_verdict,
        cell: Cell::Verdict,
    },
    Column {
        title: "CULPRIT",
        help: "what the verdict blames: another group, a limit, the kernel, the host",
        width: 12,
        widest: 28,
        priority: 3,
        views: OVERVIEW,
        exists: has_verdict,
        cell: Cell::Text(|facts, item| figures::blamed(facts.level, item)),
    },
    Column {
        title: "COMMAND",
        help: "the busiest command of the group in the window",
        width: 12,
        widest: 24,
        priority: 7,
        views: OVERVIEW,
        exists: is_group,
        cell: Cell::Text(|_, item| item.command.clone()),
    },
    Column {
        title: "MEM",
        help: "resident memory: anonymous pages and mapped pages of files; of a group, with all groups inside",
        width: 7,
        widest: 7,
        priority: 8,
        views: OVERVIEW,
        exists: |facts| facts.has_files && facts.level != Level::Cgroup,
        cell: Cell::Memory,
    },
    Column {
        title: "WATTS",
        help: "active power in the window, summed over the outermost zones",
        width: 7,
        widest: 7,
        priority: 10,
        views: OVERVIEW,
        exists: |facts| facts.charged.is_any() && !facts.charged.is_model(),
        cell: Cell::Number(figures::watts, watts_alone),
    },
    Column {
        title: "WATTS*",
        help: "active power in watts, from the model in the configuration; there is no meter",
        width: 7,
        widest: 7,
        priority: 10,
        views: OVERVIEW,
        exists: |facts| facts.charged.is_any() && facts.charged.is_model(),
        cell: Cell::Number(figures::watts, watts_alone),
    },
    Column {
        title: "P99",
        help: "99th percentile of the waits: 99% of the waits were shorter",
        width: 6,
        widest: 6,
        priority: 9,
        views: OVERVIEW,
        exists: has_verdict,
        cell: Cell::Number(|_, item| figures::wait_quantile(item, 0.99), text::length),
    },
    Column {
        title: "MINUTE",
        help: "CPU use, last 60 windows, scaled to the row's peak or half a CPU; sorts by average",
        width: 12,
        widest: 60,
        priority: 12,
        views: OVERVIEW,
        exists: always,
        cell: Cell::Minute,
    },
    Column {
        title: "MINUTE",
        help: "CPU use, last 60 windows, scaled to the row's peak or half a CPU; sorts by average",
        width: 12,
        widest: 60,
        priority: 2,
        views: USE,
        exists: always,
        cell: Cell::Minute,
    },
    Column {
        title: "TIME",
        help: "CPU time in the window",
        width: 6,
        widest: 6,
        priority: 4,
        views: USE,
        exists: always,
        cell: Cell::Number(figures::cpu_time, text::length),
    },
    Column {
        title: "FREQ",
        help: "average CPU frequency while it ran, in hertz",
        width: 5,
        widest: 5,
        priority: 6,
        views: USE,
        exists: |facts| facts.measured.has(Counter::Cycles),
        cell: Cell::Number(figures::frequency, rate),
    },
    Column {
        title: "IPC",
        help: "instructions per cycle",
        width: 5,
        widest: 5,
        priority: 7,
        views: USE,
        exists: |facts| has_all(facts, &[Counter::Instructions, Counter::Cycles]),
        cell: Cell::Number(figures::instructions_per_cycle, ratio),
    },
    Column {
        title: "MISS/s",
        help: "last-level cache misses",
        width: 7,
        widest: 7,
        priority: 8,
        views: USE,
        exists: |facts| facts.measured.has(Counter::CacheMisses),
        cell: Cell::Number(|f, item| figures::rate(f, item, Counter::CacheMisses), rate),
    },
    Column {
        title: "PGRD/s",
        help: "pages read through the page cache",
        width: 7,
        widest: 7,
        priority: 9,
        views: USE,
        exists: |facts| facts.measured.has(Counter::PageReads),
        cell: Cell::Number(|f, item| figures::rate(f, item, Counter::PageReads), rate),
    },
    Column {
        title: "PGWR/s",
        help: "page-cache pages dirtied",
        width: 7,
        widest: 7,
        priority: 10,
        views: USE,
        exists: |facts| facts.measured.has(Counter::PageWrites),
        cell: Cell::Number(|f, item| figures::rate(f, item, Counter::PageWrites), rate),
    },
    Column {
        title: "SIRQ/s",
        help: "softirqs that interrupted it",
        width: 7,
        widest: 7,
        priority: 11,
        views: USE,
        exists: |facts| figures::softirqs().any(|vector| facts.measured.has(vector)),
        cell: Cell::Number(figures::softirq_rate, rate),
    },
    Column {
        title: "VOL/s",
        help: "voluntary context switches",
        width: 6,
        widest: 6,
        priority: 12,
        views: USE,
        exists: |facts| facts.measured.has(Counter::SwitchesVoluntary),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::SwitchesVoluntary),
            rate,
        ),
    },
    Column {
        title: "PRE/s",
        help: "involuntary context switches (preemptions)",
        width: 6,
        widest: 6,
        priority: 13,
        views: USE,
        exists: |facts| facts.measured.has(Counter::SwitchesPreempted),
        cell: Cell::Number(
            |f, item| figures::rate(f, item, Counter::SwitchesPreempted),
            rate,
        ),
    },
    Column {
        title: "WAIT/s",
        help: "time waited per second, summed over all threads of the group",
        width: 7,
        widest: 7,
        priority: 3,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::wait_rate, text::length),
    },
    Column {
        title: "HURTS/s",
        help: "time that other groups waited behind this group, per second",
        width: 8,
        widest: 8,
        priority: 8,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::hurts_rate, text::length),
    },
    Column {
        title: "WAIT%",
        help: "waiting time as a share of the time that threads wanted the CPU",
        width: 6,
        widest: 6,
        priority: 4,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::wait_percent, decimal),
    },
    Column {
        title: "NOW",
        help: "the longest wait in progress: how long a thread has been runnable without running",
        width: 6,
        widest: 6,
        priority: 7,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::waiting_now, text::length),
    },
    Column {
        title: "P50",
        help: "median wait: half of the waits were shorter",
        width: 6,
        widest: 6,
        priority: 11,
        views: WAITS,
        exists: always,
        cell: Cell::Number(|_, item| figures::wait_quantile(item, 0.5), text::length),
    },
    Column {
        title: "P99",
        help: "99th percentile: 99% of the waits were shorter",
        width: 6,
        widest: 6,
        priority: 5,
        views: WAITS,
        exists: always,
        cell: Cell::Number(|_, item| figures::wait_quantile(item, 0.99), text::length),
    },
    Column {
        title: "MAX",
        help: "the longest wait",
        width: 6,
        widest: 6,
        priority: 10,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::longest_wait, text::length),
    },
    Column {
        title: "LENGTHS",
        help: "histogram of wait lengths, one character for each factor of four; the heading is the scale",
        width: 13,
        widest: 13,
        priority: 9,
        views: WAITS,
        exists: always,
        cell: Cell::Lengths,
    },
    Column {
        title: "CAUSES",
        help: "causes of the group's waits, by share",
        width: 8,
        widest: 16,
        priority: 6,
        views: WAITS,
        exists: always,
        cell: Cell::Causes,
    },
    Column {
        title: "CULPRIT",
        help: "the other group that had the CPU for most of the waits",
        width: 9,
        widest: 24,
        priority: 2,
        views: WAITS,
        exists: always,
        cell: Cell::Text(|facts, item| figures::culprit(facts.level, item)),
    },
    Column {
        title: "SHARE",
        help: "the culprit's share of the waits behind others",
        width: 6,
        widest: 6,
        priority: 12,
        views: WAITS,
        exists: always,
        cell: Cell::Number(figures::culprit_percent, percent),
    },
    Column {
        title: "VERDICT",
        help: "verdict on the last window, compared with the group's own history",
        width: 11,
        widest: 20,
        priority: 1,
        views: WAITS,
        exists: always,
        cell: Cell::Verdict,
    },
    Column {
        title: "W",
        help: "active power in the window in watts, summed over the outermost zones",
        width: 7,
        widest: 7,
        priority: 1,
        views: ENERGY,
        exists: |facts| facts.charged.is_any(),
        cell: Cell::Number(figures::watts, watts_alone),
    },
    Column {
        title: "JOULES",
        help: "active energy in the window",
        width: 7,
        widest: 7,
        priority: 2,
        views: ENERGY,
        exists: |facts| facts.charged.is_any(),
        cell: Cell::Number(figures::microjoules, |uj| joules(uj as u64)),
    },
    Column {
        title: "PKG W",
        help: "active power of the processor packages",
        width: 7,
        widest: 7,
        priority: 4,
        views: ENERGY,
        exists: |facts| facts.charged.has(ZoneKind::Package),
        cell: Cell::Number(
            |f, item| figures::watts_of(f, item, ZoneKind::Package),
            watts_alone,
        ),
    },
    Column {
        title: "CORE W",
        help: "active power of the CPU cores; included in the package power",
        width: 7,
        widest: 7,
        priority: 7,
        views: ENERGY,
        exists: |facts| facts.charged.has(ZoneKind::Core),
        cell: Cell::Number(
            |f, item| figures::watts_of(f, item, ZoneKind::Core),
            watts_alone,
        ),
    },
    Column {
        title: "DRAM W",
        help: "active power of memory",
        width: 7,
        widest: 7,
        priority: 6,
        views: ENERGY,
        exists: |facts| facts.charged.has(ZoneKind::Dram),
        cell: Cell::Number(
            |f, item| figures::watts_of(f, item, ZoneKind::Dram),
            watts_alone,
        ),
    },
    Column {
        title: "PSYS W",
        help: "active power of the platform as the processor counts it, including packages and memory",
        width: 7,
        widest: 7,
        priority: 8,
        views: ENERGY,
        exists: |facts| facts.charged.has(ZoneKind::Psys),
        cell: Cell::Number(
            |f, item| figures::watts_of(f, item, ZoneKind::Psys),
            watts_alone,
        ),
    },
    Column {
        title: "MACH W",
        help: "active power of the machine by its own meter, including packages and memory",
        width: 7,
        widest: 7,
        priority: 9,
        views: ENERGY,
        exists: |facts| facts.charged.has(ZoneKind::Platform),
        cell: Cell::Number(
            |f, item| figures::watts_of(f, item, ZoneKind::Platform),
            watts_alone,
        ),
    },
    Column {
        title: "CPU%",
        help: "CPU use in the window; 100 is one CPU",
        width: 6,
        widest: 6,
        priority: 10,
        views: ENERGY,
        exists: always,
        cell: Cell::Number(figures::cpu_percent, decimal),
    },
];

fn always(_: &Facts) -> bool {
    true
}

fn is_process(facts: &Facts) -> bool {
    facts.level == Level::Process
}

fn is_group(facts: &Facts) -> bool {
    !is_process(facts)
}

fn has_waits(facts: &Facts) -> bool {
    facts.measured.has(Counter::Wait(Cause::Neighbour))
}

/// Returns whether rows have verdicts. Groups have them, processes do not.
fn has_verdict(facts: &Facts) -> bool {
    is_group(facts) && has_waits(facts)
}

fn has_all(facts: &Facts, counters: &[Counter]) -> bool {
    counters.iter().all(|&counter| facts.measured.has(counter))
}
