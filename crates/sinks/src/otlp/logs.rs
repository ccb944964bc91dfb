//! Events and changed verdicts as log records.

use std::collections::{BTreeMap, HashMap};

use noctule_analysis::{Party, WaitReport, WaitReportRow};
use noctule_model::{
    CloseReason, Event, ExitStatus, Level, Owner, Subject, TcpChange, VerdictKind, What,
};
use noctule_text::{answer, escape};
use prost::Message as _;

use super::messages::{
    AnyValue, ArrayValue, KeyValue, KeyValueList, LogRecord, LogsRequest, ResourceLogs, ScopeLogs,
    Value,
};
use super::resource::{of_group, of_owner};
use super::{Identity, REQUEST_BYTES, Request, SCHEMA_URL, scope};
use crate::events::{event_line, event_value};

/// The event name of a changed verdict.
const VERDICT: &str = "noctule.verdict";

/// Keys of events that the semantic conventions define, sorted.
const CONVENTIONAL: &[&str] = &[
    "container.id",
    "container.name",
    "container.runtime.name",
    "dns.question.name",
    "error.type",
    "event.name",
    "file.directory",
    "file.mode",
    "file.path",
    "file.symbolic_link.target_path",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "network.local.address",
    "network.local.port",
    "network.peer.address",
    "network.peer.port",
    "network.transport",
    "network.type",
    "process.command_args",
    "process.executable.name",
    "process.executable.path",
    "process.exit.code",
    "process.linux.cgroup",
    "process.parent_pid",
    "process.pid",
    "process.real_user.id",
    "process.user.id",
    "process.working_directory",
    "thread.name",
    "user.id",
];

/// Severity, with OpenTelemetry's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An ordinary event.
    Info = 9,
    /// A failure that may be harmless.
    Warn = 13,
    /// A failure.
    Error = 17,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// Returns the severity of an event.
pub fn severity(what: &What) -> Severity {
    match what {
        What::OomKill { .. }
        | What::ProcessExit {
            oom_killed: true, ..
        } => Severity::Error,
        What::ProcessExit {
            status: Some(ExitStatus::Signal(_)),
            ..
        }
        | What::ProcessExecFailed { .. }
        | What::Gap { .. } => Severity::Warn,
        What::Tcp {
            change:
                TcpChange::ConnectFailed { .. }
                | TcpChange::Close {
                    reason: Some(CloseReason::Timeout | CloseReason::Keepalive),
                    ..
                },
            ..
        } => Severity::Warn,
        _ => Severity::Info,
    }
}

/// Builds requests from events and changed verdicts.
#[derive(Debug)]
pub struct EventRecords {
    identity: Identity,
    /// Identifies this run of the agent in the id of each record.
    run: u64,
    sequence: u64,
    /// Verdicts of the last window by subject, without quiet ones.
    verdicts: HashMap<Subject, VerdictKind>,
    /// Resource and records by subject, not yet in a request. `bytes` is their approximate size.
    open: BTreeMap<Option<Subject>, (Vec<KeyValue>, Vec<LogRecord>)>,
    bytes: usize,
    items: u64,
    ready: Vec<Request>,
}

impl EventRecords {
    /// Creates an empty builder. `run` must be unique among all runs of the agent, on all nodes.
    pub fn new(identity: Identity, run: u64) -> Self {
        Self {
            identity,
            run,
            sequence: 0,
            verdicts: HashMap::new(),
            open: BTreeMap::new(),
            bytes: 0,
            items: 0,
            ready: Vec::new(),
        }
    }

    /// Adds an event. `now_unix_ns` is the time at which the agent passes the event on, in
    /// nanoseconds since 1970.
    pub fn event(&mut self, event: &Event, now_unix_ns: u64) {
        let process = event.process.as_ref();
        let (subject, resource) = match process.and_then(|it| it.owner.as_deref()) {
            Some(owner) => (Some(owner.subject()), of_owner(owner)),
            None => match process.filter(|it| it.cgroup.0 != 0) {
                Some(process) => {
                    let owner = Owner::unknown(process.cgroup);
                    (Some(owner.subject()), of_group(process.cgroup))
                }
                None => (None, Vec::new()),
            },
        };
        let line = event_line(event, 0);
        let body = match line.who.is_empty() {
            true => line.what,
            false => format!("{}: {}", line.who, line.what),
        };
        let known = |key: &str| resource.iter().any(|it| it.key == key);
        let own = event_value(event).into_iter();
        let own = own.filter(|(key, _)| key != "time_unix_nano" && !known(key));
        let attributes =
            own.filter_map(|(key, value)| Some(KeyValue::new(attribute_key(key), any(value)?)));
        let record = Draft {
            name: event.what.name(),
            time_unix_ns: event.time_unix_ns,
            severity: severity(&event.what),
            body,
            attributes: attributes.collect(),
        };
        self.add(subject, resource, record, now_unix_ns);
    }

