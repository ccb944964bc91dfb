//! Mounts file systems.

use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{chdir, chroot};

/// The disk, and its mount point before it becomes the root.
const DISK: &str = "/dev/vda";
const NEW_ROOT: &str = "/new";

/// File systems that the kernel needs to show devices and processes.
const FIRST: &[(&str, &str)] = &[("/dev", "devtmpfs"), ("/proc", "proc"), ("/sys", "sysfs")];

/// File systems that the tests need: directory, type and options.
const REST: &[(&str, &str, &CStr)] = &[
    ("/dev/pts", "devpts", c"ptmxmode=0666"),
    ("/dev/shm", "tmpfs", c""),
    ("/run", "tmpfs", c"mode=0755"),
    ("/sys/kernel/debug", "debugfs", c""),
    ("/sys/kernel/tracing", "tracefs", c""),
    ("/sys/fs/bpf", "bpf", c""),
    ("/sys/kernel/security", "securityfs", c""),
    ("/sys/fs/cgroup", "cgroup2", c""),
];

const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.subtree_control";

/// Mounts the first file systems.
pub(crate) fn first() -> Result<()> {
    for (folder, kind) in FIRST {
        attach(folder, kind, c"")?;
    }
    Ok(())
}

/// Mounts the disk as the root file system. The kernel counts page-cache accesses only for files on
/// a disk, not for files in the initramfs.
pub(crate) fn disk() -> Result<()> {
    for _ in 0..500 {
        if Path::new(DISK).exists() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    fs::create_dir_all(NEW_ROOT)?;
    mount(DISK, NEW_ROOT, "ext4", MountFlags::empty(), None).context(DISK)?;
    for (folder, _) in FIRST {
        mount_move(*folder, format!("{NEW_ROOT}{folder}")).context(*folder)?;
    }
    chdir(NEW_ROOT)?;
    mount_move(".", "/").context("the new root")?;
    chroot(".")?;
    chdir("/")?;
    Ok(())
}

/// Mounts the remaining file systems, and enables every controller below the root cgroup.
pub(crate) fn rest() -> Result<()> {
    for (folder, kind, options) in REST {
        attach(folder, kind, options)?;
    }
    for controller in ["cpu", "memory", "io", "pids", "cpuset"] {
        // If the kernel lacks a controller, a test reports that.
        let _ = fs::write(CONTROLLERS, format!("+{controller}"));
    }
    Ok(())
}

fn attach(folder: &str, kind: &str, options: &CStr) -> Result<()> {
    // If the kernel provides the directory, it already exists.
    let _ = fs::create_dir_all(folder);
    let options = (!options.is_empty()).then_some(options);
    mount(kind, folder, kind, MountFlags::empty(), options)
        .with_context(|| format!("{kind} at {folder}"))
}
