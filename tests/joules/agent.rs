//! Tests of meters in the agent, in `top` and in `doctor`.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread;

use serde_json::{Value, json};

use super::super::support::agent::{Agent, Sample};
use super::super::support::burner::Burner;
use super::super::support::container::{Bundle, Wish, hex_id, pod_uid};
use super::super::support::prometheus::{Prometheus, unix_now};
use super::super::support::tmux::Terminal;
use super::super::support::{self, NOCTULE, StopAtEnd, wait_for, wait_until};
use super::{Machine, errors, uj, zone};

const DASHBOARD: &str = include_str!("../exposition/kepler.yml");

fn agent(machine: &Machine, more: &[&str]) -> Agent {
    let config = machine.config();
    let config = config.to_str().expect("text");
    Agent::start(&[&["--interval", "200ms", "--config", config], more].concat())
}

#[test]
fn kepler_names_have_the_same_joules() {
    let _machine = support::shared();
    let machine = Machine::new();
    let stop = AtomicBool::new(false);
    let burner = Burner::named(b"kepler-burner");
    let id = hex_id();
    let _bundle = Bundle::write(
        &id,
        &json!({
            "io.kubernetes.cri.container-name": "cart",
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-name": "shop-1",
            "io.kubernetes.cri.sandbox-namespace": "prod",
        }),
    );
    let container = Wish::burn(&id, &format!("/kubepods/pod{}/{id}", pod_uid())).create();
    container.start();
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| machine.run_meters(&stop));
        let agent = agent(&machine, &["--names", "kepler", "--process-metrics"]);
        let pid = burner.pid().to_string();
        wait_for("the process has energy", || {
            let labels = [("pid", pid.as_str()), ("zone", "dram")];
            let joules = agent.value("kepler_process_cpu_joules_total", &labels);
            joules.filter(|joules| *joules > 0.0)
        });
        // All values are from one scrape.
        let samples = agent.metrics();
        let get = |name: &str, labels: &[(&str, &str)]| -> f64 {
            let fits = |sample: &&Sample| {
                let has = |(key, value): &(&str, &str)| {
                    sample.labels.get(*key).is_some_and(|it| it == value)
                };
                sample.name == name && labels.iter().all(has)
            };
            samples.iter().filter(fits).map(|sample| sample.value).sum()
        };
        for kind in ["package", "dram"] {
            let labels = [("zone", kind)];
            let total = get("kepler_node_cpu_joules_total", &labels);
            assert!(total > 0.0, "{kind}");
            assert_close(total, get("noctule_node_energy_joules_total", &labels));
            let idle = get(
                "noctule_node_energy_joules_total",
                &[("zone", kind), ("kind", "idle")],
            );
            assert_close(get("kepler_node_cpu_idle_joules_total", &labels), idle);
            assert_close(
                get("kepler_node_cpu_active_joules_total", &labels),
                total - idle,
            );
            let process = [("zone", kind), ("pid", pid.as_str())];
            let ours = get("noctule_process_energy_joules_total", &process);
            assert_close(get("kepler_process_cpu_joules_total", &process), ours);
        }
        ask_dashboard(&agent, &pid);
    });
}

/// Asks a Prometheus that scrapes the agent all queries of Kepler's dashboard.
fn ask_dashboard(agent: &Agent, pid: &str) {
    let server = Prometheus::scraping(agent.address());
    let variables = [
        ("$job", "noctule"),
        ("${process}", pid),
        ("$namespace", ".*"),
        ("$pod", ".*"),
        ("$node", ".*"),
        ("$zone", ".*"),
        ("$container", ".*"),
    ];
    let filled = variables
        .iter()
        .fold(DASHBOARD.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        });
    let dashboard: Value = serde_yaml_ng::from_str(&filled).expect("YAML");
    let list = |name: &str| dashboard[name].as_array().expect("a list").iter();
    let text = |item: &Value, key: &str| item[key].as_str().expect("text").to_owned();
    for variable in list("variables") {
        let (label, selector) = (text(variable, "label"), text(variable, "selector"));
        wait_until(&text(variable, "name"), || {
            !server.label_values(&label, &selector).is_empty()
        });
    }
    let has_data = |query: &Value| !server.query(&text(query, "expr"), unix_now()).is_empty();
    for query in list("queries") {
        wait_until(&text(query, "name"), || has_data(query));
    }
    assert!(!list("without_data").any(has_data));
}

fn assert_close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-6, "{one} and {other}");
}

