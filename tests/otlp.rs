//! Tests of what an OpenTelemetry receiver gets. The receiver checks the official schema and
//! responds as the test requests.

mod tls;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::process::Stdio;

use rustix::process::Pid;
use serde_json::json;
use tempfile::TempDir;

use super::support::affinity::{last_cpu, pin};
use super::support::agent::{Agent, Sample};
use super::support::cgroup::{Below, Group};
use super::support::container::{BURN, Bundle, Wish, hex_id, pod_uid};
use super::support::load::Load;
use super::support::receiver::{Point, Receiver, Record};
use super::support::{self, Part, wait_for, wait_for_or_explain, wait_until};

/// An agent that sends to a receiver, with its configuration.
struct Sending {
    agent: Agent,
    receiver: Receiver,
    _folder: TempDir,
}

/// How many items of a signal the agent has counted.
struct Counts {
    sent: u64,
    /// Lost items by reason.
    lost: BTreeMap<String, u64>,
    waiting: u64,
}

/// Starts an agent and a receiver. `options` are lines of the section `[otlp]`, and possibly
/// further sections.
fn start(grpc: bool, options: &str) -> Sending {
    start_to(Receiver::start(), grpc, "http", options)
}

fn start_to(receiver: Receiver, grpc: bool, scheme: &str, options: &str) -> Sending {
    start_with(receiver, grpc, scheme, options, Stdio::inherit())
}

/// Like [`start_to`]. `errors` is the agent's standard error.
fn start_with(
    receiver: Receiver,
    grpc: bool,
    scheme: &str,
    options: &str,
    errors: Stdio,
) -> Sending {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    let (port, protocol) = match grpc {
        true => (receiver.grpc, "grpc"),
        false => (receiver.http, "http/protobuf"),
    };
    // The interval is so short that every batch is sent.
    let text = format!(
        "[otlp]\nendpoint = \"{scheme}://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n\
         interval_seconds = 0.1\n{options}"
    );
    fs::write(&config, text).expect("a file");
    let agent = Agent::start_with(&["--config", config.to_str().expect("text")], errors);
    Sending {
        agent,
        receiver,
        _folder: folder,
    }
}

impl Sending {
    fn count(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let name = format!("noctule_self_otlp_{name}");
        self.agent
            .value(&name, labels)
            .unwrap_or_else(|| panic!("no {name}"))
    }

    fn lost(&self, reason: &str) -> f64 {
        self.count("lost_total", &[("signal", "metrics"), ("reason", reason)])
    }

    fn retries(&self) -> f64 {
        self.count("retries_total", &[("signal", "metrics")])
    }

    /// Returns the counts of a signal. All of them are from one moment.
    fn counts(&self, signal: &str) -> Counts {
        let samples = self.agent.metrics();
        let of_signal = |it: &&Sample| it.labels.get("signal").is_some_and(|it| it == signal);
        let samples: Vec<&Sample> = samples.iter().filter(of_signal).collect();
        let one = |name: &str| {
            let sample = samples.iter().find(|it| it.name == name);
            sample.unwrap_or_else(|| panic!("no {name}")).value as u64
        };
        let lost = samples
            .iter()
            .filter(|it| it.name == "noctule_self_otlp_lost_total");
        let lost = lost.map(|it| (it.labels["reason"].clone(), it.value as u64));
        Counts {
            sent: one("noctule_self_otlp_sent_total"),
            lost: lost.collect(),
            waiting: one("noctule_self_otlp_queue_items"),
        }
    }

    /// Checks that the agent's count of sent and rejected items equals the items of the first
    /// requests.
    fn assert_sent_is_exact(&self) {
        let counts = self.counts("metrics");
        let taken = counts.sent + counts.lost["rejected"];
        let mut sum = 0;
        let sums: Vec<u64> = std::iter::once(0)
            .chain(self.receiver.points().iter().map(|points| {
                sum += points.len() as u64;
                sum
            }))
            .collect();
        assert!(sums.contains(&taken), "{taken} is none of {sums:?}");
    }

