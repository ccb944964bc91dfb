//! Tests of `/metrics` as scrapers see it, with promtool, a strict parser, and the rules of series.
//! `prometheus` tests with a real Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::support::agent::{Agent, Sample};
use super::support::burner::Burner;
use super::support::cgroup::Group;
use super::support::container::{Container, Wish, hex_id, pod_uid};
use super::support::hostile::Hostile;
use super::support::http::request;
use super::support::prometheus::promtool;
use super::support::{self, StopAtEnd, openmetrics, oracle, wait_until};

mod clients;
mod fair;
mod guarded;
mod memory;
mod pressure;
mod prometheus;

const OPEN: &str = "application/openmetrics-text;version=1.0.0";

fn cpu(level: &str) -> String {
    format!("noctule_{level}_cpu_seconds_total")
}

/// A container, a unit and a group that use the CPU.
struct Mixed {
    _container: Container,
    _burners: [Burner; 2],
    unit: Group,
    group: Group,
}

impl Mixed {
    fn start(container: &str) -> Self {
        let path = format!("/kubepods/pod{}/{container}", pod_uid());
        let container = Wish::burn(container, &path).create();
        container.start();
        let unit = Group::named(&format!("noctule-test-{}.service", std::process::id()));
        let group = Group::new("plain");
        let burners = [&unit, &group].map(Burner::within);
        Self {
            _container: container,
            _burners: burners,
            unit,
            group,
        }
    }
}

#[test]
fn promtool_and_a_strict_parser_accept_hostile_names() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let id = hex_id();
    let _mixed = Mixed::start(&id);
    let hostile = Hostile::start();
    let pids: Vec<String> = hostile
        .processes()
        .map(|(_, pid)| pid.to_string())
        .collect();
    let agent = Agent::start(&["--interval", "200ms", "--process-metrics"]);
    let is_hostile = |s: &&Sample| s.name == cpu("process") && pids.contains(&s.labels["pid"]);
    wait_until("everything is exposed", || {
        let processes = agent.metrics().iter().filter(is_hostile).count();
        let container = agent.value(&cpu("container"), &[("container_id", &id)]);
        processes == pids.len() && container.is_some()
    });
    let (_, classic) = agent.get("/metrics", "text/plain");
    assert_eq!(promtool(&classic), (true, String::new()));
    let (_, open) = agent.get("/metrics", OPEN);
    let count = openmetrics::check(&open);
    assert!(count > 1000, "{count} samples");
    // Each process and each group has its own series, so names are not merged.
    let samples = agent.metrics();
    let comms: BTreeSet<&String> = samples
        .iter()
        .filter(is_hostile)
        .map(|s| &s.labels["comm"])
        .collect();
    assert_eq!(comms.len(), pids.len(), "{comms:?}");
    let prefix = format!("/{}", hostile.prefix);
    let groups = samples.iter().filter(|s| s.name == cpu("cgroup"));
    let groups = groups.filter(|s| s.labels["cgroup"].starts_with(&prefix));
    assert_eq!(groups.count(), hostile.groups.len());
}