/// Idle power is never observed on a node whose CPUs are all busy from the start.
#[test]
fn busy_node_is_charged_alike_by_agent_and_command() {
    let _machine = support::shared();
    let machine = Machine::new();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let burners: Vec<Burner> = (0..cpus).map(|_| Burner::named(b"all-burner")).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| machine.run_meters(&stop));
        let agent = agent(&machine, &[]);
        let answer = machine.json(&["energy", "--json", "--by", "process", "--for", "3s"]);
        let package = zone(&answer, "package");
        let error = package["error_ratio"].as_f64().expect("an error");
        assert!(error < 1.0, "{package}");
        let rows = answer["rows"].as_array().expect("rows");
        for burner in &burners {
            let mut rows = rows.iter();
            let row = rows.find(|row| row["process.pid"] == burner.pid());
            let row = row.expect("the burner ran");
            assert!(uj(&row["energy.joules"]["package"]) > 0, "{row}");
        }
        let of_agent = |kind: &str| {
            let labels = [("zone", "package"), ("kind", kind)];
            let joules = agent.value("noctule_node_energy_joules_total", &labels);
            joules.expect("the agent reads the meter")
        };
        let by_command = uj(&package["idle_joules"]) as f64 / uj(&package["joules"]) as f64;
        let by_agent = of_agent("idle") / (of_agent("idle") + of_agent("active"));
        assert!(
            (by_command - by_agent).abs() < 0.2,
            "{by_command}, {by_agent}"
        );
        assert!(
            by_command < 0.6 && by_agent < 0.6,
            "{by_command}, {by_agent}"
        );
    });
}

#[test]
fn late_meter_is_counted() {
    let _machine = support::shared();
    let machine = Machine::without_meters();
    let agent = agent(&machine, &[]);
    let off = |state| {
        let labels = [("name", "energy"), ("state", state)];
        agent.value("noctule_self_feature", &labels)
    };
    assert_eq!(off("off"), Some(1.0));
    assert_eq!(agent.value("noctule_node_energy_joules_total", &[]), None);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        machine.add_meters();
        scope.spawn(|| machine.run_meters(&stop));
        for kind in ["package", "dram"] {
            wait_for("the meter is read", || {
                let joules = agent.value("noctule_node_energy_joules_total", &[("zone", kind)]);
                joules.filter(|joules| *joules > 0.0)
            });
        }
        wait_for("the feature is on", || off("on"));
        assert_eq!(off("off"), None);
    });
}

#[test]
fn unmoved_meter_is_not_reported_as_zero() {
    let _machine = support::shared();
    let machine = Machine::new();
    let answer = machine.json(&["energy", "--json", "--for", "100ms"]);
    let package = zone(&answer, "package");
    assert_eq!(
        (uj(&package["joules"]), package["still"].as_bool()),
        (0, Some(true))
    );
    assert!(package.get("error_ratio").is_none(), "{package}");
    let output = machine.noctule(&["energy", "--for", "100ms"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("the meter did not change"),
        "{text}{}",
        errors(&output)
    );
}

#[test]
fn top_shows_zones_and_rows() {
    let _machine = support::shared();
    let machine = Machine::new();
    let stop = AtomicBool::new(false);
    let _burner = Burner::named(b"joule-burner");
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| machine.run_meters(&stop));
        let terminal = Terminal::new(120, 30);
        let config = machine.config();
        let config = config.display();
        terminal.line(&format!("{NOCTULE} --config {config} top --interval 500ms"));
        terminal.wait_for("table", |screen| screen.contains("CPU%"));
        terminal.keys(&["e", "1"]);
        let figures = |line: &str| line.contains(|c: char| ('1'..='9').contains(&c));
        terminal.wait_for("zones and rows", |screen| {
            let line = |word: &str| screen.lines().find(|line| line.contains(word));
            screen.contains("PKG W")
                && line("package-0").is_some_and(|line| figures(&line.replace("package-0", "")))
                && line("joule-burner").is_some_and(figures)
        });
        terminal.keys(&["q"]);
        terminal.wait_for_prompt();
    });
}

/// The documentation page shows the output of `doctor` for this machine.
const PAGE: &str = include_str!("../../docs/energy.md");

#[test]
fn page_shows_the_output_of_doctor() {
    let _machine = support::shared();
    let machine = Machine::new();
    let mmio = machine.zone("intel-rapl-mmio:0");
    fs::create_dir_all(&mmio).expect("a folder");
    fs::write(mmio.join("name"), "package-0\n").expect("a file");
    fs::write(mmio.join("energy_uj"), "5\n").expect("a file");
    fs::write(machine.zone("intel-rapl:0:0").join("energy_uj"), "words\n").expect("a file");
    let output = machine.noctule(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let sys = machine.sys().display().to_string();
    let said = said.replace(&sys, "/sys");
    let (_, zones) = said.split_once("energy zones:\n").expect("zones");
    let feature = said.lines().find(|line| line.starts_with("energy "));
    let feature = feature.expect("the feature").split_whitespace();
    let feature = feature.collect::<Vec<_>>().join(" ");
    let zones: Vec<&str> = zones
        .lines()
        .filter(|line| line.starts_with("  "))
        .collect();
    assert_eq!(zones.len(), 3, "{said}");
    let lines = zones.into_iter().map(str::to_owned).chain([feature]);
    for line in lines {
        let shown = PAGE
            .lines()
            .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
        let wanted = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.into_iter().any(|it| it == wanted),
            "docs/energy.md lacks:\n{line}"
        );
    }
}
