//! Names from the files that runtimes leave on the node.

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

/// Namespaces of one containerd that are looked at.
const MAX_NAMESPACES: usize = 64;

/// Entries of a root of Docker that are looked at; it has some twenty.
const MAX_DOCKER_ENTRIES: usize = 256;

/// Roots of Docker, of its package and of its snap.
const DOCKER: &[&str] = &["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
/// State directories of containerd: its own, of k3s and RKE2, of k0s, of MicroK8s.
const CONTAINERD: &[&str] = &[
    "run/containerd",
    "run/k3s/containerd",
    "run/k0s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Directories of bundles in these, of the second and the first generation of shims.
const TASKS: &[&str] = &[
    "io.containerd.runtime.v2.task",
    "io.containerd.runtime.v1.linux",
];
/// Data of nerdctl.
const NERDCTL: &str = "var/lib/nerdctl";
/// Hosts of nerdctl's data, and names in a namespace that are looked at.
const MAX_NERDCTL_HOSTS: usize = 8;
const MAX_NERDCTL_NAMES: usize = 1024;
/// Machines that machined knows, with a link from the name of each unit.
const MACHINES: &str = "run/systemd/machines";
/// Storage of CRI-O and podman.
const STORAGE: &[&str] = &["run/containers/storage", "var/lib/containers/storage"];
/// Lists of the storage's containers: those that stay, and those of `podman run --rm`, also of Quadlet.
const LISTS: &[&str] = &["containers.json", "volatile-containers.json"];
/// Storage drivers, each of which has its own directory of containers.
const DRIVERS: &[&str] = &["overlay", "vfs", "btrfs", "zfs"];

/// A group whose names are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// Its path.
    pub(crate) path: String,
    /// Its container, if the path has it.
    pub(crate) container: Option<String>,
    /// The unit of the container, if that is a machine of systemd-nspawn.
    pub(crate) machine_unit: Option<String>,
    /// The user who chose its name: then only what that user's runtimes left is looked at.
    pub(crate) user: Option<u32>,
}

impl Query {
    /// The user whose files are looked at, in digits.
    pub(crate) fn reads_of(&self) -> Option<String> {
        match self.user {
            Some(uid) => Some(uid.to_string()),
            None => user_of(&self.path).map(str::to_owned),
        }
    }
}

/// What was found; `None` when no file names it (yet). The error is in words.
pub(crate) type Answer = Result<Option<Names>, String>;

/// Looks names up. Every call may block for as long as a file system does.
pub(crate) struct Finder {
    root: PathBuf,
    states: StateIndex,
    /// The user of the last question.
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

    /// `fresh`: the state files of runc and crun have to be looked through again. Once for
    /// several questions that came together is enough.
    pub(crate) fn find(&mut self, query: &Query, fresh: bool) -> Answer {
        if let Some(unit) = &query.machine_unit {
            return Ok(self.machine(unit).filter(|_| query.user.is_none()));
        }
        let user = query.reads_of();
        if fresh || user != self.user {
            // A user's group may be a container of root's runtime, too.
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
            // A container by its name, in the group of one that only its state file shows.
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
        // Its id is all there has to be; a name is a gift.
        let names = self.by_id(&state.id, query).ok().flatten();
        let names = names.unwrap_or_default();
        Ok(Some(Names {
            id: Some(state.id.clone()),
            top: Some(top.to_owned()),
            runtime: names.runtime.or(Some(state.runtime)),
            ..names
        }))
    }

    /// The machine that machined has registered for a unit.
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

    /// Where to look, best first. A user's own places come last: a home may be on a network.
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

    /// Where the runtimes of a user leave their files.
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

    /// Where root's runtimes leave their files.
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

    /// The home of a user, as the node knows it.
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

/// The path above the group of the container that the path names.
fn parent_of_container(path: &str) -> Option<&str> {
    let top = read(CgroupId(0), path, "").top?;
    Some(top.rsplit_once('/')?.0)
}

/// The containers of a root of Docker. With `userns-remap` they are in a directory of the user that root is mapped to,
/// `231072.231072`, with what no other daemon uses.
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

/// The longest id.
const MAX_ID: u64 = 255;

/// Ids come from paths, which anybody may make: one must not lead out of its directory.
fn is_file_name(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && id.len() as u64 <= MAX_ID && !id.contains(['/', '\0'])
}

/// A directory with something for each container, and the largest file that is read there.
struct Place {
    format: Format,
    most: u64,
}

enum Format {
    /// Docker's `containers`.
    Docker(PathBuf),
    /// A namespace of containerd with the bundles of its containers; whether it is Docker's.
    Bundles { namespace: PathBuf, dockers: bool },
    /// `<driver>-containers` of CRI-O and podman.
    Store(PathBuf),
    /// Data of nerdctl, which has a file with the id of the container for each name.
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

/// A line of the storage library's own list, where podman's names are.
#[derive(Deserialize)]
struct Stored {
    id: String,
    names: Option<Vec<String>>,
    /// JSON in a text.
    metadata: Option<String>,
}

/// Podman's part of it.
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
    // An image can have such a label, too; whoever starts a container as privileged trusts it with the machine.
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

/// Looks for the name of a container in `HOST/names/NAMESPACE`.
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
