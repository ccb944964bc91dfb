//! A Prometheus or VictoriaMetrics server that scrapes one agent, and promtool.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use super::http::request;

/// Returns seconds since 1970, the clock of Prometheus.
pub(crate) fn unix_now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

/// Returns whether promtool accepts an exposition, and promtool's output, which is empty for a
/// perfect exposition.
pub(crate) fn promtool(text: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed (Debian: prometheus)");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("our child");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

/// Directory of Prometheus' blocks.
const DATA: &str = "data";

/// The server, ended when dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server that scrapes this address each second, under the job name `noctule`.
    pub(crate) fn scraping(target: &str) -> Self {
        Self::scraping_with(target, None, &[])
    }

    /// Like [`Self::scraping`], with rules and more arguments.
    pub(crate) fn scraping_with(target: &str, rules: Option<&Path>, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let rules = rules.map_or(String::new(), |rules| {
            format!("rule_files: ['{}']\n", rules.display())
        });
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n{rules}\
             scrape_configs: [{{job_name: noctule, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        Self::start(folder, &config, args)
    }

    /// Starts a server that scrapes each second with these job options, in YAML on one line.
    pub(crate) fn scraping_by(target: &str, options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs: [{{job_name: noctule, {options}, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        Self::start(folder, &config, &[])
    }

    /// Starts a server whose blocks promtool creates from a file of samples with times.
    pub(crate) fn of_samples(text: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([text, &folder.path().join(DATA)])
            .output()
            .expect("promtool is installed (Debian: prometheus)");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        Self::start(folder, "", &["--storage.tsdb.retention.time=100y"])
    }

    fn start(folder: TempDir, config: &str, args: &[&str]) -> Self {
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("a file");
        let data = folder.path().join(DATA);
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg("--log.level=error")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self::ready(folder, command, "--web.listen-address", "/-/ready")
    }

    /// Starts a VictoriaMetrics that scrapes this address each second. It answers the same queries.
    pub(crate) fn victoria_metrics(target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("scrape.yml");
        let config = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs: [{{job_name: noctule, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        fs::write(&file, config).expect("a file");
        let mut command = Command::new("victoria-metrics");
        command
            .arg(format!("-promscrape.config={}", file.display()))
            .arg(format!(
                "-storageDataPath={}",
                folder.path().join(DATA).display()
            ))
            .args(["-search.latencyOffset=1s", "-loggerLevel=ERROR"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self::ready(folder, command, "-httpListenAddr", "/health")
    }

    fn ready(folder: TempDir, command: Command, listen: &str, path: &str) -> Self {
        let (child, address) = ready(command, listen, path);
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    /// Returns the results of a query at a time in seconds since 1970.
    pub(crate) fn query(&self, query: &str, at: f64) -> Vec<Value> {
        let query = percent_encoded(query);
        let path = format!("/api/v1/query?query={query}&time={at:.3}");
        match self.get(&path)["data"]["result"].take() {
            Value::Array(results) => results,
            other => panic!("{path}: {other}"),
        }
    }

    /// Returns the values of a label in the series of a selector.
    pub(crate) fn label_values(&self, label: &str, selector: &str) -> Vec<Value> {
        let selector = percent_encoded(selector);
        let path = format!("/api/v1/label/{label}/values?match[]={selector}");
        match self.get(&path)["data"].take() {
            Value::Array(values) => values,
            other => panic!("{path}: {other}"),
        }
    }

    /// Returns the server's information about its target.
    pub(crate) fn target(&self) -> Value {
        self.get("/api/v1/targets?state=active")["data"]["activeTargets"][0].take()
    }

    fn get(&self, path: &str) -> Value {
        let answer = request(&self.address, "GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // No clean shutdown is required, because the data is also deleted. The server may have
        // ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a free port, and waits until it is ready. `listen` is its option for the
/// address.
fn ready(mut command: Command, listen: &str, path: &str) -> (Child, String) {
    let mut ends = Vec::new();
    while ends.len() < 5 {
        let address = free_address();
        let mut child = command
            .arg(format!("{listen}={address}"))
            .spawn()
            .expect("the server is installed (Debian: prometheus, victoria-metrics)");
        let mut ended = None;
        super::wait_until("the server is ready", || {
            ended = child.try_wait().expect("our child");
            let listens = || TcpStream::connect(&address).is_ok();
            let ready = || request(&address, "GET", path, None).status == 200;
            ended.is_some() || listens() && ready()
        });
        match ended {
            None => return (child, address),
            // Another program has taken the port.
            Some(status) => ends.push(status),
        }
    }
    panic!("the server ends at each start: {ends:?}");
}

/// Returns an address at which no socket listens.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

fn percent_encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let encoded = text.bytes().map(|b| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    encoded.collect()
}
