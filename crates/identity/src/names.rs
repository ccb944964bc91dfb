//! Reads names from the files that runtimes leave on the node.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use noctule_model::{CgroupId, Runtime};
use serde::Deserialize;

use crate::files::{self, Failure};
use crate::labels::{Names, is_node, usable};
use crate::moved::{self, User};
use crate::path::read;
use crate::state::StateIndex;
use crate::text::user_of;

/// Maximum number of namespaces to read in one instance of containerd.
const MAX_NAMESPACES: usize = 64;

/// Maximum number of entries to read in Docker's root directory, which has about twenty.
const MAX_DOCKER_ENTRIES: usize = 256;

/// Docker's root directories, as installed from a package and from a snap.
const DOCKER: &[&str] = &["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
/// State directories of containerd: its own, and those used by k3s and RKE2, k0s, and MicroK8s.
const CONTAINERD: &[&str] = &[
    "run/containerd",
    "run/k3s/containerd",
    "run/k0s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Subdirectories of a state directory that contain bundles, for the second and the first
/// generation of shims.
const TASKS: &[&str] = &[
    "io.containerd.runtime.v2.task",
    "io.containerd.runtime.v1.linux",
];
/// Data directory of nerdctl.
const NERDCTL: &str = "var/lib/nerdctl";
/// Maximum number of hosts in nerdctl's data, and of names in a namespace.
const MAX_NERDCTL_HOSTS: usize = 8;
const MAX_NERDCTL_NAMES: usize = 1024;
/// The list of machines registered with machined, which has a symbolic link for the name of each
/// unit.
const MACHINES: &str = "run/systemd/machines";
/// Storage directories of CRI-O and podman.
const STORAGE: &[&str] = &["run/containers/storage", "var/lib/containers/storage"];
/// Lists of containers in the storage: persistent containers, and containers of `podman run --rm`,
/// which Quadlet also uses.
const LISTS: &[&str] = &["containers.json", "volatile-containers.json"];
/// Storage drivers, each with its own directory of containers.
const DRIVERS: &[&str] = &["overlay", "vfs", "btrfs", "zfs"];

/// A group whose names are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) path: String,
    /// The group's container id, if the path contains one.
    pub(crate) container: Option<String>,
    /// The unit of the container, if the container is a systemd-nspawn machine.
    pub(crate) machine_unit: Option<String>,
    /// The user who chose the group's name. If there is such a user, only files of that user's
    /// runtimes are read.
    pub(crate) user: Option<u32>,
}

impl Query {
    /// Returns the user whose files are read, in digits.
    pub(crate) fn reads_of(&self) -> Option<String> {
        match self.user {
            Some(uid) => Some(uid.to_string()),
            None => user_of(&self.path).map(str::to_owned),
        }
    }
}

/// The names; `None` if no file contains them (yet). The error is a message.
pub(crate) type Answer = Result<Option<Names>, String>;

/// Looks up names. Every call may block for as long as a file system blocks.
pub(crate) struct Finder {
    root: PathBuf,
    states: StateIndex,
    /// The user of the last query.
    user: Option<String>,
}

impl Finder {
    pub(crate) fn new(root: &Path, cgroup_mount: &Path) -> Self {
        Self {
            root: root.to_owned(),
            states: StateIndex::new(root, cgroup_mount),
            user: None,
        }
    }

    /// Looks up the names of a group. `fresh` requests reading the state files of runc and crun
    /// again, which is necessary only once for several queries that arrive together.
    pub(crate) fn find(&mut self, query: &Query, fresh: bool) -> Answer {
        if let Some(unit) = &query.machine_unit {
            return Ok(self.machine(unit).filter(|_| query.user.is_none()));
        }
        let user = query.reads_of();
        if fresh || user != self.user {
            // A user's group may also be a container of a runtime that root runs.
            if query.user.is_none() {
                self.states.refresh(None);
            }
            if user.is_some() {
                self.states.refresh(user.as_deref());
            }
            self.user = user;
        }
        let state = match (&query.container, query.user) {
            (None, _) => self.states.lookup(&query.path),
            // The path shows a container inside the group of another container, which only has a
            // state file.
            (Some(_), None) => {
                parent_of_container(&query.path).and_then(|it| self.states.lookup(it))
            }
            (Some(_), Some(_)) => None,
        };
        let Some((top, state)) = state else {
            return match &query.container {
                Some(id) => self.by_id(id, query),
                None => Ok(None),
            };
        };
        // The id is sufficient, and names are optional.
        let names = self.by_id(&state.id, query).ok().flatten();
        let names = names.unwrap_or_default();
        Ok(Some(Names {
            id: Some(state.id.clone()),
            top: Some(top.to_owned()),
            runtime: names.runtime.or(Some(state.runtime)),
            ..names
        }))
    }

    /// Returns the machine that machined registered for a unit.
    fn machine(&self, unit: &str) -> Option<Names> {
        let link = self.root.join(MACHINES).join(format!("unit:{unit}"));
        let name = std::fs::read_link(link).ok()?;
        let name = usable(name.to_str()?)?;
        Some(Names {
            name: Some(name),
            ..Names::default()
        })
    }

    fn by_id(&self, id: &str, query: &Query) -> Answer {
        if !is_file_name(id) {
            return Ok(None);
        }
        let mut silent = None;
        let mut broken = None;
        for place in self.places(query) {
            match place.read(id) {
                Ok(names) if names.has_names() => return Ok(Some(names)),
                Ok(names) => silent = silent.or(Some(names)),
                Err(Failure::Missing) => {}
                Err(Failure::Unusable(why)) => broken = broken.or(Some(why)),
            }
        }
        match (silent, broken) {
            (None, Some(why)) => Err(why),
            (silent, _) => Ok(silent),
        }
    }

    /// Returns the directories to search, best first. A user's own directories come last, because a
    /// home directory may be on a network.
    fn places(&self, query: &Query) -> Vec<Place> {
        let mut places = match query.user {
            Some(_) => Vec::new(),
            None => self.machine_places(),
        };
        if let Some(uid) = query.reads_of() {
            let mut own = self.user_places(&uid);
            for place in &mut own {
                place.most = files::USER_BYTES;
            }
            places.extend(own);
        }
        places
    }

    /// Returns the directories in which a user's runtimes leave their files.
    fn user_places(&self, uid: &str) -> Vec<Place> {
        let run = self.root.join("run/user").join(uid).join("containers");
        let mut places = stores(&run);
        let Some(home) = self.home(uid) else {
            return places;
        };
        let share = files::below(&self.root, &home).join(".local/share");
        places.extend(stores(&share.join("containers/storage")));
        places.push(Place::docker(share.join("docker/containers")));
        let user = User { uid, home: &home };
        let moved = user.storage(&self.root);
        places.extend(moved.iter().flat_map(|storage| stores(storage)));
        let docker = user.docker(&self.root);
        places.extend(docker.map(|root| Place::docker(root.join("containers"))));
        places.push(Place::of(Format::Nerdctl(share.join("nerdctl"))));
        places
    }

    /// Returns the directories in which root's runtimes leave their files.
    fn machine_places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = DOCKER
            .iter()
            .map(|dir| self.root.join(dir))
            .chain(moved::docker(&self.root))
            .flat_map(|root| docker_stores(&root))
            .collect();
        let states = CONTAINERD.iter().map(|state| self.root.join(state));
        let states = states.chain(moved::containerd(&self.root));
        for tasks in states.flat_map(|state| TASKS.iter().map(move |tasks| state.join(tasks))) {
            for namespace in files::names_in(&tasks, MAX_NAMESPACES) {
                places.push(Place::of(Format::Bundles {
                    namespace: tasks.join(&namespace),
                    dockers: namespace == "moby",
                }));
            }
        }
        let storage = STORAGE.iter().map(|dir| self.root.join(dir));
        let storage = storage.chain(moved::storage(&self.root));
        places.extend(storage.flat_map(|dir| stores(&dir)));
        places.push(Place::of(Format::Nerdctl(self.root.join(NERDCTL))));
        places
    }

    /// Returns the home directory of a user according to the node's `passwd`.
    fn home(&self, user: &str) -> Option<String> {
        let users = files::read(&self.root.join("etc/passwd")).ok()?;
        let users = String::from_utf8_lossy(&users);
        let mut lines = users.lines().map(|line| line.split(':'));
        let home = lines.find_map(|mut fields| {
            let uid = fields.nth(2)?;
            (uid == user).then(|| fields.nth(2)).flatten()
        })?;
        Some(home.to_owned())
    }
}

