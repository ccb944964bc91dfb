//! Real containers started by runc, with a root file system that contains only busybox.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::folders::Made;
use super::hierarchies;

/// A loop that never ends.
pub(crate) const BURN: &str = "while :; do :; done";

/// A named pipe, which the container sees as `/rest`.
const REST: &str = "rootfs/rest";

/// The command of a container, and its settings.
pub(crate) struct Wish {
    /// The container's id.
    pub(crate) id: String,
    /// `linux.cgroupsPath`. If this is `None`, runc chooses the path.
    pub(crate) cgroup: Option<String>,
    /// Script for the container's shell.
    pub(crate) script: String,
    /// CPU limit in CPUs. Below one CPU, the weight is high enough for the container to reach the
    /// limit on a busy machine.
    pub(crate) cpus: Option<f64>,
}

/// A container of a test. Dropping it removes the container and its groups.
pub(crate) struct Container {
    id: String,
    bundle: TempDir,
    _groups: Made,
}

/// The configuration of a bundle at containerd's path, removed when dropped.
pub(crate) struct Bundle {
    file: PathBuf,
    _folders: Made,
}

impl Bundle {
    /// Writes the annotations of the container with this id.
    pub(crate) fn write(id: &str, annotations: &Value) -> Self {
        let tasks = Path::new("/run/containerd/io.containerd.runtime.v2.task/k8s.io");
        let mut folders = Made::default();
        folders.make(&tasks.join(id));
        let file = tasks.join(id).join("config.json");
        let config = json!({"ociVersion": "1.0.2", "annotations": annotations});
        fs::write(&file, config.to_string()).expect("our folder");
        Self {
            file,
            _folders: folders,
        }
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // The directories are dropped later, when they are empty.
        let _ = fs::remove_file(&self.file);
    }
}

/// Returns 64 unique hex digits.
pub(crate) fn hex_id() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!(
        "{:08x}{number:08x}{}",
        std::process::id(),
        "c0ffee42".repeat(6)
    )
}

/// Returns a unique UUID.
pub(crate) fn pod_uid() -> String {
    let id = hex_id();
    format!("{}-{}-4a7d-9d55-{}", &id[..8], &id[12..16], &id[16..28])
}

impl Wish {
    /// Describes a container that uses the CPU in a group with this path.
    pub(crate) fn burn(id: &str, cgroup: &str) -> Self {
        Self {
            id: id.to_owned(),
            cgroup: Some(cgroup.to_owned()),
            script: BURN.to_owned(),
            cpus: None,
        }
    }

    /// Creates bundle and root file system, but starts nothing.
    pub(crate) fn create(&self) -> Container {
        let bundle = tempfile::tempdir().expect("a folder");
        let bin = bundle.path().join("rootfs/bin");
        fs::create_dir_all(&bin).expect("a folder");
        fs::create_dir(bundle.path().join("rootfs/tmp")).expect("a folder");
        fs::copy(busybox(), bin.join("busybox")).expect("busybox is installed");
        symlink("busybox", bin.join("sh")).expect("a link");
        let rest = bundle.path().join(REST);
        mknodat(CWD, &rest, FileType::Fifo, Mode::RUSR, 0).expect("a pipe with a name");
        runc(&["spec", "--bundle", text(bundle.path())]);
        let file = bundle.path().join("config.json");
        let spec = fs::read(&file).expect("runc wrote it");
        let spec = self.adapt(serde_json::from_slice(&spec).expect("JSON"));
        fs::write(&file, spec.to_string()).expect("it can be written");
        let mut groups = Made::default();
        for hierarchy in hierarchies::all() {
            if let Some(path) = &self.cgroup {
                groups.note(&hierarchies::join(&hierarchy.mount, path));
            }
        }
        Container {
            id: self.id.clone(),
            bundle,
            _groups: groups,
        }
    }

