//! Tests that every output gives the right name for containers, pods and units of a real runtime.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::agent::{Agent, Sample};
use super::support::burner::Burner;
use super::support::cgroup::{Below, Group};
use super::support::container::{Bundle, Container, Wish, hex_id, pod_uid};
use super::support::tmux::Terminal;
use super::support::window::Window;
use super::support::{self, NOCTULE, assert_close, cpu_seconds, rows, wait_for};

mod users;

const CPU: &str = "noctule_container_cpu_seconds_total";

/// A shell loop that takes about 20 ms, and then prints the CPU time used.
const SHORT: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; \
    read -r used rest < /proc/self/schedstat; echo $used";

/// About 400 ms of work, a pause until the test continues it, and then endless work.
const WORK_AND_REST: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; \
    read word < /rest; while :; do :; done";

/// A container with its expected identity.
struct Case {
    container: Container,
    id: String,
    runtime: &'static str,
    pod: Option<String>,
}

impl Case {
    fn new(wish: Wish, runtime: &'static str, pod: Option<&str>) -> Self {
        let wish = Wish {
            script: WORK_AND_REST.to_owned(),
            ..wish
        };
        Self {
            container: wish.create(),
            id: wish.id,
            runtime,
            pod: pod.map(str::to_owned),
        }
    }

    /// Starts the container and checks its name in every output.
    fn check(&self) {
        self.check_stat();
        self.check_metrics();
        let short = if self.id.len() == 64 {
            &self.id[..12]
        } else {
            self.id.as_str()
        };
        shows_in_top("container", short);
    }

    /// The container has a row with runtime, pod and the CPU time of its cgroup. The window ends
    /// while the container pauses, so the window contains everything that the container used.
    fn check_stat(&self) {
        let window = Window::open("container");
        self.container.start();
        let _resting = self.container.rests();
        let answer = window.close().answer;
        let used = self.container.usage_seconds();
        let row = row_of(&answer, &self.id);
        assert_eq!(row["container.runtime.name"], self.runtime, "{row}");
        assert_eq!(row["k8s.pod.uid"].as_str(), self.pod.as_deref(), "{row}");
        assert_close("CPU time", cpu_seconds(&[row]), used, 0.02, 0.0);
    }

    /// The container has series with runtime, pod and the CPU time of its cgroup.
    fn check_metrics(&self) {
        let agent = Agent::start(&["--interval", "200ms"]);
        let before = self.container.usage_seconds();
        let labels = [("container_id", self.id.as_str())];
        let series = wait_for_series(&agent, "container", &labels);
        assert_eq!(label(&series, "runtime"), Some(self.runtime), "{series:?}");
        assert_eq!(label(&series, "pod_uid"), self.pod.as_deref(), "{series:?}");
        let first = series.value;
        let last = wait_for("it used half a second more", || {
            agent
                .value(CPU, &labels)
                .filter(|value| *value > first + 0.5)
        });
        let most = self.container.usage_seconds() - before;
        assert!(last - first <= most * 1.01, "{} of {most} s", last - first);
    }
}

/// Returns the row of a container from the output of `stat`, which must have exactly one.
fn row_of<'a>(answer: &'a Value, id: &str) -> &'a Value {
    let row = rows(answer, |row| row["container.id"] == id);
    assert_eq!(row.len(), 1, "{id}: {answer}");
    row[0]
}

fn label<'a>(sample: &'a Sample, name: &str) -> Option<&'a str> {
    sample.labels.get(name).map(String::as_str)
}

/// Waits for the only series of CPU time at the level with these labels.
fn wait_for_series(agent: &Agent, level: &str, labels: &[(&str, &str)]) -> Sample {
    let name = format!("noctule_{level}_cpu_seconds_total");
    let has = |s: &Sample| labels.iter().all(|(k, v)| label(s, k) == Some(*v));
    wait_for(&format!("there is {name}{labels:?}"), || {
        let mut all = agent.metrics();
        all.retain(|s| s.name == name && has(s));
        assert!(all.len() < 2, "more than one: {all:?}");
        all.pop()
    })
}

/// Checks that `top` lists the container with CPU time.
fn shows_in_top(level: &str, name: &str) {
    let terminal = Terminal::new(120, 30);
    terminal.line(&format!("{NOCTULE} top --by {level} --interval 500ms"));
    terminal.wait_for(name, |screen| {
        let line = screen.lines().find(|line| line.contains(name));
        // Ignores the line with the shell command.
        let figures = |line: &str| line.contains(|c: char| ('1'..='9').contains(&c));
        line.is_some_and(|line| !line.contains("--by") && figures(&line.replace(name, "")))
    });
    terminal.keys(&["q"]);
    terminal.wait_for_prompt();
}

