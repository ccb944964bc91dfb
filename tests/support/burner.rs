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

/// A process that uses a CPU, ended when dropped.
pub(crate) struct Burner {
    child: Child,
    _program: Option<TempDir>,
}

impl Burner {
    /// Starts a process that uses a CPU, in a group. The process is in the group from its first
    /// instruction.
    pub(crate) fn within(group: &Group) -> Self {
        let mut command = group.command("/bin/sh");
        Self::spawn(command.args(["-c", BURN]), None)
    }

    /// Starts a process that uses a CPU, with this command name of at most 15 bytes, which the
    /// kernel takes from the file name. The process avoids the last CPU, where other tests may
    /// measure waits.
    pub(crate) fn named(name: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = copy_of_sh(&folder, name);
        let mut command = Command::new(program);
        // A multi-call shell reads its applet from argv[0].
        command.arg0("sh").args(["-c", BURN]);
        let burner = affinity::without_cpu(affinity::last_cpu(), || {
            Self::spawn(&mut command, Some(folder))
        });
        // The process gets its name slightly after `exec` lets the parent continue.
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

    /// Gives the process the highest priority, so that it uses the most CPU time even on a busy
    /// machine.
    pub(crate) fn first(self) -> Self {
        self.nice(-20)
    }

    /// Gives the process the lowest priority, so that it takes no CPU time from other processes.
    pub(crate) fn last(self) -> Self {
        self.nice(19)
    }

    fn nice(self, value: i32) -> Self {
        let pid = Pid::from_raw(self.pid() as i32);
        setpriority_process(pid, value).expect("root may");
        self
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // The process may have ended.
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
