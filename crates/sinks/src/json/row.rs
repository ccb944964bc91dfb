//! One row of `stat`.

use noctule_model::{Cause, Counter, Counters, Level, Measured, Report, Row, SOFTIRQ_VECTORS};
use serde::{Serialize, Serializer};

use super::owner::OwnerJson;
use super::seconds;

#[derive(Default, Serialize)]
pub(super) struct RowJson<'a> {
    #[serde(flatten)]
    process: Option<ProcessJson>,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(flatten)]
    used: Used,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<bool>,
}

#[derive(Serialize)]
struct ProcessJson {
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
        rename = "cpu.frequency_hertz",
        skip_serializing_if = "Option::is_none"
    )]
    frequency: Option<f64>,
    #[serde(rename = "page_cache.reads", skip_serializing_if = "Option::is_none")]
    page_reads: Option<u64>,
    #[serde(rename = "page_cache.writes", skip_serializing_if = "Option::is_none")]
    page_writes: Option<u64>,
    #[serde(skip_serializing_if = "Softirqs::is_empty")]
    softirqs: Softirqs,
    #[serde(rename = "switches.voluntary", skip_serializing_if = "Option::is_none")]
    voluntary: Option<u64>,
    #[serde(rename = "switches.preempted", skip_serializing_if = "Option::is_none")]
    preempted: Option<u64>,
    #[serde(rename = "switches.throttled", skip_serializing_if = "Option::is_none")]
    throttled: Option<u64>,
    #[serde(rename = "wait.seconds", skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
}

/// The measured vectors, in the kernel's order.
#[derive(Default)]
struct Softirqs(Vec<(&'static str, u64)>);

impl Softirqs {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Softirqs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'a> RowJson<'a> {
    pub(super) fn new(report: &Report, row: &'a Row, level: Level) -> Self {
        let process = row.process.as_ref().filter(|_| level == Level::Process);
        Self {
            process: process.map(|process| ProcessJson {
                pid: process.id.pid,
                created: report.boot_unix_ns.saturating_add(process.id.start_ns),
                parent: process.parent_pid,
                name: process.comm.text(),
            }),
            owner: OwnerJson::new(&row.owner, level),
            used: Used::new(&row.counters, report.measured, report.node.nominal_hertz),
            exited: process.map(|process| process.exited),
        }
    }
}

impl Used {
    fn new(counters: &Counters, measured: Measured, nominal_hertz: Option<u64>) -> Self {
        let value = |counter| measured.value(counters, counter);
        let softirq = |(vector, name): (u8, &&'static str)| {
            value(Counter::Softirq(vector)).map(|count| (*name, count))
        };
        let wait = Cause::ALL.map(|cause| value(Counter::Wait(cause)));
        let wait = wait.into_iter().sum::<Option<u64>>();
        Self {
            cpu: value(Counter::CpuTime).map(seconds),
            cycles: value(Counter::Cycles),
            reference_cycles: value(Counter::ReferenceCycles),
            instructions: value(Counter::Instructions),
            cache_misses: value(Counter::CacheMisses),
            frequency: counters
                .frequency_hertz(measured, nominal_hertz)
                .filter(|hertz| hertz.is_finite()),
            page_reads: value(Counter::PageReads),
            page_writes: value(Counter::PageWrites),
            softirqs: Softirqs((0..).zip(&SOFTIRQ_VECTORS).filter_map(softirq).collect()),
            voluntary: value(Counter::SwitchesVoluntary),
            preempted: value(Counter::SwitchesPreempted),
            throttled: value(Counter::SwitchesThrottled),
            wait: wait.map(seconds),
        }
    }
}