#[test]
fn pages_follow_http() {
    let _machine = support::shared();
    let agent = Agent::start(&[]);
    let ask = |method, path| request(agent.address(), method, path, None);
    let cases = [
        ("GET", "/", 200),
        ("GET", "/metrics", 200),
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/metrics/", 404),
        ("GET", "/nope", 404),
        ("POST", "/metrics", 405),
        ("PUT", "/readyz", 405),
        ("DELETE", "/", 405),
    ];
    for (method, path, status) in cases {
        let answer = ask(method, path);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(!answer.body.is_empty(), "{method} {path}");
        let allow = if status == 405 { "GET,HEAD" } else { "" };
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    for path in ["/metrics", "/livez", "/readyz"] {
        let (head, get) = (ask("HEAD", path), ask("GET", path));
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        let kind = |answer: &support::http::Answer| answer.header("content-type").to_owned();
        assert_eq!(kind(&head), kind(&get), "{path}");
        let length: usize = get.header("content-length").parse().expect("a length");
        assert_eq!(length, get.body.len(), "{path}");
    }
}

#[test]
fn format_follows_the_accept_header() {
    let _machine = support::shared();
    let agent = Agent::start(&[]);
    let classic = "text/plain; version=0.0.4; charset=utf-8";
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
        version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let cases = [
        (None, classic),
        (Some("text/plain"), classic),
        (Some("*/*"), classic),
        (Some("image/png"), classic),
        (Some(OPEN), open),
        (Some(prometheus), open),
    ];
    for (accept, expected) in cases {
        let answer = request(agent.address(), "GET", "/metrics", accept);
        assert_eq!(answer.header("content-type"), expected, "{accept:?}");
        assert_eq!(answer.header("vary"), "accept, accept-encoding");
        assert_eq!(answer.body.ends_with("# EOF\n"), expected == open);
    }
}

#[test]
fn process_level_is_opt_in_and_losses_start_at_0() {
    let _machine = support::shared();
    let samples = Agent::start(&[]).metrics();
    let processes = samples
        .iter()
        .filter(|s| s.name.starts_with("noctule_process_"));
    assert_eq!(processes.count(), 0);
    let losses = samples
        .iter()
        .filter(|s| s.name == "noctule_self_losses_total");
    assert!(losses.count() > 3);
}

#[test]
fn unmeasured_metric_is_absent_with_a_reason() {
    let _machine = support::shared();
    let samples = Agent::start(&[]).metrics();
    for name in ["cycles", "reference_cycles", "instructions", "cache_misses"] {
        let verdict = |s: &&Sample| s.name == "noctule_self_feature" && s.labels["name"] == name;
        let verdict = samples.iter().find(verdict);
        let verdict = verdict.unwrap_or_else(|| panic!("no verdict on {name}"));
        assert_eq!(verdict.value, 1.0);
        assert!(!verdict.labels["reason"].is_empty(), "{verdict:?}");
        let series = format!("_cpu_{name}_total");
        let present = samples.iter().any(|s| s.name.ends_with(&series));
        assert_eq!(present, verdict.labels["state"] == "on", "{verdict:?}");
        if !has_pmu() {
            assert_eq!(verdict.labels["state"], "off", "{verdict:?}");
        }
    }
    let hertz = samples.iter().any(|s| s.name.ends_with("_frequency_hertz"));
    assert!(has_pmu() || !hertz, "a frequency needs cycles");
}

/// Returns whether the kernel lists the CPU's performance counters among its event sources.
fn has_pmu() -> bool {
    let sources = std::fs::read_dir("/sys/bus/event_source/devices").expect("sysfs");
    let mut names = sources.flatten().map(|source| source.file_name());
    names.any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("cpu") || name.starts_with("armv")
    })
}

/// Returns the metrics at a level, with their own labels but without the identity labels.
fn metrics_of(samples: &[Sample], level: &str, identity: &[(&str, &str)]) -> BTreeSet<String> {
    let prefix = format!("noctule_{level}_");
    let has = |s: &Sample, (k, v): &(&str, &str)| s.labels.get(*k).is_some_and(|value| value == v);
    let own = |s: &Sample| {
        let name = s.name.strip_prefix(&prefix)?;
        let own = ["op", "vector", "kind", "cause", "by"]
            .map(|l| s.labels.get(l).cloned().unwrap_or_default());
        Some(format!("{name} {}", own.concat()))
    };
    let of_identity = samples
        .iter()
        .filter(|s| identity.iter().all(|label| has(s, label)));
    of_identity.filter_map(own).collect()
}

#[test]
fn every_series_of_a_group_exists_from_0() {
    let _machine = support::shared();
    let agent = Agent::start(&["--interval", "200ms"]);
    let group = Group::new("idle");
    let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("sleep");
    // The process sleeps before it is moved, so the group has used nothing.
    wait_until("it sleeps", || oracle::states(sleeper.id()) == ['S']);
    thread::sleep(Duration::from_millis(500));
    group.add(sleeper.id());
    let path = group.path();
    let identity = [("cgroup", path.as_str())];
    wait_until("the group has series", || {
        agent.value(&cpu("cgroup"), &identity).is_some()
    });
    let samples = agent.metrics();
    let mine = samples
        .iter()
        .filter(|s| s.labels.get("cgroup") == Some(&path));
    let not_0: Vec<&Sample> = mine.filter(|s| s.value != 0.0).collect();
    assert!(not_0.is_empty(), "{not_0:?}");
    let mut expected = metrics_of(&samples, "cgroup", &[("cgroup", "/")]);
    // A group has destinations only after it connected.
    expected.retain(|name| !name.starts_with("tcp_destination_"));
    assert_eq!(metrics_of(&samples, "cgroup", &identity), expected);
    // Some details exist only for the node. The node has no metrics of its waits for other
    // subjects, and none of destinations.
    let node = metrics_of(&samples, "node", &[]);
    let details = node.iter().filter(|name| {
        let is = |detail: &&str| name.starts_with(*detail);
        let of_the_node = [
            "softirqs_total ",
            "sched_preemptions_total ",
            "sched_waiting_",
            "sleep_seconds_total ",
        ];
        of_the_node.iter().any(is)
    });
    expected.extend(details.cloned());
    let own = [
        "cpu_idle_seconds_total ",
        "cpu_idle_switches_total ",
        "cpu_remainder_seconds ",
        "cpus ",
    ];
    expected.extend(own.map(str::to_owned));
    // The kernel may not measure these metrics.
    let known = [
        "cpu_interrupt_seconds_total ",
        "cpu_steal_seconds_total ",
        "cpu_steal_included_seconds_total ",
    ]
    .map(str::to_owned);
    expected.extend(known.into_iter().filter(|name| node.contains(name)));
    assert!(expected.remove("sched_blame_seconds_total "), "no blame");
    expected.retain(|name| !name.starts_with("sched_verdict"));
    assert_eq!(node, expected);
    sleeper.kill().expect("our child");
    sleeper.wait().expect("our child");
}

