//! Features: capabilities of noctule that depend on the kernel.

use std::fmt;

use crate::named::named_values;

/// Declares features, one per line: the name in every output, and the feature that it requires.
macro_rules! features {
    ($($(#[$doc:meta])* $id:ident: $name:literal $(, needs $needed:ident)?;)+) => {
        named_values! {
            /// A feature. `noctule doctor` lists features in the order in which they are tried
            /// instead.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum FeatureId {
                $($(#[$doc])* $id: $name,)+
            }
        }

        impl FeatureId {
            /// Returns the feature that this one requires.
            pub const fn needs(self) -> Option<Self> {
                match self {
                    $($(Self::$id => Some(Self::$needed),)?)+
                    _ => None,
                }
            }
        }
    };
}

features! {
    /// Capabilities of the agent.
    Privileges: "privileges";
    /// Whether the kernel has BTF, which CO-RE programs require.
    Btf: "btf";
    /// Whether tracefs is mounted.
    Tracefs: "tracefs";
    /// Whether kernel lockdown allows BPF to read kernel memory.
    Lockdown: "lockdown";
    /// Whether `kernel.perf_event_paranoid` allows perf events.
    PerfEventParanoid: "perf_event_paranoid";
    /// Whether the agent's threads are sandboxed (seccomp, Landlock).
    Sandbox: "sandbox";
    /// Whether the nominal frequency of the CPUs is known.
    NominalFrequency: "nominal_frequency";
    /// CPU time and context switches of threads, the basis of everything else.
    CpuTime: "cpu_time";
    /// The hardware counter for cycles.
    Cycles: "cycles", needs CpuTime;
    /// The hardware counter for cycles at the nominal frequency.
    ReferenceCycles: "reference_cycles", needs CpuTime;
    /// The hardware counter for instructions.
    Instructions: "instructions", needs CpuTime;
    /// The hardware counter for cache misses.
    CacheMisses: "cache_misses", needs CpuTime;
    /// Separate accounts for each package (socket).
    Packages: "packages", needs CpuTime;
    /// Time for which both hardware threads of a core were busy.
    SmtOverlap: "smt_overlap", needs CpuTime;
    /// Run-queue latency, and the tasks that had the CPU during each wait.
    CpuWaits: "cpu_waits", needs CpuTime;
    /// Immediate detection of processes that move between cgroups.
    CgroupMoves: "cgroup_moves", needs CpuTime;
    /// Separate accounting of waits caused by CFS bandwidth control.
    WaitThrottle: "wait_throttle", needs CpuWaits;
    /// Blocked time by class.
    BlockedTime: "blocked_time", needs CpuWaits;
    /// Which processes end the blocks of threads, measured on request.
    BlockReleasers: "block_releasers", needs BlockedTime;
    /// Page-cache reads.
    PageCacheReads: "page_cache_reads", needs CpuTime;
    /// Page-cache writes.
    PageCacheWrites: "page_cache_writes", needs CpuTime;
    /// Softirqs, by vector.
    Softirqs: "softirqs", needs CpuTime;
    /// Use of block devices by group.
    DiskUse: "disk_use", needs CpuTime;
    /// Whether cgroup ids can be resolved to paths.
    CgroupPaths: "cgroup_paths";
    /// Whether every process of the machine is visible.
    AllProcesses: "all_processes";
    /// Creation and removal of cgroups, with their paths.
    CgroupEvents: "cgroup_events", needs CpuTime;
    /// Start, exec and exit of processes.
    ProcessEvents: "process_events", needs CpuTime;
    /// Failed execs.
    ExecFailures: "exec_failures", needs ProcessEvents;
    /// OOM kills.
    OomEvents: "oom_events", needs ProcessEvents;
    /// TCP connections and listeners.
    TcpEvents: "tcp_events", needs ProcessEvents;
    /// Results of connect(2) and accept(2).
    TcpCalls: "tcp_calls", needs TcpEvents;
    /// Bytes of open connections.
    TcpSockets: "tcp_sockets", needs TcpEvents;
    /// TCP retransmits.
    TcpRetransmits: "tcp_retransmits", needs TcpEvents;
    /// File opens.
    FileOpens: "file_opens", needs ProcessEvents;
    /// Deletes, renames, links and mode changes of files.
    FileChanges: "file_changes", needs FileOpens;
    /// DNS queries and UDP flows.
    UdpEvents: "udp_events", needs ProcessEvents;
    /// Energy meters.
    Energy: "energy";
    /// Cost of the BPF programs, from the kernel's statistics.
    SelfCost: "self_cost";
}

impl FeatureId {
    /// Returns whether the feature belongs to the objects that report events.
    pub fn is_of_events(self) -> bool {
        self == Self::ProcessEvents || self.needs().is_some_and(Self::is_of_events)
    }
}

impl fmt::Display for FeatureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_stable_words_and_unique() {
        let names: BTreeSet<&str> = FeatureId::ALL.iter().map(|id| id.name()).collect();
        assert_eq!(names.len(), FeatureId::ALL.len());
        for name in names {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(!name.is_empty() && name.chars().all(plain), "{name}");
        }
    }

    #[test]
    fn every_dependency_chain_ends_at_cpu_time() {
        for id in FeatureId::ALL.iter().filter(|id| id.needs().is_some()) {
            let mut at = *id;
            // Each step leads to an earlier line, so the loop ends.
            while let Some(needed) = at.needs() {
                assert!(needed < at, "{at} needs {needed}");
                at = needed;
            }
            assert_eq!(at, FeatureId::CpuTime, "{id}");
        }
    }

    #[test]
    fn event_features_need_processes() {
        assert!(FeatureId::TcpCalls.is_of_events());
        assert!(FeatureId::ProcessEvents.is_of_events());
        assert!(!FeatureId::CgroupEvents.is_of_events());
    }
}
