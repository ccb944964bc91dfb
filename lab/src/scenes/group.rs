//! Creates the cgroups of a scene in the hierarchy that noctule measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A group. Dropping this value kills the group's processes and removes the group.
pub(super) struct Group {
    /// Path in noctule's notation.
    pub(super) path: String,
    /// Directories in the hierarchies of [`CONTROLLERS`].
    folders: Vec<PathBuf>,
}

/// The controllers that scenes use. The first one has the hierarchy that noctule measures.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "memory", "blkio"];
const CPU: usize = 0;
const ACCOUNTING: usize = 1;
const MEMORY: usize = 2;
const DISK: usize = 3;

/// The roots of the hierarchies of [`CONTROLLERS`]: v2, or one hierarchy for each controller in
/// cgroup v1.
pub(super) struct Hierarchies(Vec<PathBuf>);

impl Group {
    pub(super) fn new(roots: &Hierarchies, path: &str) -> Result<Self> {
        let below = |root: &PathBuf| root.join(path.trim_start_matches('/'));
        let folders: Vec<PathBuf> = roots.0.iter().map(below).collect();
        for folder in &folders {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            folders,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folders[CPU]
    }

    pub(super) fn weigh(&self, weight: u64) -> Result<()> {
        let shares = (weight * 1024 / 100).max(2).to_string();
        self.write(
            CPU,
            ("cpu.shares", &shares),
            ("cpu.weight", &weight.to_string()),
        )
    }

    /// Limits the group to hundredths of a CPU.
    pub(super) fn limit(&self, hundredths: u64) -> Result<()> {
        let quota = (hundredths * 1000).to_string();
        let max = format!("{quota} 100000");
        self.write(CPU, ("cpu.cfs_quota_us", &quota), ("cpu.max", &max))
    }

    /// Limits the memory of the group.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<()> {
        let bytes = bytes.to_string();
        self.write(
            MEMORY,
            ("memory.limit_in_bytes", &bytes),
            ("memory.max", &bytes),
        )
    }

    /// Limits what the group reads from and writes to the device, in bytes per second.
    pub(super) fn limit_disk(&self, device: &str, bytes: u64) -> Result<()> {
        let both = format!("{device} rbps={bytes} wbps={bytes}");
        for way in ["read", "write"] {
            let file = format!("blkio.throttle.{way}_bps_device");
            let limit = format!("{device} {bytes}");
            self.write(DISK, (&file, &limit), ("io.max", &both))?;
        }
        Ok(())
    }

    /// Writes the file of cgroup v1 or that of v2, depending on the version in use.
    fn write(&self, controller: usize, v1: (&str, &str), v2: (&str, &str)) -> Result<()> {
        let folder = &self.folders[controller];
        let is_v2 = folder.join("cgroup.type").exists();
        let (file, value) = if is_v2 { v2 } else { v1 };
        let file = folder.join(file);
        if is_v2 && !file.exists() {
            let above = folder.parent().context("the group has no parent")?;
            let enable = match controller {
                DISK => "+io".to_owned(),
                _ => format!("+{}", CONTROLLERS[controller]),
            };
            fs::write(above.join("cgroup.subtree_control"), enable)
                .with_context(|| format!("enabling the controller in {}", above.display()))?;
        }
        fs::write(&file, value).with_context(|| format!("{}", file.display()))
    }

    /// Returns the CPU time of the group and its descendants in seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let read = |file| fs::read_to_string(self.folders[ACCOUNTING].join(file)).ok();
        let v1 = || read("cpuacct.usage")?.trim().parse::<f64>().ok();
        let v2 = || {
            let text = read("cpu.stat")?;
            let usage = text
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "))?;
            Some(usage.parse::<f64>().ok()? * 1e3)
        };
        v1().or_else(v2).unwrap_or(0.0) / 1e9
    }

    /// Starts this program as a load in the group. `words` is the wrapper command.
    pub(super) fn start(&self, words: &[String], load: &str) -> Result<Child> {
        let folders = self.folders.iter().map(|folder| folder.display());
        let enter: String = folders
            .map(|folder| format!("echo $$ > '{folder}/cgroup.procs' && "))
            .collect();
        let enter = format!("{enter}exec \"$0\" \"$@\"");
        let own = std::env::current_exe().context("finding the path of this program")?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &enter]).args(words).arg(own);
        command.env(super::load::VARIABLE, load);
        command.spawn().context("starting a load")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..200 {
            let procs = fs::read_to_string(self.folder().join("cgroup.procs"));
            let text = procs.unwrap_or_default();
            for pid in text.lines().filter_map(|line| line.parse().ok()) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            let below = fs::read_dir(self.folder()).into_iter().flatten().flatten();
            for entry in below.filter(|entry| entry.path().is_dir()) {
                let _ = fs::remove_dir(entry.path());
            }
            // Tries to remove every directory, even if one cannot be removed yet.
            let left = |folder: &&PathBuf| fs::remove_dir(folder).is_err() && folder.exists();
            if self.folders.iter().filter(left).count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Hierarchies {
    pub(super) fn find() -> Result<Self> {
        let roots: Result<_> = CONTROLLERS.into_iter().map(controller).collect();
        Ok(Self(roots?))
    }
}

/// Returns the mount point of a v1 controller, or of v2.
fn controller(name: &str) -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading mountinfo")?;
    let mut unified = None;
    for line in mounts.lines() {
        let Some((fields, tail)) = line.split_once(" - ") else {
            continue;
        };
        let at = fields
            .split(' ')
            .nth(4)
            .context("mountinfo has no mount point")?;
        let tail: Vec<&str> = tail.split(' ').collect();
        match tail.as_slice() {
            ["cgroup", _, options] if options.split(',').any(|it| it == name) => {
                return Ok(at.into());
            }
            ["cgroup2", ..] => unified = Some(PathBuf::from(at)),
            _ => {}
        }
    }
    unified.context("no cgroup hierarchy is mounted")
}
