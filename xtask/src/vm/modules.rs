//! Selects the modules that a machine needs, in loading order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::bytes;

/// Modules required to boot, followed by modules for tests. Modules that are built in or missing
/// are skipped. Tests declare what they need.
const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_mmio",
    "virtio_blk",
    "virtio_console",
    // ext4 requests this module by another name.
    "crc32c_generic",
    "ext4",
    "overlay",
    "veth",
    "dummy",
    "sch_netem",
    "sch_tbf",
    "sch_ingress",
    "cls_bpf",
];

/// An uncompressed module.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads the modules in [`WANTED`] and then those in `more`, each after the modules it needs.
pub(super) fn read(folder: &Path, more: &[&str]) -> Result<Vec<Module>> {
    let text = fs::read_to_string(folder.join("modules.dep")).context("modules.dep")?;
    let order = order(&text, &[WANTED, more].concat());
    order.iter().map(|path| module(folder, path)).collect()
}

/// Returns the paths of the wanted modules, each after its dependencies.
fn order<'a>(text: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    // The kernel treats `-` and `_` as equal.
    let key = |path: &str| name(path).replace('-', "_");
    let all: BTreeMap<String, (&str, &str)> = lines.map(|l| (key(l.0), l)).collect();
    let mut order = Vec::new();
    for wanted in wanted {
        let Some((path, needed)) = all.get(*wanted) else {
            continue;
        };
        // depmod lists direct and indirect dependencies, the deepest last.
        let needed = needed.split_whitespace().rev();
        for path in needed.chain([*path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    order
}

fn name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

fn module(folder: &Path, path: &str) -> Result<Module> {
    let file = folder.join(path);
    let unpack = |program: &str| bytes(Command::new(program).arg("-dc").arg(&file));
    let bytes = match file.extension().and_then(|e| e.to_str()) {
        Some("xz") => unpack("xz")?,
        Some("zst") => unpack("zstd")?,
        _ => fs::read(&file).with_context(|| path.to_owned())?,
    };
    Ok(Module {
        name: format!("{}.ko", name(path)),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_only_once() {
        let text = "a/virtio.ko:\na/virtio_ring.ko.xz: a/virtio.ko\n\
            a/virtio_blk.ko: a/virtio_ring.ko.xz a/virtio.ko\nnet/veth.ko:\nnet/other.ko:\n\
            a/sch_netem.ko: a/virtio.ko\n";
        let expected = [
            "a/virtio.ko",
            "a/virtio_ring.ko.xz",
            "a/virtio_blk.ko",
            "net/veth.ko",
            "a/sch_netem.ko",
        ];
        assert_eq!(order(text, WANTED), expected);
    }
}
