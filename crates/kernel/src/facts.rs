//! Properties of this kernel, and privileges of this process. The facts contain no decisions: the
//! plan makes them.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use libbpf_rs::btf::types::{Composite, Enum};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};
use rustix::process::{Resource, getrlimit};
use rustix::thread;

use crate::kernel_types::{KernelTypes, VMLINUX};
use crate::roots::HostRoots;
use crate::sysfs::{cpu_list, line};
use crate::topology::Topology;

mod cgroup;

pub use cgroup::{CgroupVersion, Hierarchy, hides_processes};

/// The facts on which the plan is based. Gathering them changes nothing and cannot fail. A fact
/// that cannot be read is absent.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where the host's sysfs and procfs are mounted.
    pub roots: HostRoots,
    /// `uname -r`.
    pub release: String,
    /// Capabilities of the process.
    pub capabilities: Capabilities,
    /// Why the capabilities could not be read. If this is set, all of `capabilities` are false.
    pub capabilities_error: Option<String>,
    /// Whether the kernel provides BTF in /sys/kernel/btf/vmlinux.
    pub btf: bool,
    /// Why existing BTF could not be read.
    pub btf_error: Option<String>,
    /// Whether tracing programs have task local storage (Linux 5.13).
    pub task_storage: bool,
    /// Whether the iterator over socket storage is safe. Since 7.0 the kernel can detach the
    /// storage from its socket during the iteration, which crashes the kernel. The kernel function
    /// that detaches the storage also identifies kernels with a backport. A compiler may inline
    /// that function, so the release is also checked.
    pub socket_storage_iterates: bool,
    /// Whether a thread can be preempted inside a tracepoint program (7.0). Until the preempted
    /// thread continues, the kernel skips the program for all other threads on that CPU.
    pub tracepoints_preempt: bool,
    /// The subset of `HOOKS` that this kernel has: raw tracepoints, and functions with BTF.
    pub hooks: BTreeSet<&'static str>,
    /// Tracepoint arguments that older kernels lack.
    pub tracepoints: Tracepoints,
    /// The field of `struct cfs_rq` with the throttled time; `None` if there are no quotas
    /// (CONFIG_CFS_BANDWIDTH) or the field has another name.
    pub throttle_clock: Option<&'static str>,
    /// Whether programs can read the system call of a thread (`bpf_task_pt_regs`).
    pub system_calls: bool,
    /// Times and states that the scheduler records.
    pub scheduler: Scheduler,
    /// The cgroup hierarchy whose groups are counted.
    pub hierarchy: Hierarchy,
    /// Where tracefs is mounted.
    pub tracefs: Option<PathBuf>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// The selected mode of /sys/kernel/security/lockdown.
    pub lockdown: Option<String>,
    /// `RLIMIT_MEMLOCK` in bytes if it limits the memory of BPF programs and maps: before Linux
    /// 5.11, unless the process may raise it.
    pub memory_limit: Option<u64>,
    /// Number of possible CPUs.
    pub possible_cpus: u32,
    /// Packages of the online CPUs, and which CPUs share a core.
    pub topology: Topology,
    /// Frequency of the reference cycles, from cpufreq's base_frequency or the model name.
    pub nominal_hertz: Option<u64>,
    /// Whether the process sees only processes in a child pid namespace.
    pub pid_namespace: bool,
    /// Why procfs hides kthreadd (process 2), and with it processes of other users, for example by
    /// the mount option hidepid; `None` if it does not.
    pub proc_hides: Option<String>,
    /// Kernel types for loading objects.
    pub(crate) kernel_types: KernelTypes,
}

/// Times and states that the scheduler records, depending on the kernel configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduler {
    /// Whether a thread's run queue, and therefore the clock of that queue, can be read
    /// (CONFIG_FAIR_GROUP_SCHED).
    pub clock: bool,
    /// Whether the scheduler records when each thread was queued and got its CPU
    /// (CONFIG_SCHED_INFO).
    pub notes: bool,
    /// Whether quotas throttle threads instead of queues (Linux 6.18).
    pub throttles_threads: bool,
    /// Whether interrupt time is measured (CONFIG_IRQ_TIME_ACCOUNTING).
    pub interrupts: bool,
    /// Whether steal time is measured (CONFIG_PARAVIRT).
    pub host: bool,
    /// Whether steal time is excluded from the CPU time of tasks (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    pub steal: bool,
}

impl Scheduler {
    /// Returns whether the scheduler's recorded times can be used, which requires its clock.
    pub(crate) fn records_usable_times(self) -> bool {
        self.notes && self.clock
    }
}

