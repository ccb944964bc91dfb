//! What `deploy/` gives the agent is what it needs, and no more.

mod chart;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::container::{hex_id, runc};
use super::support::{self, NOCTULE};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// A bundle for runc with the rights of a pod of the DaemonSet.
struct Pod {
    bundle: TempDir,
    id: String,
}

impl Pod {
    fn new(arguments: &[&str]) -> Self {
        let text = fs::read_to_string(deploy("kubernetes/daemonset.yaml")).expect("the DaemonSet");
        let set: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let pod = &set["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let bundle = tempfile::tempdir().expect("a folder");
        install(&bundle.path().join("rootfs"));
        let context = &container["securityContext"];
        let capabilities: Vec<String> = strings(&context["capabilities"]["add"])
            .iter()
            .map(|name| format!("CAP_{name}"))
            .collect();
        assert_eq!(strings(&context["capabilities"]["drop"]), ["ALL"]);
        assert_eq!(context["privileged"], false);
        // A pod has these of its own, whatever its manifest says.
        let mut namespaces = vec!["mount", "cgroup", "ipc", "uts", "network"];
        if pod["hostPID"] != true {
            namespaces.push("pid");
        }
        let mut mounts = vec![
            mount("/proc", "proc", "proc", &[]),
            mount("/dev", "tmpfs", "tmpfs", &["nosuid", "mode=755"]),
            mount(
                "/sys",
                "sysfs",
                "sysfs",
                &["nosuid", "noexec", "nodev", "ro"],
            ),
        ];
        mounts.extend(volumes(pod, container));
        let args = [&["/usr/bin/noctule"], arguments].concat();
        let spec = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
                "args": args,
                "cwd": "/",
                "noNewPrivileges": context["allowPrivilegeEscalation"] == false,
                "capabilities": {
                    "bounding": capabilities, "permitted": capabilities, "effective": capabilities,
                },
            },
            "root": {"path": "rootfs", "readonly": context["readOnlyRootFilesystem"]},
            "mounts": mounts,
            "linux": {
                "namespaces": namespaces.iter().map(|kind| json!({"type": kind})).collect::<Vec<_>>(),
                // As runtimes of Kubernetes do for containers that are not privileged.
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
            },
        });
        fs::write(bundle.path().join("config.json"), spec.to_string()).expect("it can be written");
        Self {
            bundle,
            id: hex_id(),
        }
    }

    /// Runs it until it ends; what it printed.
    fn run(&self) -> String {
        let bundle = self.bundle.path().to_str().expect("in UTF-8");
        let output = runc(&["run", "--bundle", bundle, &self.id]);
        String::from_utf8(output.stdout).expect("text")
    }
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter().map(|s| s.as_str().expect("a string")).collect()
}

fn mount(at: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({"destination": at, "type": kind, "source": source, "options": options})
}

/// The folders of the host that the pod sees; those that this machine has not are left out, because
/// the test does not make them.
fn volumes(pod: &Value, container: &Value) -> Vec<Value> {
    let volumes = pod["volumes"].as_array().expect("volumes");
    let mut mounts = Vec::new();
    for wanted in container["volumeMounts"].as_array().expect("mounts") {
        assert_eq!(wanted["readOnly"], true, "{wanted}");
        let volume = volumes.iter().find(|v| v["name"] == wanted["name"]);
        let volume = volume.unwrap_or_else(|| panic!("no volume for {wanted}"));
        let Some(path) = volume["hostPath"]["path"].as_str() else {
            continue;
        };
        if Path::new(path).exists() {
            let at = wanted["mountPath"].as_str().expect("a path");
            mounts.push(mount(at, "bind", path, &["rbind", "ro"]));
        }
    }
    mounts
}

/// A root file system of the binary and the libraries that it needs, if it is not static.
fn install(root: &Path) {
    for folder in ["proc", "dev", "sys", "usr/bin"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let binary = root.join("usr/bin/noctule");
    fs::copy(NOCTULE, &binary).expect("the binary can be copied");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("its owner may");
    let output = Command::new("ldd").arg(NOCTULE).output().expect("ldd");
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = list.split_whitespace().filter(|word| word.starts_with('/'));
    for library in libraries {
        let at = root.join(&library[1..]);
        fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
        fs::copy(library, at).expect("the library can be copied");
    }
}

/// The state of each feature.
fn states(answer: &str) -> BTreeMap<String, String> {
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let features = answer["features"].as_array().expect("features");
    let text = |feature: &Value, key: &str| feature[key].as_str().expect("text").to_owned();
    features
        .iter()
        .map(|f| (text(f, "name"), text(f, "state")))
        .collect()
}

#[test]
fn a_pod_of_the_daemon_set_has_every_feature() {
    let _machine = support::shared();
    needs!("cpu_time");
    let output = support::noctule(&["doctor", "--json"]);
    let bare = states(&String::from_utf8(output.stdout).expect("text"));
    let mut pod = states(&Pod::new(&["doctor", "--json"]).run());
    // The cost of BPF programs needs CAP_SYS_ADMIN, which the pod has not.
    assert_eq!(
        pod.insert("self_cost".into(), bare["self_cost"].clone())
            .as_deref(),
        Some("off")
    );
    assert_eq!(pod, bare);
}

#[test]
fn the_unit_is_as_closed_as_it_can_be() {
    let _machine = support::shared();
    let unit = deploy("noctule.service");
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", "--no-pager"])
        .arg(&unit)
        .output()
        .expect("systemd-analyze is installed");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("Overall exposure level"), "{told}");
    assert!(output.status.success(), "exposure above 2.0:\n{told}");
}