/// Returns the parent of the group of the container that the path shows.
fn parent_of_container(path: &str) -> Option<&str> {
    let top = read(CgroupId(0), path, "").top?;
    Some(top.rsplit_once('/')?.0)
}

/// Returns the container directories of a Docker root directory. With `userns-remap`, one of them
/// is in a subdirectory named after the ids that root is mapped to, such as `231072.231072`.
fn docker_stores(root: &Path) -> Vec<Place> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_remapped = |name: &String| {
        let ids = name.split_once('.');
        ids.is_some_and(|(uid, gid)| is_number(uid) && is_number(gid))
    };
    let all = files::names_in(root, MAX_DOCKER_ENTRIES).into_iter();
    let remapped = all.filter(is_remapped).map(|name| root.join(name));
    let roots = std::iter::once(root.to_owned()).chain(remapped);
    roots
        .map(|root| Place::docker(root.join("containers")))
        .collect()
}

fn stores(storage: &Path) -> Vec<Place> {
    let store = |driver| Format::Store(storage.join(format!("{driver}-containers")));
    DRIVERS
        .iter()
        .map(|driver| Place::of(store(driver)))
        .collect()
}

/// Maximum length of an id.
const MAX_ID: u64 = 255;

/// Returns whether the id is usable as a file name. Ids come from paths, which any user may create,
/// so they must not lead out of their directory.
fn is_file_name(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && id.len() as u64 <= MAX_ID && !id.contains(['/', '\0'])
}