/// Arguments that newer kernels added to existing hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracepoints {
    /// `sched_switch` passes the state of the previous thread (Linux 5.18).
    pub prev_state: bool,
    /// `sched_process_exit` reports whether the thread is the last one (6.16).
    pub group_dead: bool,
    /// `mark_victim` passes the task, not only the id of one of its threads (6.9, and stable
    /// releases of older kernels).
    pub victim_task: bool,
    /// `tcp_retransmit_skb` also reports failed attempts, with their error (6.17).
    pub retransmit_error: bool,
    /// `inet_csk_accept()` takes its arguments in a struct (6.10).
    pub accept_struct: bool,
    /// `block_rq_issue` and similar tracepoints pass the queue before the request (until 5.10).
    pub request_queue: bool,
    /// `block_bio_queue` and similar tracepoints pass the queue before the bio (until 5.10).
    pub bio_queue: bool,
}

/// The capabilities in the effective set that matter to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Load BPF programs (CAP_BPF).
    pub bpf: bool,
    /// Trace, and open perf events for all processes (CAP_PERFMON).
    pub perfmon: bool,
    /// Read files of other users.
    pub dac_read_search: bool,
    /// CAP_SYS_ADMIN, required for BPF statistics, among other things.
    pub sys_admin: bool,
    /// Exceed resource limits.
    pub sys_resource: bool,
}

/// Hooks that some kernels lack. Tracepoints are listed by name, and functions have parentheses.
pub(crate) const HOOKS: &[&str] = &[
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_free",
    "cgroup_attach_task",
    "cgroup_mkdir",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "mark_victim",
    "inet_sock_set_state",
    "tcp_retransmit_skb",
    "tcp_retransmit_synack",
    "tcp_destroy_sock",
    "softirq_entry",
    "mm_filemap_get_pages",
    "writeback_dirty_folio",
    "writeback_dirty_page",
    "folio_mark_accessed()",
    "mark_page_accessed()",
    "do_filp_open()",
    "do_file_open()",
    "security_path_unlink()",
    "security_path_rmdir()",
    "security_path_rename()",
    "security_path_link()",
    "security_path_symlink()",
    "security_path_chmod()",
    "vfs_unlink()",
    "vfs_rmdir()",
    "vfs_rename()",
    "vfs_link()",
    "vfs_symlink()",
    "notify_change()",
    "ip_send_skb()",
    "ip6_send_skb()",
    "skb_consume_udp()",
    "udp_destroy_sock()",
    "udpv6_destroy_sock()",
    "tcp_v4_connect()",
    "tcp_v6_connect()",
    "inet_csk_accept()",
    "block_bio_queue",
    "block_bio_complete",
    "block_split",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
    "bpf_iter_task_new()",
    "bpf_task_from_pid()",
];

impl Facts {
    /// Probes the kernel through these mounts of procfs and sysfs.
    pub fn probe(roots: &HostRoots) -> Self {
        let HostRoots { sys, proc } = roots;
        let types = KernelTypes::read(names_to_look_up());
        let (btf, btf_error) = match kernel_types(&types) {
            Ok(btf) => (btf, None),
            Err(words) => (None, Some(words)),
        };
        let release = line(&proc.join("sys/kernel/osrelease")).unwrap_or_default();
        let held = thread::capabilities(None);
        let capabilities = held.map_or_else(
            |_| Capabilities::default(),
            |held| Capabilities::from_bits(held.effective.bits()),
        );
        Self {
            roots: roots.clone(),
            capabilities,
            capabilities_error: held.err().map(|error| error.to_string()),
            btf: btf.is_some(),
            btf_error,
            task_storage: btf.as_ref().is_some_and(task_storage),
            hooks: btf.as_ref().map(hooks).unwrap_or_default(),
            tracepoints: btf.as_ref().map(Tracepoints::probe).unwrap_or_default(),
            socket_storage_iterates: btf
                .as_ref()
                .is_some_and(|btf| function_arguments(btf, UNLINKS_STORAGE).is_none())
                && major(&release) < 7,
            tracepoints_preempt: major(&release) >= 7,
            memory_limit: btf.as_ref().and_then(|btf| memory_limit(btf, capabilities)),
            release,
            scheduler: btf.as_ref().map(Scheduler::probe).unwrap_or_default(),
            throttle_clock: btf.as_ref().and_then(throttle_clock),
            system_calls: btf.as_ref().is_some_and(system_calls),
            hierarchy: Hierarchy::probe(proc),
            tracefs: tracefs(sys),
            perf_event_paranoid: line(&proc.join("sys/kernel/perf_event_paranoid"))
                .and_then(|l| l.parse().ok()),
            lockdown: line(&sys.join("kernel/security/lockdown")).and_then(|l| chosen(&l)),
            possible_cpus: libbpf_rs::num_possible_cpus().map_or(1, |n| n as u32),
            topology: Topology::probe(sys, &online_cpus(sys)),
            nominal_hertz: nominal_hertz(roots),
            pid_namespace: pid_namespace(),
            proc_hides: proc_hides(proc),
            kernel_types: types,
        }
    }
}

