//! Classic tracepoints: reads their ids from tracefs, and attaches programs to them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{Link, ProgramMut};
use perf_event::Builder;
use perf_event::events::Tracepoint;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::{Context, Error};

/// The root directory of tracefs, mounted or not.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// Command that makes tracefs available, for a privileged user.
    pub(crate) const MEND: &str = "mount -t tracefs none /sys/kernel/tracing";

    /// Opens tracefs at its mount point, or else through a private mount that disappears on drop. A
    /// private mount requires CAP_SYS_ADMIN and Linux 5.2.
    pub(crate) fn open(mounted: Option<&Path>) -> Result<Self, Error> {
        let root = match mounted {
            Some(path) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let root = openat(CWD, path, flags, Mode::empty());
                root.map_err(io::Error::from)
                    .context(format!("opening {}", path.display()))?
            }
            None => detached()
                .map_err(io::Error::from)
                .context("tracefs is not mounted, and mounting it privately for noctule failed")?,
        };
        Ok(Self { root })
    }

    /// Returns the id of a tracepoint; `None` if the kernel lacks it.
    pub(crate) fn id(&self, group: &str, name: &str) -> Result<Option<u64>, Error> {
        let path = format!("events/{group}/{name}/id");
        let Some(text) = self.read(&path)? else {
            return Ok(None);
        };
        let id = text.trim().parse().map_err(io::Error::other);
        id.context(format!("reading {path} in tracefs")).map(Some)
    }

    /// Returns the text of a file; `None` if it does not exist.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match openat(self.root.as_fd(), path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(io::Error::from(error)).context(format!("opening {path} in tracefs"));
            }
        };
        let mut text = String::new();
        File::from(file)
            .read_to_string(&mut text)
            .context(format!("reading {path} in tracefs"))?;
        Ok(Some(text))
    }
}

fn detached() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Attaches a program to the tracepoint with this id, for all processes on all CPUs. The event is
/// opened on one online CPU (`online`), but the programs of a tracepoint run on all CPUs.
pub(crate) fn attach(program: &ProgramMut<'_>, id: u64, online: u32) -> Result<Link, Error> {
    let event = Builder::new(Tracepoint::with_id(id))
        .any_pid()
        .one_cpu(online as usize)
        .include_kernel()
        .build()
        .context("opening the perf event of a tracepoint")?;
    let link = program
        .attach_perf_event(event.as_raw_fd())
        .context("attaching to a tracepoint")?;
    // The link now owns the descriptor and closes it.
    let _ = event.into_raw_fd();
    Ok(link)
}
