//! A running agent.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::NOCTULE;
use super::cgroup::Group;

/// A `noctule run` process that listens on a free port. Dropping it ends the process with SIGTERM.
pub(crate) struct Agent {
    child: Child,
    address: String,
    /// Output of the process up to the moment at which it was ready.
    pub(crate) said: String,
}

/// A sample of an exposition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Agent {
    /// Starts an agent and waits until it has figures.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, Stdio::inherit())
    }

    /// Like [`Self::start`], with the given standard error.
    pub(crate) fn start_with(args: &[&str], errors: Stdio) -> Self {
        Self::start_command(Command::new(NOCTULE), args, errors)
    }

    /// Like [`Self::start`], in a group that is as heavy as the loads of the test. On a busy
    /// machine, the agent otherwise gets too little CPU time to keep up with these loads.
    pub(crate) fn start_heavy(args: &[&str]) -> (Group, Self) {
        let group = Group::new("agent").heavy();
        let agent = Self::start_command(group.command(NOCTULE), args, Stdio::inherit());
        (group, agent)
    }

    fn start_command(mut command: Command, args: &[&str], errors: Stdio) -> Self {
        command.args(["run", "--listen", "127.0.0.1:0"]).args(args);
        let (mut agent, said) = Self::start_unready(command, errors);
        super::wait_until("the agent is ready", || {
            agent.get("/readyz", "*/*").0 == 200
        });
        agent.said = std::iter::once(agent.said.clone())
            .chain(said.try_iter())
            .collect::<Vec<_>>()
            .join("\n");
        agent
    }

    /// Starts a command that runs `noctule run`, and waits until it prints its address. The later
    /// output of the command is sent to the channel.
    pub(crate) fn start_unready(mut command: Command, errors: Stdio) -> (Self, Receiver<String>) {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the binary can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let first = lines
            .next()
            .expect("it says where it listens")
            .expect("text");
        let (_, rest) = first.split_once("://").expect("an address");
        let address = rest.split('/').next().expect("an address").to_owned();
        // The pipe is read to its end, so that the agent never blocks on it.
        let (sender, said) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let agent = Self {
            child,
            address,
            said: first,
        };
        (agent, said)
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns status and body of a GET.
    pub(crate) fn get(&self, path: &str, accept: &str) -> (u16, String) {
        self.ask(path, &format!("Accept: {accept}\r\n"))
    }

    fn ask(&self, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the agent listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a time-out");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .expect("the request is sent");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("an answer in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number");
        (status, body.to_owned())
    }

    /// Returns the samples of `/metrics` in the classic format.
    pub(crate) fn metrics(&self) -> Vec<Sample> {
        samples(&self.get("/metrics", "text/plain"))
    }

    /// Like [`Self::metrics`], in the form that Prometheus gets. A series that is new to Prometheus
    /// starts at 0.
    pub(crate) fn scrape(&self) -> Vec<Sample> {
        let headers = "Accept: text/plain\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n";
        samples(&self.ask("/metrics", headers))
    }

    /// Returns the sum of the samples with this name and matching labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |s: &Sample| {
            s.name == name
                && labels
                    .iter()
                    .all(|(k, v)| s.labels.get(*k).map(String::as_str) == Some(*v))
        };
        let values: Vec<f64> = self
            .metrics()
            .into_iter()
            .filter(fits)
            .map(|s| s.value)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// Waits until that sum fulfils a condition. On failure, prints the age of the figures, and the
    /// existing series of the row that the labels select.
    #[track_caller]
    pub(crate) fn wait_for_value(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        holds: impl Fn(f64) -> bool,
    ) {
        let find = || self.value(name, labels).filter(|value| holds(*value));
        super::wait_for_or_explain(name, find, || self.series(labels));
    }

    /// Returns the series with these labels, one per line, and the series about the agent's ticks.
    fn series(&self, labels: &[(&str, &str)]) -> String {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.get(*key).is_some_and(|it| it == value)
        };
        let of_row = |sample: &&Sample| labels.iter().all(|label| has(sample, label));
        let own = [
            "noctule_self_tick_age_seconds",
            "noctule_self_cpu_seconds_total",
        ];
        let metrics = self.metrics();
        let shown = metrics
            .iter()
            .filter(|sample| own.contains(&&*sample.name) || of_row(sample));
        let line = |it: &Sample| format!("{} {:?} {}\n", it.name, it.labels, it.value);
        let lines: String = shown.map(line).collect();
        format!("series of {labels:?}, of {}:\n{lines}", metrics.len())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("not 0");
        // The agent may have ended.
        let _ = kill_process(pid, signal);
    }

    /// Waits until the agent ends.
    pub(crate) fn end(&mut self) -> ExitStatus {
        super::wait_for("the agent has ended", || {
            self.child.try_wait().expect("our child")
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if !thread::panicking() {
            self.end();
        }
    }
}

fn samples((status, body): &(u16, String)) -> Vec<Sample> {
    assert_eq!(*status, 200, "{body}");
    body.lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(parse)
        .collect()
}

/// Parses `name{label="value",...} 12.5`, with the escapes of the text format.
fn parse(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a value");
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").expect("a label");
            let (value, after) = quoted(after);
            labels.insert(label.trim_start_matches(',').to_owned(), value);
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest
        .trim()
        .parse()
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    Sample {
        name: line[..end].to_owned(),
        labels,
        value,
    }
}

/// Returns the text up to the closing quote, and the rest.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("an escape").1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}")
}