    /// Checks that everything conforms to the schema and the semantic conventions. The receiver may
    /// get no point twice, times must increase, and a series must have one start.
    fn assert_sound(&self) {
        for signal in ["metrics", "logs"] {
            for request in self.receiver.requests(signal) {
                assert_eq!(request["strange"], serde_json::json!([]), "{request}");
            }
        }
        let mut series: HashMap<String, (u64, u64)> = HashMap::new();
        for point in self.receiver.points().into_iter().flatten() {
            let Point {
                name,
                resource,
                attributes,
                ..
            } = &point;
            let key = format!("{name} {resource:?} {attributes:?}");
            let is_gauge = point.instrument == "gauge";
            assert_eq!(point.start_ns == 0, is_gauge, "{key}");
            assert!(is_gauge || point.start_ns < point.time_ns, "{key}");
            if let Some((start, last)) = series.get(&key) {
                assert_eq!(*start, point.start_ns, "{key}");
                assert!(
                    point.time_ns > *last,
                    "{key}: {} after {last}",
                    point.time_ns
                );
            }
            series.insert(key, (point.start_ns, point.time_ns));
        }
    }
}

/// A line of the list of metrics in docs/otlp.md.
struct Documented {
    attributes: BTreeMap<String, String>,
    unit: String,
    instrument: String,
    /// Name of the samples in `/metrics`.
    ours: String,
}

/// Returns the metrics of docs/otlp.md by name.
fn documented() -> HashMap<String, Vec<Documented>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/otlp.md");
    let text = fs::read_to_string(path).expect("docs/otlp.md");
    let mut all: HashMap<String, Vec<Documented>> = HashMap::new();
    let (_, list) = text.split_once("| in `/metrics` |").expect("the list");
    for line in list.lines().filter(|line| line.starts_with("| `")) {
        let line = line.replace("\\|", "/");
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let quoted = |cell: &str| cell.trim_matches(['`', ' ', '|']).to_owned();
        let fixed = cells[1].split(", ").filter_map(|it| {
            let (key, value) = it.trim_matches('`').split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        });
        let fixed: BTreeMap<String, String> = fixed.collect();
        for (name, ours) in expanded(&quoted(cells[0])).zip(expanded(&quoted(cells[4]))) {
            all.entry(name).or_default().push(Documented {
                attributes: fixed.clone(),
                unit: quoted(cells[2]),
                instrument: cells[3].to_owned(),
                ours,
            });
        }
    }
    all
}

/// Expands `a(b/c)d` to `abd` and `acd`.
fn expanded(text: &str) -> impl Iterator<Item = String> + use<> {
    let (begin, rest) = text.split_once('(').unwrap_or((text, ")"));
    let (choice, end) = rest.split_once(')').expect("a closing one");
    let all: Vec<String> = choice
        .split('/')
        .map(|it| format!("{begin}{it}{end}"))
        .collect();
    all.into_iter()
}

/// Returns the samples of a point in `/metrics`: names, labels and values.
fn samples(point: &Point, documented: &HashMap<String, Vec<Documented>>) -> Vec<(String, f64)> {
    let lines = documented.get(&point.name);
    let lines = lines.unwrap_or_else(|| panic!("{} is not in docs/otlp.md", point.name));
    let has = |(key, value): (&String, &String)| point.attributes.get(key) == Some(value);
    let mut fitting = lines.iter().filter(|line| line.attributes.iter().all(has));
    let line = fitting.next().unwrap_or_else(|| panic!("{point:?}"));
    assert_eq!(line.unit, point.unit, "{}", point.name);
    let instrument = match (point.instrument.as_str(), point.monotonic) {
        ("sum", true) => "counter",
        ("sum", false) => "up-down counter",
        ("gauge", _) => "gauge",
        _ => "exponential histogram",
    };
    assert_eq!(line.instrument, instrument, "{}", point.name);
    let mut labels = identity(&point.resource);
    for (key, value) in &point.attributes {
        if line.attributes.contains_key(key) || key == "process.context_switch.type" {
            continue;
        }
        let (key, value) = match key.as_str() {
            "network.io.direction" if value == "transmit" => ("direction".into(), "sent"),
            "network.io.direction" => ("direction".into(), "received"),
            key => {
                let label = key.strip_prefix("noctule.");
                let label = label.unwrap_or_else(|| panic!("{key} of {}", point.name));
                (label.replace('.', "_"), value.as_str())
            }
        };
        labels.insert(key, value.to_owned());
    }
    let named = |suffix: &str| format!("{}{suffix} {labels:?}", line.ours);
    match point.counts {
        None => vec![(named(""), point.value)],
        Some((count, in_buckets)) => {
            assert_eq!(count, in_buckets, "{}", point.name);
            vec![
                (named("_count"), count as f64),
                (named("_sum"), point.value),
            ]
        }
    }
}

