//! One event as a JSON object.

use std::sync::Arc;

use noctule_model::{Event, EventProcess, Level, What};
use noctule_schema::event::EventKind;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::line::{event_line, origin};
use crate::json::{OwnerJson, ValueJson, to_string};

/// Returns one event as a compact JSON object without a trailing newline, as in `noctule events
/// --json` and the file of `noctule run --events`.
///
/// Unknown values have no key. `docs/json.md` describes how bytes that are not UTF-8 are escaped.
pub fn event_json(event: &Event) -> String {
    to_string(&EventJson::new(event))
}

/// Like [`event_json`], but returns the JSON object as a value, for other formats to embed.
pub(crate) fn event_value(event: &Event) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(EventJson::new(event)) {
        Ok(serde_json::Value::Object(map)) => map,
        // Unreachable: `EventJson` serializes to an object, and none of its fields can fail.
        _ => serde_json::Map::new(),
    }
}

/// Returns the API's response to `events`: the objects of [`event_json`], each with the text of its
/// line.
///
/// `more` is the number of further events that match the request. `forgotten` is the number of
/// events that were evicted, and the time from which the list is complete.
pub fn events_json(events: &[Arc<Event>], more: usize, forgotten: (u64, u64)) -> String {
    let rows = events.iter().map(|event| {
        let line = event_line(event, 0);
        EventRow {
            event: EventJson::new(event),
            place: line.place,
            text: line.what,
            tone: line.tone.name(),
        }
    });
    to_string(&EventRows {
        rows: rows.collect(),
        more,
        forgotten: forgotten.0,
        complete_since_unix_nano: forgotten.1,
    })
}

#[derive(Serialize)]
struct EventRows<'a> {
    rows: Vec<EventRow<'a>>,
    more: usize,
    forgotten: u64,
    complete_since_unix_nano: u64,
}

#[derive(Serialize)]
struct EventRow<'a> {
    #[serde(flatten)]
    event: EventJson<'a>,
    place: String,
    text: String,
    tone: &'static str,
}

impl<'a> EventJson<'a> {
    fn new(event: &'a Event) -> Self {
        Self {
            time_unix_nano: event.time_unix_ns,
            name: event.what.name(),
            origin: origin(event.origin),
            process: event.process.as_ref().map(ProcessJson::new),
            fields: Fields(&event.what),
        }
    }
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
    fields: Fields<'a>,
}

/// The fields that are specific to the kind of event.
struct Fields<'a>(&'a What);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in EventKind::of(self.0).values(self.0) {
            map.serialize_entry(key, &ValueJson(&value))?;
        }
        map.end()
    }
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
