//! Tests the PromQL cookbook, the recording rules and the dashboards. A Prometheus scrapes an agent
//! while everything happens that the queries ask for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::affinity::{last_cpu, pin};
use super::support::agent::Agent;
use super::support::burner::Burner;
use super::support::cgroup::Group;
use super::support::container::{Bundle, Container, Wish, hex_id, pod_uid};
use super::support::expect::state;
use super::support::load::Load;
use super::support::prometheus::{Prometheus, unix_now};
use super::support::{self, Part, StopAtEnd, wait_until};

const COOKBOOK: &str = include_str!("../docs/promql.md");
const COROOT: &str = include_str!("exposition/coroot.yml");

/// Enables every measurement. Energy comes from a model if there is no meter.
const CONFIG: &str = "[collect]\nprogram_cost = \"on\"\n[energy.model]\nidle_watts = 5\n\
    busy_watts = 20\n[verdicts]\nwindow_seconds = 2\n[metrics]\nnames = \"coroot\"\n";

fn deploy(folder: &str) -> PathBuf {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    deploy.join(folder)
}

/// The loads of the scene: a container and a unit on one CPU, a group with a quota, one with
/// failing processes, one at its memory limit, a client and a server.
struct Scene {
    _agent: Agent,
    server: Prometheus,
    native: Prometheus,
    backup: Group,
    quota: Group,
    failing: Group,
    eating: Group,
    client: Group,
    address: String,
    sockets: Load,
    loads: (Container, Bundle, [Burner; 2], [Load; 3], Group, TempDir),
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("noctule.toml");
        fs::write(&config, CONFIG).expect("our file");
        let unit =
            |name: &str| Group::named(&format!("noctule-test-{}-{name}", std::process::id()));
        let [backup, web, client] = ["backup.service", "web.service", "client.service"].map(unit);
        let (quota, failing) = (Group::new("quota"), Group::new("failing"));
        let eating = Group::with_memory("eating", 32 << 20);
        quota.limit(0.1);
        let id = hex_id();
        let bundle = Bundle::write(
            &id,
            &json!({
                "io.kubernetes.cri.container-name": "cart",
                "io.kubernetes.cri.container-type": "container",
                "io.kubernetes.cri.image-name": "registry.example/cart:1",
                "io.kubernetes.cri.sandbox-name": "shop-1",
                "io.kubernetes.cri.sandbox-namespace": "prod",
            }),
        );
        // A limit that is never reached.
        let wish = Wish {
            cpus: Some(64.0),
            ..Wish::burn(&id, &format!("/kubepods/pod{}/{id}", pod_uid()))
        };
        let container = wish.create();
        let agent = Agent::start(&["--interval", "200ms", "--config", text(&config)]);
        let rules = deploy("prometheus/rules.yml");
        let server = Prometheus::scraping_with(agent.address(), Some(&rules), &[]);
        let native = ["--enable-feature=native-histograms"];
        let native = Prometheus::scraping_with(agent.address(), None, &native);

