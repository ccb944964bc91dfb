//! Tests that the files in `deploy/` give the agent exactly the privileges that it needs.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::container::{hex_id, runc};
use super::support::netns::Namespace;
use super::support::{self, NOCTULE, Part, http};

/// An image unpacked by umoci, whose files and arguments replace the binary under test
/// (`scripts/image-check.sh`).
const IMAGE: &str = "NOCTULE_IMAGE";

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// A bundle for runc with the privileges of a pod of the DaemonSet.
struct Pod {
    bundle: TempDir,
    id: String,
    /// Network namespace in which `lo` is up, as in every pod.
    network: Namespace,
    started: Option<Child>,
}

impl Pod {
    /// Creates a pod with these arguments, or with the arguments of the DaemonSet.
    fn new(arguments: Option<&[&str]>) -> Self {
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
        // A pod has these namespaces, whatever its manifest says.
        let network = Namespace::new("pod");
        let kinds = ["mount", "cgroup", "ipc", "uts"].map(|kind| json!({"type": kind}));
        let mut namespaces = kinds.to_vec();
        namespaces.push(json!({"type": "network", "path": network.path()}));
        if pod["hostPID"] != true {
            namespaces.push(json!({"type": "pid"}));
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
        let of_set = strings(&container["args"]);
        let binary = entry_point();
        let args = [&[binary.as_str()], arguments.unwrap_or(&of_set)].concat();
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
                "namespaces": namespaces,
                // Kubernetes runtimes mask these paths in unprivileged containers.
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
            },
        });
        fs::write(bundle.path().join("config.json"), spec.to_string()).expect("it can be written");
        Self {
            bundle,
            id: hex_id(),
            network,
            started: None,
        }
    }

    /// Starts the pod. The pod ends when dropped.
    fn start(&mut self) {
        let mut command = Command::new("runc");
        command.args(["run", "--bundle"]).arg(self.bundle.path());
        let command = command.arg(&self.id).stdin(Stdio::null());
        self.started = Some(command.spawn().expect("runc is installed"));
    }

    /// Returns the response for a path, or `None` while the port is closed.
    fn get(&self, path: &str) -> Option<http::Answer> {
        let address = "127.0.0.1:9470";
        self.network.run(|| {
            TcpStream::connect(address).ok()?;
            Some(http::request(address, "GET", path, None))
        })
    }

    /// Runs the pod until it ends, and returns its output.
    fn run(&self) -> String {
        let bundle = self.bundle.path().to_str().expect("in UTF-8");
        let output = runc(&["run", "--bundle", bundle, &self.id]);
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(started) = &mut self.started {
            let delete = ["delete", "--force", self.id.as_str()];
            let _ = Command::new("runc").args(delete).output();
            let _ = started.wait();
        }
    }
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter().map(|s| s.as_str().expect("a string")).collect()
}

fn mount(at: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({"destination": at, "type": kind, "source": source, "options": options})
}

/// Returns the host directories that the pod mounts. Directories missing on this machine are left
/// out, because the test does not create them.
fn volumes(pod: &Value, container: &Value) -> Vec<Value> {
    let volumes = pod["volumes"].as_array().expect("volumes");
    let mut mounts = Vec::new();
    for wanted in container["volumeMounts"].as_array().expect("mounts") {
        assert_eq!(wanted["readOnly"], true, "{wanted}");
        let volume = volumes.iter().find(|v| v["name"] == wanted["name"]);
        let volume = volume.unwrap_or_else(|| panic!("no volume for {wanted}"));
        let at = wanted["mountPath"].as_str().expect("a path");
        if volume["configMap"]["name"] == "noctule" {
            let file = deploy("kubernetes/noctule.toml");
            let file = file.to_str().expect("in UTF-8");
            let at = format!("{at}/noctule.toml");
            mounts.push(mount(&at, "bind", file, &["bind", "ro"]));
            continue;
        }
        let path = volume["hostPath"]["path"].as_str();
        let path = path.unwrap_or_else(|| panic!("a volume of another kind: {volume}"));
        if Path::new(path).exists() {
            mounts.push(mount(at, "bind", path, &["rbind", "ro"]));
        }
    }
    mounts
}

/// Returns the container's entry point, as defined by the image.
fn entry_point() -> String {
    let Some(image) = env::var_os(IMAGE) else {
        return "/usr/bin/noctule".into();
    };
    let text = fs::read(Path::new(&image).join("config.json")).expect("a bundle");
    let bundle: Value = serde_json::from_slice(&text).expect("JSON");
    bundle["process"]["args"][0]
        .as_str()
        .expect("an entry point")
        .into()
}

/// Creates a root file system, either from the image or from the binary with its shared libraries.
fn install(root: &Path) {
    if let Some(image) = env::var_os(IMAGE) {
        let from = Path::new(&image).join("rootfs");
        let copied = Command::new("cp").arg("-a").args([&from, root]).status();
        assert!(copied.expect("cp").success(), "{}", from.display());
        return;
    }
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

/// Returns the state of each feature.
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
    let _machine = support::shared_but(&[Part::Groups]);
    needs!("cpu_time");
    let output = support::noctule(&["doctor", "--json"]);
    let bare = states(&String::from_utf8(output.stdout).expect("text"));
    let mut pod = states(&Pod::new(Some(&["doctor", "--json"])).run());
    // The cost of BPF programs needs CAP_SYS_ADMIN, which the pod does not have.
    assert_eq!(
        pod.insert("self_cost".into(), bare["self_cost"].clone())
            .as_deref(),
        Some("off")
    );
    assert_eq!(pod, bare);
}

#[test]
fn a_pod_of_the_daemon_set_serves_metrics() {
    let _machine = support::shared_but(&[Part::Groups]);
    needs!("cpu_time");
    let mut pod = Pod::new(None);
    pod.start();
    support::wait_for("a pod that is ready", || {
        pod.get("/readyz").filter(|answer| answer.status == 200)
    });
    let seconds = || {
        let text = pod.get("/metrics").expect("it is ready").body;
        let mut values = text.lines().filter_map(|line| {
            let value = line.strip_prefix("noctule_node_cpu_seconds_total ")?;
            value.parse::<f64>().ok()
        });
        values.next().expect("the CPU time of the node")
    };
    let before = seconds();
    support::wait_for("CPU time that grows", || (seconds() > before).then_some(()));
}

#[test]
fn systemd_unit_is_fully_sandboxed() {
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