#[test]
fn a_container_of_kubelet_and_containerd_has_id_runtime_and_pod() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let (id, uid) = (hex_id(), pod_uid());
    let wish = Wish::burn(&id, &format!("/kubepods/burstable/pod{uid}/{id}"));
    let case = Case::new(wish, "containerd", Some(&uid));
    case.check();
    let answer = support::json(&["stat", "--json", "--by", "pod", "--for", "1s"]);
    let pods = rows(&answer, |row| row["k8s.pod.uid"] == uid.as_str());
    assert_eq!(pods.len(), 1, "{answer}");
    shows_in_top("pod", &uid[..13]);
}

#[test]
fn a_container_of_docker_has_id_and_runtime() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let id = hex_id();
    let wish = Wish::burn(&id, &format!("/docker/{id}"));
    Case::new(wish, "docker", None).check();
}

#[test]
fn plain_runc_container_is_found_by_its_state_file() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let id = format!("noctule-test-{}", std::process::id());
    let wish = Wish {
        cgroup: None,
        ..Wish::burn(&id, "")
    };
    Case::new(wish, "oci", None).check();
}

#[test]
fn names_come_from_the_bundle_of_containerd() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let (id, uid) = (hex_id(), pod_uid());
    let annotations = json!({
        "io.kubernetes.cri.container-name": "cart",
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "shop-7d4b9c-x2x2x",
        "io.kubernetes.cri.sandbox-namespace": "prod \"eu\"",
        "io.kubernetes.cri.sandbox-uid": uid,
    });
    let _bundle = Bundle::write(&id, &annotations);
    let wish = Wish::burn(&id, &format!("/kubepods/besteffort/pod{uid}/{id}"));
    let container = wish.create();
    container.start();
    let answer = support::json(&["stat", "--json", "--by", "container", "--for", "2s"]);
    let row = row_of(&answer, &id);
    let expected = [
        ("container.name", "cart"),
        ("container.runtime.name", "containerd"),
        ("k8s.pod.name", "shop-7d4b9c-x2x2x"),
        ("k8s.namespace.name", "prod \"eu\""),
        ("k8s.pod.uid", &uid),
    ];
    for (key, value) in expected {
        assert_eq!(row[key], value, "{row}");
    }
    let agent = Agent::start(&["--interval", "200ms"]);
    let series = wait_for_series(&agent, "container", &[("container_id", &id)]);
    let expected = [
        ("container", "cart"),
        ("pod", "shop-7d4b9c-x2x2x"),
        ("namespace", "prod \"eu\""),
        ("pod_uid", &uid),
        ("runtime", "containerd"),
    ];
    for (name, value) in expected {
        assert_eq!(label(&series, name), Some(value), "{series:?}");
    }
    drop(agent);
    shows_in_top("container", "cart");
    shows_in_top("pod", "shop-7d4b9c-x2x2x");
}

#[test]
fn a_unit_of_systemd_has_its_name() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let unit = format!("noctule-test-{}.service", std::process::id());
    let below = Below::new(&format!("system.slice/{unit}"));
    let _burner = Burner::within(&below.group);
    let before = below.group.usage_seconds();
    let answer = support::json(&["stat", "--json", "--by", "unit", "--for", "2s"]);
    let most = below.group.usage_seconds() - before;
    let row = rows(&answer, |row| row["systemd.unit"] == unit.as_str());
    assert_eq!(row.len(), 1, "{answer}");
    let used = cpu_seconds(&row);
    assert!(used > 0.0 && used <= most * 1.01, "{answer}");
    let agent = Agent::start(&["--interval", "200ms"]);
    let series = wait_for_series(&agent, "unit", &[("unit", &unit)]);
    assert_eq!(series.labels.len(), 1, "{series:?}");
    let path = below.group.path();
    let cgroup = agent.value("noctule_cgroup_cpu_seconds_total", &[("cgroup", &path)]);
    assert_eq!(
        cgroup, None,
        "it is counted as a unit, and not as a cgroup too"
    );
    drop(agent);
    shows_in_top("unit", &unit);
}