/// Returns the names to look up in addition to the types in the objects: the hooks, and functions
/// that identify kernel versions.
fn names_to_look_up() -> impl Iterator<Item = String> {
    let hooks = HOOKS.iter().map(|hook| match hook.strip_suffix("()") {
        Some(function) => function.to_owned(),
        None => format!("{TRACEPOINT}{hook}"),
    });
    hooks.chain([UNLINKS_STORAGE, CHARGES_MEMORY].map(str::to_owned))
}

impl Capabilities {
    /// Converts the mask shown as `CapEff` in `/proc/PID/status`.
    pub fn from_bits(effective: u64) -> Self {
        let has = |bit: u32| effective & 1 << bit != 0;
        let sys_admin = has(21);
        Self {
            bpf: has(39) || sys_admin,
            perfmon: has(38) || sys_admin,
            dac_read_search: has(2) || has(1),
            sys_admin,
            sys_resource: has(24),
        }
    }
}

/// Returns the kernel's types; `None` if the kernel has no BTF. libbpf does not distinguish the
/// causes of a failure. If the file exists, this function therefore reads it again to report the
/// actual error.
fn kernel_types(types: &KernelTypes) -> Result<Option<Btf<'static>>, String> {
    if let Some(btf) = types.btf() {
        return Ok(Some(btf));
    }
    let mut first = [0];
    match File::open(VMLINUX).and_then(|mut file| file.read(&mut first)) {
        // An empty file contains no types.
        Ok(0) => Ok(None),
        Ok(_) => Btf::from_path(VMLINUX)
            .map(Some)
            .map_err(|error| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the online CPUs, ascending; none if the kernel's list cannot be read.
pub(crate) fn online_cpus(sys: &Path) -> Vec<u32> {
    line(&sys.join("devices/system/cpu/online")).map_or_else(Vec::new, |l| cpu_list(&l))
}

/// Returns the name of the enabled sched_ext scheduler (Linux 6.12), if any, from this mount of
/// sysfs.
pub fn ext_scheduler(sys: &Path) -> Option<String> {
    let folder = sys.join("kernel/sched_ext");
    let state = line(&folder.join("state"))?;
    let name = || line(&folder.join("root/ops")).unwrap_or_else(|| "(unnamed)".to_owned());
    (state != "disabled").then(name)
}

/// Returns the isolated CPUs (isolcpus, nohz_full), ascending, from this mount of sysfs.
pub fn isolated_cpus(sys: &Path) -> BTreeSet<u32> {
    let files = ["isolated", "nohz_full"];
    let files = files.map(|file| sys.join("devices/system/cpu").join(file));
    let lists = files.iter().filter_map(|file| line(file));
    lists.flat_map(|list| cpu_list(&list)).collect()
}

/// Prefix of the type names of tracepoint programs.
const TRACEPOINT: &str = "btf_trace_";

/// Function that detaches socket storage from its socket (7.0).
const UNLINKS_STORAGE: &str = "bpf_selem_unlink_nofail";

/// Function that charges the memory of a map to its user (until 5.11).
const CHARGES_MEMORY: &str = "bpf_map_charge_init";

/// Visits each type once. A search by name would visit all types for each hook.
fn hooks(btf: &Btf<'_>) -> BTreeSet<&'static str> {
    let named = HOOKS
        .iter()
        .map(|hook| (hook.strip_suffix("()").unwrap_or(hook), *hook));
    let sought: HashMap<&str, &'static str> = named.collect();
    let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()));
    let found = types.filter_map(|it| {
        let name = it.name()?.to_str()?;
        let (name, is_function) = match it.kind() {
            BtfKind::Func => (name, true),
            BtfKind::Typedef => (name.strip_prefix(TRACEPOINT)?, false),
            _ => return None,
        };
        let hook = *sought.get(name)?;
        (hook.ends_with("()") == is_function).then_some(hook)
    });
    found.collect()
}

/// Returns the number of arguments that the tracepoint passes to raw programs.
fn arguments(btf: &Btf<'_>, tracepoint: &str) -> usize {
    use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
    let prototype = btf
        .type_by_name::<Typedef<'_>>(&format!("{TRACEPOINT}{tracepoint}"))
        .and_then(|typedef| Ptr::try_from(typedef.next_type()?).ok())
        .and_then(|pointer| FuncProto::try_from(pointer.next_type()?).ok());
    // The first argument is the context of the probe.
    prototype.map_or(0, |prototype| prototype.len().saturating_sub(1))
}

/// Returns the number of arguments of the function; `None` if it does not exist.
fn function_arguments(btf: &Btf<'_>, name: &str) -> Option<usize> {
    use libbpf_rs::btf::types::{Func, FuncProto};
    let function = btf.type_by_name::<Func<'_>>(name)?;
    let prototype = FuncProto::try_from(function.next_type()?).ok()?;
    Some(prototype.len())
}

impl Tracepoints {
    fn probe(btf: &Btf<'_>) -> Self {
        Self {
            prev_state: arguments(btf, "sched_switch") > 3,
            group_dead: arguments(btf, "sched_process_exit") > 1,
            victim_task: arguments(btf, "mark_victim") > 1,
            retransmit_error: arguments(btf, "tcp_retransmit_skb") > 2,
            accept_struct: function_arguments(btf, "inet_csk_accept") == Some(2),
            request_queue: arguments(btf, "block_rq_issue") > 1,
            bio_queue: arguments(btf, "block_bio_queue") > 1,
        }
    }
}

/// Names of the field, newest first. `bpf/switch/throttle.bpf.h` reads the same fields.
pub(crate) const THROTTLE_CLOCKS: [&str; 3] = [
    "throttled_clock_self_time",
    "throttled_clock_pelt_time",
    "throttled_clock_task_time",
];

/// The map type itself is older (5.11), but at first it worked only for LSM programs, which stored
/// the data elsewhere.
fn task_storage(btf: &Btf<'_>) -> bool {
    let thread = btf.type_by_name::<Composite<'_>>("task_struct");
    thread.is_some_and(|thread| has_member(btf, &thread, "bpf_storage"))
}

/// Returns whether the type has a member of that name, including members of anonymous structs and
/// unions. Anonymous structs and unions exist if the layout is randomized, or if a vendor used
/// reserved space.
fn has_member(btf: &Btf<'_>, composite: &Composite<'_>, name: &str) -> bool {
    composite.iter().any(|member| match member.name {
        Some(found) => found == name,
        None => btf
            .type_by_id::<Composite<'_>>(member.ty)
            .is_some_and(|part| has_member(btf, &part, name)),
    })
}

impl Scheduler {
    fn probe(btf: &Btf<'_>) -> Self {
        let has = |composite: &str, member: &str| {
            let composite = btf.type_by_name::<Composite<'_>>(composite);
            composite.is_some_and(|composite| has_member(btf, &composite, member))
        };
        let clock = has("sched_entity", "cfs_rq");
        let steal = has("rq", "prev_steal_time_rq");
        Self {
            clock,
            notes: has("sched_info", "last_queued"),
            throttles_threads: has("task_struct", "throttled"),
            interrupts: has("rq", "prev_irq_time"),
            host: clock && (steal || has("rq", "prev_steal_time")),
            steal,
        }
    }
}

fn throttle_clock(btf: &Btf<'_>) -> Option<&'static str> {
    let queue = btf.type_by_name::<Composite<'_>>("cfs_rq")?;
    let mut fields = THROTTLE_CLOCKS.into_iter();
    fields.find(|field| has_member(btf, &queue, field))
}

/// Returns whether the kernel has the helper `bpf_task_pt_regs`.
fn system_calls(btf: &Btf<'_>) -> bool {
    let helpers = btf.type_by_name::<Enum<'_>>("bpf_func_id");
    helpers.is_some_and(|helpers| {
        let mut names = helpers.iter().filter_map(|helper| helper.name);
        names.any(|name| name == "BPF_FUNC_task_pt_regs")
    })
}

/// Returns the mount point of tracefs.
pub(crate) fn tracefs(sys: &Path) -> Option<PathBuf> {
    let places = ["kernel/tracing", "kernel/debug/tracing"];
    places
        .into_iter()
        .map(|p| sys.join(p))
        .find(|p| p.join("trace").exists())
}

/// Returns the word in brackets: `none [integrity] confidentiality`.
fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn nominal_hertz(roots: &HostRoots) -> Option<u64> {
    let cpu = roots.sys.join("devices/system/cpu/cpu0");
    let file = cpu.join("cpufreq/base_frequency");
    if let Some(khz) = line(&file).and_then(|l| l.parse::<u64>().ok()) {
        return Some(khz * 1000);
    }
    let cpuinfo = fs::read_to_string(roots.proc.join("cpuinfo")).ok()?;
    let name = cpuinfo.lines().find(|l| l.starts_with("model name"))?;
    let ghz: f64 = name
        .split_once('@')?
        .1
        .trim()
        .strip_suffix("GHz")?
        .trim()
        .parse()
        .ok()?;
    Some((ghz * 1e9).round() as u64)
}

/// Inode of the initial pid namespace, fixed in the kernel (PROC_PID_INIT_INO).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

fn pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|n| n != Path::new(HOST_PID_NAMESPACE))
}

