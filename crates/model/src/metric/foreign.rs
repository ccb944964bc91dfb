//! Metric names of cAdvisor and Coroot, exported for existing dashboards and rules.

use super::Kind;
use crate::{BlockClass, Cause, Counter, DestinationCounter, EventCounter, Stall};

use ForeignExporter::{Cadvisor, Coroot};
use ForeignOffer::{Given, Not};
use ForeignSource::{
    CpuLimit, CpuModes, Cpus, Destination, Events, Image, NodeInfo, Period, Periods, Quota,
    Restarts, Seconds, Stalled, ThrottledPeriods, Uptime, Version,
};

/// The exporter that defines a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignExporter {
    /// cAdvisor 0.49, with the labels added by the kubelet.
    Cadvisor,
    /// coroot-node-agent 1.x.
    Coroot,
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
pub enum ForeignSource {
    /// The sum of counters in nanoseconds, exported in seconds.
    Seconds(&'static [Counter]),
    Events(EventCounter),
    /// A counter of destinations, exported in seconds if it is in nanoseconds.
    Destination(DestinationCounter),
    /// Periods of the CPU quota.
    Periods,
    /// Periods in which the CPU quota ran out.
    ThrottledPeriods,
    /// Totals of the kernel's pressure stall information, with the label `kind` for Coroot.
    Stalled(&'static [Stall]),
    /// Length of the CPU quota's period in microseconds.
    Period,
    /// The CPU quota per period in microseconds.
    Quota,
    /// CPUs that the quota allows.
    CpuLimit,
    /// The image, as a label.
    Image,
    /// Containers that replaced a container with the same name in the same pod.
    Restarts,
    /// CPUs of the node.
    Cpus,
    /// CPU time of the node by `mode`.
    CpuModes,
    /// Time since the node booted.
    Uptime,
    /// The node's name and kernel, as labels.
    NodeInfo,
    /// Version of the agent.
    Version,
}

/// Whether noctule exports a foreign name.
#[derive(Clone, Copy, Debug)]
pub enum ForeignOffer {
    /// The name is exported, with this value.
    Given(ForeignSource),
    /// The name is not exported, for this reason.
    Not(&'static str),
}

/// A name of another exporter, or several names that are not exported for the same reason.
#[derive(Clone, Copy, Debug)]
pub struct ForeignMetric {
    /// The exposed name; `*` stands for the part in which several names differ.
    pub name: &'static str,
    pub exporter: ForeignExporter,
    /// Type.
    pub kind: Kind,
    /// Description in one sentence, including differences in measurement; empty if the name is not
    /// exported.
    pub help: &'static str,
    /// The value, or the reason why there is none.
    pub offer: ForeignOffer,
}

const fn given(
    exporter: ForeignExporter,
    name: &'static str,
    source: ForeignSource,
    help: &'static str,
) -> ForeignMetric {
    let kind = match source {
        Cpus | CpuLimit | Image | NodeInfo | Period | Quota | Uptime | Version => Kind::Gauge,
        _ => Kind::Counter,
    };
    ForeignMetric {
        name,
        exporter,
        kind,
        help,
        offer: Given(source),
    }
}

const fn not(exporter: ForeignExporter, name: &'static str, why: &'static str) -> ForeignMetric {
    ForeignMetric {
        name,
        exporter,
        kind: Kind::Gauge,
        help: "",
        offer: Not(why),
    }
}

const CPU: &[Counter] = &[Counter::CpuTime];
const THROTTLED: &[Counter] = &[Counter::Wait(Cause::Throttle)];
const WAITS: &[Counter] = &Counter::WAITS;
/// Waits for block I/O, which the kernel's delay accounting also counts.
const DISK: &[Counter] = &[
    Counter::Blocked(BlockClass::Disk),
    Counter::Blocked(BlockClass::Writeback),
];

const NO_MEMORY: &str = "memory is not measured";
const NO_DISK: &str = "disks and file systems are not measured";
const NO_INTERFACES: &str =
    "interfaces are not measured: see `noctule_container_tcp_bytes_total` for TCP";
const NO_SPLIT: &str = "the scheduler's CPU time is not split into user and system time";
const NO_SPEC: &str = "limits and other settings are not exported: `noctule why` shows them";
const NO_PROTOCOLS: &str = "the contents of connections are not read";
const NO_RUNTIMES: &str = "language runtimes are not inspected";
const NO_FACTS: &str = "the metric describes the machine: use node_exporter";
const NO_LOGS: &str = "logs are not read";
const NO_GPU: &str = "accelerators are not measured";

/// All names, exported or not.
#[rustfmt::skip]
pub const FOREIGN_METRICS: &[ForeignMetric] = &[
    given(Cadvisor, "container_cpu_usage_seconds_total", Seconds(CPU), "CPU time of the container."),
    given(Cadvisor, "container_cpu_cfs_throttled_seconds_total", Seconds(THROTTLED), "Time that threads of the container were throttled by its CPU quota. cAdvisor counts the time of throttled run queues instead, which is less if several threads wait on one CPU."),
    given(Cadvisor, "container_cpu_cfs_periods_total", Periods, "CPU quota periods in which the container ran; only for containers with a quota."),
    given(Cadvisor, "container_cpu_cfs_throttled_periods_total", ThrottledPeriods, "CPU quota periods in which the quota ran out."),
    given(Cadvisor, "container_cpu_schedstat_run_seconds_total", Seconds(CPU), "CPU time, including threads that have exited."),
    given(Cadvisor, "container_cpu_schedstat_runqueue_seconds_total", Seconds(WAITS), "Time that threads were runnable but not running, including threads that have exited."),
    given(Cadvisor, "container_oom_events_total", Events(EventCounter::OomKills), "Processes killed by the OOM killer."),
    given(Cadvisor, "container_pressure_cpu_waiting_seconds_total", Stalled(&[Stall::CpuSome]), "Time in which at least one thread of the container waited for a CPU."),
    given(Cadvisor, "container_pressure_cpu_stalled_seconds_total", Stalled(&[Stall::CpuFull]), "Time in which threads waited for a CPU and none ran. Since Linux 5.13."),
    given(Cadvisor, "container_pressure_io_waiting_seconds_total", Stalled(&[Stall::IoSome]), "Time in which at least one thread of the container waited for block I/O."),
    given(Cadvisor, "container_pressure_io_stalled_seconds_total", Stalled(&[Stall::IoFull]), "Time in which threads waited for block I/O and none ran."),
    given(Cadvisor, "container_pressure_memory_waiting_seconds_total", Stalled(&[Stall::MemorySome]), "Time in which at least one thread of the container waited for memory."),
    given(Cadvisor, "container_pressure_memory_stalled_seconds_total", Stalled(&[Stall::MemoryFull]), "Time in which threads waited for memory and none ran."),
    given(Cadvisor, "container_spec_cpu_quota", Quota, "CPU quota per period, in microseconds; only for containers with a quota."),
    given(Cadvisor, "container_spec_cpu_period", Period, "Length of the CPU quota's period, in microseconds; only for containers with a quota."),
    given(Cadvisor, "machine_cpu_cores", Cpus, "Number of online CPUs."),
    not(Cadvisor, "container_cpu_user_seconds_total", NO_SPLIT),
    not(Cadvisor, "container_cpu_system_seconds_total", NO_SPLIT),
    not(Cadvisor, "container_cpu_schedstat_run_periods_total", "time slices are not counted: see `noctule_container_sched_switches_total`"),
    not(Cadvisor, "container_cpu_load_average_10s", "no load average is kept: see `noctule_container_sched_wait_seconds_total`"),
    not(Cadvisor, "container_spec_cpu_shares", NO_SPEC),
    not(Cadvisor, "container_spec_memory_*", NO_SPEC),
    not(Cadvisor, "container_memory_*", NO_MEMORY),
    not(Cadvisor, "container_fs_*", NO_DISK),
    not(Cadvisor, "container_blkio_device_usage_total", NO_DISK),
    not(Cadvisor, "container_network_*", NO_INTERFACES),
    not(Cadvisor, "container_processes", "processes are counted when they start and end: see `noctule_container_process_starts_total`"),
    not(Cadvisor, "container_threads", "threads are not counted"),
    not(Cadvisor, "container_threads_max", NO_SPEC),
    not(Cadvisor, "container_ulimits_soft", NO_SPEC),
    not(Cadvisor, "container_file_descriptors", "file descriptors are not counted"),
    not(Cadvisor, "container_sockets", "sockets are not counted: see `noctule_container_tcp_connections`"),
    not(Cadvisor, "container_tasks_state", "thread states change too often for a gauge: see `noctule_container_sched_wait_seconds_total`"),
    not(Cadvisor, "container_start_time_seconds", "the start time of a container is not known"),
    not(Cadvisor, "container_last_seen", "a series exists only as long as its container"),
    not(Cadvisor, "container_hugetlb_*", NO_MEMORY),
    not(Cadvisor, "container_accelerator_*", NO_GPU),
    not(Cadvisor, "machine_memory_bytes", NO_FACTS),
    not(Cadvisor, "machine_cpu_physical_cores", NO_FACTS),
    not(Cadvisor, "machine_cpu_sockets", NO_FACTS),
    not(Cadvisor, "machine_nvm_*", NO_FACTS),
    not(Cadvisor, "cadvisor_version_info", "the metric describes cAdvisor itself: see `noctule_self_build_info`"),
    given(Coroot, "container_resources_cpu_usage_seconds_total", Seconds(CPU), "CPU time of the container."),
    given(Coroot, "container_resources_cpu_delay_seconds_total", Seconds(WAITS), "Time that threads were runnable but not running, including threads that have exited."),
    given(Coroot, "container_resources_cpu_throttled_seconds_total", Seconds(THROTTLED), "Time that threads were throttled by the CPU quota. Coroot counts the time of throttled run queues instead."),
    given(Coroot, "container_resources_cpu_pressure_waiting_seconds_total", Stalled(&[Stall::CpuSome, Stall::CpuFull]), "Time in which at least one thread waited for a CPU (`kind=\"some\"`), and in which none ran meanwhile (`full`, since Linux 5.13)."),
    given(Coroot, "container_resources_io_pressure_waiting_seconds_total", Stalled(&[Stall::IoSome, Stall::IoFull]), "Time in which at least one thread waited for block I/O (`kind=\"some\"`), and in which none ran meanwhile (`full`)."),
    given(Coroot, "container_resources_memory_pressure_waiting_seconds_total", Stalled(&[Stall::MemorySome, Stall::MemoryFull]), "Time in which at least one thread waited for memory (`kind=\"some\"`), and in which none ran meanwhile (`full`)."),
    given(Coroot, "container_resources_disk_delay_seconds_total", Seconds(DISK), "Time that threads were blocked by block I/O: the classes `disk` and `writeback` of blocked time. Coroot also includes waits for evicted pages, which are in the class `memory`."),
    given(Coroot, "container_oom_kills_total", Events(EventCounter::OomKills), "Processes killed by the OOM killer. The series starts at 0, so the first kill shows as an increase."),
    given(Coroot, "container_net_tcp_successful_connects_total", Destination(DestinationCounter::Connects), "Connections established."),
    given(Coroot, "container_net_tcp_failed_connects_total", Destination(DestinationCounter::Failures), "Failed connection attempts, including those abandoned by the program."),
    given(Coroot, "container_net_tcp_connection_time_seconds_total", Destination(DestinationCounter::ConnectNs), "Time from the connect call to the end of the handshake."),
    given(Coroot, "container_net_tcp_retransmits_total", Destination(DestinationCounter::Retransmits), "Retransmitted segments, including those of handshakes."),
    given(Coroot, "container_net_tcp_bytes_sent_total", Destination(DestinationCounter::BytesSent), "Payload bytes acknowledged by the peer, whichever call sent them."),
    given(Coroot, "container_net_tcp_bytes_received_total", Destination(DestinationCounter::BytesReceived), "Payload bytes received, whichever call read them."),
    given(Coroot, "container_resources_cpu_limit_cores", CpuLimit, "CPUs that the container's quota allows; only for containers with a quota."),
    given(Coroot, "container_info", Image, "Image of the container, as a label. The value is always 1. `systemd_triggered_by` and `systemd_type` are absent."),
    given(Coroot, "container_restarts_total", Restarts, "Containers in Kubernetes pods that replaced a container of the same name. Kubernetes creates a new container for each restart. Other runtimes restart the same container, which noctule does not count."),
    given(Coroot, "node_info", NodeInfo, "Name of the node and release of its kernel, as labels. The value is always 1."),
    given(Coroot, "node_uptime_seconds", Uptime, "Time since the node booted."),
    given(Coroot, "node_resources_cpu_usage_seconds_total", CpuModes, "CPU time by `mode`: `busy` (of processes; noctule does not distinguish user and system time), `idle`, and `irq` (with softirqs) and `steal` where the kernel accounts them separately."),
    given(Coroot, "node_resources_cpu_logical_cores", Cpus, "Number of online CPUs."),
    given(Coroot, "node_agent_info", Version, "Version of noctule, as a label. The value is always 1."),
    not(Coroot, "container_application_type", NO_PROTOCOLS),
    not(Coroot, "container_resources_memory_rss_bytes", NO_MEMORY),
    not(Coroot, "container_resources_memory_cache_bytes", NO_MEMORY),
    not(Coroot, "container_resources_memory_limit_bytes", NO_SPEC),
    not(Coroot, "container_resources_disk_*", NO_DISK),
    not(Coroot, "container_resources_gpu_*", NO_GPU),
    not(Coroot, "container_net_tcp_listen_info", "events contain the listening addresses: `noctule events --kind tcp`"),
    not(Coroot, "container_net_tcp_active_connections", "open connections are not counted by destination: see `noctule_container_tcp_connections`"),
    not(Coroot, "container_net_latency_seconds", "noctule sends no probes: see `noctule_container_tcp_connect_seconds`"),
    not(Coroot, "container_log_messages_total", NO_LOGS),
    not(Coroot, "container_*_requests_total", NO_PROTOCOLS),
    not(Coroot, "container_*_queries_total", NO_PROTOCOLS),
    not(Coroot, "container_*_messages_total", NO_PROTOCOLS),
    not(Coroot, "container_*_duration_seconds_total", NO_PROTOCOLS),
    not(Coroot, "ip_to_fqdn", NO_PROTOCOLS),
    not(Coroot, "container_jvm_*", NO_RUNTIMES),
    not(Coroot, "container_go_alloc_*", NO_RUNTIMES),
    not(Coroot, "container_python_thread_lock_wait_time_seconds", NO_RUNTIMES),
    not(Coroot, "container_nodejs_event_loop_blocked_time_seconds_total", NO_RUNTIMES),
    not(Coroot, "container_dotnet_*", NO_RUNTIMES),
    not(Coroot, "node_cloud_info", NO_FACTS),
    not(Coroot, "node_resources_memory_*", NO_FACTS),
    not(Coroot, "node_resources_disk_*", NO_FACTS),
    not(Coroot, "node_resources_gpu_*", NO_GPU),
    not(Coroot, "node_gpu_info", NO_GPU),
    not(Coroot, "node_net_*", NO_FACTS),
];
