//! The network namespaces that processes are in: the iterator of TCP shows one at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context as _, Error};

/// How long one walk may take: any user can make a namespace, and one more. What is left out then is
/// counted.
const MOST: Duration = Duration::from_millis(100);

/// Processes of a namespace by which it is tried.
const TRIES: usize = 4;

const OWN: &str = "/proc/thread-self/ns/net";

/// What was left out of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Processes of which the namespace could not be entered: that takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE
    /// for those of other users. There can be more in each of these namespaces.
    pub(super) closed: usize,
    /// Namespaces for which there was no time.
    pub(super) late: usize,
}

/// Calls it in each of them, the own one first; `proc` is where the host's procfs is. The thread is in its
/// own one again at the end, and an error is that it is not.
pub(super) fn each(
    proc: &Path,
    mut visit: impl FnMut() -> Result<(), Error>,
) -> Result<LeftOut, Error> {
    let until = Instant::now() + MOST;
    visit()?;
    let own = File::open(OWN).context(OWN)?;
    let own_inode = own.metadata().context(OWN)?.ino();
    let enter = |space: &File| {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(space.as_fd(), network).map_err(io::Error::from)
    };
    let Spaces { found, closed } = Spaces::of(proc, own_inode);
    let mut left = LeftOut { closed, late: 0 };
    let mut entered = false;
    for (inode, processes) in found {
        if Instant::now() > until {
            left.late += 1;
            continue;
        }
        // One file at a time: there can be more of them than a process may have open.
        let Some(space) = processes.iter().find_map(|path| open(path, inode)) else {
            // Its processes have ended.
            continue;
        };
        match enter(&space) {
            Ok(()) => {
                entered = true;
                // One that goes away meanwhile costs only what was in it.
                if let Err(error) = visit() {
                    tracing::debug!(%error, "a network namespace");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a network namespace");
                left.closed += 1;
            }
        }
    }
    // Without CAP_SYS_ADMIN the thread enters none, and may not enter its own one either.
    if entered {
        enter(&own).context(OWN)?;
    }
    Ok(left)
}

/// The namespace of a process, if it is still this one.
fn open(path: &Path, inode: u64) -> Option<File> {
    let space = File::open(path).ok()?;
    let same = space.metadata().is_ok_and(|file| file.ino() == inode);
    same.then_some(space)
}

/// The namespaces of all processes, but for the own one.
struct Spaces {
    /// By inode: files of the first processes that are in it.
    found: HashMap<u64, Vec<PathBuf>>,
    /// Processes of which the file may not be read.
    closed: usize,
}

impl Spaces {
    fn of(proc: &Path, own: u64) -> Self {
        let mut this = Self {
            found: HashMap::new(),
            closed: 0,
        };
        let processes = fs::read_dir(proc).into_iter().flatten().flatten();
        for path in processes.map(|process| process.path().join("ns/net")) {
            match fs::metadata(&path).map(|file| file.ino()) {
                Ok(inode) if inode == own => {}
                Ok(inode) => {
                    let files = this.found.entry(inode).or_default();
                    // The first can end, or go elsewhere, before it is looked at.
                    if files.len() < TRIES {
                        files.push(path);
                    }
                }
                Err(error) => {
                    this.closed += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
                }
            }
        }
        this
    }
}
