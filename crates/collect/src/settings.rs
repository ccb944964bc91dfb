//! Reads the settings of a group (weight, allowed CPUs) and its pressure, and how idle each CPU
//! was. The kernel's files are read when a report is printed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use noctule_model::{Asleep, AsleepThreads, CpuWeight, RealTime, Rivals, ThreadRoom};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

use crate::group_files::GroupFiles;
use crate::memory::Mounted;
use crate::quotas::Quota;

/// Maximum number of threads whose allowed CPUs are read.
const THREADS: usize = 256;
/// Maximum number of threads of the machine whose CPU time is recorded.
const NOTED: usize = 8192;
/// Upper bound for the size of a thread's `stat` file: a name, and about 50 numbers of up to 20
/// digits.
const LONGEST_STAT: usize = 2048;

/// Reads the kernel's files.
#[derive(Clone, Debug)]
pub struct SettingFiles {
    /// Root directory of the mounts of `proc` and `sys`.
    root: PathBuf,
    groups: GroupFiles,
    /// The hierarchy with the memory controller, if figures of memory are wanted.
    memory: Option<Mounted>,
}

pub type CpuNumbers = BTreeSet<u32>;

/// Time of each CPU since boot, in the kernel's ticks: number, idle time, total time.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(Vec<(u32, u64, u64)>);

/// CPU time of the machine's threads at one time, in the kernel's ticks, by id and start.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimes(HashMap<(u32, u64), u64>);

/// Fields of a thread's `stat`.
struct ThreadStat {
    /// Id and start of the thread.
    id: (u32, u64),
    /// CPU time in ticks.
    used: u64,
    real_time: Option<RealTime>,
}

impl ThreadStat {
    /// Reads the `stat` of a thread. `folder` is the `task` directory of its process. There may be
    /// thousands of threads, so the path is resolved relative to that directory, and a single read
    /// fetches the file.
    fn read(folder: BorrowedFd<'_>, name: &str) -> Option<Self> {
        let id = name.parse().ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(folder, format!("{name}/stat"), flags, Mode::empty()).ok()?;
        let mut buffer = [0; LONGEST_STAT];
        let length = rustix::io::read(&file, &mut buffer).ok()?;
        let text = &buffer[..length];
        // The name is in parentheses and may contain any bytes.
        let fields = &text[1 + text.iter().rposition(|byte| *byte == b')')?..];
        let mut fields = str::from_utf8(fields).ok()?.split_ascii_whitespace();
        // The field after the name is the third field of the file.
        let mut number = |skipped: usize| fields.nth(skipped)?.parse::<u64>().ok();
        let (user, system) = (number(14 - 3)?, number(0)?);
        let start = number(22 - 16)?;
        let mut small = |skipped| u32::try_from(number(skipped)?).ok();
        let (priority, policy) = (small(40 - 23)?, small(0)?);
        Some(Self {
            id: (id, start),
            used: user.saturating_add(system),
            real_time: RealTime::new(policy, priority),
        })
    }
}

impl SettingFiles {
    /// Creates a reader for this root and this mount point of the hierarchy.
    pub fn new(root: &Path, mount: &Path) -> Self {
        Self {
            root: root.to_owned(),
            groups: GroupFiles::new(mount.to_owned()),
            memory: None,
        }
    }

    /// Adds the hierarchy with the memory controller.
    #[must_use]
    pub fn with_memory(self, memory: Option<Mounted>) -> Self {
        Self { memory, ..self }
    }

    /// Returns the resident memory of a group and its descendants, in bytes. Returns `None` for the
    /// root, whose figure would include all groups.
    pub fn resident_bytes(&self, path: &str) -> Option<u64> {
        let memory = self.memory.as_ref().filter(|_| path != "/")?;
        memory.resident_bytes(path)
    }

    /// Returns the resident memory of a process, in bytes. Pages that processes share are included
    /// in each of them.
    pub fn resident_bytes_of(&self, pid: u32) -> Option<u64> {
        let text = fs::read_to_string(self.root.join(format!("proc/{pid}/statm"))).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }

    /// Returns the siblings at which the paths of a group and its culprit diverge, with their
    /// weights. Returns `None` if one path contains the other.
    pub fn rivals(&self, own: &str, culprit: &str) -> Option<Rivals> {
        let (own, culprit) = siblings(own, culprit)?;
        let with_weight = |path: &str| Some((path.to_owned(), self.weight(path)?));
        Some(Rivals {
            own: with_weight(own)?,
            culprit: with_weight(culprit)?,
        })
    }