/// Returns the labels that identify a row, from its resource.
fn identity(resource: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let labels = resource.iter().filter_map(|(key, value)| {
        let label = match key.as_str() {
            "container.id" => "container_id",
            "container.name" => "container",
            "container.runtime.name" => "runtime",
            "k8s.pod.uid" => "pod_uid",
            "k8s.pod.name" => "pod",
            "k8s.namespace.name" => "namespace",
            "systemd.unit" => "unit",
            "process.linux.cgroup" => "cgroup",
            _ => return None,
        };
        Some((label.to_owned(), value.clone()))
    });
    labels.collect()
}

/// Returns the samples to compare. The age is left out because it depends on the time of the
/// scrape, and the buckets because they differ.
fn compared(samples: &[Sample]) -> BTreeMap<String, f64> {
    let wanted = samples.iter().filter(|sample| {
        sample.name != "noctule_self_tick_age_seconds" && !sample.name.ends_with("_bucket")
    });
    wanted
        .map(|sample| (format!("{} {:?}", sample.name, sample.labels), sample.value))
        .collect()
}

/// Returns a scrape whose figures were sent, and the points of its batch. The agent's own CPU time
/// identifies a batch, because it differs in each. If the queue had no room for the figures of a
/// scrape, another scrape is taken as soon as later figures have arrived.
fn a_scrape_that_was_sent(sending: &Sending) -> (Vec<Sample>, Vec<Point>) {
    wait_for("the figures of a scrape are sent", || {
        let scraped = sending.agent.metrics();
        let mut cpu = scraped.iter();
        let cpu = cpu.find(|it| it.name == "noctule_self_cpu_seconds_total")?;
        let lossy = sending.lost("queue_full") > 0.0;
        let points = wait_for("these figures are sent, or lost", || {
            let all: Vec<Point> = sending.receiver.points().into_iter().flatten().collect();
            let mut own = all.iter().filter(|it| it.name == "noctule.self.cpu.time");
            match own.clone().find(|it| it.value == cpu.value) {
                Some(Point { time_ns: time, .. }) => {
                    let time = *time;
                    Some(all.into_iter().filter(|it| it.time_ns == time).collect())
                }
                // The queue preserves the order of batches.
                None => (lossy && own.any(|it| it.value > cpu.value)).then(Vec::new),
            }
        });
        (!points.is_empty()).then_some((scraped, points))
    })
}

/// Checks that the receiver has each number of `/metrics` and no others. A new row is at 0 for a
/// new reader, and a scrape may see the row later than the receiver. The comparison is then
/// repeated.
fn assert_equal_to_metrics(sending: &Sending) {
    let documented = documented();
    let last = RefCell::new(Vec::new());
    let equal = || {
        let differ = differences(sending, &documented);
        let equal = differ.is_empty();
        last.replace(differ);
        equal.then_some(())
    };
    wait_for_or_explain("the numbers are equal", equal, || last.borrow().join("\n"));
}

/// Returns the numbers of a scrape that the receiver lacks, and those that only the receiver has.
fn differences(sending: &Sending, documented: &HashMap<String, Vec<Documented>>) -> Vec<String> {
    let (scraped, points) = a_scrape_that_was_sent(sending);
    let sent = points.iter().flat_map(|point| samples(point, documented));
    let mut sent: BTreeMap<String, f64> = sent.collect();
    sent.retain(|key, _| !key.starts_with("noctule_self_tick_age_seconds "));
    let scraped = compared(&scraped);
    assert!(scraped.len() > 100, "{}", scraped.len());
    let keys: BTreeSet<&String> = scraped.keys().chain(sent.keys()).collect();
    keys.into_iter()
        .filter(|key| scraped.get(*key) != sent.get(*key))
        .map(|key| format!("{key}: {:?}, sent {:?}", scraped.get(key), sent.get(key)))
        .collect()
}

