//! Selects rows by the names of their owners and by process.

use std::collections::{BTreeSet, HashMap, HashSet};

use glob::Pattern;
use noctule_model::{Level, Owner, ProcessId, ProcessRow};

/// The parent of a process at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descent {
    id: ProcessId,
    parent_pid: u32,
}

impl From<&ProcessRow> for Descent {
    fn from(row: &ProcessRow) -> Self {
        Self {
            id: row.id,
            parent_pid: row.parent_pid,
        }
    }
}

/// Minimum length of a prefix of a container id. Names such as `db` and `fe` consist of hexadecimal
/// digits, too.
pub const SHORTEST_ID: usize = 4;

/// The kind of owner name by which rows are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The Kubernetes namespace of the pod.
    Namespace,
    /// The pod: name, `namespace/pod`, or UID.
    Pod,
    /// The container: name, `namespace/pod/container`, id, or a prefix of the id with at least
    /// [`SHORTEST_ID`] characters.
    Container,
    /// The systemd unit, with or without `.service`.
    Unit,
    /// The path of the cgroup or of an ancestor; `(root)` is the root cgroup alone.
    Cgroup,
    /// Any of these: the pod, the container, the unit, or the path of the cgroup or of an ancestor,
    /// with or without the first slash.
    Any,
}

impl Named {
    /// The single kinds, from the widest to the narrowest.
    pub const ALL: [Self; 5] = [
        Self::Namespace,
        Self::Pod,
        Self::Container,
        Self::Unit,
        Self::Cgroup,
    ];

    /// Returns the word for this kind of name in messages: the command-line option without dashes,
    /// or `group`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Unit => "unit",
            Self::Cgroup => "cgroup",
            Self::Any => "group",
        }
    }

    /// Returns a pattern as the user typed it: the value of an option, or a bare name.
    pub fn typed(self, pattern: &str) -> String {
        match self {
            Self::Any => pattern.to_owned(),
            named => format!("--{} {pattern}", named.word()),
        }
    }

    /// Returns the owner's name of this kind, as people read it, if the owner has one.
    pub fn of(self, owner: &Owner) -> Option<String> {
        match self {
            Self::Namespace => owner.pod.as_ref()?.namespace.clone(),
            Self::Pod => owner.pod_name(),
            Self::Container => owner.container_name(),
            Self::Unit => owner.unit.clone(),
            Self::Cgroup => Some(owner.short_path().to_owned()),
            Self::Any => Some(owner.name(Level::Container)),
        }
    }

    fn fits(self, pattern: &Pattern, owner: &Owner) -> bool {
        let fits =
            |name: &Option<String>| name.as_deref().is_some_and(|name| pattern.matches(name));
        if fits(&self.of(owner)) {
            return true;
        }
        match self {
            Self::Namespace => false,
            Self::Pod => {
                (owner.pod.as_ref()).is_some_and(|pod| fits(&pod.name) || pattern.matches(&pod.uid))
            }
            Self::Container => owner.container.as_ref().is_some_and(|container| {
                let id = &container.id;
                let hash = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
                let begin = pattern.as_str();
                let begins = hash && begin.len() >= SHORTEST_ID && id.starts_with(begin);
                begins || fits(&container.name) || pattern.matches(id)
            }),
            Self::Unit => (owner.unit.as_deref())
                .and_then(|unit| unit.strip_suffix(".service"))
                .is_some_and(|unit| pattern.matches(unit)),
            Self::Cgroup => above(&owner.path).any(|path| pattern.matches(path)),
            Self::Any => {
                let kinds = [Self::Pod, Self::Container, Self::Unit, Self::Cgroup];
                let mut paths = above(&owner.path).filter_map(|path| path.strip_prefix('/'));
                kinds.iter().any(|kind| kind.fits(pattern, owner))
                    || paths.any(|path| pattern.matches(path))
            }
        }
    }
}

/// Yields the path and its ancestors.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    })
}

