//! The output as JSON (docs/json.md).

use std::time::Duration;

use anyhow::Result;
use noctule_trace::table::{Cell, Frame, NodeNames, Snapshot, Table};
use serde_json::{Map, Value, json};

/// Returns one object without a line feed. `events` contains the objects of the events before the
/// `snapshot()`.
pub(super) fn answer(
    event: &str,
    table: &Table,
    now: &Snapshot<'_>,
    names: &dyn NodeNames,
    (window, events): (Duration, &[String]),
) -> Result<String> {
    let titles = table.titles();
    let row = |cells: Vec<Cell>| {
        let members = titles.iter().cloned().zip(cells.into_iter().map(value));
        Value::Object(Map::from_iter(members))
    };
    let rows: Vec<_> = table.cells(now, names).into_iter().map(row).collect();
    let mut answer = json!({
        "event": event,
        "trigger": table.info,
        "window_seconds": window.as_secs_f64(),
        "hits": now.hits(),
        "entries": now.rows.len(),
        "dropped": now.dropped,
        "rows": rows,
    });
    if let Some(taken) = table.taken(now.rows) {
        let only = Snapshot {
            rows: std::slice::from_ref(taken.row),
            ..*now
        };
        let cells = table.cells(&only, names).remove(0).into_iter();
        let key = titles.iter().cloned().zip(cells.map(value));
        let events: Result<Vec<Value>, _> = events
            .iter()
            .flat_map(|lines| lines.lines())
            .map(serde_json::from_str)
            .collect();
        answer["snapshot"] = json!({
            "handler": taken.tracked.handler(),
            "variable": taken.tracked.name,
            "value": taken.value,
            "key": Map::from_iter(key.take(table.keys.len())),
            "events": events?,
        });
    }
    if !table.more_info.is_empty() {
        let all = [&table.info].into_iter().chain(&table.more_info);
        answer["triggers"] = all.cloned().collect();
    }
    if now.paused {
        answer["paused"] = true.into();
    }
    if now.skipped > 0 {
        answer["skipped"] = now.skipped.into();
    }
    if let Some(part) = now.counted_part {
        answer["counted_part"] = part.into();
    }
    Ok(serde_json::to_string(&answer)?)
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Number(number) => number.into(),
        Cell::Signed(number) => number.into(),
        Cell::Named { number, name } => json!({"value": number, "name": name}),
        Cell::Range { first, last } => json!({"first": first, "last": last}),
        Cell::Percent(share) => share.map(|share| f64::from(share) / 100.0).into(),
        Cell::Text(text) => text.into(),
        Cell::Address(address) => address.map(|address| address.to_string()).into(),
        Cell::Saved {
            value: number,
            fields,
        } => {
            let mut kept = json!({"value": number});
            // Saved fields are nested, because a field can have the name `value`.
            for (name, cell) in fields {
                kept["saved"][name] = value(cell);
            }
            kept
        }
        Cell::Stack(frames) => {
            let frame = |frame: Frame| json!({"address": frame.address, "symbol": frame.symbol});
            frames
                .map(|frames| frames.into_iter().map(frame).collect::<Vec<_>>())
                .into()
        }
    }
}