#[test]
fn receiver_gets_the_numbers_of_metrics() {
    let _machine = support::shared_but(&[Part::Groups]);
    let group = Group::new("otlp");
    let id = hex_id();
    let container = Below::new(&format!("docker/{id}"));
    let some = "while :; do /bin/true; /bin/sleep 0.02; done";
    let _loads = [&group, &container.group].map(|group| Load::shell(group, some));
    for grpc in [false, true] {
        let more = "headers = { x-who = \"me\" }\nattributes = { \"k8s.cluster.name\" = \"c\" }\n";
        let sending = start(grpc, more);
        let cgroup = group.path();
        let of_group = [("cgroup", cgroup.as_str())];
        let name = "noctule_cgroup_process_exits_total";
        sending
            .agent
            .wait_for_value(name, &of_group, |exits| exits > 0.0);
        let of_container = [("container_id", id.as_str())];
        let name = "noctule_container_cpu_seconds_total";
        sending.agent.wait_for_value(name, &of_container, |_| true);
        assert_equal_to_metrics(&sending);
        sending.assert_sound();
        let requests = sending.receiver.requests("metrics");
        let how = &requests[0]["how"];
        assert_eq!(how["x-who"], "me", "{how}");
        assert_eq!(how["path"], if grpc { "grpc" } else { "/v1/metrics" });
        let points = sending.receiver.points();
        let resources: BTreeSet<_> = points
            .iter()
            .flatten()
            .map(|it| it.resource.clone())
            .collect();
        for resource in &resources {
            assert_eq!(resource["k8s.cluster.name"], "c");
            assert!(resource.contains_key("host.name"), "{resource:?}");
        }
        let of_container = |it: &&BTreeMap<_, _>| it.get("container.id") == Some(&id);
        let found = resources.iter().filter(of_container).count();
        assert_eq!(found, 1, "nothing was sent before its labels were settled");
        let agents: Vec<_> = resources
            .iter()
            .filter(|it| it.contains_key("service.name"))
            .collect();
        assert_eq!(agents.len(), 1, "{agents:?}");
        assert_eq!(agents[0]["service.instance.id"].len(), 36);
    }
}