        container.start();
        let burners = [&backup, &quota].map(Burner::within);
        for pid in [container.pid(), burners[0].pid()] {
            pin(Pid::from_raw(pid as i32), last_cpu());
        }
        let fails = Load::shell(&failing, "while :; do sh -c 'exit 3'; sleep 0.1; done");
        let eater = Load::own(&eating, "eater");
        let mut listener = Load::own(&web, "sockets");
        let address = listener.ask("listen 127.0.0.1:0");
        listener.ask("serve");
        let sockets = Load::own(&client, "sockets");
        let loads = (
            container,
            bundle,
            burners,
            [fails, eater, listener],
            web,
            folder,
        );
        Self {
            _agent: agent,
            server,
            native,
            backup,
            quota,
            failing,
            eating,
            client,
            address,
            sockets,
            loads,
        }
    }

    /// Keeps the scene active while Prometheus runs the queries. Makes connections, some of which
    /// are refused. Triggers the OOM killer once its counter has been scraped.
    fn keep_active(sockets: &mut Load, address: &str, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            sockets.ask(&format!("short {address} 3"));
            assert_eq!(sockets.ask("connect 127.0.0.1:1"), "error 111");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn eat(&mut self) {
        let path = self.eating.path();
        let known = format!("noctule_cgroup_oom_kills_total{{cgroup=\"{path}\"}} == 0");
        wait_until("the counter of OOM kills has been scraped", || {
            !self.server.query(&known, unix_now()).is_empty()
        });
        self.loads.3[1].say("eat");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("in UTF-8")
}

/// The expected result of a query.
enum Expected {
    /// At least one row.
    Some,
    /// A row with these labels, and a value above 0 unless stated otherwise.
    Row(Vec<(&'static str, String)>),
    /// All values within these limits.
    Within(f64, f64),
}

impl Expected {
    fn holds(&self, answer: &[Value]) -> bool {
        let value = |row: &Value| row["value"][1].as_str().and_then(|v| v.parse::<f64>().ok());
        match self {
            Self::Some => !answer.is_empty(),
            Self::Row(labels) => answer.iter().any(|row| {
                let has = |(k, v): &(&str, String)| row["metric"][*k].as_str() == Some(v);
                labels.iter().all(has) && value(row) > Some(0.0)
            }),
            Self::Within(low, high) => {
                let within = |row| value(row).is_some_and(|v| (*low..=*high).contains(&v));
                !answer.is_empty() && answer.iter().all(within)
            }
        }
    }
}

/// Returns the expected result of each query of the cookbook in the scene. Other queries only need
/// a row.
fn expectations(scene: &Scene) -> BTreeMap<u32, Expected> {
    let unit = |group: &Group| group.path().trim_start_matches('/').to_owned();
    let row = |labels: &[(&'static str, &str)]| {
        let labels = labels.iter().map(|(k, v)| (*k, (*v).to_owned()));
        Expected::Row(labels.collect())
    };
    let (backup, client) = (unit(&scene.backup), unit(&scene.client));
    let cart = ("container", "cart");
    BTreeMap::from([
        (2, row(&[("namespace", "prod")])),
        (3, Expected::Within(0.0, 1.1)),
        (4, Expected::Within(0.5, 1.5)),
        (5, row(&[cart, ("pod", "shop-1")])),
        (6, row(&[cart])),
        (7, row(&[("cause", "neighbour")])),
        (8, row(&[cart])),
        (9, row(&[("cgroup", &scene.quota.path())])),
        (10, row(&[cart])),
        (12, row(&[])),
        (
            13,
            row(&[cart, ("culprit_kind", "unit"), ("culprit_unit", &backup)]),
        ),
        (14, row(&[("culprit_unit", &backup)])),
        (15, row(&[("culprit_unit", &backup)])),
        (17, row(&[("cgroup", &scene.eating.path())])),
        (
            18,
            row(&[("cgroup", &scene.failing.path()), ("reason", "failed")]),
        ),
        (19, row(&[("cgroup", &scene.failing.path())])),
        (20, row(&[("unit", &client), ("result", "refused")])),
        (
            21,
            row(&[("destination", &scene.address), ("result", "ok")]),
        ),
        (22, row(&[("unit", &client)])),
        (26, row(&[("namespace", "prod")])),
        (28, row(&[])),
        (33, row(&[cart])),
        (34, row(&[])),
        (35, row(&[("unit", &client)])),
    ])
}

/// A query, where it is written, and the expected result.
struct Question<'a> {
    place: String,
    query: String,
    server: &'a Prometheus,
    expected: Expected,
}

/// Repeats each query until its result is as expected.
fn ask(mut open: Vec<Question<'_>>) {
    let mut last = String::new();
    for _ in 0..120 {
        open.retain(|question| {
            let answer = question.server.query(&question.query, unix_now());
            let holds = question.expected.holds(&answer);
            if !holds {
                last = format!("{}: {}\n{answer:?}", question.place, question.query);
            }
            !holds
        });
        if open.is_empty() {
            return;
        }
        thread::sleep(Duration::from_secs(1));
    }
    let places: Vec<&String> = open.iter().map(|question| &question.place).collect();
    panic!("without the answer that they must have: {places:?}; the last: {last}");
}

/// Returns the queries of docs/promql.md.
fn cookbook(scene: &Scene) -> Vec<Question<'_>> {
    let mut expected = expectations(scene);
    let own = format!("noctule-test-{}-client.service", std::process::id());
    let mut questions = Vec::new();
    for part in COOKBOOK.split("\n### ").skip(1) {
        let title = part.lines().next().expect("a title");
        let (number, _) = title.split_once('.').expect("a number");
        let number: u32 = number.parse().expect("a number");
        assert_eq!(number as usize, questions.len() + 1, "{title}");
        let query = part.lines().find_map(|line| line.strip_prefix("    "));
        let query = query.unwrap_or_else(|| panic!("{title}: no query"));
        questions.push(Question {
            place: title.to_owned(),
            // A busy machine has more than ten groups that wait for as long.
            query: query
                .replace("client.service", &own)
                .replace("topk(10,", "topk(10000,"),
            server: match title.contains("(native") {
                true => &scene.native,
                false => &scene.server,
            },
            expected: expected.remove(&number).unwrap_or(Expected::Some),
        });
    }
    assert!(questions.len() >= 25);
    assert!(expected.is_empty(), "for questions that there are not");
    questions
}

/// Returns Coroot's queries in this list.
fn coroot<'a>(scene: &'a Scene, list: &str) -> Vec<Question<'a>> {
    let all: Value = serde_yaml_ng::from_str(&COROOT.replace("$RANGE", "1m")).expect("YAML");
    let queries = all[list].as_array().expect("queries").iter();
    let has_pressure = scene.backup.folder().join("cpu.pressure").exists();
    let queries = queries.filter(|query| query["needs"] != "psi" || has_pressure);
    let question = |query: &Value| Question {
        place: format!("coroot.yml: {}", query["name"]),
        query: query["expr"].as_str().expect("an expression").to_owned(),
        server: &scene.server,
        expected: Expected::Some,
    };
    queries.map(question).collect()
}

