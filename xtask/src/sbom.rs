//! Implements `cargo xtask sbom`: describes the content of the binary as a CycloneDX document. The
//! output is reproducible, because it contains no time and no random number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cargo;

/// Write a software bill of materials for the binary (CycloneDX 1.5, JSON)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output file
    #[arg(long, value_name = "FILE", default_value = "dist/noctule.cdx.json")]
    output: PathBuf,
    /// Describe the static binary, which also contains this machine's libelf and zlib
    #[arg(long = "static")]
    is_static: bool,
    /// Architecture of the binary; the default is that of this machine
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

/// A library of the build machine that is linked into the static binary.
struct Library {
    /// Name for pkg-config.
    module: &'static str,
    /// Name of the project.
    name: &'static str,
    licence: &'static str,
}

/// libbpf uses libelf, which uses zlib.
const LIBRARIES: [Library; 2] = [
    Library {
        module: "libelf",
        name: "elfutils",
        licence: "GPL-2.0-or-later OR LGPL-3.0-or-later",
    },
    Library {
        module: "zlib",
        name: "zlib",
        licence: "Zlib",
    },
];

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let target = match &args.target {
        Some(target) => target.clone(),
        None => host()?,
    };
    let metadata = metadata(root, &target)?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let lock: toml::Value = toml::from_str(&lock).context("parsing Cargo.lock")?;
    let mut document = document(&metadata, &linked_crates(root, &target)?, &checksums(&lock))?;
    if args.is_static {
        let versions: Result<Vec<String>> = LIBRARIES.iter().map(version).collect();
        add_libraries(&mut document, &versions?)?;
    }
    let text = serde_json::to_string_pretty(&document)? + "\n";
    let output = root.join(&args.output);
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    fs::write(&output, text).with_context(|| format!("writing {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output();
    let output = output.context("running rustc")?;
    let text = String::from_utf8(output.stdout).context("decoding the output of rustc")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc reports no host")
}

fn metadata(root: &Path, target: &str) -> Result<Value> {
    let mut command = cargo::command();
    command.args(["metadata", "--format-version=1", "--locked"]);
    command
        .args(["--filter-platform", target])
        .current_dir(root);
    let output = command.output().context("running cargo metadata")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {error}");
    serde_json::from_slice(&output.stdout).context("parsing the output of cargo metadata")
}

/// Returns name and version of each crate that is linked into the binary. The metadata also lists
/// two kinds of crates that are not linked: disabled optional crates, and procedural macros, which
/// only run at build time.
fn linked_crates(root: &Path, target: &str) -> Result<BTreeSet<(String, String)>> {
    let mut command = cargo::command();
    command.args(["tree", "--locked", "--package=noctule", "--prefix=none"]);
    command.args([
        "--edges=normal,no-proc-macro",
        "--no-dedupe",
        "--format={p}",
    ]);
    command.args(["--target", target]).current_dir(root);
    let output = command.output().context("running cargo tree")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree: {error}");
    let text = String::from_utf8(output.stdout).context("decoding the output of cargo tree")?;
    // `name vVERSION`, followed by the path for workspace crates.
    let crates = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        let version = rest.split(' ').next()?;
        Some((name.to_owned(), version.to_owned()))
    });
    Ok(crates.collect())
}

