//! Resolves a name to a container, pod, unit, cgroup or process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Result, bail};
use noctule_analysis::{Party, ProcessUse, SHORTEST_ID};
use noctule_model::{Batch, CgroupId, Comm, Level, Owner, ProcessId, ProcessRow};
use noctule_text::escape;

use crate::commands::shared::window;
use crate::exit::Usage;
use crate::wire::Pipeline;

/// Maximum number of names listed in the error for an unknown name.
const LISTED: usize = 8;

/// The resolved container, pod, unit, cgroup or process.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The display name of the subject.
    pub(super) name: String,
    pub(super) level: Level,
    /// The outermost cgroup of the subject.
    pub(super) party: Party,
    /// The process, if a pid was given; the other fields describe its group.
    pub(super) process: Option<ProcessUse>,
}

impl Subject {
    fn new(owner: &Arc<Owner>, level: Level) -> Self {
        Self {
            name: owner.name(level),
            level,
            party: Party::Group(owner.clone()),
            process: None,
        }
    }

    /// Returns the path of the cgroup.
    pub(super) fn path(&self) -> &str {
        match &self.party {
            Party::Group(owner) => &owner.path,
            _ => "/",
        }
    }
}

#[derive(Clone, Debug)]
struct Process {
    id: ProcessId,
    comm: Comm,
    owner: Arc<Owner>,
}

impl Process {
    /// Describes the process of a row; `None` if its owner is unknown.
    fn of(row: &ProcessRow) -> Option<Self> {
        Some(Self {
            id: row.id,
            comm: row.comm,
            owner: row.owner.clone()?,
        })
    }
}

/// Resolves a name on the live machine.
pub(super) fn find(name: &str, pipeline: &mut Pipeline) -> Result<Subject> {
    let batch = pipeline.last_tick()?;
    let owners = pipeline.owners();
    let process = |pid| {
        let row = batch.processes.iter().find(|row| row.id.pid == pid);
        row.and_then(Process::of).ok_or_else(|| {
            Usage(format!(
                "{pid}: no such process, or the kernel hides it from tracing programs"
            ))
        })
    };
    find_among(name, &pipeline.group_path(name), &owners, process)
}

/// Groups and processes that appeared in a period of a recording.
#[derive(Default)]
pub(super) struct Seen {
    owners: HashMap<CgroupId, Arc<Owner>>,
    /// Processes by pid. If a pid was reused, this is the last process that had it.
    processes: HashMap<u32, Process>,
}

impl Seen {
    /// Adds the groups and processes of a batch.
    pub(super) fn note(&mut self, batch: &Batch) {
        window::note(&mut self.owners, batch);
        for row in batch.exited.iter().chain(&batch.processes) {
            if let Some(process) = Process::of(row) {
                self.processes.insert(row.id.pid, process);
            }
        }
    }

    /// Resolves a name in the recording.
    pub(super) fn find(&self, name: &str) -> Result<Subject> {
        let owners: Vec<Arc<Owner>> = self.owners.values().cloned().collect();
        let path = format!("/{}", name.trim_matches('/'));
        let process = |pid| {
            let process = self.processes.get(&pid).cloned();
            process.ok_or_else(|| {
                Usage(format!(
                    "{pid}: no such process was recorded then; `noctule stat --from FOLDER --by \
                     process` lists the recorded ones"
                ))
            })
        };
        find_among(name, &path, &owners, process)
    }
}

/// Resolves a name. `path` is the name interpreted as a cgroup path; `process` looks up a pid.
fn find_among(
    name: &str,
    path: &str,
    owners: &[Arc<Owner>],
    process: impl Fn(u32) -> Result<Process, Usage>,
) -> Result<Subject> {
    if name.is_empty() {
        return Err(Usage("the name is empty: is a shell variable unset?".into()).into());
    }
    if let Ok(pid) = name.parse::<u32>() {
        return Ok(of_process(&process(pid)?, owners));
    }
    let mut found: BTreeMap<(u8, String), Subject> = BTreeMap::new();
    for owner in owners {
        for level in levels(name, path, owner) {
            let subject = Subject::new(owner, level);
            let key = (rank(level), identity(owner, level));
            let known = found.entry(key).or_insert_with(|| subject.clone());
            if subject.path().len() < known.path().len() {
                *known = subject;
            }
        }
    }
    let best = found.keys().next().map(|(rank, _)| *rank);
    let mut best: Vec<Subject> = found
        .into_iter()
        .filter(|((rank, _), _)| Some(*rank) == best)
        .map(|(_, subject)| subject)
        .collect();
    if best.is_empty() {
        best = containing(name, owners);
    }
    match best.len() {
        0 => bail!(Usage(unknown(name, owners))),
        1 => Ok(best.remove(0)),
        _ => {
            let names: Vec<String> = best.iter().map(|s| escape(s.path())).collect();
            bail!(Usage(format!(
                "{} is ambiguous: {}; give the path of one",
                escape(name),
                names.join(", ")
            )))
        }
    }
}

/// Returns the containers, units and cgroups whose names contain the text.
fn containing(text: &str, owners: &[Arc<Owner>]) -> Vec<Subject> {
    let level = Level::Container;
    let mut found: BTreeMap<String, Subject> = BTreeMap::new();
    for owner in owners.iter().filter(|it| it.name(level).contains(text)) {
        let subject = Subject::new(owner, level);
        let named = match owner.container {
            Some(_) => level,
            None => Level::Unit,
        };
        let known = found.entry(identity(owner, named));
        let known = known.or_insert_with(|| subject.clone());
        if subject.path().len() < known.path().len() {
            *known = subject;
        }
    }
    found.into_values().collect()
}

