//! Files that runtimes leave, one in each run: its first byte says which, the rest is what it has.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use noctule_identity::fuzzing::owner;

const ID: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";

/// Files below the root, `ID` in place of a container's id; and a group that is looked up in it.
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

/// The list of podman, which is read where the bundle has no name.
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

/// Writes files, asks, and takes the files away again.
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
