//! Kepler's metric names: which of them noctule exports, and why the others are missing.

use super::Kind;
use crate::{Counter, ZoneKind};

use KeplerLevel::{Container, Node, Other, Pod, Process};
use KeplerOffer::{Given, Not};
use KeplerPart::{Active, Idle, Total};
use KeplerSource::{
    AllJoules, Count, CpuInfo, Joules, JoulesOf, Milliseconds, Seconds, UsageRatio, Watts,
};
use KeplerVersion::{V07, V011};

/// The Kepler version that defines a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeplerVersion {
    /// 0.7 to 0.9, based on eBPF. Only totals are exported.
    V07,
    /// 0.10 and 0.11.
    V011,
}

impl KeplerVersion {
    /// Returns the version in a form for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V07 => "0.7",
            Self::V011 => "0.11",
        }
    }
}

/// The level of a metric's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeplerLevel {
    /// The machine.
    Node,
    /// Processes, only if metrics of processes are exported at all.
    Process,
    /// Containers.
    Container,
    /// Pods, as sums of their containers.
    Pod,
    /// Metrics about virtual machines or about Kepler itself.
    Other,
}

/// A component of a node's energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeplerPart {
    /// The total energy.
    Total,
    /// The energy that is not idle energy.
    Active,
    /// The energy that the zone uses without load.
    Idle,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeplerSource {
    /// Joules by kind of zone. Below the node level this is always active energy.
    Joules(KeplerPart),
    /// Average watts in the last tick, by kind of zone.
    Watts(KeplerPart),
    /// Busy share of the CPU time in the last tick.
    UsageRatio,
    /// The processors, as labels.
    CpuInfo,
    /// Joules of one kind of zone, by `mode`.
    JoulesOf(ZoneKind),
    /// Joules of packages and memory together.
    AllJoules,
    /// A counter in nanoseconds, exported in seconds.
    Seconds(Counter),
    /// A counter in nanoseconds, exported in whole milliseconds.
    Milliseconds(Counter),
    /// A plain counter.
    Count(Counter),
}

/// Whether noctule exports a name of Kepler.
#[derive(Clone, Copy, Debug)]
pub enum KeplerOffer {
    /// The name is exported, with this value.
    Given(KeplerSource),
    /// The name is not exported, for this reason.
    Not(&'static str),
}

/// A metric name of Kepler.
#[derive(Clone, Copy, Debug)]
pub struct KeplerMetric {
    /// Name without the suffix `_total`.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// The version of Kepler that defines the metric.
    pub version: KeplerVersion,
    /// The level of the metric's rows.
    pub level: KeplerLevel,
    /// Description in one sentence; empty if the name is not exported.
    pub help: &'static str,
    /// The value, or the reason why there is none.
    pub offer: KeplerOffer,
}

impl KeplerMetric {
    /// Returns the labels of the samples, in order. noctule adds `start` and, for 0.11, `source`.
    /// Without `start`, a reused pid would repeat a series. Without `source`, a model would look
    /// like a meter.
    pub const fn labels(&self) -> &'static [&'static str] {
        use {Container, Node, Other, Pod, Process};
        use {V07, V011};
        match (self.version, self.level, self.offer) {
            (V011, Node, Given(UsageRatio)) => &["node_name"],
            (V011, Node, Given(CpuInfo)) => &[
                "processor",
                "vendor_id",
                "model_name",
                "physical_id",
                "core_id",
            ],
            (V011, Node, _) => &["node_name", "zone", "path", "source"],
            (V011, Process, Given(Seconds(_))) => {
                &["node_name", "pid", "start", "comm", "type", "container_id"]
            }
            (V011, Process, _) => &[
                "node_name",
                "pid",
                "start",
                "comm",
                "type",
                "container_id",
                "state",
                "zone",
                "source",
            ],
            (V011, Container, Given(Seconds(_))) => &[
                "node_name",
                "container_id",
                "container_name",
                "runtime",
                "pod_id",
                "state",
            ],
            (V011, Container, _) => &[
                "node_name",
                "container_id",
                "container_name",
                "runtime",
                "pod_id",
                "state",
                "zone",
                "source",
            ],
            (V011, Pod, _) => &[
                "node_name",
                "pod_id",
                "pod_name",
                "pod_namespace",
                "state",
                "zone",
                "source",
            ],
            (V07, Node, _) => &["instance", "package", "mode", "source"],
            (V07, Container, Given(JoulesOf(_) | AllJoules)) => &[
                "container_id",
                "container_name",
                "pod_name",
                "container_namespace",
                "mode",
                "source",
            ],
            (V07, Container, _) => &[
                "container_id",
                "container_name",
                "pod_name",
                "container_namespace",
            ],
            (V07, Process, Given(JoulesOf(_) | AllJoules)) => {
                &["pid", "start", "command", "container_id", "mode", "source"]
            }
            (V07, Process, _) => &["pid", "start", "command", "container_id"],
            (_, Pod | Other, _) => &[],
        }
    }
}