fn levels(name: &str, path: &str, owner: &Owner) -> Vec<Level> {
    let mut levels = Vec::new();
    if owner.path == path || owner.short_path() == name {
        levels.push(Level::Cgroup);
    }
    if let Some(pod) = &owner.pod {
        let alone = pod.name.as_deref() == Some(name);
        if alone || pod.uid == name || owner.pod_name().as_deref() == Some(name) {
            levels.push(Level::Pod);
        }
    }
    if let Some(container) = &owner.container {
        let begins = name.len() >= SHORTEST_ID && container.id.starts_with(name);
        let own = owner.container_name();
        if begins || container.name.as_deref() == Some(name) || own.as_deref() == Some(name) {
            levels.push(Level::Container);
        }
    }
    let unit = owner.unit.as_deref();
    if unit.is_some_and(|unit| unit == name || unit.strip_suffix(".service") == Some(name)) {
        levels.push(Level::Unit);
    }
    levels
}

/// Ranks the levels at which a name matches: cgroup paths first, then inner levels before the
/// levels that contain them.
const fn rank(level: Level) -> u8 {
    match level {
        Level::Cgroup => 0,
        Level::Container => 1,
        Level::Pod => 2,
        Level::Unit | Level::Process => 3,
    }
}

fn identity(owner: &Owner, level: Level) -> String {
    match level {
        Level::Container => owner.container.as_ref().map(|c| c.id.clone()),
        Level::Pod => owner.pod.as_ref().map(|pod| pod.uid.clone()),
        Level::Unit => owner.unit.clone(),
        Level::Cgroup | Level::Process => None,
    }
    .unwrap_or_else(|| owner.path.clone())
}

/// Returns the group of a process: its container, unit or cgroup.
fn of_process(process: &Process, owners: &[Arc<Owner>]) -> Subject {
    let subject = process.owner.subject();
    let same = owners.iter().filter(|other| other.subject() == subject);
    let outermost = same.min_by_key(|other| other.path.len());
    let mut found = Subject::new(outermost.unwrap_or(&process.owner), Level::Container);
    found.name = format!("{} (process {})", found.name, process.id.pid);
    found.process = Some(ProcessUse::idle(process.id, process.comm));
    found
}

/// Returns the error text for an unknown name, with existing and similar names.
fn unknown(name: &str, owners: &[Arc<Owner>]) -> String {
    let mut names: Vec<String> = owners
        .iter()
        .flat_map(|owner| [Level::Pod, Level::Container, Level::Unit].map(|l| owner.name(l)))
        .collect();
    names.sort();
    names.dedup();
    let distance = |known: &String| {
        let last = known.rsplit('/').next().unwrap_or(known);
        let whole = strsim::jaro_winkler(name, known);
        whole.max(strsim::jaro_winkler(name, last))
    };
    names.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let nearest = names
        .first()
        .map(|near| format!("; the closest name is {}", escape(near)));
    let listed: Vec<String> = names.iter().take(LISTED).map(|n| escape(n)).collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "nothing is named {}{}; known names: {}{more}",
        escape(name),
        nearest.unwrap_or_default(),
        listed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use noctule_model::CgroupId;

    use super::*;

    fn owner(path: &str, unit: Option<&str>) -> Owner {
        Owner {
            path: path.to_owned(),
            unit: unit.map(str::to_owned),
            ..Owner::unknown(CgroupId(1))
        }
    }

    #[test]
    fn unit_is_found_with_or_without_its_suffix() {
        let nginx = owner("/system.slice/nginx.service", Some("nginx.service"));
        let cases = [
            ("nginx", vec![Level::Unit]),
            ("nginx.service", vec![Level::Unit]),
            ("/system.slice/nginx.service", vec![Level::Cgroup]),
            ("system.slice", vec![]),
        ];
        for (name, levels) in cases {
            assert_eq!(super::levels(name, name, &nginx), levels, "{name}");
        }
    }

    #[test]
    fn unique_fragment_of_a_name_is_enough() {
        let owners = [
            owner("/system.slice/nginx.service", Some("nginx.service")),
            owner("/system.slice/nginx.service/workers", Some("nginx.service")),
            owner("/batch/reindex", None),
            owner("/batch/report", None),
        ]
        .map(Arc::new);
        let find = |name: &str| {
            let found = find_among(name, name, &owners, |pid| Err(Usage(pid.to_string())));
            found
                .map(|it| it.path().to_owned())
                .map_err(|error| error.to_string())
        };
        assert_eq!(find("ngin").as_deref(), Ok("/system.slice/nginx.service"));
        assert_eq!(find("index").as_deref(), Ok("/batch/reindex"));
        let error = "batch is ambiguous: /batch/reindex, /batch/report; give the path of one";
        assert_eq!(find("batch"), Err(error.to_owned()));
    }

    #[test]
    fn closest_name_is_listed_first() {
        let owners = [
            owner("/system.slice/nginx.service", Some("nginx.service")),
            owner("/batch/reindex", None),
        ]
        .map(Arc::new);
        assert_eq!(
            unknown("ngnix", &owners),
            "nothing is named ngnix; the closest name is nginx.service; known names: nginx.service, \
             /batch/reindex"
        );
        assert!(unknown("reindx", &owners).contains("the closest name is /batch/reindex"));
    }
}