/// Creates groups with short processes until stopped.
fn churn(stop: &AtomicBool) {
    let run = |command: &mut Command| {
        let status = command.stdin(Stdio::null()).status();
        assert!(status.expect("it can be started").success());
    };
    while !stop.load(Ordering::Relaxed) {
        let group = Group::new("short");
        for _ in 0..5 {
            let mut command = group.command("/bin/sh");
            run(command.args(["-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"]));
        }
        run(&mut Command::new("true"));
    }
}

/// Returns the samples by series.
fn by_series(samples: Vec<Sample>) -> BTreeMap<String, f64> {
    let count = samples.len();
    let series = |s: Sample| (format!("{}{:?}", s.name, s.labels), s.value);
    let map: BTreeMap<String, f64> = samples.into_iter().map(series).collect();
    assert_eq!(map.len(), count, "a series comes twice");
    map
}

#[test]
fn counters_only_go_up_and_series_stay_while_groups_come_and_go() {
    let _machine = support::shared();
    let agent = Agent::start(&["--interval", "200ms", "--process-metrics"]);
    let (stop, mortal) = (AtomicBool::new(false), Group::new("mortal"));
    let path = mortal.path();
    let burner = Burner::within(&mortal);
    let value = || agent.value(&cpu("cgroup"), &[("cgroup", &path)]);
    wait_until("the group has used something", || {
        value().is_some_and(|v| v > 0.1)
    });
    drop((burner, mortal));
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| churn(&stop));
        let mut before = by_series(agent.metrics());
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(500));
            let now = by_series(agent.metrics());
            for (series, value) in &now {
                assert!(value.is_finite() && *value >= 0.0, "{series} {value}");
            }
            for (series, old) in &before {
                let new = now.get(series);
                let new = new.unwrap_or_else(|| panic!("{series} has gone"));
                let counter = series
                    .split('{')
                    .next()
                    .is_some_and(|n| n.ends_with("_total"));
                assert!(!counter || new >= old, "{series} goes from {old} to {new}");
            }
            assert!(now.len() > before.len(), "nothing came and went");
            before = now;
        }
    });
    let last = value().expect("the dead group keeps its series");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(value(), Some(last), "and what it used");
}

#[test]
fn containers_units_and_cgroups_add_up_to_the_node() {
    let _machine = support::alone();
    let id = hex_id();
    let mixed = Mixed::start(&id);
    let agent = Agent::start(&["--interval", "200ms"]);
    let (unit, group) = (mixed.unit.path(), mixed.group.path());
    let subjects = [
        ("container", "container_id", id.as_str()),
        ("unit", "unit", unit.trim_start_matches('/')),
        ("cgroup", "cgroup", &group),
    ];
    for (level, label, value) in subjects {
        wait_until(&format!("{value} has used something"), || {
            agent
                .value(&cpu(level), &[(label, value)])
                .is_some_and(|v| v > 0.2)
        });
    }
    // A new container of another user appears some seconds later, once its names are known. Until
    // then only the node includes the use of that container. Therefore five consecutive scrapes
    // must add up.
    let (mut good, mut last) = (0, (0.0, 0.0));
    for _ in 0..100 {
        let samples = agent.metrics();
        let sum = |levels: &[&str]| -> f64 {
            let of_levels = |s: &&Sample| levels.iter().any(|level| s.name == cpu(level));
            samples.iter().filter(of_levels).map(|s| s.value).sum()
        };
        last = (sum(&["container", "unit", "cgroup"]), sum(&["node"]));
        let close = (last.0 - last.1).abs() <= 0.001 * last.1;
        good = if close { good + 1 } else { 0 };
        if good == 5 {
            return;
        }
        thread::sleep(Duration::from_millis(300));
    }
    panic!("all subjects used {} s and the node {} s", last.0, last.1);
}