    fn adapt(&self, mut spec: Value) -> Value {
        spec["process"]["terminal"] = json!(false);
        spec["root"]["readonly"] = json!(false);
        spec["process"]["args"] = json!(["/bin/sh", "-c", self.script]);
        retain(&mut spec["linux"]["namespaces"], |n| n["type"] != "network");
        // The container does not need the host's cgroups.
        retain(&mut spec["mounts"], |m| {
            m["destination"] != "/sys/fs/cgroup"
        });
        if let Some(path) = &self.cgroup {
            spec["linux"]["cgroupsPath"] = json!(path);
        }
        if let Some(cpus) = self.cpus {
            let quota = (cpus * 100_000.0) as u64;
            let shares = if cpus < 1.0 { 262_144 } else { 1024 };
            let cpu = json!({"quota": quota, "period": 100_000, "shares": shares});
            spec["linux"]["resources"]["cpu"] = cpu;
        }
        spec
    }
}

impl Container {
    /// Starts the container in the background.
    pub(crate) fn start(&self) {
        // The container would keep the test's pipes open.
        let log = self.bundle.path().join("log");
        let out = fs::File::create(&log).expect("a file");
        let status = Command::new("runc")
            .args([
                "run",
                "--detach",
                "--bundle",
                text(self.bundle.path()),
                &self.id,
            ])
            .stdin(Stdio::null())
            .stderr(out.try_clone().expect("a descriptor"))
            .stdout(out)
            .status()
            .expect("runc is installed");
        let log = fs::read_to_string(log).unwrap_or_default();
        assert!(status.success(), "runc run: {status}\n{log}");
    }

    /// Waits until the container's script reads from `/rest`. The script continues when the
    /// returned file is dropped.
    pub(crate) fn rests(&self) -> fs::File {
        let file = self.bundle.path().join(REST);
        let mut pipe = OpenOptions::new();
        // It is an error to open the pipe for writing while no process reads it.
        let pipe = pipe.write(true).custom_flags(libc::O_NONBLOCK);
        super::wait_for("the container rests", || pipe.open(&file).ok())
    }

    /// Runs the container until it ends and returns its output.
    pub(crate) fn run(&self) -> String {
        let output = runc(&["run", "--bundle", text(self.bundle.path()), &self.id]);
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the host pid of the container's first process.
    pub(crate) fn pid(&self) -> u32 {
        let output = runc(&["state", &self.id]);
        let state: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        state["pid"].as_u64().expect("a pid") as u32
    }

    /// Returns the kernel's accounting of the container's group.
    pub(crate) fn accounting(&self) -> Accounting {
        Accounting(hierarchies::folder_of(self.pid(), "cpuacct"))
    }

    /// Returns the CPU time of the container's group in seconds, from the kernel's accounting.
    pub(crate) fn usage_seconds(&self) -> f64 {
        self.accounting().usage_seconds()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // When runc gives up, the first process may not have been reaped yet.
        for _ in 0..20 {
            let delete = ["delete", "--force", self.id.as_str()];
            let output = Command::new("runc").args(delete).output();
            if output.is_ok_and(|o| o.status.success()) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The kernel's accounting of a group.
pub(crate) struct Accounting(PathBuf);

impl Accounting {
    /// Returns the CPU time in seconds.
    pub(crate) fn usage_seconds(&self) -> f64 {
        if let Ok(text) = fs::read_to_string(self.0.join("cpuacct.usage")) {
            return text.trim().parse::<f64>().expect("a number") / 1e9;
        }
        let stat = fs::read_to_string(self.0.join("cpu.stat")).expect("cpu.stat");
        let mut lines = stat.lines();
        let usage = lines.find_map(|line| line.strip_prefix("usage_usec "));
        usage.expect("usage_usec").parse::<f64>().expect("a number") / 1e6
    }
}

fn retain(list: &mut Value, keep: impl Fn(&Value) -> bool) {
    list.as_array_mut().expect("a list").retain(keep);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub(crate) fn runc(args: &[&str]) -> Output {
    let output = Command::new("runc")
        .args(args)
        .stdin(Stdio::null())
        .output();
    let output = output.expect("runc is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "runc {args:?}: {}\n{errors}",
        output.status
    );
    output
}

pub(crate) fn busybox() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("busybox"));
    let found = places.find(|file| file.exists());
    found.expect("busybox is installed (Debian: busybox-static)")
}
