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
    /// Directory in the measured hierarchy.
    folder: PathBuf,
    /// Directory of CPU accounting, which can be in another hierarchy in cgroup v1.
    accounting: PathBuf,
}

/// The hierarchy that noctule measures (v2, or v1 with the cpu controller), and the one with CPU
/// accounting.
pub(super) struct Hierarchies {
    measured: PathBuf,
    accounting: PathBuf,
}

impl Group {
    pub(super) fn new(roots: &Hierarchies, path: &str) -> Result<Self> {
        let below = |root: &Path| root.join(path.trim_start_matches('/'));
        let (folder, accounting) = (below(&roots.measured), below(&roots.accounting));
        for folder in [&folder, &accounting] {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            folder,
            accounting,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn weigh(&self, weight: u64) -> Result<()> {
        self.write(
            "cpu.shares",
            &(weight * 1024 / 100).max(2).to_string(),
            "cpu.weight",
            &weight.to_string(),
        )
    }

    /// Limits the group to hundredths of a CPU.
    pub(super) fn limit(&self, hundredths: u64) -> Result<()> {
        let quota = (hundredths * 1000).to_string();
        self.write(
            "cpu.cfs_quota_us",
            &quota,
            "cpu.max",
            &format!("{quota} 100000"),
        )
    }

    /// Writes `value` to the file `v1`, or `other` to the file `v2`, depending on the cgroup
    /// version in use.
    fn write(&self, v1: &str, value: &str, v2: &str, other: &str) -> Result<()> {
        let is_v2 = self.folder.join("cgroup.type").exists();
        let (file, value) = if is_v2 { (v2, other) } else { (v1, value) };
        let file = self.folder.join(file);
        if is_v2 && !file.exists() {
            let above = self.folder.parent().context("the group has no parent")?;
            fs::write(above.join("cgroup.subtree_control"), "+cpu")
                .with_context(|| format!("enabling the controller in {}", above.display()))?;
        }
        fs::write(&file, value).with_context(|| format!("{}", file.display()))
    }

    /// Returns the CPU time of the group and its descendants in seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let read = |file| fs::read_to_string(self.accounting.join(file)).ok();
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
        let enter: String = [&self.folder, &self.accounting]
            .map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()))
            .concat();
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
            let procs = fs::read_to_string(self.folder.join("cgroup.procs"));
            let text = procs.unwrap_or_default();
            for pid in text.lines().filter_map(|line| line.parse().ok()) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            let below = fs::read_dir(&self.folder).into_iter().flatten().flatten();
            for entry in below.filter(|entry| entry.path().is_dir()) {
                let _ = fs::remove_dir(entry.path());
            }
            let removed = [&self.folder, &self.accounting]
                .map(|folder| fs::remove_dir(folder).is_ok() || !folder.exists());
            if removed == [true; 2] {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Hierarchies {
    pub(super) fn find() -> Result<Self> {
        Ok(Self {
            measured: controller("cpu")?,
            accounting: controller("cpuacct")?,
        })
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
