//! Matches opens. A peer reports the requested path, and the agent reports the path of the file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::matching::{Ours, UNEXPLAINED};
use crate::events::{Event, Reported};

/// How a requested path can lead to the file's path. The most certain ways come first, because each
/// of the agent's opens can be taken only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The whole path, resolved.
    Whole,
    /// A path relative to an unknown directory. The last components of the paths match.
    Relative,
    /// An empty relative path, such as `.`: the unknown directory itself.
    Folder,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Whole, Self::Relative, Self::Folder];

    fn of(path: &Path) -> Self {
        match path.is_relative() {
            false => Self::Whole,
            true if normal(path).as_os_str().is_empty() => Self::Folder,
            true => Self::Relative,
        }
    }
}

/// The agent's opens, indexed by the last components of their paths. There may be 100,000 opens on
/// each side.
#[derive(Default)]
pub(super) struct Names {
    by_name: BTreeMap<(u32, OsString), Vec<usize>>,
    by_pid: BTreeMap<u32, VecDeque<usize>>,
}

impl Names {
    pub(super) fn add(&mut self, event: &Event, place: usize) {
        let Event::Open { pid, path, .. } = event else {
            return;
        };
        if let Some(name) = Path::new(path).file_name() {
            self.by_name
                .entry((*pid, name.to_owned()))
                .or_default()
                .push(place);
        }
        self.by_pid.entry(*pid).or_default().push_back(place);
    }

    /// Returns the agent's open that matches the peer's, if the peer's path is of this kind. Each
    /// open is taken once.
    pub(super) fn find(&mut self, way: Way, theirs: &Event, ours: &mut Ours<'_>) -> Option<usize> {
        let Event::Open { pid, path, .. } = theirs else {
            return None;
        };
        let path = Path::new(path);
        if way != Way::of(path) {
            return None;
        }
        match way {
            Way::Whole => {
                let real = fs::canonicalize(path).unwrap_or_else(|_| normal(path));
                ours.take(&format!("{pid} {}", real.display()))
            }
            Way::Relative => {
                let tail = normal(path);
                let places = self
                    .by_name
                    .get_mut(&(*pid, tail.file_name()?.to_owned()))?;
                let fits = |&place: &usize| {
                    let own = &ours.all[place];
                    let Event::Open { path, .. } = own.event else {
                        return false;
                    };
                    !own.taken && Path::new(path).ends_with(&tail)
                };
                let at = places.iter().position(fits)?;
                Some(places.swap_remove(at))
            }
            Way::Folder => {
                let places = self.by_pid.get_mut(pid)?;
                std::iter::from_fn(|| places.pop_front()).find(|&place| !ours.all[place].taken)
            }
        }
    }
}

/// Removes `.`, and each `..` with the component before it. A leading `..` is also removed.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// Directories of special files. Files in the last directory belong to nsfs.
const SPECIAL: [&str; 4] = ["/proc", "/sys", "/dev", "/run/netns"];

/// Processes whose opens are not compared, or cannot be told apart from the opens of other
/// processes.
#[derive(Debug, Default)]
pub(super) struct Who {
    /// The agent's processes.
    agent: Vec<u32>,
    /// The load and all its descendants.
    load: BTreeSet<u32>,
}

impl Who {
    /// Collects the descendants of the load. In `ours`, the event of a parent precedes the events
    /// of its children.
    pub(super) fn new(agent: Vec<u32>, load: u32, ours: &[Reported]) -> Self {
        let mut family = BTreeSet::from([load]);
        for reported in ours {
            if let Event::Start {
                pid,
                parent: Some(parent),
            } = reported.event
                && family.contains(&parent)
            {
                family.insert(pid);
            }
        }
        Self {
            agent,
            load: family,
        }
    }

    /// Returns the reason why the agent does not report an event of a peer.
    pub(super) fn why_not_ours(&self, theirs: &Event) -> &'static str {
        let Event::Open {
            pid, path, flags, ..
        } = theirs
        else {
            return UNEXPLAINED;
        };
        let path = Path::new(path);
        let special = |path: &Path| SPECIAL.iter().any(|top| path.starts_with(top));
        let real = fs::canonicalize(path);
        if self.agent.contains(pid) {
            "the agent's own"
        } else if flags.path_only {
            "O_PATH: names a file and does not open it"
        } else if special(path) || real.is_ok_and(|path| special(&path)) {
            "a special file: left out unless it is asked for"
        } else if path.is_relative() && !self.load.contains(pid) {
            "of others on the machine, relative: may be a special file"
        } else {
            UNEXPLAINED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Flags;

    #[test]
    fn equivalent_paths_are_equal() {
        let normal = |path: &str| normal(Path::new(path)).display().to_string();
        assert_eq!(normal("/usr/lib/gcc/../../x.o"), "/usr/x.o");
        assert_eq!(normal("../a/./b"), "a/b");
        assert_eq!(normal("."), "");
    }

    #[test]
    fn open_missing_from_the_agent_has_a_reason() {
        let start = |pid, parent| Reported {
            at: None,
            netns: None,
            event: Event::Start {
                pid,
                parent: Some(parent),
            },
        };
        let who = Who::new(vec![5], 10, &[start(11, 10), start(12, 11), start(21, 20)]);
        let why = |pid, path: &str, path_only| {
            let open = Event::Open {
                pid,
                path: path.to_owned(),
                flags: Flags { path_only },
                failed: false,
            };
            who.why_not_ours(&open)
        };
        assert_eq!(why(12, "x", false), UNEXPLAINED);
        assert_eq!(why(21, "/none", false), UNEXPLAINED);
        assert!(why(21, "statm", false).contains("of others"));
        assert!(why(12, "/proc/stat", false).contains("special"));
        assert!(why(21, "/run/netns/x", false).contains("special"));
        assert!(why(12, "x", true).contains("O_PATH"));
        assert!(why(5, "/none", false).contains("agent"));
    }
}
