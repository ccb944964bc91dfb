//! Tests of the running agent's API against its description and the machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support;
use crate::support::agent::Agent;
use crate::support::cgroup::Group;
use crate::support::load::Load;
use crate::support::schema::problems;

const DESCRIPTION: &str = include_str!("../docs/openapi.json");

/// A response with its header.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

fn connect(agent: &Agent) -> TcpStream {
    let stream = TcpStream::connect(agent.address()).expect("the agent listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a time-out");
    stream
}

/// Uses HTTP/1.0, so that no body is chunked.
fn ask(agent: &Agent, line: &str, headers: &str) -> Answer {
    let mut stream = connect(agent);
    let request = format!("{line} HTTP/1.0\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n");
    let (head, body) = bytes.split_at(end.expect("a head"));
    let head = String::from_utf8(head.to_vec()).expect("text");
    let status = head.split(' ').nth(1).expect("a status");
    Answer {
        status: status.parse().expect("a number"),
        head: head.clone(),
        body: body[4..].to_vec(),
    }
}

fn get(agent: &Agent, resource: &str) -> Answer {
    let host = format!("Host: {}\r\n", agent.address());
    ask(agent, &format!("GET /api/v1/{resource}"), &host)
}

/// Waits until the agent has judged a window.
fn ready(agent: &Agent) {
    support::wait_until("a window is judged", || get(agent, "waits").status == 200);
}

fn agent() -> Agent {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[verdicts]\nwindow_seconds = 1.0\n").expect("a file");
    let path = file.path().to_str().expect("text").to_owned();
    Agent::start(&["--interval", "200ms", "--config", &path])
}

