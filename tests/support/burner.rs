//! Processes that use a CPU, under any name.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, setpriority_process};
use tempfile::TempDir;

use super::affinity;
use super::cgroup::Group;
use super::container::BURN;

/// A process that burns; ended when it is dropped.
pub(crate) struct Burner {
    child: Child,
    _program: Option<TempDir>,
}

impl Burner {
    /// In a group, from its first instruction on.
    pub(crate) fn within(group: &Group) -> Self {
        let mut command = group.command("/bin/sh");
        Self::spawn(command.args(["-c", BURN]), None)
    }

    /// With this command name, of 15 bytes at most: the kernel takes it from the file's name. Not on
    /// the last CPU, where others may measure who waits.
    pub(crate) fn named(name: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = copy_of_sh(&folder, name);
        let mut command = Command::new(program);
        // A shell that is several programs in one asks the argument which of them it is.
        command.arg0("sh").args(["-c", BURN]);
        let burner = affinity::without_cpu(affinity::last_cpu(), || {
            Self::spawn(&mut command, Some(folder))
        });
        // It has its name a little after `exec` let its parent go on.
        let comm = format!("/proc/{}/comm", burner.pid());
        super::wait_until("the process has its name", || {
            let is = fs::read(&comm).expect("it runs");
            is.strip_suffix(b"\n") == Some(&name[..name.len().min(15)])
        });
        burner
    }

    fn spawn(command: &mut Command, program: Option<TempDir>) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self {
            child: child.expect("it can be started"),
            _program: program,
        }
    }

    /// Puts it before all others, so that it uses the most on a busy machine too.
    pub(crate) fn first(self) -> Self {
        self.nice(-20)
    }

    /// Puts it behind all others: it takes no CPU from those that have something to do.
    pub(crate) fn last(self) -> Self {
        self.nice(19)
    }

    fn nice(self, value: i32) -> Self {
        let pid = Pid::from_raw(self.pid() as i32);
        setpriority_process(pid, value).expect("root may");
        self
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy_of_sh(folder: &TempDir, name: &[u8]) -> PathBuf {
    let program = folder.path().join(OsStr::from_bytes(name));
    fs::copy("/bin/sh", &program).expect("a copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our file");
    program
}