/// Returns queries for the names that the recording rules define.
fn recorded(scene: &Scene) -> Vec<Question<'_>> {
    let rules = fs::read_to_string(deploy("prometheus/rules.yml")).expect("the rules");
    let rules: Value = serde_yaml_ng::from_str(&rules).expect("YAML");
    let groups = rules["groups"].as_array().expect("groups").iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    let names = rules.filter_map(|rule| rule["record"].as_str());
    let question = |name: &str| Question {
        place: format!("rules.yml: {name}"),
        query: name.to_owned(),
        server: &scene.server,
        expected: Expected::Some,
    };
    names.map(question).collect()
}

/// Returns the queries of each dashboard, with its variables filled in.
fn dashboards(scene: &Scene) -> Vec<Question<'_>> {
    let mut questions = Vec::new();
    for file in fs::read_dir(deploy("grafana")).expect("the dashboards") {
        let path = file.expect("a file").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let board = fs::read(&path).expect("a file");
        let board: Value = serde_json::from_slice(&board).expect("JSON");
        let variables = board["templating"]["list"].as_array().expect("variables");
        let filled = filled(scene, &name, variables);
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            for target in panel["targets"].as_array().expect("queries") {
                let mut query = target["expr"].as_str().expect("a query").to_owned();
                for (variable, value) in &filled {
                    query = query.replace(variable, value);
                }
                assert!(!query.contains('$'), "{name}: {title}: {query}");
                questions.push(Question {
                    place: format!("{name}: {title}"),
                    query,
                    server: &scene.server,
                    expected: Expected::Some,
                });
            }
        }
    }
    let boards = ["agent", "energy", "fleet", "node", "workload"];
    for board in boards {
        let begin = format!("{board}.json: ");
        assert!(
            questions.iter().any(|q| q.place.starts_with(&begin)),
            "{board}"
        );
    }
    questions
}

/// Returns the variables of a dashboard, filled in as Grafana does for "All". Each must have a
/// value to choose.
fn filled(scene: &Scene, name: &str, variables: &[Value]) -> Vec<(String, String)> {
    let mut filled = vec![("$__rate_interval".to_owned(), "1m".to_owned())];
    for variable in variables.iter().filter(|it| it["type"] == "query") {
        let mut query = variable["query"]["query"]
            .as_str()
            .expect("a query")
            .to_owned();
        for (variable, value) in &filled {
            query = query.replace(variable, value);
        }
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|it| it.strip_suffix(')'));
        let (selector, label) = inner
            .and_then(|it| it.rsplit_once(", "))
            .expect("label_values");
        wait_until(&format!("{name}: {query} has values"), || {
            !scene.server.label_values(label, selector).is_empty()
        });
        let variable = variable["name"].as_str().expect("a name");
        filled.push((format!("${variable}"), ".*".to_owned()));
    }
    filled
}