/// A directory with an entry for each container, and the maximum size of a file to read in it.
struct Place {
    format: Format,
    most: u64,
}

enum Format {
    /// Docker's directory `containers`.
    Docker(PathBuf),
    /// A containerd namespace with the bundles of its containers, and whether Docker uses it.
    Bundles { namespace: PathBuf, dockers: bool },
    /// `<driver>-containers` of CRI-O and podman.
    Store(PathBuf),
    /// Data of nerdctl: one file for each name, which contains the container's id.
    Nerdctl(PathBuf),
}

#[derive(Deserialize)]
struct DockerContainer {
    #[serde(rename = "Name")]
    name: Option<String>,
    #[serde(rename = "Config")]
    config: Option<DockerConfig>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Labels")]
    labels: Option<HashMap<String, String>>,
    #[serde(rename = "Image")]
    image: Option<String>,
}

#[derive(Deserialize)]
struct DockerHost {
    #[serde(rename = "Privileged", default)]
    privileged: bool,
}

#[derive(Deserialize)]
struct Bundle {
    annotations: Option<HashMap<String, String>>,
}

/// An entry in the list of the storage library, which contains podman's names.
#[derive(Deserialize)]
struct Stored {
    id: String,
    names: Option<Vec<String>>,
    /// A JSON object in a string.
    metadata: Option<String>,
}

/// The metadata that Podman needs.
#[derive(Deserialize)]
struct StoredMetadata {
    #[serde(rename = "image-name")]
    image: Option<String>,
}

impl Stored {
    fn image(&self) -> Option<String> {
        let metadata: StoredMetadata = serde_json::from_str(self.metadata.as_ref()?).ok()?;
        usable(&metadata.image?)
    }
}

impl Place {
    fn of(format: Format) -> Self {
        Self {
            format,
            most: files::MAX_BYTES,
        }
    }