    /// Returns the CPU weight of the group relative to its siblings. Returns `None` for the root, and if the controller
    /// is not enabled.
    pub fn weight(&self, path: &str) -> Option<CpuWeight> {
        let number = |file| self.groups.open(path)?.number(file);
        let weight = || number("cpu.weight").map(CpuWeight::Weight);
        let shares = || number("cpu.shares").map(CpuWeight::Shares);
        // On cgroup v1, the root has the file but no siblings.
        (path != "/").then(|| weight().or_else(shares))?
    }

    /// Returns whether the group runs only when nothing else needs the CPU. The weight of such a
    /// group is irrelevant. Returns `None` for the root, if the controller is not enabled, and
    /// before Linux 5.15.
    pub fn idle(&self, path: &str) -> Option<bool> {
        let read = || Some(self.groups.text(path, "cpu.idle")?.trim() == "1");
        (path != "/").then(read)?
    }

    /// Returns how many CPUs the group's own quota allows; `None` without a quota.
    pub fn limit(&self, path: &str) -> Option<f64> {
        Some(Quota::read(&self.groups.open(path)?)?.cpus())
    }

    /// Returns the mount point of the hierarchy, as the host sees it.
    pub fn mount(&self) -> PathBuf {
        let mount = self.groups.mount();
        let inside = mount.strip_prefix(&self.root).unwrap_or(mount);
        Path::new("/").join(inside)
    }

    /// Returns whether the hierarchy is cgroup v2.
    pub fn is_unified(&self) -> bool {
        self.groups.mount().join("cgroup.controllers").exists()
    }

    /// Returns the kernel's PSI `some avg10`: the percentage of the last ten seconds in which at
    /// least one thread of the group waited for a CPU.
    pub fn pressure(&self, path: &str) -> Option<f64> {
        let text = self.groups.text(path, "cpu.pressure")?;
        let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let value = some.split(' ').find_map(|w| w.strip_prefix("avg10="))?;
        value.parse().ok()
    }

    /// Returns the processes of the group and its descendants.
    pub fn processes(&self, path: &str) -> Vec<u32> {
        let mut pids = Vec::new();
        let mut folders = vec![self.groups.mount().join(path.trim_start_matches('/'))];
        while let Some(folder) = folders.pop() {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
            if pids.len() >= THREADS {
                break;
            }
        }
        pids
    }

    /// Returns all CPUs that at least one busy thread of these processes may use; `None` if no
    /// process is left.
    pub fn allowed(&self, pids: &[u32]) -> Option<CpuNumbers> {
        let (busy, _) = self.busy_threads(pids);
        let cpus: CpuNumbers = busy.into_iter().flatten().collect();
        (!cpus.is_empty()).then_some(cpus)
    }

    /// Returns the number of busy threads directly in the group, and of the online CPUs that any of
    /// these threads may use.
    ///
    /// The first value is `None` for the root group, which contains the kernel's threads, and if no
    /// thread is left. The second value is the number of threads read, busy or not.
    pub fn room(&self, path: &str) -> (Option<ThreadRoom>, usize) {
        let Some(text) = self
            .groups
            .text(path, "cgroup.procs")
            .filter(|_| path != "/")
        else {
            return (None, 0);
        };
        let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let (busy, read) = self.busy_threads(&pids);
        let cpus: CpuNumbers = busy.iter().flatten().copied().collect();
        let usable = cpus.intersection(&self.online()).count();
        let room = (usable > 0).then_some(ThreadRoom {
            threads: busy.len() as u32,
            cpus: usable as u32,
        });
        (room, read)
    }