const fn given(
    version: KeplerVersion,
    level: KeplerLevel,
    name: &'static str,
    source: KeplerSource,
    help: &'static str,
) -> KeplerMetric {
    let kind = match source {
        Watts(_) | UsageRatio | CpuInfo => Kind::Gauge,
        _ => Kind::Counter,
    };
    let offer = Given(source);
    KeplerMetric {
        name,
        kind,
        version,
        level,
        help,
        offer,
    }
}

const fn not(
    version: KeplerVersion,
    name: &'static str,
    kind: Kind,
    why: &'static str,
) -> KeplerMetric {
    let offer = Not(why);
    KeplerMetric {
        name,
        kind,
        version,
        level: Other,
        help: "",
        offer,
    }
}

const NO_GPU: &str = "accelerator meters do not report usage per process";
const NO_IDLE: &str = "the idle energy and the users of this zone are unknown: see `noctule_node_energy_joules_total`";
const NO_OTHER: &str = "Kepler 0.7 computes this zone as the platform minus packages and memory, for idle and active energy; see `noctule_node_energy_joules_total{kind=\"other\"}` for the energy outside all inner zones";
const NO_ROWS: &str = "the users of this zone are unknown";
const NO_VM: &str = "a virtual machine is reported as its hypervisor process; under libvirt, as a container with the runtime `libvirt`";
const NO_SELF: &str = "the metric describes Kepler itself: see `noctule_self_build_info`";
const NO_FACTS: &str = "the metric describes the hardware: use node_exporter";
const NO_REDFISH: &str = "management controllers are not queried over the network";

const RECEIVED: Counter = Counter::Softirq(3);
const SENT: Counter = Counter::Softirq(2);
const BLOCK: Counter = Counter::Softirq(4);