/// Creates a container that burns about 20 ms and ends.
fn short_one(id: &str) -> Container {
    let wish = Wish {
        script: SHORT.into(),
        ..Wish::burn(id, &format!("/docker/{id}"))
    };
    wish.create()
}

/// Runs containers of [`short_one`] one after another until `end`. Returns the id, the start and
/// the end of each container.
fn short_ones(end: &dyn Fn() -> bool) -> Vec<(String, Instant, Instant)> {
    let mut ran = Vec::new();
    while !end() {
        let id = hex_id();
        let container = short_one(&id);
        let began = Instant::now();
        container.run();
        ran.push((id, began, Instant::now()));
    }
    ran
}

#[test]
fn a_container_of_20_ms_is_in_the_window_of_stat() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    // Keeps `/docker` while containers come and go, as a long-running container would.
    let _parent = Below::new(&format!("docker/{}", hex_id()));
    let mut child = Command::new(NOCTULE)
        .args(["stat", "--json", "--by", "container", "--for", "6s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let reader = thread::spawn(move || {
        let line = out.lines().next();
        (line.expect("an answer").expect("text"), Instant::now())
    });
    let ran = short_ones(&|| reader.is_finished());
    let (line, read) = reader.join().expect("it read");
    assert!(child.wait().expect("our child").success());
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    // The window ended before the output arrived, so a container that started after `began` started
    // inside the window. The output arrives less than two seconds after the end of the window.
    let window = answer["window_seconds"].as_f64().expect("a number");
    let began = read - Duration::from_secs_f64(window);
    let end = read - Duration::from_secs(2);
    let mut inside = ran;
    inside.retain(|(_, start, ended)| *start > began && *ended < end);
    assert!(!inside.is_empty(), "no container ran inside the window");
    for (id, ..) in inside {
        assert_eq!(row_of(&answer, &id)["container.runtime.name"], "docker");
    }
}

#[test]
fn a_container_of_20_ms_has_series_after_its_end() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let agent = Agent::start(&["--interval", "200ms"]);
    let id = hex_id();
    let container = short_one(&id);
    let began = Instant::now();
    let said = container.run();
    let took = began.elapsed().as_secs_f64();
    let own = said.trim().parse::<f64>().expect("nanoseconds") / 1e9;
    let series = wait_for_series(&agent, "container", &[("container_id", &id)]);
    assert_eq!(label(&series, "runtime"), Some("docker"));
    // The cgroup used more than the shell reported, because the cgroup also contains runc's start.
    let most = took * support::oracle::cpus_online() as f64;
    let fits = (own..=most).contains(&series.value);
    assert!(fits, "{series:?}: not {own} to {most}");
    drop(container);
    thread::sleep(Duration::from_secs(1));
    let later = wait_for_series(&agent, "container", &[("container_id", &id)]);
    assert_eq!(later, series, "it stays for the grace time as it was");
}

/// A user with a delegated subtree, a container, and a root service each create a cgroup that is
/// named like another container.
#[test]
fn group_named_like_a_container_is_not_that_container() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let [id, around] = [hex_id(), hex_id()];
    let real = Below::new(&format!("docker/{id}"));
    let part = Group::new("delegated");
    std::os::unix::fs::chown(part.folder(), Some(65534), Some(65534)).expect("our group");
    let container = Below::new(&format!("docker/{around}"));
    let service = Group::new("service");
    let false_ones = [&part, &container.group, &service].map(|above| {
        let above = above.path();
        Group::named(&format!(
            "{}/docker-{id}.scope",
            above.trim_start_matches('/')
        ))
    });
    let [of_user, of_container, of_root] = &false_ones;
    let groups = [&real.group, of_user, of_container, of_root];
    let _burners = groups.map(Burner::within);
    let answer = support::json(&["stat", "--json", "--by", "container", "--for", "2s"]);
    let key = "process.linux.cgroup";
    let (marked, own) = (format!("65534:{id}"), of_root.path());
    let expected = [
        ("container.id", id.as_str(), &real.group),
        ("container.id", marked.as_str(), of_user),
        ("container.id", around.as_str(), of_container),
        (key, own.as_str(), of_root),
    ];
    for (name, value, group) in expected {
        let [row] = rows(&answer, |row| row[name] == value)[..] else {
            panic!("one row of {value}: {answer}");
        };
        assert_eq!(row[key], group.path().as_str());
        assert!(cpu_seconds(&[row]) > 0.0, "{row}");
    }
}