/// Conditions that rows must meet. Patterns of one kind are alternatives. Every kind for which a
/// pattern is given must match.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    names: Vec<(Named, Vec<Pattern>)>,
    pids: Vec<u32>,
}

/// The patterns of a selection that matched some owner so far.
#[derive(Clone, Debug, Default)]
pub struct Found {
    patterns: Vec<bool>,
    /// Whether a single owner matched every kind.
    together: bool,
}

/// Patterns that matched nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The unmatched patterns with their kinds. This is either one pattern that matched nothing, or
    /// all patterns if each matched some owner but no owner matched every kind.
    pub wanted: Vec<(Named, String)>,
    /// Existing names of the same kind as the first pattern, sorted.
    pub there: Vec<String>,
}

impl Selection {
    /// Also requires a name that matches one of these patterns. `*`, `?` and `[...]` work as in a
    /// shell, except that `*` also matches slashes. An empty list requires nothing. Returns an
    /// error message if a pattern is invalid.
    pub fn with_names(mut self, named: Named, patterns: &[String]) -> Result<Self, String> {
        let parsed = patterns.iter().map(|text| match Pattern::new(text) {
            Ok(pattern) => Ok(pattern),
            Err(error) => Err(format!("{}: {error}", named.typed(text))),
        });
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        if !parsed.is_empty() {
            self.names.push((named, parsed));
        }
        Ok(self)
    }

    /// Also requires one of these processes or a descendant. An empty list requires nothing.
    #[must_use]
    pub fn with_processes(mut self, pids: &[u32]) -> Self {
        self.pids.extend(pids);
        self
    }

