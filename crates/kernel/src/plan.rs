//! Decides from the facts what to load. The plan is deterministic: equal facts give equal plans.

use noctule_model::{Feature, FeatureId};

use crate::error::{Error, ErrorKind};
use crate::facts::Facts;
use crate::hardware::CounterSpec;
use crate::kernel_types::VMLINUX;

/// Counters and features that the user wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Events for the hardware counters; empty for none.
    pub counters: Vec<CounterSpec>,
    /// Count page cache reads and writes.
    pub page_cache: bool,
    /// Count softirqs.
    pub softirqs: bool,
    /// Measure run-queue latency.
    pub waits: bool,
    /// Measure which processes end the blocks of threads, with a program at each wake-up.
    pub releasers: bool,
    /// Maximum number of cells of the blame matrix.
    pub blames: u32,
    /// Maximum number of cgroups in the BPF tables.
    pub cgroups: u32,
    /// Maximum number of processes in the tables, which include those with ended threads or with
    /// threads from another cgroup.
    pub processes: u32,
    /// Size of the ring buffer of ended processes in bytes, rounded up to a power of two.
    pub ring_bytes: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            counters: CounterSpec::HARDWARE.to_vec(),
            page_cache: true,
            softirqs: true,
            waits: true,
            releasers: false,
            blames: 16_384,
            cgroups: 8192,
            processes: 16_384,
            ring_bytes: 2 << 20,
        }
    }
}

/// One way to implement a feature: the program, and the hook that the program needs. Ways are
/// listed best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Name of the BPF program.
    pub program: &'static str,
    /// The hook, as `doctor` shows it.
    pub hook: &'static str,
    /// Limitation compared with the best way; empty for the best way.
    pub limit: &'static str,
}

impl Way {
    /// Returns the status of a feature that uses this way.
    pub(crate) fn works(&self, feature: FeatureId) -> Feature {
        match self.limit {
            "" => Feature::on(feature, self.hook),
            limit => Feature::degraded(feature, format!("{}: {limit}", self.hook)),
        }
    }
}

const fn way(program: &'static str, hook: &'static str, limit: &'static str) -> Way {
    Way {
        program,
        hook,
        limit,
    }
}

const BY_FOLIO: &str = "counts a folio once however many of its pages are read, and also counts \
    the file systems' own lookups";
const BY_PAGE: &str = "also counts the file systems' own lookups";

const PAGE_READS: &[Way] = &[
    way("read_get_pages", "mm_filemap_get_pages", ""),
    way("read_folio_access", "folio_mark_accessed()", BY_FOLIO),
    way("read_page_access", "mark_page_accessed()", BY_PAGE),
    way("read_folio_probe", "kprobe folio_mark_accessed", BY_FOLIO),
    way("read_page_probe", "kprobe mark_page_accessed", BY_PAGE),
];

/// Prefix of hooks that are kprobes. Only attaching the probe shows whether the kernel has the
/// function.
const KPROBE: &str = "kprobe ";

const PAGE_WRITES: &[Way] = &[
    way("write_folio", "writeback_dirty_folio", ""),
    way("write_page", "writeback_dirty_page", ""),
];

/// The last way is tried whatever the facts are, because only attaching shows whether the kernel
/// has the tracepoints.
pub(crate) const FILE_OPENS: [Way; 3] = [
    way("filp_open", "do_filp_open()", ""),
    way("file_open", "do_file_open()", ""),
    way(
        "openat_exit",
        "sys_exit_openat",
        "does not see opens through io_uring or by 32-bit programs, and makes every system call on \
        this machine slightly slower while file events are collected",
    ),
];

const SOFTIRQS: &[Way] = &[way("softirq_entry", "softirq_entry", "")];

/// The ways to try, in order. The first way that works is used.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ways to count page-cache reads.
    pub page_reads: Vec<Way>,
    /// Ways to count page-cache writes.
    pub page_writes: Vec<Way>,
    /// Ways to count softirqs.
    pub softirqs: Vec<Way>,
    /// Perf events to open.
    pub counters: Vec<CounterSpec>,
    /// Features whose status is already final.
    pub settled: Vec<Feature>,
}

impl Plan {
    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// Fails if nothing at all can work on this kernel.
    pub fn new(facts: &Facts, wanted: &Wanted) -> Result<Self, Error> {
        if let Some(error) = &facts.capabilities_error {
            let words = format!("cannot read the capabilities of this process: {error}");
            return Err(Error::new(ErrorKind::Other, words));
        }
        if let Some(words) = missing_privileges(facts) {
            return Err(Error::new(ErrorKind::Privileges, words));
        }
        if let Some(error) = &facts.btf_error {
            let words = format!("cannot read the kernel's BTF at {VMLINUX}: {error}");
            return Err(Error::new(ErrorKind::Other, words));
        }
        if !facts.btf {
            let words =
                format!("this kernel has no BTF: {VMLINUX} does not exist (CONFIG_DEBUG_INFO_BTF)");
            return Err(Error::new(ErrorKind::Kernel, words));
        }
        let ways = |all: &[Way], on: bool| -> Vec<Way> {
            all.iter()
                .copied()
                .filter(|w| on && (w.hook.starts_with(KPROBE) || facts.hooks.contains(w.hook)))
                .collect()
        };
        let mut settled = Vec::new();
        let mut plan = |id, all: &[Way], on| {
            let found = ways(all, on);
            if found.is_empty() {
                settled.push(missing(id, all, on));
            }
            found
        };
        Ok(Self {
            page_reads: plan(FeatureId::PageCacheReads, PAGE_READS, wanted.page_cache),
            page_writes: plan(FeatureId::PageCacheWrites, PAGE_WRITES, wanted.page_cache),
            softirqs: plan(FeatureId::Softirqs, SOFTIRQS, wanted.softirqs),
            counters: wanted.counters.clone(),
            settled,
        })
    }