#[test]
fn instance_id_survives_a_restart() {
    let _machine = support::shared();
    let ids: BTreeSet<String> = (0..2)
        .map(|_| {
            let sending = start(false, "compression = \"none\"\n");
            let points = wait_for("a request", || sending.receiver.points().pop());
            let mut ids = points
                .iter()
                .filter_map(|it| it.resource.get("service.instance.id"));
            ids.next().expect("an id").clone()
        })
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[test]
fn refused_requests_are_retried_if_temporary() {
    let _machine = support::shared();
    let cases = [
        (
            false,
            r#"{"status": 503, "times": 2, "headers": {"Retry-After": "1"}}"#,
            r#"{"status": 429, "times": 1}"#,
            r#"{"status": 400, "times": 1}"#,
        ),
        (
            true,
            r#"{"grpc": "UNAVAILABLE", "times": 2}"#,
            r#"{"grpc": "RESOURCE_EXHAUSTED", "retry_seconds": 1, "times": 1}"#,
            r#"{"grpc": "RESOURCE_EXHAUSTED", "times": 1}"#,
        ),
    ];
    for (grpc, busy, throttled, final_answer) in cases {
        let sending = start(grpc, "events = \"off\"\n");
        sending.receiver.answer(busy);
        wait_until("it was asked again", || sending.retries() >= 2.0);
        sending.receiver.answer(throttled);
        wait_until("it was asked once more", || sending.retries() >= 3.0);
        assert_eq!(sending.lost("refused") + sending.lost("rejected"), 0.0);
        sending.receiver.answer(r#"{"rejected": 5, "times": 1}"#);
        wait_until("five points are rejected", || {
            sending.lost("rejected") > 0.0
        });
        assert_eq!(sending.lost("rejected"), 5.0);
        sending.receiver.answer(final_answer);
        wait_until("a request is lost", || sending.lost("refused") > 0.0);
        sending.receiver.answer(r#"{"delay": 2.0, "times": 1}"#);
        let had = sending.receiver.points().len();
        wait_until("more comes", || sending.receiver.points().len() > had + 1);
        assert_eq!(sending.lost("queue_full") + sending.lost("unsent"), 0.0);
        sending.assert_sent_is_exact();
        sending.assert_sound();
    }
}

/// Returns the collection times of the points.
fn times(receiver: &Receiver) -> BTreeSet<u64> {
    let points = receiver.points();
    points.iter().flatten().map(|it| it.time_ns).collect()
}

#[test]
fn queue_survives_an_absent_receiver() {
    let _machine = support::shared();
    let mut sending = start(false, "events = \"off\"\n");
    wait_until("the first figures are sent", || {
        !times(&sending.receiver).is_empty()
    });
    sending.receiver.stop();
    let waiting = |sending: &Sending| sending.count("queue_items", &[("signal", "metrics")]);
    let cpu = |sending: &Sending| sending.agent.value("noctule_self_cpu_seconds_total", &[]);
    // Each scrape with different figures belongs to another batch.
    let mut away = BTreeSet::new();
    wait_until("five batches wait", || {
        away.extend(cpu(&sending).map(f64::to_bits));
        away.len() >= 5 && waiting(&sending) > 0.0
    });
    sending.receiver.start_again();
    let sent = || {
        let points = sending.receiver.points();
        let own = points
            .iter()
            .flatten()
            .filter(|it| it.name == "noctule.self.cpu.time");
        own.map(|it| it.value.to_bits()).collect::<BTreeSet<u64>>()
    };
    wait_until("what waited is sent", || sent().is_superset(&away));
    for reason in ["queue_full", "refused", "rejected", "unsent"] {
        assert_eq!(sending.lost(reason), 0.0, "{reason}");
    }
    sending.assert_sent_is_exact();
    assert_equal_to_metrics(&sending);
    sending.assert_sound();
}

#[test]
fn overflow_of_the_queue_is_counted() {
    let _machine = support::shared();
    let options = "events = \"off\"\ncompression = \"none\"\nqueue_bytes = 65536\n";
    let mut sending = start(
        false,
        &format!("{options}[collect]\ninterval_seconds = 0.1\n"),
    );
    wait_until("the first figures are sent", || {
        !times(&sending.receiver).is_empty()
    });
    sending.receiver.stop();
    wait_until("some found no room", || sending.lost("queue_full") > 1000.0);
    let bytes = sending.count("queue_bytes", &[("signal", "metrics")]);
    sending.receiver.start_again();
    let had = times(&sending.receiver);
    wait_until("it goes on", || {
        times(&sending.receiver).len() > had.len() + 5
    });
    // A request in flight does not count against the queue. A request larger than the queue is
    // queued alone.
    assert!(bytes < 65_536.0 * 8.0, "{bytes}");
    sending.assert_sent_is_exact();
    // Lost points cost resolution, but no totals.
    assert_equal_to_metrics(&sending);
    sending.assert_sound();
}

/// Returns the names in backquotes of the documents that list the keys of records.
fn words() -> BTreeSet<String> {
    let read = |name: &str| {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).expect("a document")
    };
    let text = ["json.md", "event-fields.md", "otlp.md"].map(read).concat();
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

#[test]
fn events_are_records_with_the_resource_of_their_row() {
    let _machine = support::shared();
    let group = Group::new("otlp-events");
    let sending = start(false, "metrics = false\n");
    let load = Load::shell(&group, "read line; :");
    load.kill();
    load.wait_for_end();
    let cgroup = group.path();
    let record = wait_for("the end is sent", || {
        let records = sending.receiver.records();
        records.into_iter().find(|it| {
            it.event == "process.exit" && it.resource.get("process.linux.cgroup") == Some(&cgroup)
        })
    });
    assert_eq!(
        (
            record.severity.as_str(),
            &*record.attributes["noctule.process.exit.signal"]
        ),
        ("WARN", "9")
    );
    assert_eq!(record.attributes["process.pid"], load.pid().to_string());
    assert_eq!(record.attributes["event.name"], "process.exit");
    assert!(record.body.contains("SIGKILL"), "{}", record.body);
    let others = sending.receiver.records();
    assert!(others.iter().all(|it| it.severity != "INFO"), "{others:?}");
    assert!(sending.receiver.requests("metrics").is_empty());
    sending.assert_sound();
}

#[test]
fn all_events_are_sent_once_and_their_keys_are_documented() {
    let _machine = support::shared();
    let group = Group::new("otlp-all");
    let mut sending = start(true, "metrics = false\nevents = \"all\"\n");
    let count = 300;
    let script = format!("i=0; while [ $i -lt {count} ]; do i=$((i + 1)); /bin/true; done; read x");
    let load = Load::shell(&group, &script);
    let of_group = |receiver: &Receiver| {
        let cgroup = group.path();
        let mut records = receiver.records();
        records.retain(|it| it.resource.get("process.linux.cgroup") == Some(&cgroup));
        records
    };
    let ends = |receiver: &Receiver| {
        let all = of_group(receiver);
        all.iter().filter(|it| it.event == "process.exit").count()
    };
    wait_until("some are sent", || ends(&sending.receiver) > 10);
    sending.receiver.stop();
    sending.receiver.start_again();
    wait_until("all are sent", || ends(&sending.receiver) >= count);
    drop(load);
    let lost = |reason| sending.count("lost_total", &[("signal", "logs"), ("reason", reason)]);
    assert_eq!(lost("queue_full") + lost("refused"), 0.0);
    let records = of_group(&sending.receiver);
    let mut ids = BTreeSet::new();
    let once = records
        .iter()
        .filter(|it| ids.insert(it.attributes["log.record.uid"].clone()));
    let once: Vec<_> = once.filter(|it| it.event == "process.exit").collect();
    assert!(
        once.len() == count || once.len() == count + 1,
        "{}",
        once.len()
    );
    let words = words();
    for record in sending.receiver.records() {
        for key in record.attributes.keys().chain(record.resource.keys()) {
            let own = key.strip_prefix("noctule.");
            assert!(
                words.contains(key) || own.is_some_and(|own| words.contains(own)),
                "{key} of {} is in no document",
                record.event
            );
        }
    }
    sending.assert_sound();
}

/// Returns the number of a record, counted from the start of the agent.
fn sequence(record: &Record) -> u64 {
    let uid = &record.attributes["log.record.uid"];
    let (_, digits) = uid
        .match_indices('-')
        .nth(2)
        .map_or(("", ""), |(at, _)| uid.split_at(at));
    u64::from_str_radix(&digits.replace('-', ""), 16).unwrap_or_else(|e| panic!("{uid}: {e}"))
}

/// Records are numbered, so the test knows how many the agent made and which ones the receiver
/// lacks.
#[test]
fn sent_and_lost_records_add_up() {
    let _machine = support::shared();
    let group = Group::new("otlp-made");
    let options =
        "metrics = false\nevents = \"all\"\nqueue_bytes = 65536\ncompression = \"none\"\n";
    let mut sending = start(false, options);
    let storm = Load::shell(&group, "while :; do /bin/true; done");
    let lost = |sending: &Sending, reason: &str| sending.counts("logs").lost[reason];
    wait_until("some are sent", || sending.counts("logs").sent > 0);
    sending.receiver.answer(r#"{"rejected": 3, "times": 1}"#);
    wait_until("some are rejected", || lost(&sending, "rejected") > 0);
    sending.receiver.answer(r#"{"status": 400, "times": 1}"#);
    wait_until("some are refused", || lost(&sending, "refused") > 0);
    sending.receiver.stop();
    wait_until("some found no room", || lost(&sending, "queue_full") > 100);
    storm.kill();
    storm.wait_for_end();
    sending.receiver.start_again();
    let counts = wait_for("nothing waits", || {
        Some(sending.counts("logs")).filter(|counts| counts.waiting == 0)
    });
    let made = counts.sent + counts.lost.values().sum::<u64>();
    let records = sending.receiver.records();
    let numbers: BTreeSet<u64> = records.iter().map(sequence).collect();
    let had = numbers.range(..=made).count() as u64;
    // The test receiver also stores the records that it rejects.
    assert_eq!(
        had,
        counts.sent + counts.lost["rejected"],
        "of {made}: {:?}",
        counts.lost
    );
    assert_eq!(counts.lost["rejected"], 3);
    assert!(
        numbers.contains(&made),
        "the last one that was made was sent"
    );
    sending.assert_sound();
}

#[test]
fn a_verdict_that_changes_is_a_record() {
    let _machine = support::shared_but(&[Part::LastCpu]);
    needs!("cpu_waits");
    let (victim, hog) = (
        Group::new("otlp-victim").heavy(),
        Group::new("otlp-hog").heavy(),
    );
    let window = "[verdicts]\nwindow_seconds = 1.0\n";
    let sending = start(false, &format!("metrics = false\n{window}"));
    let verdicts = |of: &Group| {
        let mut records = sending.receiver.records();
        let path = of.path();
        records.retain(|it| {
            let same = it.resource.get("process.linux.cgroup") == Some(&path);
            same && it.event == "noctule.verdict"
        });
        records
    };
    let mut load = Load::own(&victim, "spin 1");
    let other = Load::own(&hog, "spin 1");
    let hurt = wait_for("the victim is hurt", || verdicts(&victim).pop());
    assert_eq!(hurt.severity, "WARN");
    let key = |key: &str| hurt.attributes[key].clone();
    assert_eq!(key("noctule.verdict"), "hurt_by_neighbour");
    assert_eq!(key("noctule.verdict.before"), "quiet");
    assert_eq!(key("noctule.culprit"), hog.path());
    assert!(hurt.body.starts_with(&victim.path()), "{}", hurt.body);
    other.kill();
    let quiet = wait_for("it is quiet again", || {
        let mut all = verdicts(&victim);
        all.retain(|it| it.severity == "INFO");
        all.pop()
    });
    assert_eq!(quiet.attributes["noctule.verdict"], "quiet");
    load.kill();
    load.reap();
    sending.assert_sound();
}

/// The verdict of a container can be known before its name, because a runtime may write the name
/// after the start.
#[test]
fn verdict_of_a_new_container_has_its_name() {
    let _machine = support::shared_but(&[Part::LastCpu, Part::Groups]);
    needs!("cpu_waits");
    let (id, uid) = (hex_id(), pod_uid());
    let hog = Group::new("otlp-young-hog").heavy();
    let window = "[verdicts]\nwindow_seconds = 1.0\n";
    let sending = start(false, &format!("metrics = false\n{window}"));
    let _other = Load::own(&hog, "spin 1");
    let path = format!("/kubepods/besteffort/pod{uid}/{id}");
    let mut wish = Wish::burn(&id, &path);
    wish.script = format!("read line < /rest; {BURN}");
    let container = wish.create();
    container.start();
    let rest = container.rests();
    pin(Pid::from_raw(container.pid() as i32), last_cpu());
    drop(rest);
    // By now the agent has looked up the name, and the container already waits.
    let used = hog.usage_seconds();
    // The wait is shorter than a window. After a whole window, the verdict would be known before
    // the name.
    wait_until("it waits", || hog.usage_seconds() > used + 0.1);
    let annotations = json!({
        "io.kubernetes.cri.container-name": "late",
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "young-x2x2x",
        "io.kubernetes.cri.sandbox-namespace": "prod",
        "io.kubernetes.cri.sandbox-uid": uid,
    });
    let _bundle = Bundle::write(&id, &annotations);
    let hurt = wait_for("the container is hurt", || {
        let mut records = sending.receiver.records().into_iter();
        records.find(|it| {
            it.event == "noctule.verdict" && it.resource.get("container.id") == Some(&id)
        })
    });
    // The cgroup has a normal weight, so other loads may also make it wait.
    let verdict = &hurt.attributes["noctule.verdict"];
    assert!(verdict.starts_with("hurt_by_neighbour"), "{verdict}");
    assert_eq!(hurt.resource["container.name"], "late");
    assert_eq!(hurt.resource["k8s.pod.name"], "young-x2x2x");
    sending.assert_sound();
}