    /// Returns the allowed CPUs of each busy thread, and how many threads were read.
    ///
    /// A thread is busy if it ran or waited for at least a hundredth of the sum over all threads
    /// since they started. Other threads, such as a main thread that only starts and joins other
    /// threads, are usually not pinned and would widen the result.
    fn busy_threads(&self, pids: &[u32]) -> (Vec<CpuNumbers>, usize) {
        let tasks = |pid: &u32| fs::read_dir(self.root.join(format!("proc/{pid}/task")));
        let threads = pids.iter().filter_map(|pid| tasks(pid).ok()).flatten();
        let threads: Vec<(u64, CpuNumbers)> = threads
            .flatten()
            .take(THREADS)
            .map(|thread| {
                let read = |file| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
                let status = read("status");
                let mut lines = status.lines();
                let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
                let cpus = list.into_iter().flat_map(numbers).collect();
                // Running time and waiting time.
                let times = read("schedstat");
                let times = times
                    .split_whitespace()
                    .take(2)
                    .map_while(|it| it.parse().ok());
                (times.fold(0, u64::saturating_add), cpus)
            })
            .collect();
        let all = threads
            .iter()
            .fold(0_u64, |sum, (ns, _)| sum.saturating_add(*ns));
        let read = threads.len();
        let busy = threads.into_iter().filter(|(ns, _)| *ns >= all / 100);
        (busy.map(|(_, cpus)| cpus).collect(), read)
    }

    /// Returns the states of threads in the group and its descendants that neither run nor wait for
    /// a CPU, the most frequent state first.
    pub fn asleep(&self, path: &str) -> Vec<AsleepThreads> {
        let mut found: BTreeMap<Asleep, AsleepThreads> = BTreeMap::new();
        let mut read = 0;
        let now = last_run_ns(&self.root.join("proc/thread-self/sched"));
        for pid in self.processes(path) {
            let tasks = fs::read_dir(self.root.join(format!("proc/{pid}/task")));
            for task in tasks.into_iter().flatten().flatten().take(THREADS - read) {
                read += 1;
                let text = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
                let stat = text("stat");
                // The name is in parentheses and may contain any characters.
                let state = stat
                    .rsplit_once(") ")
                    .and_then(|(_, rest)| rest.chars().next());
                // "0" means that the thread sleeps in no kernel function, or that reading is not
                // permitted.
                let wchan = Some(text("wchan")).filter(|wchan| !matches!(wchan.as_str(), "" | "0"));
                let kind = Asleep::new(state.unwrap_or('X'), wchan.as_deref().unwrap_or_default());
                let Some(kind) = kind else { continue };
                let known = found.entry(kind).or_insert_with(|| AsleepThreads {
                    kind,
                    threads: 0,
                    pid,
                    wchan,
                    since_run_ns: None,
                });
                known.threads += 1;
                let ran = last_run_ns(&task.path().join("sched"));
                let since = now.zip(ran).map(|(now, ran)| now.saturating_sub(ran));
                known.since_run_ns = known.since_run_ns.into_iter().chain(since).min();
            }
        }
        let mut found: Vec<AsleepThreads> = found.into_values().collect();
        found.sort_by_key(|it| Reverse(it.threads));
        found
    }

    /// Yields the threads of a process.
    fn threads(&self, pid: &str) -> impl Iterator<Item = ThreadStat> + use<> {
        let path = self.root.join("proc").join(pid).join("task");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).and_then(Dir::new);
        let mut folder = folder.ok();
        std::iter::from_fn(move || {
            let folder = folder.as_mut()?;
            loop {
                let entry = folder.read()?.ok()?;
                let name = entry.file_name().to_str();
                let thread = name.ok().zip(folder.fd().ok());
                if let Some(thread) = thread.and_then(|(name, fd)| ThreadStat::read(fd, name)) {
                    return Some(thread);
                }
            }
        })
    }

    /// Returns the CPU time of the machine's threads so far. If there are very many threads, some
    /// are left out.
    pub fn thread_times(&self) -> ThreadTimes {
        let processes = fs::read_dir(self.root.join("proc"));
        let processes = processes.into_iter().flatten().flatten();
        let pids = processes.filter_map(|process| process.file_name().into_string().ok());
        let pids = pids.filter(|name| name.starts_with(|first: char| first.is_ascii_digit()));
        let threads = pids.flat_map(|pid| self.threads(&pid)).take(NOTED);
        ThreadTimes(threads.map(|thread| (thread.id, thread.used)).collect())
    }

    /// Returns the real-time policy of the thread that used most CPU time since `earlier`. For a
    /// thread that is missing in `earlier`, all CPU time counts. Returns `None` if the selected
    /// thread has no real-time policy.
    pub fn real_time(&self, pid: u32, earlier: &ThreadTimes) -> Option<RealTime> {
        let threads = self.threads(&pid.to_string()).take(THREADS);
        let busiest = threads.max_by_key(|thread| {
            let before = earlier.0.get(&thread.id).copied().unwrap_or(0);
            // If no thread used a whole tick since then, the total CPU time decides.
            (thread.used.saturating_sub(before), thread.used)
        });
        busiest?.real_time
    }

    pub fn online(&self) -> CpuNumbers {
        let file = self.root.join("sys/devices/system/cpu/online");
        let text = fs::read_to_string(file).unwrap_or_default();
        numbers(&text).collect()
    }

    /// Returns the time of each CPU since boot.
    pub fn cpu_times(&self) -> CpuTimes {
        let text = fs::read_to_string(self.root.join("proc/stat")).unwrap_or_default();
        let cpu = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            let number = words.next()?.parse().ok()?;
            // User, nice, system, idle, iowait, irq, softirq, steal; guest time is included in the
            // first two.
            let ticks: Vec<u64> = words.take(8).filter_map(|w| w.parse().ok()).collect();
            let idle = ticks.get(3)? + ticks.get(4)?;
            Some((number, idle, ticks.iter().sum()))
        };
        CpuTimes(text.lines().filter_map(cpu).collect())
    }
}

