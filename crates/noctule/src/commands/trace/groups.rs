//! The cgroups of the node: resolves names in filters, and finds names for the groups of events.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use noctule_identity::{Config, Registry};
use noctule_kernel::{CgroupVersion, Hierarchy};
use noctule_model::{CgroupId, Level, Owner, Subject};
use noctule_trace::identity::Identity;
use noctule_trace::program::{Context, Number};
use noctule_trace::resolve::{self, Fits};

use crate::rights;

/// Maximum time to wait for names.
const NAMES_WAIT: Duration = Duration::from_millis(500);

/// The cgroups, read at first use.
#[derive(Default)]
pub(super) struct Groups(RefCell<Option<Known>>);

struct Known {
    hierarchy: Hierarchy,
    registry: Registry,
    /// Conditions of filters, with the cgroup ids that matched when each was resolved.
    conditions: Vec<(Identity, Fits, Vec<u64>)>,
    /// The lowest cgroup id of each owner, over all owners in the registry.
    first: HashMap<(Identity, String), u64>,
}

impl Known {
    fn new() -> Self {
        let hierarchy = Hierarchy::probe(Path::new("/proc"));
        let mount = hierarchy.mount.clone();
        let registry = Registry::new(Config {
            // If no cgroup file system is mounted, ids cannot be resolved to paths.
            cgroup_mount: mount.unwrap_or_else(|| PathBuf::from("/nonexistent")),
            walk_interval: Duration::ZERO,
            on_thread: rights::read_only,
            ..Config::default()
        });
        Self {
            hierarchy,
            registry,
            conditions: Vec::new(),
            first: HashMap::new(),
        }
    }

    /// Reads the hierarchy again, and adopts the names that arrived since the last read.
    fn refresh(&mut self) {
        self.registry.resync(now_ns());
        self.registry.catch_up(NAMES_WAIT);
        self.first.clear();
        for owner in self.registry.owners() {
            let id = owner.cgroup.0;
            for identity in [Identity::Container, Identity::Pod, Identity::Unit] {
                let first = self
                    .first
                    .entry((identity, unique_owner_key(owner, identity)));
                let first = first.or_insert(id);
                *first = id.min(*first);
            }
        }
    }

    fn fitting(&self, identity: Identity, fits: &Fits) -> Vec<u64> {
        let owners = self.registry.owners();
        let fitting = owners.filter(|owner| names(owner, identity).any(|name| fits.fits(&name)));
        let mut ids: Vec<u64> = fitting.map(|owner| owner.cgroup.0).collect();
        ids.sort_unstable();
        ids
    }
}

impl Groups {
    fn with<T>(&self, what: impl FnOnce(&mut Known) -> T) -> T {
        what(self.0.borrow_mut().get_or_insert_with(Known::new))
    }

    /// Reads the hierarchy again, if it was ever needed.
    pub(super) fn refresh(&self) {
        if let Some(known) = self.0.borrow_mut().as_mut() {
            known.refresh();
        }
    }

    /// Returns the cgroup that represents all cgroups of its owner.
    pub(super) fn first(&self, identity: Identity, id: u64) -> u64 {
        self.with(|known| {
            let owner = known.registry.owner(CgroupId(id));
            let first = known
                .first
                .get(&(identity, unique_owner_key(&owner, identity)));
            first.copied().unwrap_or(id)
        })
    }

    pub(super) fn name(&self, identity: Identity, id: u64) -> String {
        let owner = self.with(|known| known.registry.owner(CgroupId(id)));
        owner.name(level(identity))
    }

    /// Warns once per name if no cgroup has the name and the filter was meant to exclude it. An
    /// earlier check already requires that names in an including filter exist.
    pub(super) fn warn_of_unknown(&self) {
        let known = self.0.borrow();
        let conditions = known.iter().flat_map(|known| &known.conditions);
        for words in unknown(conditions) {
            tracing::warn!("{words}");
        }
    }

    /// Warns of matching cgroups that were created after the program, because its filter lacks
    /// their ids. Such cgroups are neither included by `==` and `~` nor excluded by `!=`.
    pub(super) fn warn_of_late(&self, done: &str) {
        let made = match self.late() {
            0 => return,
            1 => "1 cgroup that matches a name in the filter was created later".to_owned(),
            many => format!("{many} cgroups that match a name in the filter were created later"),
        };
        tracing::warn!("{made}: not {done} by `==` and `~`, and not excluded by `!=`");
    }

