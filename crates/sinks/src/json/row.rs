//! One row of `stat`.

use std::collections::BTreeMap;

use noctule_analysis::{Report, Row};
use noctule_model::{
    BlockClass, Cause, Counter, Counters, Level, Measured, ProcessRow, SOFTIRQ_VECTORS,
};
use serde::Serialize;

use super::by_name::ByName;
use super::energy::{ByKind, row_joules};
use super::events::EventsJson;
use super::owner::OwnerJson;
use super::seconds;
use super::waits::{Named, blocked};

#[derive(Default, Serialize)]
pub(super) struct RowJson<'a> {
    #[serde(flatten)]
    process: Option<ProcessJson>,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(flatten)]
    used: Used,
    #[serde(flatten)]
    events: Option<EventsJson>,
    #[serde(rename = "energy.joules", skip_serializing_if = "Option::is_none")]
    joules: Option<ByKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<bool>,
}

#[derive(Serialize)]
pub(super) struct ProcessJson {
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(rename = "process.creation.time_unix_nano")]
    created: u64,
    #[serde(rename = "process.parent_pid")]
    parent: u32,
    #[serde(rename = "process.executable.name")]
    name: String,
}

/// Counters; `None` is "not measured".
#[derive(Default, Serialize)]
struct Used {
    #[serde(rename = "cpu.seconds", skip_serializing_if = "Option::is_none")]
    cpu: Option<f64>,
    #[serde(rename = "cpu.cycles", skip_serializing_if = "Option::is_none")]
    cycles: Option<u64>,
    #[serde(
        rename = "cpu.reference_cycles",
        skip_serializing_if = "Option::is_none"
    )]
    reference_cycles: Option<u64>,
    #[serde(rename = "cpu.instructions", skip_serializing_if = "Option::is_none")]
    instructions: Option<u64>,
    #[serde(rename = "cpu.cache_misses", skip_serializing_if = "Option::is_none")]
    cache_misses: Option<u64>,
    #[serde(
        rename = "cpu.sibling_busy_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    sibling_busy: Option<f64>,
    #[serde(
        rename = "cpu.seconds_by_package",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    packages: BTreeMap<i32, f64>,
    #[serde(
        rename = "cpu.frequency_hertz",
        skip_serializing_if = "Option::is_none"
    )]
    frequency: Option<f64>,
    #[serde(rename = "page_cache.reads", skip_serializing_if = "Option::is_none")]
    page_reads: Option<u64>,
    #[serde(rename = "page_cache.writes", skip_serializing_if = "Option::is_none")]
    page_writes: Option<u64>,
    #[serde(skip_serializing_if = "ByName::is_empty")]
    softirqs: ByName,
    #[serde(rename = "switches.voluntary", skip_serializing_if = "Option::is_none")]
    voluntary: Option<u64>,
    #[serde(rename = "switches.preempted", skip_serializing_if = "Option::is_none")]
    preempted: Option<u64>,
    #[serde(rename = "switches.throttled", skip_serializing_if = "Option::is_none")]
    throttled: Option<u64>,
    #[serde(rename = "wait.seconds", skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
    #[serde(rename = "blocked.seconds", skip_serializing_if = "Option::is_none")]
    blocked: Option<Named<f64>>,
}

impl<'a> RowJson<'a> {
    pub(super) fn new(report: &Report, row: &'a Row, level: Level) -> Self {
        let process = row.process.as_ref().filter(|_| level == Level::Process);
        Self {
            process: process.map(|process| ProcessJson::new(report, process)),
            owner: OwnerJson::named(&row.owner, level),
            used: Used {
                packages: by_package(report, row),
                ..Used::new(&row.counters, report.measured, report.node.nominal_hertz)
            },
            events: row
                .events
                .as_ref()
                .map(|events| EventsJson::new(events, report.measured)),
            joules: row_joules(report, row),
            exited: process.map(|process| process.exited),
        }
    }
}

impl ProcessJson {
    pub(super) fn new(report: &Report, process: &ProcessRow) -> Self {
        Self {
            pid: process.id.pid,
            created: report.boot_unix_ns.saturating_add(process.id.start_ns),
            parent: process.parent_pid,
            name: process.comm.text(),
        }
    }
}

/// CPU time of the row on each package, on a machine with several.
fn by_package(report: &Report, row: &Row) -> BTreeMap<i32, f64> {
    let packages = report.packages.iter().enumerate();
    let parts = packages.map(|(place, package)| {
        let used = row.packages.of(place, &row.counters);
        (package.id, seconds(used.cpu_ns))
    });
    parts.filter(|_| report.packages.len() > 1).collect()
}

impl Used {
    fn new(counters: &Counters, measured: Measured, nominal_hertz: Option<u64>) -> Self {
        let value = |counter| measured.value(counters, counter);
        let vectors = (0..).zip(SOFTIRQ_VECTORS);
        let vectors = vectors.map(|(vector, name)| (name, Counter::Softirq(vector)));
        // A cause that is not measured is in another.
        let causes = Cause::ALL.into_iter();
        let reported = causes.filter_map(|cause| value(Counter::Wait(cause)));
        let wait = reported.reduce(|a, b| a + b);
        Self {
            cpu: value(Counter::CpuTime).map(seconds),
            cycles: value(Counter::Cycles),
            reference_cycles: value(Counter::ReferenceCycles),
            instructions: value(Counter::Instructions),
            cache_misses: value(Counter::CacheMisses),
            sibling_busy: value(Counter::SiblingBusy).map(seconds),
            packages: BTreeMap::new(),
            frequency: counters
                .frequency_hertz(measured, nominal_hertz)
                .filter(|hertz| hertz.is_finite()),
            page_reads: value(Counter::PageReads),
            page_writes: value(Counter::PageWrites),
            softirqs: ByName::new(vectors, counters, measured),
            voluntary: value(Counter::SwitchesVoluntary),
            preempted: value(Counter::SwitchesPreempted),
            throttled: value(Counter::SwitchesThrottled),
            wait: wait.map(seconds),
            blocked: measured
                .has_blocked()
                .then(|| blocked(&BlockClass::ALL.map(|class| counters[Counter::Blocked(class)]))),
        }
    }
}
