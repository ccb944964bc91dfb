//! Cgroups of a scene, in the hierarchy that noctule counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A group; removed when it is dropped, with what runs in it.
pub(super) struct Group {
    /// As noctule shows it.
    pub(super) path: String,
    /// In the hierarchy that is counted.
    folder: PathBuf,
    /// Where CPU time is accounted; on v1 that can be another hierarchy.
    accounted: PathBuf,
}

/// The hierarchy that noctule counts, v1 with the cpu controller or v2, and that with CPU time.
pub(super) struct Hierarchies {
    counted: PathBuf,
    accounted: PathBuf,
}

impl Group {
    pub(super) fn new(roots: &Hierarchies, path: &str) -> Result<Self> {
        let below = |root: &Path| root.join(path.trim_start_matches('/'));
        let (folder, accounted) = (below(&roots.counted), below(&roots.accounted));
        for folder in [&folder, &accounted] {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            folder,
            accounted,
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

    /// Hundredths of a CPU.
    pub(super) fn limit(&self, hundredths: u64) -> Result<()> {
        let quota = (hundredths * 1000).to_string();
        self.write(
            "cpu.cfs_quota_us",
            &quota,
            "cpu.max",
            &format!("{quota} 100000"),
        )
    }

    /// One of the files, whichever version of the controller there is.
    fn write(&self, v1: &str, value: &str, v2: &str, other: &str) -> Result<()> {
        let is_v2 = self.folder.join("cgroup.type").exists();
        let (file, value) = if is_v2 { (v2, other) } else { (v1, value) };
        let file = self.folder.join(file);
        if is_v2 && !file.exists() {
            let above = self.folder.parent().context("a group above")?;
            fs::write(above.join("cgroup.subtree_control"), "+cpu")
                .with_context(|| format!("the controller in {}", above.display()))?;
        }
        fs::write(&file, value).with_context(|| format!("{}", file.display()))
    }

    /// CPU time of the group and those below it, in seconds.
    pub(super) fn used(&self) -> f64 {
        let read = |file| fs::read_to_string(self.accounted.join(file)).ok();
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

    /// Starts this binary as a load in the group.
    pub(super) fn start(&self, words: &[String], load: &str) -> Result<Child> {
        let enter: String = [&self.folder, &self.accounted]
            .map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()))
            .concat();
        let enter = format!("{enter}exec \"$0\" \"$@\"");
        let own = std::env::current_exe().context("the path of this program")?;
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
            let removed = [&self.folder, &self.accounted]
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
            counted: controller("cpu")?,
            accounted: controller("cpuacct")?,
        })
    }
}

/// Where v1 has that controller, or v2 is.
fn controller(name: &str) -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("mountinfo")?;
    let mut unified = None;
    for line in mounts.lines() {
        let Some((fields, tail)) = line.split_once(" - ") else {
            continue;
        };
        let at = fields.split(' ').nth(4).context("a mount point")?;
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
