//! One row of `stat`.

use noctule_model::{
    Container, ContainerRole, Counter, Counters, Level, Measured, Owner, Report, Row,
    SOFTIRQ_VECTORS, Subject,
};
use serde::{Serialize, Serializer};

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

#[derive(Default, Serialize)]
struct OwnerJson<'a> {
    #[serde(
        rename = "process.linux.cgroup",
        skip_serializing_if = "Option::is_none"
    )]
    path: Option<&'a str>,
    #[serde(rename = "cgroup.id", skip_serializing_if = "Option::is_none")]
    cgroup: Option<u64>,
    #[serde(rename = "container.id", skip_serializing_if = "Option::is_none")]
    container_id: Option<&'a str>,
    #[serde(rename = "container.name", skip_serializing_if = "Option::is_none")]
    container_name: Option<&'a str>,
    #[serde(
        rename = "container.runtime.name",
        skip_serializing_if = "Option::is_none"
    )]
    container_runtime: Option<&'static str>,
    #[serde(rename = "k8s.pod.uid", skip_serializing_if = "Option::is_none")]
    pod_uid: Option<&'a str>,
    #[serde(rename = "k8s.pod.name", skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(rename = "k8s.namespace.name", skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(rename = "systemd.unit", skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
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

impl<'a> OwnerJson<'a> {
    /// Only what is true of the whole row: at the levels of pods and units a row may stand for
    /// several containers, and then none of them is named.
    fn new(owner: &'a Owner, level: Level) -> Self {
        match (level, &owner.pod, &owner.unit) {
            (Level::Pod, Some(_), _) => Self::default().with_pod(owner),
            (Level::Unit, _, Some(_)) => Self::default().with_group(owner).with_unit(owner),
            (Level::Container | Level::Pod, ..) => {
                let this = Self::default().with_group(owner).with_unit(owner);
                match owner.subject() {
                    Subject::Container(_) => this.with_container(owner).with_pod(owner),
                    _ => this,
                }
            }
            (Level::Process | Level::Cgroup | Level::Unit, ..) => Self::default()
                .with_group(owner)
                .with_container(owner)
                .with_pod(owner)
                .with_unit(owner),
        }
    }

    fn with_group(self, owner: &'a Owner) -> Self {
        Self {
            // An owner of which only the id is known has `#id` for a path.
            path: Some(owner.path.as_str()).filter(|path| path.starts_with('/')),
            cgroup: Some(owner.cgroup.0),
            ..self
        }
    }

    /// The helpers of a runtime serve a container and are not in it.
    fn with_container(self, owner: &'a Owner) -> Self {
        let container: Option<&Container> = owner.container.as_ref();
        match container.filter(|c| c.role != ContainerRole::Helper) {
            Some(container) => Self {
                container_id: Some(&container.id),
                container_name: container.name.as_deref(),
                container_runtime: Some(container.runtime.name()),
                ..self
            },
            None => self,
        }
    }

    fn with_pod(self, owner: &'a Owner) -> Self {
        match &owner.pod {
            Some(pod) => Self {
                pod_uid: Some(&pod.uid),
                pod: pod.name.as_deref(),
                namespace: pod.namespace.as_deref(),
                ..self
            },
            None => self,
        }
    }

    fn with_unit(self, owner: &'a Owner) -> Self {
        Self {
            unit: owner.unit.as_deref(),
            ..self
        }
    }
}

impl Used {
    fn new(counters: &Counters, measured: Measured, nominal_hertz: Option<u64>) -> Self {
        let value = |counter| measured.value(counters, counter);
        let softirq = |(vector, name): (u8, &&'static str)| {
            value(Counter::Softirq(vector)).map(|count| (*name, count))
        };
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
        }
    }
}
