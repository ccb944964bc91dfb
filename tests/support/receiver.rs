//! An OpenTelemetry receiver that validates its input against the official schema
//! (scripts/receiver.py).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::tls::Authority;

/// The receiver, ended when dropped.
pub(crate) struct Receiver {
    running: Option<Child>,
    folder: TempDir,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
    /// Files of the receiver's certificate, its key and the authority of its clients. Empty without
    /// TLS.
    tls: Vec<PathBuf>,
}

/// A data point at the receiver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// `sum`, `gauge` or `exponential_histogram`.
    pub(crate) instrument: String,
    pub(crate) monotonic: bool,
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) start_ns: u64,
    pub(crate) time_ns: u64,
    /// The value. For a histogram, the sum of its values.
    pub(crate) value: f64,
    /// For a histogram only: the count, and the sum over its buckets.
    pub(crate) counts: Option<(u64, u64)>,
}

/// A log record at the receiver.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) event: String,
    pub(crate) severity: String,
    pub(crate) body: String,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::start_as(Vec::new())
    }

    /// Starts a receiver with TLS that requires client certificates of this authority. The
    /// receiver's own certificate is `receiver.pem`.
    pub(crate) fn start_tls(authority: &Authority) -> Self {
        Self::start_tls_as(authority, "receiver")
    }

    /// Like [`Self::start_tls`], with another certificate of the authority.
    pub(crate) fn start_tls_as(authority: &Authority, name: &str) -> Self {
        Self::start_as(tls_files(authority, name))
    }

    /// From its next start, the receiver uses the certificate of another authority, and requires
    /// client certificates of that authority.
    pub(crate) fn take_tls(&mut self, authority: &Authority) {
        self.tls = tls_files(authority, "receiver");
    }

    fn start_as(tls: Vec<PathBuf>) -> Self {
        let mut this = Self {
            tls,
            running: None,
            folder: tempfile::tempdir().expect("a folder"),
            http: 0,
            grpc: 0,
        };
        this.start_again();
        this
    }

    /// Restarts the receiver on the same ports. The receiver keeps what it has received.
    pub(crate) fn start_again(&mut self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/receiver.sh");
        let mut command = Command::new(script);
        if !self.tls.is_empty() {
            command.arg("--tls").args(&self.tls);
        }
        let mut child = command
            .arg(self.folder.path().join("got"))
            .args(["--port", &self.http.to_string()])
            .args(["--grpc-port", &self.grpc.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("text");
        let mut ports = line
            .split_whitespace()
            .map(|port| port.parse().expect("a port"));
        self.http = ports
            .next()
            .expect("python3 with venv, and PyPI the first time");
        self.grpc = ports.next().expect("two ports");
        self.running = Some(child);
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            child.kill().expect("our child");
            child.wait().expect("our child");
            self.remove_partial_line();
        }
    }

    /// Removes the unfinished line that an ended receiver left. The agent sends such a request
    /// again, because it got no response.
    fn remove_partial_line(&self) {
        let got = self.folder.path().join("got");
        let bytes = fs::read(&got).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        if whole < bytes.len() {
            fs::write(&got, &bytes[..whole]).expect("our file");
        }
    }

    /// Sets the future responses, in the format of scripts/receiver.py.
    pub(crate) fn answer(&self, json: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).expect("it listens");
        let head = format!(
            "PUT /answer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            json.len()
        );
        stream
            .write_all((head + json).as_bytes())
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// Returns the accepted requests, in order. A duplicate counts once. Duplicates occur if the
    /// receiver ended, or was too slow, before the agent had read the response.
    pub(crate) fn requests(&self, signal: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("got")).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let mut requests: Vec<Value> = Vec::new();
        for request in lines.filter(|it: &Value| it["signal"] == signal) {
            let again = requests
                .last()
                .is_some_and(|last| last["message"] == request["message"]);
            if !again {
                requests.push(request);
            }
        }
        requests
    }

    /// Returns the points of each request.
    pub(crate) fn points(&self) -> Vec<Vec<Point>> {
        let requests = self.requests("metrics");
        requests.iter().map(points).collect()
    }

    /// Returns the log records of all requests.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.requests("logs").iter().flat_map(records).collect()
    }
}

fn tls_files(authority: &Authority, name: &str) -> Vec<PathBuf> {
    let files = [
        format!("{name}.pem"),
        format!("{name}.key"),
        "ca.pem".into(),
    ];
    files.map(|file| authority.at(&file)).to_vec()
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns attributes with their values in JSON form. Strings have no quotes.
fn attributes(value: &Value) -> BTreeMap<String, String> {
    let pair = |it: &Value| {
        let key = it["key"].as_str().expect("a key").to_owned();
        let value = it["value"].as_object().and_then(|it| it.values().next());
        let value = value.expect("a value");
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (key, text)
    };
    list(value, "attributes").iter().map(pair).collect()
}

/// Parses a 64-bit integer, which is a string in JSON.
fn number(value: &Value) -> u64 {
    value
        .as_str()
        .map_or(0, |text| text.parse().expect("a number"))
}

fn points(request: &Value) -> Vec<Point> {
    let mut points = Vec::new();
    for resource in list(&request["message"], "resource_metrics") {
        let of = attributes(&resource["resource"]);
        let scopes = list(resource, "scope_metrics").iter();
        for metric in scopes.flat_map(|scope| list(scope, "metrics")) {
            let kinds = ["sum", "gauge", "exponential_histogram"];
            let kind = kinds.into_iter().find(|kind| metric.get(kind).is_some());
            let kind = kind.expect("an instrument");
            let data = &metric[kind];
            if kind != "gauge" {
                assert_eq!(
                    data["aggregation_temporality"],
                    "AGGREGATION_TEMPORALITY_CUMULATIVE"
                );
            }
            let text = |key: &str| metric[key].as_str().expect(key).to_owned();
            assert!(!text("description").is_empty());
            for point in list(data, "data_points") {
                points.push(Point {
                    name: text("name"),
                    unit: text("unit"),
                    instrument: kind.to_owned(),
                    monotonic: data["is_monotonic"] == true,
                    resource: of.clone(),
                    attributes: attributes(point),
                    start_ns: number(&point["start_time_unix_nano"]),
                    time_ns: number(&point["time_unix_nano"]),
                    value: value(point),
                    counts: (kind == "exponential_histogram").then(|| {
                        let positive = list(&point["positive"], "bucket_counts");
                        let positive: u64 = positive.iter().map(number).sum();
                        let all = positive + number(&point["zero_count"]);
                        (number(&point["count"]), all)
                    }),
                });
            }
        }
    }
    points
}

fn value(point: &Value) -> f64 {
    let keys = ["as_double", "sum", "as_int"];
    let value = keys.into_iter().find_map(|key| point.get(key));
    match value.expect("a value") {
        Value::String(text) => text.parse().expect("a number"),
        value => value.as_f64().expect("a number"),
    }
}

fn records(request: &Value) -> Vec<Record> {
    let mut records = Vec::new();
    for resource in list(&request["message"], "resource_logs") {
        let scopes = list(resource, "scope_logs").iter();
        for record in scopes.flat_map(|scope| list(scope, "log_records")) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            records.push(Record {
                resource: attributes(&resource["resource"]),
                attributes: attributes(record),
                event: text(&record["event_name"]),
                severity: text(&record["severity_text"]),
                body: text(&record["body"]["string_value"]),
            });
        }
    }
    records
}