impl CpuTimes {
    /// Returns the idle fraction of each CPU's time since `earlier`.
    pub fn idle_since(&self, earlier: &Self) -> Vec<(u32, f64)> {
        let one = |(number, idle, all): &(u32, u64, u64)| {
            let before = earlier.0.iter().find(|(cpu, ..)| cpu == number)?;
            let all = all.saturating_sub(before.2);
            let idle = idle.saturating_sub(before.1);
            (all > 0).then(|| (*number, (idle as f64 / all as f64).min(1.0)))
        };
        self.0.iter().filter_map(one).collect()
    }
}

/// Parses a list as the kernel writes it: `0-3,8`.
fn numbers(list: &str) -> impl Iterator<Item = u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        Some(number(first)?..=number(last)?)
    };
    let parts = list.trim().split(',').filter_map(range);
    parts.flatten().collect::<Vec<u32>>().into_iter()
}

/// Returns the time at which a thread last ran, on the scheduler's clock, in nanoseconds. The clock
/// of a CPU excludes interrupts and steal time, so two times are comparable to a few percent. The
/// file is missing in kernels before 6.15 without `CONFIG_SCHED_DEBUG`.
fn last_run_ns(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("se.exec_start"))?;
    let (whole, part) = line.rsplit_once(':')?.1.trim().split_once('.')?;
    let (ms, ns): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
    Some(ms * 1_000_000 + ns)
}

/// Returns the paths of the siblings at which two groups diverge, or `None` if one group contains
/// the other.
fn siblings<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let same = a.split('/').zip(b.split('/'));
    let common: usize = same
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len() + 1)
        .sum();
    let until = |path: &'a str| {
        let rest = path.get(common..).filter(|rest| !rest.is_empty())?;
        let end = rest.find('/').map_or(path.len(), |at| common + at);
        Some(&path[..end])
    };
    Some((until(a)?, until(b)?))
}

#[cfg(test)]
mod tests {
    use noctule_kernel::CgroupVersion;

    use super::*;
    use crate::testing::hierarchy;