    /// Adds a record for each verdict that differs from the one in the previous window. The window
    /// ended at `time_unix_ns`.
    pub fn judged(&mut self, report: &WaitReport, time_unix_ns: u64) {
        if report.provisional {
            return;
        }
        let mut left = std::mem::take(&mut self.verdicts);
        for row in &report.rows {
            let Party::Group(owner) = &row.party else {
                continue;
            };
            let subject = owner.subject();
            let before = left.remove(&subject).unwrap_or_default();
            let now = row.verdict.kind;
            if before != now {
                let record = verdict(report, row, before, time_unix_ns);
                self.add(Some(subject.clone()), of_owner(owner), record, time_unix_ns);
            }
            if now != VerdictKind::Quiet {
                self.verdicts.insert(subject, now);
            }
        }
        // The remaining groups neither ran nor waited in this window, so they get no record.
    }

    fn add(
        &mut self,
        subject: Option<Subject>,
        resource: Vec<KeyValue>,
        draft: Draft,
        now_unix_ns: u64,
    ) {
        self.sequence += 1;
        let record = draft.record(self.uid(), now_unix_ns);
        let size = record.encoded_len() + 8;
        if self.bytes + size > REQUEST_BYTES {
            self.close();
        }
        self.bytes += size;
        self.items += 1;
        let (known, records) = self.open.entry(subject).or_default();
        // A name can arrive after the first event of the subject.
        if resource.len() > known.len() {
            self.bytes += resource
                .iter()
                .map(|it| it.encoded_len() + 4)
                .sum::<usize>();
            *known = resource;
        }
        records.push(record);
    }

    /// Returns an id that allows receivers to recognize duplicates of a record.
    fn uid(&self) -> String {
        let run = self.run;
        let (high, middle, low) = (run >> 32, run >> 16 & 0xffff, run & 0xffff);
        let sequence = self.sequence;
        let (first, rest) = (sequence >> 48, sequence & 0xffff_ffff_ffff);
        format!("{high:08x}-{middle:04x}-{low:04x}-{first:04x}-{rest:012x}")
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.is_empty() {
            return;
        }
        let scope = scope(&self.identity.version);
        let resources = open.into_iter().map(|(subject, (attributes, records))| {
            let resource = match subject {
                Some(_) => self.identity.of(attributes),
                None => self.identity.of_node(),
            };
            ResourceLogs {
                resource: Some(resource),
                scopes: vec![ScopeLogs {
                    scope: Some(scope.clone()),
                    records,
                    schema_url: SCHEMA_URL.to_owned(),
                }],
                schema_url: SCHEMA_URL.to_owned(),
            }
        });
        let message = LogsRequest {
            resources: resources.collect(),
        };
        self.ready.push(Request {
            body: message.encode_to_vec(),
            items: std::mem::take(&mut self.items),
        });
        self.bytes = 0;
    }

    /// Returns requests for everything that was added since the last call.
    pub fn take(&mut self) -> Vec<Request> {
        self.close();
        std::mem::take(&mut self.ready)
    }
}

/// The fields that differ between records.
struct Draft {
    name: &'static str,
    time_unix_ns: u64,
    severity: Severity,
    body: String,
    attributes: Vec<KeyValue>,
}

impl Draft {
    fn record(self, uid: String, now_unix_ns: u64) -> LogRecord {
        let mut attributes = self.attributes;
        attributes.push(KeyValue::text("log.record.uid", uid));
        LogRecord {
            time_unix_ns: self.time_unix_ns,
            severity: self.severity as i32,
            severity_text: self.severity.name().to_owned(),
            body: Some(AnyValue {
                value: Some(Value::String(self.body)),
            }),
            attributes,
            observed_unix_ns: now_unix_ns,
            event_name: self.name.to_owned(),
        }
    }
}

fn verdict(
    report: &WaitReport,
    row: &WaitReportRow,
    before: VerdictKind,
    time_unix_ns: u64,
) -> Draft {
    let level = Level::Container;
    let now = row.verdict.kind;
    let mut attributes = vec![
        KeyValue::text("event.name", VERDICT),
        KeyValue::text("noctule.verdict", now.name()),
        KeyValue::text("noctule.verdict.before", before.name()),
    ];
    if let Some(culprit) = &row.verdict.culprit {
        attributes.push(KeyValue::text("noctule.culprit", culprit.name(level)));
        attributes.push(KeyValue::text("noctule.culprit.kind", culprit.kind()));
    }
    let seconds = |ns: u64| Value::Double(ns as f64 / 1e9);
    attributes.push(KeyValue::new(
        "noctule.window.seconds",
        seconds(report.window_ns),
    ));
    attributes.push(KeyValue::new(
        "noctule.wait.seconds",
        seconds(row.total_ns()),
    ));
    attributes.push(KeyValue::new(
        "noctule.hurt.seconds",
        seconds(row.verdict.hurt_ns()),
    ));
    let reason = report.reason(row, level);
    Draft {
        name: VERDICT,
        time_unix_ns,
        severity: match now {
            VerdictKind::Quiet => Severity::Info,
            _ => Severity::Warn,
        },
        body: escape(&answer(&row.party.name(level), &reason)),
        attributes,
    }
}

