//! Fuzzes the files that container runtimes write. The first byte of the input selects a file, and
//! the remaining bytes are its content.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use noctule_identity::fuzzing::owner;

const ID: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";

/// Files below the root, and the cgroup to look up. `ID` stands for a container id.
const FILES: [(&str, &str); 8] = [
    (
        "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json",
        "/kubepods/besteffort/pod6f0f6d3e-7a1c-4e0b-9d55-0123456789ab/ID",
    ),
    (
        "run/containerd/io.containerd.runtime.v2.task/moby/ID/config.json",
        "/docker/ID",
    ),
    ("var/lib/docker/containers/ID/config.v2.json", "/docker/ID"),
    ("etc/docker/daemon.json", "/docker/ID"),
    (
        "run/containers/storage/overlay-containers/ID/userdata/config.json",
        "/machine.slice/libpod-ID.scope",
    ),
    ("run/runc/web/state.json", "/web"),
    ("run/crun/web/status", "/web"),
    (
        "etc/passwd",
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
    ),
];

/// Podman's list of containers, which is read if the bundle contains no name.
const LIST: &str = "run/containers/storage/overlay-containers/containers.json";
const SILENT: &str = "run/containers/storage/overlay-containers/ID/userdata/config.json";

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = PathBuf::from(format!(
        "/dev/shm/noctule-fuzz-bundle-{}",
        std::process::id()
    ));
    let files = FILES.iter().map(|(file, _)| *file).chain([LIST, SILENT]);
    for file in files {
        let folder = at(&root, file);
        fs::create_dir_all(folder.parent().expect("below the root")).expect("folders in memory");
    }
    root
});

fn at(root: &Path, file: &str) -> PathBuf {
    root.join(file.replace("ID", ID))
}

/// Writes the files, looks up the owner of a cgroup, and removes the files.
fn ask(files: &[(&str, &[u8])], path: &str) {
    for (file, content) in files {
        fs::write(at(&ROOT, file), content).expect("a file in memory");
    }
    let path = path.replace("ID", ID);
    for user in [None, Some(1000)] {
        if let Ok(Some(owner)) = owner(&ROOT, &path, user) {
            let names = owner
                .container
                .iter()
                .flat_map(|it| [Some(&it.id), it.name.as_ref()]);
            assert!(names.flatten().all(|name| !name.is_empty()), "{owner:?}");
        }
    }
    for (file, _) in files {
        fs::remove_file(at(&ROOT, file)).expect("our file");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, content)) = bytes.split_first() else {
        return;
    };
    match FILES.get(usize::from(choice.wrapping_sub(b'0'))) {
        Some((file, path)) => ask(&[(file, content)], path),
        None => ask(
            &[(LIST, content), (SILENT, b"{}")],
            "/machine.slice/libpod-ID.scope",
        ),
    }
});
