//! The network namespaces that processes are in: the iterator of TCP shows one at a time.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context as _, Error};

const OWN: &str = "/proc/thread-self/ns/net";

/// Calls it in each of them, the own one first; `proc` is where the host's procfs is. Those that cannot be
/// entered are left out: that takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE for those of other users. The thread
/// is in its own one again at the end, and an error is that it is not.
pub(super) fn each(proc: &Path, mut visit: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    visit()?;
    let own = File::open(OWN).context(OWN)?;
    let mut seen = HashSet::from([own.metadata().context(OWN)?.ino()]);
    let others = others(proc, &mut seen);
    if others.is_empty() {
        return Ok(());
    }
    let enter = |space: &File| {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(space.as_fd(), network)
    };
    let mut entered = false;
    for space in others {
        if enter(&space).is_ok() {
            entered = true;
            // One that goes away meanwhile costs only what was in it.
            if let Err(error) = visit() {
                tracing::debug!(%error, "a network namespace");
            }
        }
    }
    // Without CAP_SYS_ADMIN the thread enters none, and may not enter its own one either.
    if entered {
        enter(&own).map_err(std::io::Error::from).context(OWN)?;
    }
    Ok(())
}

/// Those of all processes, but for what was seen.
fn others(proc: &Path, seen: &mut HashSet<u64>) -> Vec<File> {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let paths = processes.map(|process| process.path().join("ns/net"));
    let new = paths.filter_map(|path| {
        let inode = fs::metadata(&path).ok()?.ino();
        seen.insert(inode).then(|| File::open(path).ok()).flatten()
    });
    new.collect()
}
