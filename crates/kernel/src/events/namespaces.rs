//! Visits the network namespaces of all processes, because the TCP iterator shows one at a time.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
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

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { closed, late } = *self;
        let joint = if closed > 0 && late > 0 { ", and " } else { "" };
        if closed > 0 {
            let processes = if closed == 1 { "process" } else { "processes" };
            write!(
                f,
                "noctule may not enter the namespaces of {closed} {processes} (needs \
                 CAP_SYS_ADMIN and CAP_SYS_PTRACE)"
            )?;
        }
        f.write_str(joint)?;
        if late > 0 {
            let namespaces = if late == 1 { "namespace" } else { "namespaces" };
            write!(f, "there was no time to read {late} {namespaces}")?;
        }
        Ok(())
    }
}

/// Calls `visit` in each namespace, starting with the thread's own. The thread returns to its own
/// namespace at the end.
///
/// # Errors
///
/// Fails if the agent's own namespace could not be visited or re-entered.
pub(super) fn each(
    processes: &mut Processes,
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
    let Spaces { found, closed } = processes.spaces(own_inode);
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

/// Number of walks that read the namespace of a new process. A process that gets its own namespace
/// usually does so shortly after its start.
const YOUNG: u32 = 5;

/// The namespace of an older process is read in one of this many walks.
const TURNS: u32 = 16;

/// The processes of the host, with the namespace of each.
pub(super) struct Processes {
    /// The host's procfs.
    proc: PathBuf,
    known: HashMap<u32, Known>,
    /// Number of walks so far.
    walks: u32,
}

/// A process that a walk found.
#[derive(Clone, Copy)]
struct Known {
    /// Inode of the process's directory. A new process with the same pid has another one.
    directory: u64,
    /// The walk that found the process first.
    first: u32,
    /// The walk that found the process last.
    last: u32,
    namespace: Namespace,
}

#[derive(Clone, Copy)]
enum Namespace {
    Inode(u64),
    /// The namespace file may not be read.
    Closed,
    /// The process has ended.
    Gone,
}

impl Namespace {
    fn read(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(file) => Self::Inode(file.ino()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::Closed,
            Err(_) => Self::Gone,
        }
    }
}

impl Processes {
    pub(super) fn new(proc: PathBuf) -> Self {
        Self {
            proc,
            known: HashMap::new(),
            walks: 0,
        }
    }

    /// Returns the namespaces of all processes, except `own`.
    fn spaces(&mut self, own: u64) -> Spaces {
        let mut spaces = Spaces {
            found: HashMap::new(),
            closed: 0,
        };
        self.walks = self.walks.wrapping_add(1);
        for entry in fs::read_dir(&self.proc).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            let path = || entry.path().join("ns/net");
            match self.namespace(pid, entry.ino(), &path) {
                Namespace::Inode(inode) if inode == own => {}
                Namespace::Inode(inode) => {
                    let files = spaces.found.entry(inode).or_default();
                    // The first processes can exit or change their namespace before they are
                    // visited.
                    if files.len() < TRIES {
                        files.push(path());
                    }
                }
                Namespace::Closed => spaces.closed += 1,
                Namespace::Gone => {}
            }
        }
        let walk = self.walks;
        self.known.retain(|_, known| known.last == walk);
        spaces
    }

    /// Returns the namespace of a process, and reads it only if the process is young or it is the
    /// process's turn. Reading the namespaces of 1,000 processes takes 5 ms.
    fn namespace(&mut self, pid: u32, directory: u64, path: &dyn Fn() -> PathBuf) -> Namespace {
        let walk = self.walks;
        let known = self.known.get(&pid).copied();
        let known = known.filter(|known| known.directory == directory);
        let first = known.map_or(walk, |known| known.first);
        let namespace = match known {
            Some(known) if walk - first >= YOUNG && !(walk ^ pid).is_multiple_of(TURNS) => {
                known.namespace
            }
            _ => Namespace::read(&path()),
        };
        self.known.insert(
            pid,
            Known {
                directory,
                first,
                last: walk,
                namespace,
            },
        );
        namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `pid` a process in the namespace whose file is `space`.
    fn put(proc: &Path, pid: u32, space: &Path) {
        let directory = proc.join(pid.to_string());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("ns")).unwrap();
        fs::hard_link(space, directory.join("ns/net")).unwrap();
    }

    /// A procfs with namespace files, and the inode of each.
    fn procfs() -> (tempfile::TempDir, [(PathBuf, u64); 3]) {
        let proc = tempfile::tempdir().unwrap();
        let spaces = ["own", "a", "b"].map(|name| {
            let path = proc.path().join(name);
            fs::write(&path, "").unwrap();
            let inode = fs::metadata(&path).unwrap().ino();
            (path, inode)
        });
        (proc, spaces)
    }

    fn found(processes: &mut Processes, own: u64) -> Vec<u64> {
        let mut inodes: Vec<_> = processes.spaces(own).found.into_keys().collect();
        inodes.sort_unstable();
        inodes
    }

    #[test]
    fn namespace_of_a_young_process_is_read_at_every_walk() {
        let (proc, [(own_file, own), (file, inode), _]) = procfs();
        let mut processes = Processes::new(proc.path().to_owned());
        put(proc.path(), 7, &own_file);
        assert!(found(&mut processes, own).is_empty());
        let link = proc.path().join("7/ns/net");
        fs::remove_file(&link).unwrap();
        fs::hard_link(&file, &link).unwrap();
        assert_eq!(found(&mut processes, own), [inode]);
    }

    #[test]
    fn namespace_of_an_old_process_is_read_at_its_turn() {
        let (proc, [(own_file, own), (file, inode), _]) = procfs();
        let mut processes = Processes::new(proc.path().to_owned());
        put(proc.path(), 7, &own_file);
        for _ in 0..2 * TURNS {
            assert!(found(&mut processes, own).is_empty());
        }
        let link = proc.path().join("7/ns/net");
        fs::remove_file(&link).unwrap();
        fs::hard_link(&file, &link).unwrap();
        let walks = (0..TURNS).filter(|_| found(&mut processes, own) == [inode]);
        assert!(walks.count() > 0);
    }

    #[test]
    fn process_with_a_reused_pid_is_read_at_once() {
        let (proc, [_, (first, a), (second, b)]) = procfs();
        let mut processes = Processes::new(proc.path().to_owned());
        put(proc.path(), 7, &first);
        for _ in 0..2 * TURNS {
            assert_eq!(found(&mut processes, 0), [a]);
        }
        // The old directory keeps its inode, so that the new one gets another.
        fs::rename(proc.path().join("7"), proc.path().join("ended")).unwrap();
        put(proc.path(), 7, &second);
        assert_eq!(found(&mut processes, 0), [b]);
    }

    #[test]
    fn warning_names_only_what_was_left_out() {
        let text = |closed, late| LeftOut { closed, late }.to_string();
        let rights = "(needs CAP_SYS_ADMIN and CAP_SYS_PTRACE)";
        assert_eq!(
            text(1, 0),
            format!("noctule may not enter the namespaces of 1 process {rights}")
        );
        assert_eq!(text(0, 2), "there was no time to read 2 namespaces");
        assert_eq!(
            text(2, 1),
            format!(
                "noctule may not enter the namespaces of 2 processes {rights}, and there was no \
                 time to read 1 namespace"
            )
        );
    }

    #[test]
    fn ended_process_is_forgotten() {
        let (proc, [_, (file, inode), _]) = procfs();
        let mut processes = Processes::new(proc.path().to_owned());
        put(proc.path(), 7, &file);
        assert_eq!(found(&mut processes, 0), [inode]);
        fs::remove_dir_all(proc.path().join("7")).unwrap();
        assert!(found(&mut processes, 0).is_empty());
        assert!(processes.known.is_empty());
    }
}
