//! One event as a JSON object.

use noctule_model::{Event, EventProcess, Level, Origin};
use serde::Serialize;

use super::attributes::Attributes;
use crate::json::{OwnerJson, to_string};

/// One event of `noctule events --json` and of the file of `noctule run --events`: a compact JSON
/// object, without a newline at its end.
///
/// An unknown value has no key. Text that strangers chose is written byte by byte: see `docs/json.md`.
pub fn event_json(event: &Event) -> String {
    to_string(&EventJson {
        time_unix_nano: event.time_unix_ns,
        name: event.what.name(),
        origin: origin(event.origin),
        process: event.process.as_ref().map(ProcessJson::new),
        attributes: Attributes::new(&event.what),
    })
}

#[derive(Serialize)]
struct EventJson<'a> {
    time_unix_nano: u64,
    #[serde(rename = "event.name")]
    name: &'static str,
    #[serde(rename = "noctule.origin", skip_serializing_if = "Option::is_none")]
    origin: Option<&'static str>,
    #[serde(flatten)]
    process: Option<ProcessJson<'a>>,
    #[serde(flatten)]
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(rename = "process.creation.time_unix_nano")]
    created: u64,
    #[serde(rename = "process.executable.name")]
    name: String,
    #[serde(rename = "thread.name", skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
}

impl<'a> ProcessJson<'a> {
    fn new(process: &'a EventProcess) -> Self {
        Self {
            pid: process.id.pid,
            created: process.start_unix_ns,
            name: process.comm.text(),
            thread: process.thread.map(|thread| thread.text()),
            owner: match &process.owner {
                Some(owner) => OwnerJson::new(owner, Level::Process),
                None => OwnerJson::unnamed(process.cgroup),
            },
        }
    }
}

/// That something was seen when it happened goes without saying.
pub(super) fn origin(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Seen => None,
        Origin::Existing => Some("existing"),
        Origin::Reconciled => Some("reconciled"),
    }
}
