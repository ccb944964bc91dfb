//! The inputs of the contenders: the agent's binary, and BPF objects compiled by the bench.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{ALL, Contender, Kind};

/// The inputs of the contenders.
pub(crate) struct Bed {
    pub(crate) noctule: PathBuf,
    pub(super) folder: PathBuf,
    /// The object of each contender, or the reason why the object is missing.
    pub(super) objects: BTreeMap<&'static str, Result<PathBuf, String>>,
}

impl Bed {
    /// Compiles the objects. If an object does not compile, only its contender is missing.
    pub(crate) fn prepare(root: &Path, folder: &Path, noctule: PathBuf) -> Result<Self> {
        let headers = write_headers(folder)?;
        let own = |contender: &Contender| matches!(contender.kind, Kind::Own(..));
        let object = |contender: Contender| {
            let source = root.join(format!("bench/bpf/{}.bpf.c", contender.name));
            let object = folder.join(format!("{}.bpf.o", contender.name));
            let compiled = compile(&source, &headers, &object);
            let reason = |error| format!("{error:#}");
            (contender.name, compiled.map(|()| object).map_err(reason))
        };
        Ok(Self {
            noctule,
            folder: folder.to_owned(),
            objects: ALL.into_iter().filter(own).map(object).collect(),
        })
    }

    /// Saves the output of a program for later inspection.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<()> {
        let file = self.folder.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())
    }
}

/// Writes the headers of the linked libbpf, and returns the directory for `-I`.
fn write_headers(folder: &Path) -> Result<PathBuf> {
    let include = folder.join("include");
    let headers = include.join("bpf");
    fs::create_dir_all(&headers).with_context(|| headers.display().to_string())?;
    for (name, text) in libbpf_rs::libbpf_sys::API_HEADERS {
        let file = headers.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(include)
}

/// Compiles with the options of the agent's own programs.
fn compile(source: &Path, headers: &Path, object: &Path) -> Result<()> {
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let output = Command::new(clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .context("starting clang")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "clang: {}", words.trim());
    Ok(())
}