    /// Returns the number of cgroups that match a condition now, but did not match when it was
    /// resolved.
    fn late(&self) -> usize {
        let known = self.0.borrow();
        let Some(known) = known.as_ref() else {
            return 0;
        };
        let late = known.conditions.iter().map(|(identity, fits, then)| {
            let now = known.fitting(*identity, fits);
            now.iter().filter(|id| !then.contains(id)).count()
        });
        late.sum()
    }
}

impl resolve::Groups for Groups {
    fn current(&self) -> Result<Number, String> {
        match self.with(|known| known.hierarchy.version) {
            CgroupVersion::V2 => Ok(Number::Context(Context::Cgroup)),
            CgroupVersion::V1 => Hierarchy::id_from_thread()
                .map(Number::OfThread)
                .map_err(|error| format!("Unknown cgroup: {error}")),
        }
    }

    fn fitting(&self, identity: Identity, fits: Fits) -> Vec<u64> {
        self.with(|known| {
            known.refresh();
            let ids = known.fitting(identity, &fits);
            known.conditions.push((identity, fits, ids.clone()));
            ids
        })
    }
}

/// Returns a warning for each name that no cgroup had.
fn unknown<'a>(
    conditions: impl Iterator<Item = &'a (Identity, Fits, Vec<u64>)>,
) -> BTreeSet<String> {
    let none = conditions.filter(|(_, _, ids)| ids.is_empty());
    let words = none.map(|(identity, fits, _)| {
        let how = match fits {
            Fits::Name(_) => "has this name",
            Fits::Glob(..) => "matches this pattern",
        };
        let name = noctule_text::escape(&fits.to_string());
        format!(
            "\"{name}\": no {identity} {how} now, so the filter excludes nothing; `noctule stat --by \
             {identity}` lists the existing ones"
        )
    });
    words.collect()
}

const fn level(identity: Identity) -> Level {
    match identity {
        Identity::Cgroup => Level::Cgroup,
        Identity::Container => Level::Container,
        Identity::Pod => Level::Pod,
        Identity::Unit => Level::Unit,
    }
}

/// Returns a key that is unique to the owner, unlike its name.
fn unique_owner_key(owner: &Owner, identity: Identity) -> String {
    let subject = || match owner.subject() {
        Subject::Container(id) => format!("container {id}"),
        Subject::Unit(unit) => format!("unit {unit}"),
        Subject::Cgroup(_) | Subject::Overflow => format!("cgroup {}", owner.cgroup.0),
    };
    match identity {
        Identity::Cgroup => format!("cgroup {}", owner.cgroup.0),
        Identity::Container => subject(),
        Identity::Pod => match &owner.pod {
            Some(pod) => format!("pod {}", pod.uid),
            None => subject(),
        },
        Identity::Unit => match &owner.unit {
            Some(unit) => format!("unit {unit}"),
            None => format!("cgroup {}", owner.cgroup.0),
        },
    }
}

/// Returns the names that a condition can use for an owner: its displayed name, its own name
/// without the names of its parents, and full ids.
fn names(owner: &Owner, identity: Identity) -> impl Iterator<Item = String> {
    let (container, pod) = (owner.container.as_ref(), owner.pod.as_ref());
    let (name, id) = match identity {
        Identity::Container => (
            container.and_then(|container| container.name.clone()),
            container.map(|container| container.id.clone()),
        ),
        Identity::Pod => (
            pod.and_then(|pod| pod.name.clone()),
            pod.map(|pod| pod.uid.clone()),
        ),
        Identity::Cgroup => (Some(owner.path.clone()), None),
        Identity::Unit => (None, None),
    };
    [Some(owner.name(level(identity))), name, id]
        .into_iter()
        .flatten()
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use noctule_trace::glob::Glob;

    use super::*;

    #[test]
    fn unmatched_name_is_reported_once() {
        let glob = Glob::parse(b"web*").expect("a pattern");
        let conditions = [
            (
                Identity::Container,
                Fits::Name("we\x1bb".to_owned()),
                vec![],
            ),
            (
                Identity::Unit,
                Fits::Name("ssh.service".to_owned()),
                vec![7],
            ),
            (Identity::Pod, Fits::Glob(glob, "web*".to_owned()), vec![]),
            (
                Identity::Container,
                Fits::Name("we\x1bb".to_owned()),
                vec![],
            ),
        ];
        let words = unknown(conditions.iter());
        let starts: Vec<_> = words
            .iter()
            .filter_map(|words| words.split(" now").next())
            .collect();
        let expected = [
            "\"we\\u{1b}b\": no container has this name",
            "\"web*\": no pod matches this pattern",
        ];
        assert_eq!(starts, expected);
    }
}
