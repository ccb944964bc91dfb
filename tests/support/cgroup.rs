//! Cgroups that tests create in the hierarchy that noctule reads, with the kernel's accounting.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::folders::Made;
use super::hierarchies;

/// The maximum weight in v2.
const HEAVIEST: u64 = 10_000;

/// Time limit for processes in a group to end after they were killed.
const LONGEST_END: Duration = Duration::from_secs(60);

/// A cgroup of a test. Dropping this value kills the processes and removes the cgroup.
pub(crate) struct Group {
    name: String,
    /// Directory in the hierarchy that noctule counts: v2, or the cpu controller of v1.
    counted: PathBuf,
    /// Directory of the same group where CPU time is accounted, which can be another hierarchy
    /// (v1).
    accounted: PathBuf,
    /// Directory of the same group where memory is limited, if the group has a memory limit.
    limited: Option<PathBuf>,
}

impl Group {
    /// Creates a group directly below the root.
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::named(&format!(
            "noctule-test-{}-{number}-{name}",
            std::process::id()
        ))
    }

    /// Creates a group with this path below the root, without a leading slash.
    pub(crate) fn named(name: &str) -> Self {
        let (counted, accounted) = (root("cpu").join(name), root("cpuacct").join(name));
        for folder in [&counted, &accounted] {
            fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        }
        Self {
            name: name.to_owned(),
            counted,
            accounted,
            limited: None,
        }
    }

    /// Creates a group with a memory limit and without swap.
    pub(crate) fn with_memory(name: &str, bytes: u64) -> Self {
        let mut this = Self::new(name);
        let limited = root("memory").join(&this.name);
        fs::create_dir_all(&limited).unwrap_or_else(|e| panic!("{}: {e}", limited.display()));
        let (file, swap) = match limited.join("memory.limit_in_bytes").exists() {
            true => ("memory.limit_in_bytes", "memory.swappiness"),
            false => ("memory.max", "memory.swap.max"),
        };
        // In v2, parents must enable the controller for their children.
        let _ = fs::write(root("memory").join("cgroup.subtree_control"), "+memory");
        fs::write(limited.join(file), bytes.to_string()).expect("a limit");
        // The file is missing on machines without swap.
        let _ = fs::write(limited.join(swap), "0");
        this.limited = Some(limited);
        this
    }

    /// Returns how many OOM kills the kernel counted for the group.
    pub(crate) fn oom_kills(&self) -> u64 {
        let folder = self.limited.as_ref().expect("a group with a limit");
        let read = |file| fs::read_to_string(folder.join(file));
        let text = read("memory.oom_control").or_else(|_| read("memory.events"));
        let text = text.expect("a count");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.expect("oom_kill").parse().expect("a number")
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.counted, &self.accounted]
            .into_iter()
            .chain(&self.limited)
    }

    /// Returns the path as noctule shows it.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Returns the directory in the counted hierarchy.
    pub(crate) fn folder(&self) -> &Path {
        &self.counted
    }

    /// Returns the id, which is the inode of the directory.
    pub(crate) fn id(&self) -> u64 {
        fs::metadata(&self.counted)
            .expect("the group is there")
            .ino()
    }

    /// Moves a process into the group.
    pub(crate) fn add(&self, pid: u32) {
        for folder in [&self.counted, &self.accounted] {
            let file = folder.join("cgroup.procs");
            fs::write(&file, pid.to_string()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }

    /// Allows single threads as members. A v2 group must become threaded for that; a v1 group
    /// always allows it.
    pub(crate) fn allow_threads(&self) {
        if self.is_v2() {
            let file = self.counted.join("cgroup.type");
            fs::write(file, "threaded").expect("the group can be threaded");
        }
    }

    /// Moves a thread into the group.
    pub(crate) fn add_thread(&self, tid: u32) {
        let file = if self.is_v2() {
            "cgroup.threads"
        } else {
            "tasks"
        };
        for folder in [&self.counted, &self.accounted] {
            fs::write(folder.join(file), tid.to_string()).expect("the thread can be moved");
        }
    }

    fn is_v2(&self) -> bool {
        self.counted.join("cgroup.type").exists()
    }

    /// Returns a command that is in the group from its first instruction.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.enter(), program]);
        // A separate process group, so that the command does not get signals to the test.
        command.process_group(0);
        command
    }

    /// Returns a script for `sh -c` that enters the group and executes the command in its
    /// arguments.
    pub(crate) fn enter(&self) -> String {
        let enter: String = self
            .folders()
            .map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()))
            .collect();
        format!("{enter}exec \"$0\" \"$@\"")
    }

    /// Returns the group's CPU time in seconds, from the accounting of the kernel.
    pub(crate) fn usage_seconds(&self) -> f64 {
        let v1 = fs::read_to_string(self.accounted.join("cpuacct.usage"));
        if let Ok(text) = v1 {
            return text.trim().parse::<f64>().expect("a number") / 1e9;
        }
        let stat = fs::read_to_string(self.accounted.join("cpu.stat")).expect("cpu.stat");
        let usage = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        usage.expect("usage_usec").parse::<f64>().expect("a number") / 1e6
    }

    /// Limits the group to this many CPUs, which can be fractional, in periods of 100 ms.
    pub(crate) fn limit(&self, cpus: f64) {
        let quota = (cpus * 100_000.0) as u64;
        let (v1, v2) = (quota.to_string(), format!("{quota} 100000"));
        control(&self.counted, ("cpu.cfs_quota_us", &v1), ("cpu.max", &v2));
    }

    /// Sets the CPU weight among its siblings: 1 to 10000, by default 100.
    pub(crate) fn weigh(&self, weight: u64) {
        weigh(&self.counted, weight);
    }

    /// Returns the kernel's name and value of its weight: `weight`, or `shares` (v1).
    pub(crate) fn weight(&self) -> (&'static str, u64) {
        let name = if self.is_v2() { "weight" } else { "shares" };
        let text = fs::read_to_string(self.counted.join(format!("cpu.{name}")));
        (
            name,
            text.expect("a weight").trim().parse().expect("a number"),
        )
    }

    /// Sets the maximum weight, so that other loads on a busy machine get next to nothing.
    pub(crate) fn heavy(self) -> Self {
        self.weigh(HEAVIEST);
        self
    }

    /// Returns how long the group's quota throttled the group, in seconds, summed over the CPUs.
    pub(crate) fn throttled_seconds(&self) -> f64 {
        let stat = fs::read_to_string(self.counted.join("cpu.stat")).expect("cpu.stat");
        let figure = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            let unit = match name {
                "throttled_time" => 1e9,
                "throttled_usec" => 1e6,
                _ => return None,
            };
            Some(value.parse::<f64>().ok()? / unit)
        };
        stat.lines().find_map(figure).expect("a throttled time")
    }

    /// Allows members real-time priorities for a tenth of the time, because a new v1 group has no
    /// real-time budget. In v2 no permission is needed.
    pub(crate) fn allow_realtime(&self) {
        self.realtime("100000");
    }

    /// Like [`Self::allow_realtime`], for 85 % of the time. All groups together get 95 %, so only
    /// one group can have this budget, in addition to one with a tenth.
    pub(crate) fn allow_realtime_throughout(&self) {
        self.realtime("850000");
    }

    /// Sets the real-time budget, in microseconds per second.
    fn realtime(&self, share: &str) {
        let v1 = self.counted.join("cpu.rt_runtime_us");
        // A removed group returns its budget only after some time.
        super::wait_until("there is a share of the real-time budget", || {
            !v1.exists() || fs::write(&v1, share).is_ok()
        });
    }

    fn processes(&self) -> Vec<i32> {
        let read = |file| fs::read_to_string(self.counted.join(file));
        // A threaded group does not list processes. A signal to a thread reaches its process.
        let text = read("cgroup.procs").or_else(|_| read("cgroup.threads"));
        let text = text.unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // On a busy machine, thousands of processes take time to end.
        let until = Instant::now() + LONGEST_END;
        while Instant::now() < until {
            for pid in self.processes() {
                // Only processes in groups of this test are killed.
                let pid = rustix::process::Pid::from_raw(pid).expect("not 0");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            // Tries to remove every directory, even if one cannot be removed yet.
            let left = self.folders().filter(|folder| !remove(folder)).count();
            if left == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // A failed test reports its own reason.
        assert!(thread::panicking(), "{} could not be removed", self.path());
    }
}

/// A group whose parents may be missing. Missing parents are created, and removed with the group.
pub(crate) struct Below {
    pub(crate) group: Group,
    parents: Made,
}

impl Below {
    pub(crate) fn new(path: &str) -> Self {
        let mut parents = Made::default();
        for hierarchy in hierarchies::all() {
            let folder = hierarchies::join(&hierarchy.mount, path);
            parents.note(folder.parent().expect("not the root"));
        }
        Self {
            group: Group::named(path),
            parents,
        }
    }

    /// Like [`Self::new`], with the maximum weight for the group and for its new parents.
    pub(crate) fn heavy(path: &str) -> Self {
        let this = Self::new(path);
        this.group.weigh(HEAVIEST);
        let root = root("cpu");
        for folder in this.parents.made().filter(|f| f.starts_with(&root)) {
            weigh(folder, HEAVIEST);
        }
        this
    }
}

pub(super) fn weigh(folder: &Path, weight: u64) {
    let (v1, v2) = ((weight * 1024 / 100).to_string(), weight.to_string());
    control(folder, ("cpu.shares", &v1), ("cpu.weight", &v2));
}

/// Writes a file of the cpu controller; file and value differ between v1 and v2. In v2, each parent
/// must enable the controller for its children.
fn control(folder: &Path, v1: (&str, &str), v2: (&str, &str)) {
    let is_v2 = folder.join("cgroup.type").exists();
    let (name, value) = if is_v2 { v2 } else { v1 };
    let file = folder.join(name);
    if is_v2 && !file.exists() {
        let root = root("cpu");
        let above = folder.ancestors().skip(1);
        let mut above: Vec<&Path> = above.take_while(|f| f.starts_with(&root)).collect();
        above.reverse();
        for folder in above {
            fs::write(folder.join("cgroup.subtree_control"), "+cpu").expect("the controller");
        }
    }
    fs::write(&file, value).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

fn remove(folder: &Path) -> bool {
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

/// Returns the root of the hierarchy with this v1 controller, or of v2.
fn root(controller: &str) -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let mut unified = None;
    for line in mounts.lines() {
        let Some((fields, tail)) = line.split_once(" - ") else {
            continue;
        };
        let at = fields.split(' ').nth(4).expect("a mount point");
        let tail: Vec<&str> = tail.split(' ').collect();
        if tail[0] == "cgroup" && tail[2].split(',').any(|option| option == controller) {
            return at.into();
        }
        if tail[0] == "cgroup2" {
            unified = Some(at.into());
        }
    }
    unified.expect("a cgroup hierarchy")
}
