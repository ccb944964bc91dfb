//! Finds the directories to which administrators and users moved the files of their runtimes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::files;

const DOCKER: &str = "docker/daemon.json";
const STORAGE: &str = "containers/storage.conf";
const CONTAINERD: &str = "etc/containerd/config.toml";

#[derive(Deserialize)]
struct Docker {
    #[serde(rename = "data-root")]
    data_root: Option<String>,
}

#[derive(Deserialize)]
struct Containerd {
    state: Option<String>,
}

#[derive(Deserialize)]
struct StorageFile {
    storage: Option<Storage>,
}

#[derive(Deserialize)]
struct Storage {
    graphroot: Option<String>,
    runroot: Option<String>,
    rootless_storage_path: Option<String>,
}

/// Returns Docker's root directory.
pub(crate) fn docker(root: &Path) -> Option<PathBuf> {
    let text = files::read_linked(root, &format!("etc/{DOCKER}")).ok()?;
    let settings: Docker = serde_json::from_slice(&text).ok()?;
    Some(files::below(root, &settings.data_root?))
}

/// Returns the state directory of containerd.
pub(crate) fn containerd(root: &Path) -> Option<PathBuf> {
    let settings: Containerd = read_toml(root, CONTAINERD)?;
    Some(files::below(root, &settings.state?))
}

/// Returns the storage directories of podman and CRI-O.
pub(crate) fn storage(root: &Path) -> Vec<PathBuf> {
    let settings = machine_storage(root);
    let places = settings.map(|it| [it.graphroot, it.runroot]);
    let places = places.into_iter().flatten().flatten();
    places.map(|place| files::below(root, &place)).collect()
}

fn machine_storage(root: &Path) -> Option<Storage> {
    read_toml::<StorageFile>(root, &format!("etc/{STORAGE}"))?.storage
}

fn read_toml<T: DeserializeOwned>(root: &Path, path: &str) -> Option<T> {
    let text = files::read_linked(root, path).ok()?;
    toml::from_slice(&text).ok()
}

/// A user with rootless runtimes.
pub(crate) struct User<'a> {
    /// The user id, in digits.
    pub(crate) uid: &'a str,
    /// The home directory, as the user sees it.
    pub(crate) home: &'a str,
}

impl User<'_> {
    /// Returns the data directory of the user's Docker daemon.
    pub(crate) fn docker(&self, root: &Path) -> Option<PathBuf> {
        let file = self.settings(root, DOCKER);
        let settings: Docker = files::parse_within(&file, files::USER_BYTES).ok()?;
        self.own(root, &settings.data_root?)
    }

    /// Returns the storage directories of the user's podman.
    pub(crate) fn storage(&self, root: &Path) -> Vec<PathBuf> {
        let text = files::read_within(&self.settings(root, STORAGE), files::USER_BYTES).ok();
        let own: Option<StorageFile> = text.and_then(|text| toml::from_slice(&text).ok());
        let own = own.and_then(|file| file.storage);
        let own = own.map(|it| [it.graphroot, it.runroot]);
        let of_all = machine_storage(root).and_then(|it| it.rootless_storage_path);
        let places = own.into_iter().flatten().flatten().chain(of_all);
        places.filter_map(|place| self.own(root, &place)).collect()
    }

    fn settings(&self, root: &Path, file: &str) -> PathBuf {
        files::below(root, self.home).join(".config").join(file)
    }

    /// Returns the directory only if it belongs to the user, because the agent may be permitted to
    /// read more than the user.
    fn own(&self, root: &Path, place: &str) -> Option<PathBuf> {
        let place = place.replace("$HOME", self.home).replace("$UID", self.uid);
        let place = files::below(root, &place);
        let found = std::fs::symlink_metadata(&place).ok()?;
        (found.is_dir() && found.uid().to_string() == self.uid).then_some(place)
    }
}