/// Returns the attribute for a key of an event. The conventions reserve their namespaces, so a key
/// that they do not define gets noctule's namespace.
fn attribute_key(key: String) -> String {
    let is_defined = CONVENTIONAL.binary_search(&key.as_str()).is_ok();
    match is_defined || key.starts_with("noctule.") {
        true => key,
        false => format!("noctule.{key}"),
    }
}

/// Converts a JSON value. Returns `None` for null, which stands for an absent attribute.
fn any(value: serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match value {
        Json::Null => return None,
        Json::Bool(value) => Value::Bool(value),
        // A number above `i64::MAX` does not fit in an OTLP integer. Such numbers are ids, so they
        // become text.
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(large)) => Value::String(large.to_string()),
            (None, None) => Value::Double(number.as_f64()?),
        },
        Json::String(text) => Value::String(text),
        Json::Array(list) => {
            let values = list.into_iter().filter_map(any);
            let values = values.map(|value| AnyValue { value: Some(value) });
            Value::Array(ArrayValue {
                values: values.collect(),
            })
        }
        Json::Object(map) => {
            let values = map.into_iter();
            let values = values.filter_map(|(key, value)| Some(KeyValue::new(key, any(value)?)));
            Value::Map(KeyValueList {
                values: values.collect(),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{CgroupId, Comm, EventProcess, Origin, ProcessId};

    use super::*;

    fn event(unit: &str, what: What) -> Event {
        let owner = Owner {
            unit: Some(unit.into()),
            path: format!("/system.slice/{unit}"),
            ..Owner::unknown(CgroupId(7))
        };
        Event {
            time_unix_ns: 5,
            process: Some(EventProcess {
                id: ProcessId {
                    pid: 9,
                    start_ns: 1,
                },
                start_unix_ns: 3,
                comm: Comm::new(b"sleep"),
                thread: None,
                cgroup: CgroupId(7),
                owner: Some(Arc::new(owner)),
            }),
            origin: Origin::Seen,
            what,
        }
    }

    fn records() -> EventRecords {
        let identity = Identity {
            node: vec![("host.name".into(), "n".into())],
            agent: vec![("service.name".into(), "noctule".into())],
            version: "1".into(),
        };
        EventRecords::new(identity, 0x1122_3344_5566_7788)
    }

    fn start() -> What {
        What::ProcessStart {
            parent_pid: 1,
            parent: None,
        }
    }

    #[test]
    fn events_of_one_owner_share_a_resource_and_each_has_an_id() {
        let mut records = records();
        records.event(&event("a.service", start()), 8);
        records.event(&event("b.service", start()), 8);
        let oom = What::OomKill {
            rss_bytes: Some(u64::MAX),
            limit_bytes: None,
        };
        records.event(&event("a.service", oom), 8);
        let gap = What::Gap {
            lost: vec![("tcp.connect", 2)],
            since_unix_ns: None,
        };
        let gap = Event {
            process: None,
            ..event("", gap)
        };
        records.event(&gap, 8);
        let requests = records.take();
        assert_eq!((requests.len(), requests[0].items), (1, 4));
        let message = LogsRequest::decode(requests[0].body.as_slice()).expect("a message");
        let of = |at: usize| {
            let resource = message.resources[at].resource.as_ref().expect("a resource");
            resource.attributes[0].clone()
        };
        assert_eq!(of(0), KeyValue::text("service.name", "noctule"));
        assert_eq!(of(1), KeyValue::text("systemd.unit", "a.service"));
        assert_eq!(of(2), KeyValue::text("systemd.unit", "b.service"));
        let of_a = &message.resources[1].scopes[0].records;
        assert_eq!(of_a.len(), 2);
        let oom = &of_a[1];
        assert_eq!((oom.event_name.as_str(), oom.severity), ("oom.kill", 17));
        let has = |pair: KeyValue| oom.attributes.contains(&pair);
        assert!(has(KeyValue::text(
            "noctule.memory.rss_bytes",
            u64::MAX.to_string()
        )));
        assert!(has(KeyValue::text("event.name", "oom.kill")));
        assert!(has(KeyValue::new("process.pid", Value::Int(9))));
        assert!(has(KeyValue::text(
            "log.record.uid",
            "11223344-5566-7788-0000-000000000003"
        )));
        assert!(oom.attributes.iter().all(|it| it.key != "systemd.unit"));
        assert!(records.take().is_empty());
    }

    #[test]
    fn conventional_keys_are_sorted() {
        assert!(CONVENTIONAL.is_sorted());
    }

    #[test]
    fn requests_are_bounded() {
        let mut records = records();
        let count = 20_000;
        for _ in 0..count {
            records.event(&event("a.service", start()), 8);
        }
        let requests = records.take();
        assert!(requests.len() > 1);
        assert_eq!(requests.iter().map(|it| it.items).sum::<u64>(), count);
        assert!(
            requests
                .iter()
                .all(|it| it.body.len() <= REQUEST_BYTES + 4096)
        );
    }
}
