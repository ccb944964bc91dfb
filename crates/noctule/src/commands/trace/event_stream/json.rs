//! Events and gaps as JSON (docs/json.md).

use noctule_text::lossless;
use noctule_trace::print::{FieldValue, field_value};
use noctule_trace::watch::Arrival;
use serde_json::{Map, Value, json};

use super::Watched;

/// Returns the object of an event.
pub(super) fn event(event: &Watched, arrival: &Arrival, time: u64, text: &str) -> Value {
    let fields = event.format.fields.iter().map(|field| {
        let found = field_value(field, &arrival.record);
        (field.name.clone(), found.map_or(Value::Null, value))
    });
    json!({
        "time_unix_nano": time,
        "event.name": event.name,
        "cpu.logical_number": arrival.cpu,
        "process.pid": arrival.tgid,
        "thread.id": arrival.pid,
        "thread.name": lossless(&arrival.comm),
        "cgroup.id": arrival.cgroup,
        "fields": Map::from_iter(fields),
        "text": text,
    })
}

/// Adds the trigger's action at the event.
pub(super) fn add_trigger(
    event: &mut Value,
    label: &str,
    stack: impl Iterator<Item = (u64, String)>,
) {
    event["trigger"] = label.into();
    let frame = |(address, symbol)| json!({"address": address, "symbol": symbol});
    let frames: Vec<_> = stack.map(frame).collect();
    if !frames.is_empty() {
        event["stack"] = frames.into();
    }
}

pub(super) fn gap(time: u64, lost: u64, skipped: u64) -> String {
    let mut missing = Map::new();
    for (name, count) in [("buffer", lost), ("skipped", skipped)] {
        if count > 0 {
            missing.insert(name.to_owned(), count.into());
        }
    }
    json!({"time_unix_nano": time, "event.name": "gap", "lost": missing}).to_string()
}

fn value(found: FieldValue) -> Value {
    match found {
        FieldValue::Unsigned(number) => number.into(),
        FieldValue::Signed(number) => number.into(),
        FieldValue::Text(text) => lossless(&text).into(),
        FieldValue::Cpus(list) => list.into(),
        FieldValue::List(elements) => elements.into_iter().map(value).collect(),
        FieldValue::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            hex.into()
        }
    }
}
