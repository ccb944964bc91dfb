//! Cgroups that a test makes, in the hierarchy that noctule reads, with the group's own accounting.

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

/// The most that v2 takes.
const HEAVIEST: u64 = 10_000;

/// So long may what runs in a group take to end when it is killed.
const LONGEST_END: Duration = Duration::from_secs(60);

/// A group of the test's own; removed when it is dropped, with what still runs in it.
pub(crate) struct Group {
    name: String,
    /// In the hierarchy that is counted: v2, or the cpu controller of v1.
    counted: PathBuf,
    /// The same group where CPU time is accounted, if that is another hierarchy (v1).
    accounted: PathBuf,
    /// The same group where memory is limited, if it is.
    limited: Option<PathBuf>,
}

impl Group {
    /// A new group directly below the root.
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::named(&format!(
            "noctule-test-{}-{number}-{name}",
            std::process::id()
        ))
    }

    /// A new group with this path below the root, given without the leading slash.
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

    /// A new group that gets that much memory, and no swap.
    pub(crate) fn with_memory(name: &str, bytes: u64) -> Self {
        let mut this = Self::new(name);
        let limited = root("memory").join(&this.name);
        fs::create_dir_all(&limited).unwrap_or_else(|e| panic!("{}: {e}", limited.display()));
        let (file, swap) = match limited.join("memory.limit_in_bytes").exists() {
            true => ("memory.limit_in_bytes", "memory.swappiness"),
            false => ("memory.max", "memory.swap.max"),
        };
        // v2: the groups above must let it have the controller.
        let _ = fs::write(root("memory").join("cgroup.subtree_control"), "+memory");
        fs::write(limited.join(file), bytes.to_string()).expect("a limit");
        // Absent on machines without swap.
        let _ = fs::write(limited.join(swap), "0");
        this.limited = Some(limited);
        this
    }

    /// How often the OOM killer killed in the group, by its own count.
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

    /// The path as noctule shows it.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The directory, in the hierarchy that is counted.
    pub(crate) fn folder(&self) -> &Path {
        &self.counted
    }

    /// The id: the inode of the directory.
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

    /// Lets single threads be members: on v2 a group must be made for that, on v1 any is.
    pub(crate) fn allow_threads(&self) {
        if self.is_v2() {
            let file = self.counted.join("cgroup.type");
            fs::write(file, "threaded").expect("the group can be threaded");
        }
    }

    /// Moves one thread into the group.
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

    /// A command that is in the group from its first instruction on.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.enter(), program]);
        // A group of its own, so that signals to the test do not reach it.
        command.process_group(0);
        command
    }

    /// A script for `sh -c` that enters the group and becomes the command in its arguments.
    pub(crate) fn enter(&self) -> String {
        let enter: String = self
            .folders()
            .map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()))
            .collect();
        format!("{enter}exec \"$0\" \"$@\"")
    }

    /// CPU time by the group's own accounting, in seconds.
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

    /// Limits the group to this many CPUs, which may be a fraction, in periods of 100 ms.
    pub(crate) fn limit(&self, cpus: f64) {
        let quota = (cpus * 100_000.0) as u64;
        let (v1, v2) = (quota.to_string(), format!("{quota} 100000"));
        control(&self.counted, ("cpu.cfs_quota_us", &v1), ("cpu.max", &v2));
    }

    /// Sets how much CPU time the group gets beside its siblings: 1 to 10000, 100 is usual.
    pub(crate) fn weigh(&self, weight: u64) {
        weigh(&self.counted, weight);
    }

    /// Its weight by the kernel's own file, and what the kernel calls it: `weight`, or `shares` (v1).
    pub(crate) fn weight(&self) -> (&'static str, u64) {
        let name = if self.is_v2() { "weight" } else { "shares" };
        let text = fs::read_to_string(self.counted.join(format!("cpu.{name}")));
        (
            name,
            text.expect("a weight").trim().parse().expect("a number"),
        )
    }

    /// Makes it so heavy that what else runs on a busy machine gets next to nothing beside it.
    pub(crate) fn heavy(self) -> Self {
        self.weigh(HEAVIEST);
        self
    }

    /// How long it was throttled by its own quota, in seconds, summed over the CPUs.
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

    /// Lets its members have real-time priorities for a tenth of the time: v1 gives a new group no
    /// time for them. On v2 there is nothing to do.
    pub(crate) fn allow_realtime(&self) {
        self.realtime("100000");
    }

    /// The same for nearly all of the time. All groups together get 95 % of it, so only one group can
    /// have so much, beside one that has little.
    pub(crate) fn allow_realtime_throughout(&self) {
        self.realtime("850000");
    }

    /// Microseconds of each second.
    fn realtime(&self, share: &str) {
        let v1 = self.counted.join("cpu.rt_runtime_us");
        // A removed group gives its share back some time later.
        super::wait_until("there is a share of the real-time budget", || {
            !v1.exists() || fs::write(&v1, share).is_ok()
        });
    }

    fn processes(&self) -> Vec<i32> {
        let read = |file| fs::read_to_string(self.counted.join(file));
        // A threaded group does not list processes; a signal to a thread reaches its process.
        let text = read("cgroup.procs").or_else(|_| read("cgroup.threads"));
        let text = text.unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Thousands of processes take their time to end on a busy machine.
        let until = Instant::now() + LONGEST_END;
        while Instant::now() < until {
            for pid in self.processes() {
                // The processes are in a group that this test made.
                let pid = rustix::process::Pid::from_raw(pid).expect("not 0");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            // Each of them, also when one cannot be removed yet.
            let left = self.folders().filter(|folder| !remove(folder)).count();
            if left == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // A test that fails says why itself.
        assert!(thread::panicking(), "{} could not be removed", self.path());
    }
}

/// A group below others of which some may be missing; those are removed with it.
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

    /// The same, and so heavy that what else runs on a busy machine gets next to nothing beside it;
    /// with those above that were missing.
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

/// Writes to a file of the cpu controller: its name and what to write, on v1 and on v2. There each
/// group above must let its children have the controller.
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

/// Root of the hierarchy with that v1 controller, or of v2.
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