#[test]
fn answers_match_the_openapi_description() {
    let _machine = support::shared();
    let description: Value = serde_json::from_str(DESCRIPTION).expect("JSON");
    let agent = agent();
    ready(&agent);
    let paths = description["paths"].as_object().expect("paths");
    for (path, methods) in paths.iter().filter(|(path, _)| !path.ends_with("/stream")) {
        let name = path.trim_start_matches("/api/v1/");
        let answer = get(&agent, name);
        assert_eq!(answer.status, 200, "{path}");
        let schema = &methods["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let found = problems(&description, schema, &answer.json(), name);
        assert!(found.is_empty(), "{found:#?}");
        // Each parameter exists, and an invalid value is refused with its name.
        for parameter in methods["get"]["parameters"].as_array().expect("parameters") {
            let parameter = parameter["name"].as_str().expect("a name");
            if parameter == "filter" {
                continue;
            }
            let refused = get(&agent, &format!("{name}?{parameter}=%21"));
            assert_eq!(refused.status, 400, "{path} {parameter}");
            let words = refused.json()["error"].to_string();
            assert!(words.contains(parameter), "{words}");
        }
        assert_eq!(
            get(&agent, &format!("{name}?other=1")).status,
            400,
            "{path}"
        );
    }
    assert_eq!(get(&agent, "openapi.json").json(), description);
    for query in ["kind=oom_kill", "kind=process,nothing", "from=20&to=10"] {
        let refused = get(&agent, &format!("events?{query}"));
        assert_eq!(refused.status, 400, "{query}");
    }
    assert_eq!(
        get(&agent, "events?kind=oom,process.exit&from=10&to=10").status,
        200
    );
}

#[test]
fn without_readers_the_agent_collects_seldom() {
    let _machine = support::shared();
    let config = tempfile::NamedTempFile::new().expect("a file of our own");
    let text = "[collect]\ninterval_seconds = 0.05\nunwatched_interval_seconds = 10.0\n";
    std::fs::write(config.path(), text).expect("it can be written");
    let agent = Agent::start(&["--config", config.path().to_str().expect("in UTF-8")]);
    std::thread::sleep(Duration::from_secs(2));
    let sequence = || get(&agent, "node").json()["sequence"].as_u64();
    // The first batch, and one for this request.
    let first = sequence();
    assert!(first.is_some_and(|it| it <= 2), "{first:?}");
    support::wait_until("batches for the client", || sequence() >= Some(8));
}

#[test]
fn history_adds_up_and_names_the_users_of_the_cpu() {
    let _machine = support::shared();
    let agent = agent();
    let group = Group::new("history");
    let load = Load::own(&group, "spin 1");
    ready(&agent);
    let row = support::wait_for("the load is in the history", || {
        let history = get(&agent, "history?seconds=60&steps=60").json();
        let owners = history["owners"].as_array().expect("owners").clone();
        let path = group.path();
        let mut rows = owners
            .into_iter()
            .filter(|row| row["name"] == path.as_str());
        rows.next()
            .filter(|row| row["cpu.seconds"].as_f64() > Some(0.5))
    });
    assert!(
        row["cpus"]
            .as_array()
            .expect("steps")
            .iter()
            .any(|it| it.as_f64() > Some(0.0))
    );
    drop(load);
    let history = get(&agent, "history?seconds=60&steps=60&owners=500").json();
    let column = |value: &Value| -> Vec<Option<f64>> {
        let steps = value.as_array().expect("a column").iter();
        steps.map(Value::as_f64).collect()
    };
    let node = &history["node"];
    let used = column(&node["used"]);
    let idle = column(&node["idle"]);
    let rest = column(&node["remainder"]);
    let cpus = history["cpus"].as_f64().expect("a number");
    let mut steps = 0;
    for (at, covered) in column(&history["covered_seconds"]).into_iter().enumerate() {
        let (Some(used), Some(idle), Some(rest)) = (used[at], idle[at], rest[at]) else {
            assert_eq!(covered, Some(0.0), "only a gap has no figures");
            continue;
        };
        steps += 1;
        // A thread that ended during a batch is charged in the next one, so a step can contain more
        // time than elapsed.
        let sum = used + idle + rest;
        let whole = (cpus - 0.01..cpus * 1.05).contains(&sum);
        assert!(whole, "{used} {idle} {rest}");
        let owners = history["owners"].as_array().expect("owners").iter();
        let sum: f64 = owners.filter_map(|row| row["cpus"][at].as_f64()).sum();
        assert!(sum <= used + 0.01 * cpus, "owners {sum}, node {used}");
    }
    assert!(steps > 0);
}

#[test]
fn request_with_a_foreign_host_is_refused() {
    let _machine = support::shared();
    let agent = agent();
    ready(&agent);
    for host in ["Host: evil.example\r\n", "Host: evil.example:9470\r\n", ""] {
        for path in ["/api/v1/now", "/api/v1/stream"] {
            let answer = ask(&agent, &format!("GET {path}"), host);
            assert_eq!(answer.status, 421, "{host}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("rows"));
        }
    }
    let headers = [
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ];
    let answer = get(&agent, "now");
    for (name, value) in headers {
        assert!(answer.header(name).contains(value), "{name}");
    }
    assert_eq!(answer.header("set-cookie"), "");
    let host = format!("Host: {}\r\n", agent.address());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = ask(&agent, &format!("{method} /api/v1/now"), &host);
        assert_eq!(answer.status, 405, "{method}");
    }
    for path in [
        "/api/v2/now",
        "/api/v1/",
        "/api/v1/now/x",
        "/api/v1/nobody",
        "/api",
    ] {
        assert_eq!(
            ask(&agent, &format!("GET {path}"), &host).status,
            404,
            "{path}"
        );
    }
}

#[test]
fn an_answer_is_compressed_and_has_a_tag() {
    let _machine = support::shared();
    let agent = agent();
    ready(&agent);
    let host = format!("Host: {}\r\n", agent.address());
    let packed = format!("{host}Accept-Encoding: gzip\r\n");
    let plain = ask(&agent, "GET /api/v1/openapi.json", &host);
    let gzip = ask(&agent, "GET /api/v1/openapi.json", &packed);
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(gzip.header("content-encoding"), "gzip");
    assert_eq!(gzip.body[..2], [0x1f, 0x8b]);
    assert!(gzip.body.len() * 4 < plain.body.len());
    let known = format!("{host}If-None-Match: {}\r\n", plain.header("etag"));
    let same = ask(&agent, "GET /api/v1/openapi.json", &known);
    assert_eq!((same.status, same.body.len()), (304, 0));
    // Figures have the same tag as their batch.
    let first = get(&agent, "node");
    support::wait_until("the next batch has another tag", || {
        get(&agent, "node").header("etag") != first.header("etag")
    });
}

#[test]
fn streams_announce_batches_and_are_bounded() {
    let _machine = support::shared();
    let agent = agent();
    ready(&agent);
    let open = || {
        let mut stream = connect(&agent);
        let request = format!(
            "GET /api/v1/stream HTTP/1.1\r\nHost: {}\r\n\r\n",
            agent.address()
        );
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let status = lines.next().expect("a status");
        (status, lines)
    };
    let (status, mut lines) = open();
    assert!(status.contains("200"), "{status}");
    let mut next = || -> u64 {
        let line = lines
            .find(|line| line.starts_with("data: "))
            .expect("a tick");
        let tick: Value = serde_json::from_str(&line[6..]).expect("JSON");
        tick["sequence"].as_u64().expect("a number")
    };
    let first = next();
    assert!(next() > first);
    let more: Vec<_> = (0..40).map(|_| open()).collect();
    let refused = more
        .iter()
        .filter(|(status, _)| status.contains("503"))
        .count();
    assert_eq!(refused, 40 - 7, "8 are open");
    assert_eq!(get(&agent, "now").status, 200, "others are answered");
    drop(more);
    support::wait_until("places come back", || open().0.contains("200"));
}

#[test]
fn event_is_listed_with_its_description() {
    let _machine = support::shared();
    needs!("process_events");
    let agent = agent();
    ready(&agent);
    let status = std::process::Command::new("sh")
        .args(["-c", "kill -SEGV $$"])
        .status();
    assert!(!status.expect("a shell").success());
    support::wait_until("its end is listed", || {
        let events = get(&agent, "events?kind=process.exit&filter=sh").json();
        let rows = events["rows"].as_array().expect("rows").clone();
        rows.iter()
            .any(|row| row["process.exit.signal"].as_u64() == Some(11) && row["tone"] != "plain")
    });
}