    /// Removes everything except CPU time and waits. The removed features get no status.
    pub fn keep_only_cpu_and_waits(&mut self) {
        self.page_reads.clear();
        self.page_writes.clear();
        self.softirqs.clear();
        self.counters.clear();
        self.settled.clear();
    }
}

/// The configuration section of these settings.
pub(crate) const SECTION: &str = "collect";

fn missing(id: FeatureId, ways: &[Way], on: bool) -> Feature {
    if !on {
        return Feature::switched_off(id, SECTION);
    }
    let hooks: Vec<&str> = ways.iter().map(|w| w.hook).collect();
    Feature::off(
        id,
        format!("this kernel does not have {}", hooks.join(" or ")),
    )
}

/// If the process lacks capabilities without which nothing works, returns a text with these
/// capabilities and a fix; `None` if none is missing.
pub fn missing_privileges(facts: &Facts) -> Option<String> {
    let mut missing = Vec::new();
    if !facts.capabilities.bpf {
        missing.push("CAP_BPF");
    }
    if !facts.capabilities.perfmon {
        missing.push("CAP_PERFMON");
    }
    if missing.is_empty() {
        return None;
    }
    Some(format!(
        "missing {}: run as root, or as a service with AmbientCapabilities=CAP_BPF CAP_PERFMON \
        CAP_DAC_READ_SEARCH",
        missing.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::facts::{Capabilities, CgroupVersion, Hierarchy, Scheduler, Tracepoints};
    use crate::roots::HostRoots;

    fn facts(hooks: &[&'static str]) -> Facts {
        Facts {
            roots: HostRoots::default(),
            release: "6.1.0".into(),
            capabilities: Capabilities {
                bpf: true,
                perfmon: true,
                ..Capabilities::default()
            },
            capabilities_error: None,
            btf: true,
            btf_error: None,
            task_storage: true,
            tracepoints: Tracepoints::default(),
            socket_storage_iterates: true,
            tracepoints_preempt: false,
            scheduler: Scheduler::default(),
            throttle_clock: None,
            system_calls: true,
            hooks: BTreeSet::from_iter(hooks.iter().copied()),
            hierarchy: Hierarchy {
                version: CgroupVersion::V2,
                id: 0,
                mount: None,
            },
            tracefs: None,
            perf_event_paranoid: None,
            lockdown: None,
            memory_limit: None,
            possible_cpus: 1,
            nominal_hertz: None,
            topology: crate::topology::Topology::default(),
            pid_namespace: false,
            proc_hides: None,
            kernel_types: crate::kernel_types::KernelTypes::default(),
        }
    }

    #[test]
    fn missing_hooks_turn_off_only_one_feature() {
        let facts = facts(&[
            "folio_mark_accessed()",
            "mm_filemap_get_pages",
            "softirq_entry",
        ]);
        let plan = Plan::new(&facts, &Wanted::default()).expect("a plan");
        let programs: Vec<&str> = plan.page_reads.iter().map(|w| w.program).collect();
        assert_eq!(programs[..2], ["read_get_pages", "read_folio_access"]);
        assert_eq!(programs[2..], ["read_folio_probe", "read_page_probe"]);
        assert_eq!(plan.settled.len(), 1);
        assert_eq!(plan.settled[0].id, FeatureId::PageCacheWrites);
        assert!(plan.settled[0].reason.contains("writeback_dirty_folio"));
    }

    #[test]
    fn unwanted_features_name_the_configuration() {
        let wanted = Wanted {
            softirqs: false,
            page_cache: false,
            ..Wanted::default()
        };
        let plan = Plan::new(&facts(&["softirq_entry"]), &wanted).expect("a plan");
        assert!(plan.softirqs.is_empty());
        assert!(
            plan.settled
                .iter()
                .all(|f| f.reason.contains("configuration"))
        );
        assert_eq!(plan.settled.len(), 3);
    }

    #[test]
    fn missing_privileges_are_named() {
        let mut facts = facts(&[]);
        facts.btf_error = Some("Cannot allocate memory".into());
        facts.btf = false;
        let error = Plan::new(&facts, &Wanted::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(
            error.to_string().ends_with("Cannot allocate memory"),
            "{error}"
        );
        facts.capabilities_error = Some("Not enough ink".into());
        let error = Plan::new(&facts, &Wanted::default()).unwrap_err();
        assert!(error.to_string().ends_with("Not enough ink"), "{error}");
        facts.capabilities_error = None;
        facts.capabilities.perfmon = false;
        let error = Plan::new(&facts, &Wanted::default()).expect_err("no rights");
        assert_eq!(error.kind(), ErrorKind::Privileges);
        assert!(error.to_string().starts_with("missing CAP_PERFMON:"));
    }
}
