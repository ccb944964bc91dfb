//! The kernel's own figures.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::path::PathBuf;

/// Returns the CPU time of a process in seconds, which is the sum of field 1 of its threads'
/// schedstat. The kernel updates the figure of a running thread at the scheduler tick (4 ms at 250
/// Hz).
pub(crate) fn schedstat_seconds(pid: u32) -> f64 {
    schedstat(pid, 0)
}

/// Like [`schedstat_seconds`], for the leader only. Returns `None` if the leader has ended.
pub(crate) fn leader_seconds(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// Returns how long the live threads of a process waited for a CPU, in seconds. This is the sum of
/// field 2 of their schedstat. The kernel adds a wait when the wait ends.
pub(crate) fn waited_seconds(pid: u32) -> f64 {
    schedstat(pid, 1)
}

fn schedstat(pid: u32, field: usize) -> f64 {
    schedstat_sum(pid, field) as f64 / 1e9
}

/// Returns how often the live threads of a process got a CPU (field 3 of schedstat).
pub(crate) fn runs(pid: u32) -> u64 {
    schedstat_sum(pid, 2)
}

fn schedstat_sum(pid: u32, field: usize) -> u64 {
    let values = threads(pid).into_iter().filter_map(|folder| {
        let text = fs::read_to_string(folder.join("schedstat")).ok()?;
        text.split_whitespace().nth(field)?.parse::<u64>().ok()
    });
    values.sum()
}

/// Returns a topology file of each CPU.
fn topology(file: &str) -> BTreeMap<usize, String> {
    let read = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        let text = fs::read_to_string(path).ok()?;
        Some((cpu, text.trim().to_owned()))
    };
    (0..4096).filter_map(read).collect()
}

/// Returns an online CPU of each package, by the kernel's number of the package.
pub(crate) fn packages() -> BTreeMap<String, usize> {
    let all = topology("physical_package_id");
    all.into_iter().map(|(cpu, id)| (id, cpu)).collect()
}

/// Returns two CPUs of one core, if there are any.
pub(crate) fn siblings() -> Option<(usize, usize)> {
    let all = topology("thread_siblings_list");
    let mut pairs = all.values().filter_map(|list| {
        let (first, second) = list.split_once([',', '-'])?;
        Some((first.parse().ok()?, second.parse().ok()?))
    });
    pairs.next()
}

/// Returns the number of online CPUs.
pub(crate) fn cpus_online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the CPU time of a process in seconds from the CPU clock of the process. The clock sums
/// live and ended threads, and is as current as [`schedstat_seconds`].
#[allow(
    unsafe_code,
    reason = "the standard library has no CPU clock of another process"
)]
pub(crate) fn process_seconds(pid: u32) -> f64 {
    let mut clock = MaybeUninit::uninit();
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: both calls write their whole result if they return 0, which is asserted.
    let time = unsafe {
        let found = libc::clock_getcpuclockid(pid.cast_signed(), clock.as_mut_ptr());
        assert_eq!(found, 0, "process {pid} has no CPU clock");
        let read = libc::clock_gettime(clock.assume_init(), time.as_mut_ptr());
        assert_eq!(read, 0, "the CPU clock of process {pid}");
        time.assume_init()
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Reaps a child. Returns the CPU time of the child and of the children that it reaped, in seconds.
/// The kernel rounds the time to microseconds.
#[allow(unsafe_code, reason = "wait4 has no safe form in the standard library")]
pub(crate) fn reap(pid: u32) -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    let mut status = 0;
    // SAFETY: the call writes the whole struct if it returns the pid, which is asserted.
    let usage = unsafe {
        let reaped = libc::wait4(pid.cast_signed(), &raw mut status, 0, usage.as_mut_ptr());
        assert_eq!(reaped, pid.cast_signed(), "our own child");
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6)
        .sum()
}

/// Returns the state letter of each thread.
pub(crate) fn states(pid: u32) -> Vec<char> {
    let state = |folder: PathBuf| {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads(pid).into_iter().filter_map(state).collect()
}

/// Returns the pids of the kernel threads.
pub(crate) fn kernel_threads() -> Vec<u32> {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let entries = fs::read_dir("/proc").expect("/proc");
    let kernel = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // state parent group session terminal terminal-group flags
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let flags = fields
            .split(' ')
            .nth(6)
            .and_then(|flags| flags.parse::<u32>().ok());
        flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(kernel).collect()
}

/// Returns voluntary and involuntary context switches of the live threads of a process.
pub(crate) fn switches(pid: u32) -> [u64; 2] {
    ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
        let count = |folder: PathBuf| {
            let status = fs::read_to_string(folder.join("status")).expect("the thread is there");
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.unwrap_or_else(|| panic!("no {name}"));
            value.trim().parse::<u64>().expect("a number")
        };
        threads(pid).into_iter().map(count).sum()
    })
}

/// Returns the ids of the live threads of a process.
pub(crate) fn thread_ids(pid: u32) -> Vec<u32> {
    let id = |folder: PathBuf| folder.file_name()?.to_str()?.parse().ok();
    threads(pid).into_iter().filter_map(id).collect()
}

fn threads(pid: u32) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    tasks.flatten().map(|task| task.path()).collect()
}

/// Seconds of one CPU, or of all, since boot, as counted by `/proc/stat` in 1/100 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeTime {
    /// Time spent running tasks.
    pub(crate) busy: f64,
    /// Idle time, including iowait.
    pub(crate) idle: f64,
    /// Steal time.
    pub(crate) steal: f64,
    /// Time in interrupts and softirqs. Some kernels do not count this time as time of the tasks.
    pub(crate) interrupts: f64,
}

/// Returns the times of one CPU since boot.
pub(crate) fn time_of(cpu: usize) -> NodeTime {
    times(&format!("cpu{cpu}"))
}

/// Returns the times of all CPUs since boot.
pub(crate) fn node_time() -> NodeTime {
    times("cpu")
}

/// Parses a line of `/proc/stat`.
fn times(name: &str) -> NodeTime {
    let text = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(of, _)| *of == name);
    let (_, line) = line.expect("the CPU is online");
    let ticks: Vec<f64> = line
        .split_whitespace()
        .map(|field| field.parse().expect("a number"))
        .collect();
    // user nice system idle iowait irq softirq steal
    NodeTime {
        busy: (ticks[0] + ticks[1] + ticks[2]) / 100.0,
        idle: (ticks[3] + ticks[4]) / 100.0,
        steal: ticks[7] / 100.0,
        interrupts: (ticks[5] + ticks[6]) / 100.0,
    }
}

/// Returns `/proc/softirqs`, summed over the CPUs, by the vector's name in lower case.
pub(crate) fn softirqs() -> BTreeMap<String, u64> {
    let text = fs::read_to_string("/proc/softirqs").expect("/proc/softirqs");
    let line = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_whitespace().map(str::parse::<u64>);
        let sum = counts.map(|count| count.expect("a number")).sum();
        Some((name.trim().to_lowercase(), sum))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the resident memory of a process, in MiB.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.expect("kB").parse::<f64>().expect("a number") / 1024.0
}

/// Returns the available memory, in KiB.
pub(crate) fn available_kilobytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let value = value.expect("Linux 3.14").trim().trim_end_matches(" kB");
    value.parse().expect("a number")
}

/// Returns a value of `/proc/vmstat`.
pub(crate) fn vmstat(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
    let line = text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then_some(value)
    });
    line.unwrap_or_else(|| panic!("no {name}"))
        .parse()
        .expect("a number")
}