    /// Returns whether the selection matches everything.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.pids.is_empty()
    }

    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the PIDs passed to [`Self::with_processes`].
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Returns whether, for each kind of name, the owner matches one of the selected patterns.
    pub fn fits(&self, owner: &Owner) -> bool {
        self.names.iter().all(|(named, patterns)| {
            let mut patterns = patterns.iter();
            patterns.any(|pattern| named.fits(pattern, owner))
        })
    }

    /// Returns the selected processes and their descendants among `processes`; `None` if the
    /// selection allows any process. A process whose parent exits gets a new parent, and may occur
    /// once with each.
    pub fn tree(&self, processes: impl Iterator<Item = Descent>) -> Option<HashSet<ProcessId>> {
        if self.pids.is_empty() {
            return None;
        }
        let processes: Vec<Descent> = processes.collect();
        let mut starts: HashMap<u32, BTreeSet<u64>> = HashMap::new();
        for Descent { id, .. } in &processes {
            starts.entry(id.pid).or_default().insert(id.start_ns);
        }
        let mut children: HashMap<ProcessId, Vec<ProcessId>> = HashMap::new();
        for &Descent { id, parent_pid } in &processes {
            // PIDs are reused. The parent is the latest process with that PID that started no later
            // than its child.
            let parents = starts.get(&parent_pid);
            let parent = parents.and_then(|starts| starts.range(..=id.start_ns).next_back());
            if let Some(&start_ns) = parent {
                let pid = parent_pid;
                let parent = ProcessId { pid, start_ns };
                children.entry(parent).or_default().push(id);
            }
        }
        let mut found = HashSet::new();
        let chosen = processes.iter().map(|process| process.id);
        let mut next: Vec<_> = chosen.filter(|id| self.pids.contains(&id.pid)).collect();
        while let Some(id) = next.pop() {
            if found.insert(id) {
                next.extend(children.get(&id).into_iter().flatten());
            }
        }
        Some(found)
    }

    /// Records in `found` which patterns this owner matches.
    pub fn note(&self, found: &mut Found, owner: &Owner) {
        let patterns = self.names.iter();
        let patterns =
            patterns.flat_map(|(named, all)| all.iter().map(|pattern| (*named, pattern)));
        found.patterns.resize(patterns.clone().count(), false);
        for ((named, pattern), found) in patterns.zip(&mut found.patterns) {
            *found = *found || named.fits(pattern, owner);
        }
        found.together = found.together || self.fits(owner);
    }

    /// Returns which patterns match one of these owners.
    pub fn found_among(&self, owners: &[&Owner]) -> Found {
        let mut found = Found::default();
        for owner in owners {
            self.note(&mut found, owner);
        }
        found
    }

    /// Returns whether each pattern matched some owner so far, and one owner matched every kind.
    pub fn is_found(&self, found: &Found) -> bool {
        self.names.is_empty() || found.together && found.patterns.iter().all(|found| *found)
    }

    /// Returns the first pattern that matched no owner, or all patterns if no owner matched every
    /// kind. The existing names are taken from `owners`.
    pub fn missing(&self, found: &Found, owners: &[&Owner]) -> Option<Missing> {
        let there = |named: Named| {
            let mut names: Vec<String> = owners.iter().filter_map(|it| named.of(it)).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let each = || {
            let kinds = self.names.iter();
            kinds.flat_map(|(named, patterns)| patterns.iter().map(|pattern| (*named, pattern)))
        };
        let was_found = found.patterns.iter().chain(std::iter::repeat(&false));
        let alone = each().zip(was_found).find(|(_, found)| !**found);
        let alone = alone.map(|(pattern, _)| pattern);
        let words = |(named, pattern): (Named, &Pattern)| (named, pattern.as_str().to_owned());
        if let Some(alone) = alone {
            return Some(Missing {
                wanted: vec![words(alone)],
                there: there(alone.0),
            });
        }
        if found.together {
            return None;
        }
        let (named, _) = self.names.first()?;
        Some(Missing {
            wanted: each().map(words).collect(),
            there: there(*named),
        })
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, Container, ContainerRole, Pod, Runtime};

    use super::*;

    fn unit(path: &str, unit: &str) -> Owner {
        Owner {
            path: path.into(),
            unit: Some(unit.into()),
            ..Owner::unknown(CgroupId(7))
        }
    }

    fn container() -> Owner {
        Owner {
            container: Some(Container {
                id: "0123456789abcdef".repeat(4),
                runtime: Runtime::Containerd,
                role: ContainerRole::Workload,
                name: Some("web".into()),
                image: None,
                chain: vec![],
            }),
            pod: Some(Pod {
                uid: "6f0f".into(),
                qos: "burstable",
                name: Some("shop-0".into()),
                namespace: Some("prod".into()),
            }),
            ..unit("/kubepods.slice/pod1/cri.scope", "cri.scope")
        }
    }

    fn selection(named: Named, pattern: &str) -> Selection {
        let patterns = [pattern.to_owned()];
        let selection = Selection::default().with_names(named, &patterns);
        selection.expect("a pattern")
    }

    #[test]
    fn owners_match_by_each_of_their_names() {
        let nginx = unit("/system.slice/nginx.service", "nginx.service");
        let cases = [
            (Named::Namespace, "prod", &container(), true),
            (Named::Namespace, "pro", &container(), false),
            (Named::Pod, "shop-?", &container(), true),
            (Named::Pod, "prod/*", &container(), true),
            (Named::Pod, "6f0f", &container(), true),
            (Named::Container, "web", &container(), true),
            (Named::Container, "prod/shop-0/web", &container(), true),
            (Named::Container, "012345", &container(), true),
            (Named::Container, "0123", &container(), true),
            (Named::Container, "01", &container(), false),
            (Named::Container, "w[a-d]b", &container(), false),
            (Named::Container, "*", &nginx, false),
            (Named::Unit, "nginx", &nginx, true),
            (Named::Unit, "ngin*.service", &nginx, true),
            (Named::Unit, "ngin", &nginx, false),
            (Named::Cgroup, "/system.slice", &nginx, true),
            (Named::Cgroup, "/system", &nginx, false),
            (Named::Cgroup, "*nginx*", &nginx, true),
            (Named::Cgroup, "/", &nginx, true),
            (Named::Cgroup, "(root)", &nginx, false),
            (Named::Any, "nginx", &nginx, true),
            (Named::Any, "system.slice", &nginx, true),
            (Named::Any, "/system.slice/nginx.service", &nginx, true),
            (Named::Any, "prod/shop-0", &container(), true),
            (Named::Any, "web", &container(), true),
            (Named::Any, "prod", &container(), false),
        ];
        for (named, pattern, owner, fits) in cases {
            let found = selection(named, pattern).fits(owner);
            assert_eq!(found, fits, "{}", named.typed(pattern));
        }
        assert!(Selection::default().fits(&nginx));
    }

    #[test]
    fn unknown_name_lists_the_existing_names() {
        let nginx = unit("/system.slice/nginx.service", "nginx.service");
        let all = [&container(), &nginx];
        let look = |selection: &Selection, owners: &[&Owner]| {
            let found = selection.found_among(owners);
            let missing = selection.missing(&found, owners);
            assert_eq!(selection.is_found(&found), missing.is_none());
            missing
        };
        let missing = look(&selection(Named::Unit, "ngnix"), &all).expect("nothing fits");
        assert_eq!(missing.wanted, [(Named::Unit, "ngnix".to_owned())]);
        assert_eq!(missing.there, ["cri.scope", "nginx.service"]);
        assert_eq!(look(&selection(Named::Pod, "*"), &all), None);
        assert_eq!(look(&Selection::default(), &[]), None);
        // Each pattern matches some owner, but no owner matches both.
        let both = selection(Named::Pod, "*").with_names(Named::Unit, &["nginx".into()]);
        let both = both.expect("patterns");
        let missing = look(&both, &all);
        assert_eq!(missing.expect("nothing fits").wanted.len(), 2);
        // The owner that matched before has a new name. The other pattern is the one that matches
        // nothing.
        let two = ["nginx".to_owned(), "ngnix".to_owned()];
        let two = Selection::default().with_names(Named::Unit, &two);
        let two = two.expect("patterns");
        let missing = two.missing(&two.found_among(&all), &all[..1]);
        let wanted = missing.expect("nothing fits").wanted;
        assert_eq!(wanted, [(Named::Unit, "ngnix".to_owned())]);
        let wrong = Selection::default().with_names(Named::Unit, &["[a".into()]);
        assert!(wrong.is_err_and(|error| error.starts_with("--unit [a: ")));
    }

    #[test]
    fn descendants_are_selected_with_their_process() {
        let row = |pid, parent_pid| ProcessRow {
            id: ProcessId { pid, start_ns: 1 },
            parent_pid,
            ..ProcessRow::default()
        };
        let tree = |rows: &[ProcessRow], pids: &[u32]| {
            let tree = Selection::default()
                .with_processes(pids)
                .tree(rows.iter().map(Descent::from))?;
            let mut pids: Vec<u32> = tree.iter().map(|id| id.pid).collect();
            pids.sort_unstable();
            Some(pids)
        };
        // PID 6 is reused by an unrelated process, which has a child.
        let mut stranger = row(6, 1);
        stranger.id.start_ns = 2;
        let mut child = row(9, 6);
        child.id.start_ns = 3;
        let again = [row(5, 1), row(6, 5), row(7, 6), stranger, child];
        assert_eq!(tree(&again, &[5]), Some(vec![5, 6, 7]));
        let rows = [row(1, 0), row(5, 1), row(6, 5), row(7, 6), row(8, 1)];
        let tree = |pids| tree(&rows, pids);
        assert_eq!(tree(&[5]), Some(vec![5, 6, 7]));
        assert_eq!(tree(&[6, 8]), Some(vec![6, 7, 8]));
        assert_eq!(tree(&[9]), Some(vec![]));
        assert_eq!(tree(&[]), None);
    }
}