/// All names, exported or not.
#[rustfmt::skip]
pub const KEPLER_METRICS: &[KeplerMetric] = &[
    given(V011, Node, "kepler_node_cpu_joules", Joules(Total), "Energy counted by the zone's meter."),
    given(V011, Node, "kepler_node_cpu_active_joules", Joules(Active), "Active (non-idle) energy."),
    given(V011, Node, "kepler_node_cpu_idle_joules", Joules(Idle), "Idle energy: what the zone consumes without load."),
    given(V011, Node, "kepler_node_cpu_watts", Watts(Total), "Power in the last tick."),
    given(V011, Node, "kepler_node_cpu_active_watts", Watts(Active), "Active (non-idle) power in the last tick."),
    given(V011, Node, "kepler_node_cpu_idle_watts", Watts(Idle), "Idle power in the last tick."),
    given(V011, Node, "kepler_node_cpu_usage_ratio", UsageRatio, "Non-idle share of CPU time in the last tick."),
    given(V011, Node, "kepler_node_cpu_info", CpuInfo, "A logical CPU when the agent started. The value is always 1."),
    given(V011, Process, "kepler_process_cpu_joules", Joules(Active), "Active energy of the process."),
    given(V011, Process, "kepler_process_cpu_watts", Watts(Active), "Active power of the process in the last tick."),
    given(V011, Process, "kepler_process_cpu_seconds", Seconds(Counter::CpuTime), "CPU time of the process."),
    given(V011, Container, "kepler_container_cpu_joules", Joules(Active), "Active energy of the container."),
    given(V011, Container, "kepler_container_cpu_watts", Watts(Active), "Active power of the container in the last tick."),
    given(V011, Container, "kepler_container_cpu_seconds", Seconds(Counter::CpuTime), "CPU time of the container."),
    given(V011, Pod, "kepler_pod_cpu_joules", Joules(Active), "Active energy of the pod's containers."),
    given(V011, Pod, "kepler_pod_cpu_watts", Watts(Active), "Active power of the pod's containers in the last tick."),
    not(V011, "kepler_vm_cpu_joules", Kind::Counter, NO_VM),
    not(V011, "kepler_vm_cpu_watts", Kind::Gauge, NO_VM),
    not(V011, "kepler_node_gpu_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_node_gpu_active_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_node_gpu_idle_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_node_gpu_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_node_gpu_active_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_node_gpu_idle_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_process_gpu_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_process_gpu_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_container_gpu_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_container_gpu_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_pod_gpu_joules", Kind::Counter, NO_GPU),
    not(V011, "kepler_pod_gpu_watts", Kind::Gauge, NO_GPU),
    not(V011, "kepler_platform_watts", Kind::Gauge, NO_REDFISH),
    not(V011, "kepler_build_info", Kind::Gauge, NO_SELF),
    given(V07, Node, "kepler_node_package_joules", JoulesOf(ZoneKind::Package), "Energy of the packages."),
    given(V07, Node, "kepler_node_core_joules", JoulesOf(ZoneKind::Core), "Energy of the cores."),
    given(V07, Node, "kepler_node_dram_joules", JoulesOf(ZoneKind::Dram), "Energy of the memory."),
    given(V07, Node, "kepler_node_platform_joules", JoulesOf(ZoneKind::Platform), "Energy of the whole machine."),
    not(V07, "kepler_node_uncore_joules", Kind::Counter, NO_IDLE),
    not(V07, "kepler_node_gpu_joules", Kind::Counter, NO_IDLE),
    not(V07, "kepler_node_other_joules", Kind::Counter, NO_OTHER),
    not(V07, "kepler_node_info", Kind::Counter, NO_FACTS),
    not(V07, "kepler_exporter_build_info", Kind::Gauge, NO_SELF),
    given(V07, Container, "kepler_container_joules", AllJoules, "Active energy of the packages and the memory together."),
    given(V07, Container, "kepler_container_package_joules", JoulesOf(ZoneKind::Package), "Active energy of the packages."),
    given(V07, Container, "kepler_container_core_joules", JoulesOf(ZoneKind::Core), "Active energy of the cores."),
    given(V07, Container, "kepler_container_dram_joules", JoulesOf(ZoneKind::Dram), "Active energy of the memory."),
    given(V07, Container, "kepler_container_platform_joules", JoulesOf(ZoneKind::Platform), "Active energy of the whole machine."),
    given(V07, Container, "kepler_container_cpu_cycles", Count(Counter::Cycles), "CPU cycles."),
    given(V07, Container, "kepler_container_cpu_ref_cycles", Count(Counter::ReferenceCycles), "Cycles at the nominal frequency."),
    given(V07, Container, "kepler_container_cpu_instructions", Count(Counter::Instructions), "Retired instructions."),
    given(V07, Container, "kepler_container_cache_miss", Count(Counter::CacheMisses), "Last-level cache misses."),
    given(V07, Container, "kepler_container_bpf_cpu_time_ms", Milliseconds(Counter::CpuTime), "CPU time in milliseconds."),
    given(V07, Container, "kepler_container_bpf_net_tx_irq", Count(SENT), "Network transmit softirqs."),
    given(V07, Container, "kepler_container_bpf_net_rx_irq", Count(RECEIVED), "Network receive softirqs."),
    given(V07, Container, "kepler_container_bpf_block_irq", Count(BLOCK), "Block device softirqs."),
    given(V07, Process, "kepler_process_joules", AllJoules, "Active energy of the packages and the memory together."),
    given(V07, Process, "kepler_process_package_joules", JoulesOf(ZoneKind::Package), "Active energy of the packages."),
    given(V07, Process, "kepler_process_core_joules", JoulesOf(ZoneKind::Core), "Active energy of the cores."),
    given(V07, Process, "kepler_process_dram_joules", JoulesOf(ZoneKind::Dram), "Active energy of the memory."),
    given(V07, Process, "kepler_process_platform_joules", JoulesOf(ZoneKind::Platform), "Active energy of the whole machine."),
    given(V07, Process, "kepler_process_cpu_cycles", Count(Counter::Cycles), "CPU cycles."),
    given(V07, Process, "kepler_process_cpu_ref_cycles", Count(Counter::ReferenceCycles), "Cycles at the nominal frequency."),
    given(V07, Process, "kepler_process_cpu_instructions", Count(Counter::Instructions), "Retired instructions."),
    given(V07, Process, "kepler_process_cache_miss", Count(Counter::CacheMisses), "Last-level cache misses."),
    given(V07, Process, "kepler_process_bpf_cpu_time_ms", Milliseconds(Counter::CpuTime), "CPU time in milliseconds."),
    given(V07, Process, "kepler_process_bpf_net_tx_irq", Count(SENT), "Network transmit softirqs."),
    given(V07, Process, "kepler_process_bpf_net_rx_irq", Count(RECEIVED), "Network receive softirqs."),
    given(V07, Process, "kepler_process_bpf_block_irq", Count(BLOCK), "Block device softirqs."),
    not(V07, "kepler_container_uncore_joules", Kind::Counter, NO_ROWS),
    not(V07, "kepler_container_gpu_joules", Kind::Counter, NO_GPU),
    not(V07, "kepler_container_other_joules", Kind::Counter, NO_ROWS),
    not(V07, "kepler_process_uncore_joules", Kind::Counter, NO_ROWS),
    not(V07, "kepler_process_gpu_joules", Kind::Counter, NO_GPU),
    not(V07, "kepler_process_other_joules", Kind::Counter, NO_ROWS),
    not(V07, "kepler_container_bpf_page_cache_hit", Kind::Counter, "Kepler 0.7 divides this counter by a million at each interval, so it is nearly always 0: see `noctule_container_page_cache_accesses_total`"),
    not(V07, "kepler_process_bpf_page_cache_hit", Kind::Counter, "same as for containers: see `noctule_process_page_cache_accesses_total`"),
    not(V07, "kepler_container_gpu_compute_util", Kind::Counter, NO_GPU),
    not(V07, "kepler_container_gpu_mem_util", Kind::Counter, NO_GPU),
    not(V07, "kepler_process_gpu_compute_util", Kind::Counter, NO_GPU),
    not(V07, "kepler_process_gpu_mem_util", Kind::Counter, NO_GPU),
    not(V07, "kepler_vm_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_package_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_core_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_uncore_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_dram_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_other_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_gpu_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_platform_joules", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_cpu_cycles", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_cpu_ref_cycles", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_cpu_instructions", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_cache_miss", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_bpf_cpu_time_ms", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_bpf_page_cache_hit", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_bpf_net_tx_irq", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_bpf_net_rx_irq", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_bpf_block_irq", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_gpu_compute_util", Kind::Counter, NO_VM),
    not(V07, "kepler_vm_gpu_mem_util", Kind::Counter, NO_VM),
];