    #[test]
    fn weights_of_both_cgroup_versions_are_read() {
        let root = hierarchy(&[
            ("cg/a/cpu.weight", "25\n"),
            ("cg/a/cpu.max", "50000 100000\n"),
            ("cg/b/cpu.shares", "262144\n"),
            ("cg/b/cpu.cfs_quota_us", "-1\n"),
            ("cg/b/cpu.cfs_period_us", "100000\n"),
            ("cg/b/inner/cpu.cfs_quota_us", "150000\n"),
            ("cg/b/inner/cpu.cfs_period_us", "100000\n"),
            ("cg/c/cpu.max", "max 100000\n"),
            ("cg/b/cgroup.procs", "7\n"),
            ("cg/b/inner/cgroup.procs", "8\n9\n"),
            (
                "cg/b/cpu.pressure",
                "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\n",
            ),
            ("cg/cpu.shares", "1024\n"),
            ("cg/cpu.idle", "0\n"),
            ("cg/a/cpu.idle", "0\n"),
            ("cg/b/cpu.idle", "1\n"),
            // A pinned thread that happens to run now does not represent all threads. An idle
            // thread is not counted.
            (
                "proc/7/task/7/status",
                "State:\tR (running)\nCpus_allowed_list:\t1\n",
            ),
            (
                "proc/8/task/8/status",
                "State:\tS (sleeping)\nCpus_allowed_list:\t4-5,7\n",
            ),
            ("proc/8/task/9/status", "Cpus_allowed_list:\t0\n"),
            ("proc/7/task/7/schedstat", "700000 200000 7\n"),
            ("proc/8/task/8/schedstat", "10000 90000 7\n"),
            ("proc/8/task/9/schedstat", "8000 900 7\n"),
            ("sys/devices/system/cpu/online", "0-2\n"),
        ]);
        let files = SettingFiles::new(root.path(), &root.path().join("cg"));
        let weights = ["/a", "/b", "/", "/none"].map(|path| files.weight(path));
        let expected = [CpuWeight::Weight(25), CpuWeight::Shares(262_144)].map(Some);
        assert_eq!(weights[..2], expected);
        assert_eq!(weights[2..], [None, None]);
        let idle = ["/a", "/b", "/", "/none"].map(|path| files.idle(path));
        assert_eq!(idle, [Some(false), Some(true), None, None]);
        let limits = ["/a", "/b", "/b/inner", "/c", "/none"].map(|path| files.limit(path));
        assert_eq!(limits, [Some(0.5), None, Some(1.5), None, None]);
        assert_eq!(files.pressure("/b"), Some(12.5));
        let pids = files.processes("/b");
        assert_eq!(pids, [7, 8, 9]);
        let allowed = files.allowed(&pids).expect("some");
        assert_eq!(allowed.into_iter().collect::<Vec<_>>(), [1, 4, 5, 7]);
        // Without schedstat, every thread counts as busy.
        fs::remove_file(root.path().join("proc/7/task/7/schedstat")).expect("it is there");
        fs::remove_file(root.path().join("proc/8/task/8/schedstat")).expect("it is there");
        fs::remove_file(root.path().join("proc/8/task/9/schedstat")).expect("it is there");
        let allowed = files.allowed(&pids).expect("some");
        assert_eq!(allowed.into_iter().collect::<Vec<_>>(), [0, 1, 4, 5, 7]);
        assert_eq!(files.allowed(&[99]), None);
        assert_eq!(files.online().len(), 3);
    }

