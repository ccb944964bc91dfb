//! Visits the network namespaces of all processes, because the TCP iterator shows one at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context as _, Error};

/// Time limit of a walk, because any user can create namespaces. Skipped namespaces are counted.
const MOST: Duration = Duration::from_millis(100);

/// Maximum number of processes through which the walk tries to enter a namespace.
const TRIES: usize = 4;

const OWN: &str = "/proc/thread-self/ns/net";

/// The namespaces that a walk skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Number of processes whose namespace could not be entered. Entering requires CAP_SYS_ADMIN,
    /// and CAP_SYS_PTRACE for processes of other users. The skipped namespaces can contain more
    /// processes.
    pub(super) closed: usize,
    /// Number of namespaces skipped for lack of time.
    pub(super) late: usize,
}

/// Calls `visit` in each namespace, starting with the thread's own. `proc` is the host's procfs.
/// The thread returns to its own namespace at the end.
///
/// # Errors
///
/// Fails if the agent's own namespace could not be visited or re-entered.
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
        // Only one namespace file is open at a time, because there can be more namespaces than file
        // descriptors.
        let Some(space) = processes.iter().find_map(|path| open(path, inode)) else {
            // The processes of the namespace have ended.
            continue;
        };
        match enter(&space) {
            Ok(()) => {
                entered = true;
                // If a namespace disappears during the walk, only its own sockets are missing.
                if let Err(error) = visit() {
                    tracing::debug!(%error, "cannot list the sockets of a network namespace");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot enter a network namespace");
                left.closed += 1;
            }
        }
    }
    // Without CAP_SYS_ADMIN the thread can enter no namespace, not even return to its own.
    if entered {
        enter(&own).context(OWN)?;
    }
    Ok(left)
}

/// Opens the namespace of a process, if it still has this inode.
fn open(path: &Path, inode: u64) -> Option<File> {
    let space = File::open(path).ok()?;
    let same = space.metadata().is_ok_and(|file| file.ino() == inode);
    same.then_some(space)
}

/// The namespaces of all processes, except the thread's own.
struct Spaces {
    /// Namespace files of the first processes in each namespace, by inode.
    found: HashMap<u64, Vec<PathBuf>>,
    /// Number of processes whose namespace file may not be read.
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
                    // The first processes can exit or change their namespace before they are
                    // visited.
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