#[test]
fn cookbook_and_dashboard_queries_are_answered() {
    let _machine = support::shared_but(&[Part::LastCpu, Part::Groups]);
    needs!("cpu_waits");
    needs!("oom_events");
    let mut scene = Scene::start();
    let mut sockets = std::mem::replace(&mut scene.sockets, Load::own(&scene.client, "sockets"));
    let address = scene.address.clone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| Scene::keep_active(&mut sockets, &address, &stop));
        scene.eat();
        let mut questions = cookbook(&scene);
        questions.extend(recorded(&scene));
        questions.extend(dashboards(&scene));
        questions.extend(coroot(&scene, "queries"));
        if state("tcp_events") == "off" {
            // The kernel supports no TCP events, so these series do not exist.
            questions.retain(|question| !question.query.contains("_tcp_"));
        }
        ask(questions);
        for question in coroot(&scene, "without_data") {
            let answer = question.server.query(&question.query, unix_now());
            assert!(answer.is_empty(), "{}: {answer:?}", question.place);
        }
        // Prometheus scrapes the agent in both formats. On a busy machine a response may be late
        // and fail.
        for server in [&scene.server, &scene.native] {
            wait_until("the last scrape had no fault", || {
                server.target()["lastError"] == ""
            });
        }
    });
}

/// Short jobs, each of which ends before any server scrapes again. The first ones have their own
/// rows, and the others share one.
#[test]
fn every_server_counts_short_jobs_in_full() {
    let _machine = support::shared();
    let agent = Agent::start(&["--interval", "200ms"]);
    let often = ["--enable-feature=created-timestamp-zero-ingestion"];
    let often = Prometheus::scraping_with(agent.address(), None, &often);
    let options = "scrape_interval: 3s, params: {scraper: [seldom]}";
    let seldom = Prometheus::scraping_by(agent.address(), options);
    let other = Prometheus::victoria_metrics(agent.address());
    // Without digits, because the owner's name has none.
    let letter = |digit: char| char::from(b'a' + digit as u8 - b'0');
    let id: String = std::process::id().to_string().chars().map(letter).collect();
    let prefix = format!("noctule-test-{id}-job");
    let job = |number| {
        let group = Group::named(&format!("{prefix}{number}.service"));
        let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.3";
        Load::shell(&group, script).reap();
        group.usage_seconds()
    };
    let used: f64 = (0..16).map(job).sum();
    let series = format!("noctule_unit_cpu_seconds_total{{unit=~\"{prefix}.*\"}}[5m]");
    let query = format!("sum(last_over_time({series}) - min_over_time({series}))");
    for server in [&often, &seldom, &other] {
        let mut counted = 0.0;
        wait_until("the server has counted the jobs", || {
            let answer = server.query(&query, unix_now());
            let value = answer.first().and_then(|row| row["value"][1].as_str());
            counted = value.map_or(0.0, |value| value.parse().expect("a number"));
            thread::sleep(Duration::from_millis(200));
            counted > 0.95 * used
        });
        support::assert_close("CPU time of the jobs", counted, used, 0.02, 0.01);
        let units = server.label_values("unit", &series[..series.len() - 4]);
        assert!(
            units.contains(&json!(format!("{prefix}*.service"))),
            "{units:?}"
        );
        assert!(units.len() < 16, "{units:?}");
    }
}

#[test]
fn rules_pass_their_promtool_tests() {
    let _machine = support::shared();
    for folder in ["prometheus", "fleet"].map(deploy) {
        let cases = [
            ["check", "rules", "rules.yml"],
            ["test", "rules", "rules_test.yml"],
        ];
        for args in cases {
            let output = Command::new("promtool")
                .current_dir(&folder)
                .args(args)
                .output()
                .expect("promtool is installed (Debian: prometheus)");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(output.status.success(), "{}: {said}", folder.display());
        }
        // Each alert has a test case.
        let read = |file: &str| fs::read_to_string(folder.join(file)).expect("a file");
        let (rules, tests) = (read("rules.yml"), read("rules_test.yml"));
        let alerts = rules.lines();
        for alert in alerts.filter_map(|line| line.trim().strip_prefix("- alert: ")) {
            let case = format!("alertname: {alert}");
            assert!(tests.contains(&case), "{alert} has no case");
        }
    }
}