/// Returns why procfs hides processes of other users. Every user may read the status of any
/// process, unless procfs hides processes that the reader may not trace. No process has more rights
/// than kthreadd, so a reader that sees kthreadd sees all processes. Process 1 may be hidden by
/// other means.
fn proc_hides(proc: &Path) -> Option<String> {
    let error = fs::read(proc.join("2/stat")).err()?;
    Some(error.to_string())
}

/// Returns the major version of a release. An unreadable release counts as the newest.
fn major(release: &str) -> u32 {
    let major = release.split('.').next().map(str::parse);
    major.and_then(Result::ok).unwrap_or(u32::MAX)
}

/// Returns the memory limit, if it applies. libbpf removes the limit if the process may raise it,
/// by privilege or because its hard limit is higher.
fn memory_limit(btf: &Btf<'_>, capabilities: Capabilities) -> Option<u64> {
    if function_arguments(btf, CHARGES_MEMORY).is_none() || capabilities.sys_resource {
        return None;
    }
    let limit = getrlimit(Resource::Memlock);
    limit.maximum.and(limit.current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_btf_gives_the_same_facts() {
        let whole = Btf::from_vmlinux().expect("this kernel describes its types");
        let copy = KernelTypes::read(names_to_look_up()).btf().expect("a copy");
        assert!(!hooks(&whole).is_empty());
        assert_eq!(hooks(&copy), hooks(&whole));
        assert_eq!(Tracepoints::probe(&copy), Tracepoints::probe(&whole));
        assert_eq!(Scheduler::probe(&copy), Scheduler::probe(&whole));
        assert_eq!(throttle_clock(&copy), throttle_clock(&whole));
        assert_eq!(system_calls(&copy), system_calls(&whole));
        assert_eq!(task_storage(&copy), task_storage(&whole));
        for function in [UNLINKS_STORAGE, CHARGES_MEMORY] {
            let there = function_arguments(&whole, function);
            assert_eq!(function_arguments(&copy, function), there, "{function}");
        }
    }

    #[test]
    fn procfs_without_kthreadd_hides_processes() {
        let root = tempfile::tempdir().expect("a folder");
        let hidden = proc_hides(root.path());
        assert!(hidden.is_some_and(|why| why.contains("No such file")));
        fs::create_dir(root.path().join("2")).expect("a folder");
        fs::write(root.path().join("2/stat"), "2 (kthreadd) S").expect("a file");
        assert_eq!(proc_hides(root.path()), None);
    }

    #[test]
    fn isolated_cpus_combine_both_lists() {
        let root = tempfile::tempdir().expect("a folder");
        let cpus = root.path().join("devices/system/cpu");
        fs::create_dir_all(&cpus).expect("a folder");
        let write = |file, list| fs::write(cpus.join(file), list).expect("a file");
        assert!(isolated_cpus(root.path()).is_empty(), "no such files");
        // The kernel writes this text if no CPU is isolated.
        write("isolated", "\n");
        write("nohz_full", "(null)\n");
        assert!(isolated_cpus(root.path()).is_empty());
        write("isolated", "3\n");
        write("nohz_full", "2-3,5\n");
        assert_eq!(Vec::from_iter(isolated_cpus(root.path())), [2, 3, 5]);
    }

    #[test]
    fn unparsable_release_counts_as_newest() {
        assert_eq!(major("6.12.107+deb13-cloud-amd64"), 6);
        assert_eq!(major("10.0-rc1"), 10);
        assert_eq!(major(""), u32::MAX);
        assert_eq!(major("next.1"), u32::MAX);
    }

    #[test]
    fn cap_sys_admin_includes_bpf_and_perfmon() {
        let admin = Capabilities::from_bits(1 << 21);
        assert!(admin.bpf && admin.perfmon && !admin.dac_read_search);
        let three = Capabilities::from_bits(1 << 39 | 1 << 38 | 1 << 2);
        assert!(three.bpf && three.perfmon && three.dac_read_search && !three.sys_admin);
    }

    #[test]
    fn lockdown_mode_is_the_word_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality").as_deref(),
            Some("integrity")
        );
        assert_eq!(chosen("none"), None);
    }
}