/// Returns checksums by name and version.
fn checksums(lock: &toml::Value) -> BTreeMap<(String, String), String> {
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let known = packages.into_iter().flatten().filter_map(|package| {
        let name = (text(package, "name")?, text(package, "version")?);
        Some((name, text(package, "checksum")?))
    });
    known.collect()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns the ids of normal dependencies, without dependencies of builds and tests.
fn normal_dependencies(node: &Value) -> impl Iterator<Item = &str> {
    let normal = |dependency: &&Value| list(dependency, "dep_kinds").any(|k| k["kind"].is_null());
    let dependencies = list(node, "deps").filter(normal);
    dependencies.filter_map(|dependency| dependency["pkg"].as_str())
}

fn document(
    metadata: &Value,
    built: &BTreeSet<(String, String)>,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    let by_id = |value: &'static str, key: &str| -> BTreeMap<&str, &Value> {
        let of = if value == "packages" {
            metadata
        } else {
            &metadata["resolve"]
        };
        let entries = list(of, value).filter_map(|entry| Some((entry[key].as_str()?, entry)));
        entries.collect()
    };
    let (packages, nodes) = (by_id("packages", "id"), by_id("nodes", "id"));
    let main = packages.iter().find(|(_, p)| p["name"] == "noctule");
    let (main, _) = main.context("no package noctule")?;
    let is_built = |id: &str| {
        let package = packages.get(id);
        let text = |key: &str| Some(package?[key].as_str()?.to_owned());
        let name = text("name").zip(text("version"));
        name.is_some_and(|name| built.contains(&name))
    };
    let (mut found, mut open) = (BTreeSet::from([*main]), vec![*main]);
    while let Some(id) = open.pop() {
        let node = nodes
            .get(id)
            .with_context(|| format!("{id} is not resolved"))?;
        open.extend(normal_dependencies(node).filter(|id| is_built(id) && found.insert(id)));
    }
    let component = |id: &str| {
        let package = packages
            .get(id)
            .with_context(|| format!("no package {id}"))?;
        component(package, checksums)
    };
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &found {
        let this = component(id)?;
        let uses: Result<BTreeSet<String>> = normal_dependencies(nodes[id])
            .filter(|id| found.contains(id))
            .map(|id| {
                Ok(component(id)?["bom-ref"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned())
            })
            .collect();
        dependencies.push(json!({"ref": this["bom-ref"], "dependsOn": uses?}));
        if id != main {
            components.push(this);
        }
    }
    let mut main = component(main)?;
    main["type"] = "application".into();
    for list in [&mut components, &mut dependencies] {
        list.sort_by_key(ToString::to_string);
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn version(library: &Library) -> Result<String> {
    let mut command = Command::new("pkg-config");
    let output = command.args(["--modversion", library.module]).output();
    let output = output.context("running pkg-config")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pkg-config: {error}");
    let text = String::from_utf8(output.stdout).context("decoding the output of pkg-config")?;
    Ok(text.trim().to_owned())
}

/// Adds the libraries of the build machine as dependencies of libbpf.
fn add_libraries(document: &mut Value, versions: &[String]) -> Result<()> {
    let purl =
        |(library, version): (&Library, &String)| format!("pkg:generic/{}@{version}", library.name);
    let purls: Vec<String> = LIBRARIES.iter().zip(versions).map(purl).collect();
    let dependencies = document["dependencies"].as_array_mut();
    let dependencies = dependencies.context("a document without dependencies")?;
    let is_libbpf = |entry: &&mut Value| {
        entry["ref"]
            .as_str()
            .is_some_and(|it| it.contains("/libbpf-sys@"))
    };
    let libbpf = dependencies.iter_mut().find(is_libbpf);
    let uses = libbpf.and_then(|entry| entry["dependsOn"].as_array_mut());
    let uses = uses.context("libbpf-sys is not in the binary")?;
    uses.extend(purls.iter().map(|purl| purl.as_str().into()));
    dependencies.extend(
        purls
            .iter()
            .map(|purl| json!({"ref": purl, "dependsOn": []})),
    );
    let components = document["components"].as_array_mut();
    let components = components.context("a document without components")?;
    for ((library, version), purl) in LIBRARIES.iter().zip(versions).zip(&purls) {
        components.push(json!({
            "type": "library",
            "bom-ref": purl,
            "name": library.name,
            "version": version,
            "purl": purl,
            "licenses": [{"expression": library.licence}],
        }));
    }
    Ok(())
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let name = text("name").context("a package without a name")?;
    let version = text("version").context("a package without a version")?;
    // Some readers of package URLs decode `+` as a space.
    let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    });
    if let Some(license) = text("license") {
        // Before SPDX expressions, a slash meant "or".
        let expression = license.replace(" / ", " OR ").replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_libraries_are_dependencies_of_libbpf() {
        let libbpf = "pkg:cargo/libbpf-sys@1.7.0";
        let mut made = json!({
            "components": [],
            "dependencies": [{"ref": libbpf, "dependsOn": []}],
        });
        let versions = ["0.188".to_owned(), "1.2.13".to_owned()];
        add_libraries(&mut made, &versions).expect("libbpf is there");
        let purls = ["pkg:generic/elfutils@0.188", "pkg:generic/zlib@1.2.13"];
        assert_eq!(made["dependencies"][0]["dependsOn"], json!(purls));
        let listed: Vec<_> = list(&made, "components").map(|it| &it["purl"]).collect();
        assert_eq!(listed, purls);
        assert!(
            add_libraries(
                &mut json!({"components": [], "dependencies": []}),
                &versions
            )
            .is_err()
        );
    }

    #[test]
    fn only_linked_crates_are_listed() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0+a", "license": "MIT/Apache-2.0"});
        let edge = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("noctule"), package("linked"), package("builds"), package("deep"), package("unused")],
            "resolve": {"nodes": [
                {"id": "noctule", "deps": [edge("linked", Value::Null), edge("builds", "build".into())]},
                {"id": "linked", "deps": [edge("deep", Value::Null), edge("unused", Value::Null)]},
                {"id": "builds", "deps": []},
                {"id": "deep", "deps": []},
                {"id": "unused", "deps": []},
            ]},
        });
        let sum = BTreeMap::from([(("deep".to_owned(), "1.0.0+a".to_owned()), "00ff".to_owned())]);
        let built = ["noctule", "linked", "builds", "deep"]
            .map(|name| (name.to_owned(), "1.0.0+a".to_owned()));
        let made = document(&metadata, &built.into(), &sum).expect("a document");
        let names: Vec<_> = list(&made, "components").map(|c| &c["name"]).collect();
        assert_eq!(names, ["deep", "linked"]);
        assert_eq!(made["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(
            made["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(made["metadata"]["component"]["type"], "application");
        let of_main =
            list(&made, "dependencies").find(|d| d["ref"] == "pkg:cargo/noctule@1.0.0%2Ba");
        assert_eq!(
            of_main.expect("its own")["dependsOn"],
            json!(["pkg:cargo/linked@1.0.0%2Ba"])
        );
    }
}