    fn docker(containers: PathBuf) -> Self {
        Self::of(Format::Docker(containers))
    }

    fn read(&self, id: &str) -> Result<Names, Failure> {
        let most = self.most;
        match &self.format {
            Format::Docker(containers) => read_docker(&containers.join(id), most),
            Format::Bundles { namespace, dockers } => {
                let bundle = read_bundle(&namespace.join(id).join("config.json"), most)?;
                let runtime = if *dockers {
                    Runtime::Docker
                } else {
                    Runtime::Containerd
                };
                Ok(Names {
                    runtime: Some(runtime),
                    ..Names::from_labels(&bundle)
                })
            }
            Format::Store(containers) => read_store(containers, id, most),
            Format::Nerdctl(data) => find_nerdctl(data, id),
        }
    }
}

fn read_docker(folder: &Path, most: u64) -> Result<Names, Failure> {
    let container: DockerContainer = files::parse_within(&folder.join("config.v2.json"), most)?;
    let (labels, image) = match container.config {
        Some(config) => (config.labels.unwrap_or_default(), config.image),
        None => Default::default(),
    };
    let mut names = Names::from_labels(&labels);
    names.image = image.and_then(|image| usable(&image));
    let is_ecs = labels.contains_key("com.amazonaws.ecs.task-arn");
    names.runtime = Some(if is_ecs {
        Runtime::Ecs
    } else {
        Runtime::Docker
    });
    let own = container.name.unwrap_or_default();
    names.name = names.name.or_else(|| usable(own.trim_start_matches('/')));
    // An image can also set the label of a Kubernetes node. A user who starts a privileged
    // container trusts it with the machine.
    names.node = is_node(&labels)
        && files::parse_within::<DockerHost>(&folder.join("hostconfig.json"), most)
            .is_ok_and(|host| host.privileged);
    Ok(names)
}

fn read_bundle(file: &Path, most: u64) -> Result<HashMap<String, String>, Failure> {
    Ok(files::parse_within::<Bundle>(file, most)?
        .annotations
        .unwrap_or_default())
}

fn read_store(containers: &Path, id: &str, most: u64) -> Result<Names, Failure> {
    let bundle = read_bundle(&containers.join(id).join("userdata/config.json"), most)?;
    let mut names = Names::from_labels(&bundle);
    names.runtime = match bundle.get("io.container.manager").map(String::as_str) {
        Some("libpod") => Some(Runtime::Podman),
        Some("cri-o") => Some(Runtime::Crio),
        _ => None,
    };
    if names.name.is_none() {
        let lists = LISTS.iter().filter_map(|list| {
            files::parse_within::<Vec<Stored>>(&containers.join(list), most).ok()
        });
        let stored = lists.flatten().find(|stored| stored.id == id);
        names.image = names
            .image
            .or_else(|| stored.as_ref().and_then(Stored::image));
        names.name = stored
            .and_then(|stored| stored.names)
            .and_then(|names| usable(names.first()?));
    }
    Ok(names)
}

/// Finds the name of a container in `HOST/names/NAMESPACE`.
fn find_nerdctl(data: &Path, id: &str) -> Result<Names, Failure> {
    for host in files::names_in(data, MAX_NERDCTL_HOSTS) {
        let names = data.join(host).join("names");
        for namespace in files::names_in(&names, MAX_NAMESPACES) {
            let names = names.join(namespace);
            let all = files::names_in(&names, MAX_NERDCTL_NAMES).into_iter();
            let has_id = |name: &String| {
                let file = files::read_within(&names.join(name), MAX_ID);
                file.is_ok_and(|content| content.trim_ascii_end() == id.as_bytes())
            };
            if let Some(name) = all.filter(|name| usable(name).is_some()).find(has_id) {
                return Ok(Names {
                    name: Some(name),
                    runtime: Some(Runtime::Containerd),
                    ..Names::default()
                });
            }
        }
    }
    Err(Failure::Missing)
}

#[cfg(test)]
mod tests;