    #[test]
    fn sleeping_threads_are_counted_by_wait_function() {
        let root = hierarchy(&[
            ("cg/a/cgroup.procs", "7\n"),
            ("cg/a/b/cgroup.procs", "8\n"),
            ("proc/7/task/7/stat", "7 (a ) S) S 1 7\n"),
            ("proc/7/task/7/wchan", "ep_poll"),
            ("proc/7/task/9/stat", "9 (a) R 1 7\n"),
            ("proc/7/task/9/wchan", "0"),
            ("proc/8/task/8/stat", "8 (b) T 1 8\n"),
            ("proc/8/task/8/wchan", "do_signal_stop"),
            ("proc/8/task/10/stat", "10 (b) T 1 8\n"),
            (
                "proc/thread-self/sched",
                "a (1)\nse.exec_start  :   9000.000007\n",
            ),
            (
                "proc/8/task/8/sched",
                "b (8)\nse.exec_start  :   1000.000000\n",
            ),
            (
                "proc/8/task/10/sched",
                "b (10)\nse.exec_start  :   2000.000002\n",
            ),
        ]);
        let files = SettingFiles::new(root.path(), &root.path().join("cg"));
        let found = files.asleep("/a");
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.kind, it.threads, it.pid, it.since_run_ns))
            .collect();
        let expected = [
            (Asleep::Stopped, 2, 8, Some(7_000_000_005)),
            (Asleep::Requests, 1, 7, None),
        ];
        assert_eq!(found, expected);
        assert_eq!(files.asleep("/none"), []);
    }

    #[test]
    fn process_has_the_policy_of_its_busiest_thread() {
        let stat = |name: &str, ticks: u64, priority: u32, policy: u32| {
            let between = "0 ".repeat(24);
            format!(
                "7 ({name}) R 1 7 7 0 -1 0 0 0 0 0 {ticks} 1 {between}{priority} {policy} 0 0 0\n"
            )
        };
        let threads = [
            ("proc/7/task/7/stat", stat("main", 5, 0, 0)),
            ("proc/7/task/70/stat", stat("a) R (b", 90, 10, 1)),
            ("proc/8/task/8/stat", stat("main", 5, 0, 0)),
            ("proc/8/task/80/stat", stat("timer", 1, 99, 1)),
            ("proc/9/task/9/stat", stat("main", 5, 5, 2)),
            ("proc/10/task/10/stat", stat("main", 5, 0, 6)),
            ("proc/11/task/11/stat", "11 (short".to_owned()),
        ];
        let files = threads
            .each_ref()
            .map(|(path, text)| (*path, text.as_str()));
        let root = hierarchy(&files);
        // A name that is not UTF-8.
        let mut strange = stat("?", 5, 7, 1).into_bytes();
        let byte = strange.iter_mut().find(|byte| **byte == b'?');
        *byte.expect("the name") = 0xff;
        let folder = root.path().join("proc/12/task/12");
        fs::create_dir_all(&folder).expect("it can be made");
        fs::write(folder.join("stat"), strange).expect("it can be written");
        let files = SettingFiles::new(root.path(), root.path());
        let words = |pid, earlier: &ThreadTimes| {
            let policy = files.real_time(pid, earlier);
            policy.map(|it| it.to_string())
        };
        let policies = [7, 8, 9, 10, 11, 12, 99].map(|pid| words(pid, &ThreadTimes::default()));
        let expected = [
            Some("FIFO 10"),
            None,
            Some("RR 5"),
            Some("DEADLINE"),
            None,
            Some("FIFO 7"),
            None,
        ];
        assert_eq!(policies, expected.map(|it| it.map(str::to_owned)));
        // Only the thread that was busier in the window counts, even if the other one was busier
        // before.
        let earlier = files.thread_times();
        assert_eq!(earlier.0.len(), 7);
        let later = stat("main", 15, 0, 0);
        fs::write(root.path().join("proc/7/task/7/stat"), later).expect("it can be written");
        assert_eq!(words(7, &earlier), None);
        assert_eq!(
            words(7, &ThreadTimes::default()),
            Some("FIFO 10".to_owned())
        );
        assert_eq!(
            words(9, &earlier),
            Some("RR 5".to_owned()),
            "nothing passed"
        );
    }

    #[test]
    fn idle_time_is_a_share_of_elapsed_time() {
        let times = |text: &str| {
            let root = hierarchy(&[("proc/stat", text)]);
            SettingFiles::new(root.path(), root.path()).cpu_times()
        };
        let before = times("cpu  9 0 0 9 0 0 0 0 0 0\ncpu0 10 0 0 50 0 0 0 0 9 0\nintr 5\n");
        let after = times("cpu0 35 0 0 115 10 0 0 0 40 0\ncpu1 1 0 0 1 0 0 0 0 0 0\n");
        assert_eq!(after.idle_since(&before), [(0, 0.75)]);
    }

    #[test]
    fn groups_compete_where_their_paths_diverge() {
        let cases = [
            ("/a/b", "/a/c/d", Some(("/a/b", "/a/c"))),
            ("/web", "/batch/job", Some(("/web", "/batch"))),
            ("/a", "/ab", Some(("/a", "/ab"))),
            ("/a/b", "/a", None),
            ("/", "/a", None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(siblings(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn resident_memory_of_a_group_has_no_figure_at_the_root() {
        let root = tempfile::tempdir().expect("a folder");
        let statistics = [
            (CgroupVersion::V1, "total_rss 4096\ntotal_mapped_file 512\n"),
            (CgroupVersion::V2, "anon 4096\nfile 9\nfile_mapped 512\n"),
        ];
        for (version, stat) in statistics {
            for folder in [root.path().to_owned(), root.path().join("a")] {
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join("memory.stat"), stat).expect("a file");
            }
            let files = SettingFiles::new(root.path(), root.path());
            assert_eq!(files.resident_bytes("/a"), None, "no controller");
            let mounted = Mounted::new((version, root.path().to_owned()));
            let files = files.with_memory(Some(mounted));
            assert_eq!(files.resident_bytes("/a"), Some(4608));
            assert_eq!(files.resident_bytes("/"), None);
        }
        let files = SettingFiles::new(Path::new("/"), Path::new("/"));
        assert!(files.resident_bytes_of(std::process::id()) > Some(0));
    }
}
