//! The network namespaces that processes are in: the iterator of TCP shows one at a time.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context as _, Error};

const OWN: &str = "/proc/thread-self/ns/net";

/// Calls it in each of them, the own one first; `proc` is where the host's procfs is. The value is of how
/// many processes at least the one could not be entered: that takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE for
/// those of other users. The thread is in its own one again at the end, and an error is that it is not.
pub(super) fn each(
    proc: &Path,
    mut visit: impl FnMut() -> Result<(), Error>,
) -> Result<usize, Error> {
    visit()?;
    let own = File::open(OWN).context(OWN)?;
    let seen = HashSet::from([own.metadata().context(OWN)?.ino()]);
    let enter = |space: &File| {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(space.as_fd(), network).map_err(io::Error::from)
    };
    let (others, mut closed) = others(proc, seen);
    let mut entered = false;
    // One file at a time: there can be more of them than a process may have open.
    for path in others {
        let space = File::open(path).and_then(|space| enter(&space));
        match space {
            Ok(()) => {
                entered = true;
                // One that goes away meanwhile costs only what was in it.
                if let Err(error) = visit() {
                    tracing::debug!(%error, "a network namespace");
                }
            }
            // Its last process has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(%error, "a network namespace");
                closed += 1;
            }
        }
    }
    // Without CAP_SYS_ADMIN the thread enters none, and may not enter its own one either.
    if entered {
        enter(&own).context(OWN)?;
    }
    Ok(closed)
}

/// A file of each that a process is in, but for what was seen; and of how many processes it may not be
/// read.
fn others(proc: &Path, mut seen: HashSet<u64>) -> (Vec<PathBuf>, usize) {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let paths = processes.map(|process| process.path().join("ns/net"));
    let mut closed = 0;
    let new = paths.filter(|path| match fs::metadata(path) {
        Ok(file) => seen.insert(file.ino()),
        Err(error) => {
            closed += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
            false
        }
    });
    (new.collect(), closed)
}
