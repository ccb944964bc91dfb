//! The features: what noctule can do on a kernel that lets it.

use std::fmt;

/// One line for each feature: its name in every output, and the feature without which it is not
/// tried.
macro_rules! features {
    ($($(#[$doc:meta])* $id:ident: $name:literal $(, needs $needed:ident)?;)+) => {
        /// A feature. `noctule doctor` lists them in another order: as they were tried.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FeatureId {
            $($(#[$doc])* $id,)+
        }

        impl FeatureId {
            /// Each of them.
            pub const ALL: &'static [Self] = &[$(Self::$id),+];

            /// Its stable name in `noctule doctor`, in JSON and as a label.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name,)+
                }
            }

            /// The feature without which this one is not tried.
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
    /// Which capabilities the agent holds.
    Privileges: "privileges";
    /// Whether the kernel describes its types (BTF), without which CO-RE programs cannot load.
    Btf: "btf";
    /// Whether tracefs is mounted.
    Tracefs: "tracefs";
    /// Whether kernel lockdown lets BPF read kernel memory.
    Lockdown: "lockdown";
    /// Whether `kernel.perf_event_paranoid` permits perf events.
    PerfEventParanoid: "perf_event_paranoid";
    /// Whether the agent's threads are confined (seccomp, Landlock).
    Sandbox: "sandbox";
    /// Whether the nominal frequency of the CPUs is known.
    NominalFrequency: "nominal_frequency";
    /// CPU time and context switches of threads; everything else rests on it.
    CpuTime: "cpu_time";
    /// The hardware counter of cycles.
    Cycles: "cycles", needs CpuTime;
    /// The hardware counter of cycles at nominal frequency.
    ReferenceCycles: "reference_cycles", needs CpuTime;
    /// The hardware counter of instructions.
    Instructions: "instructions", needs CpuTime;
    /// The hardware counter of cache misses.
    CacheMisses: "cache_misses", needs CpuTime;
    /// How many packages (sockets) have accounts of their own.
    Packages: "packages", needs CpuTime;
    /// For how long both hardware threads of a core were busy.
    SmtOverlap: "smt_overlap", needs CpuTime;
    /// Run-queue latency, and who had the CPU meanwhile.
    CpuWaits: "cpu_waits", needs CpuTime;
    /// Moves of processes between cgroups are seen at once.
    CgroupMoves: "cgroup_moves", needs CpuTime;
    /// The part of a wait that CFS bandwidth control causes is counted apart.
    WaitThrottle: "wait_throttle", needs CpuWaits;
    /// Page-cache reads.
    PageCacheReads: "page_cache_reads", needs CpuTime;
    /// Page-cache writes.
    PageCacheWrites: "page_cache_writes", needs CpuTime;
    /// Softirqs, by vector.
    Softirqs: "softirqs", needs CpuTime;
    /// Whether cgroup ids can be turned into paths.
    CgroupPaths: "cgroup_paths";
    /// Whether every process of the machine is visible.
    AllProcesses: "all_processes";
    /// The life of cgroups, with the path of each.
    CgroupEvents: "cgroup_events", needs CpuTime;
    /// Start, exec and exit of processes.
    ProcessEvents: "process_events", needs CpuTime;
    /// Programs that could not be executed.
    ExecFailures: "exec_failures", needs ProcessEvents;
    /// OOM kills.
    OomEvents: "oom_events", needs ProcessEvents;
    /// TCP connections and listeners.
    TcpEvents: "tcp_events", needs ProcessEvents;
    /// What connect(2) and accept(2) return.
    TcpCalls: "tcp_calls", needs TcpEvents;
    /// Bytes of connections that are still open.
    TcpSockets: "tcp_sockets", needs TcpEvents;
    /// TCP segments that are sent again.
    TcpRetransmits: "tcp_retransmits", needs TcpEvents;
    /// File opens.
    FileOpens: "file_opens", needs ProcessEvents;
    /// Deletes, renames, links and changes of mode.
    FileChanges: "file_changes", needs FileOpens;
    /// Questions to DNS servers, and flows of UDP.
    UdpEvents: "udp_events", needs ProcessEvents;
    /// Meters of energy.
    Energy: "energy";
    /// What the BPF programs cost, by the kernel's own statistics.
    SelfCost: "self_cost";
}

impl FeatureId {
    /// Whether it works with the objects that report events.
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
    fn each_need_leads_to_cpu_time() {
        for id in FeatureId::ALL.iter().filter(|id| id.needs().is_some()) {
            let mut at = *id;
            // An earlier line each time, so that this ends.
            while let Some(needed) = at.needs() {
                assert!(needed < at, "{at} needs {needed}");
                at = needed;
            }
            assert_eq!(at, FeatureId::CpuTime, "{id}");
        }
    }

    #[test]
    fn features_of_events_are_those_that_need_processes() {
        assert!(FeatureId::TcpCalls.is_of_events());
        assert!(FeatureId::ProcessEvents.is_of_events());
        assert!(!FeatureId::CgroupEvents.is_of_events());
    }
}
