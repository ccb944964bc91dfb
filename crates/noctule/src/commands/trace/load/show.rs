//! The output of `noctule load`, as text or JSON lines.

use anyhow::Result;
use noctule_kernel::{Attachment, MapContents, MapEntry};
use noctule_text::escape;
use noctule_trace::value::{Value, decode};
use serde_json::json;

use super::jobs::Job;
use crate::commands::shared::watch::{Output, Reader};
use crate::patient;

/// Writes the output.
pub(super) struct Show<'a> {
    output: Output<'a>,
    json: bool,
    over: bool,
}

impl<'a> Show<'a> {
    pub(super) fn new(output: Output<'a>, json: bool) -> Self {
        Self {
            output,
            json,
            over: false,
        }
    }

    /// Returns whether the reader has closed the output.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    fn write(&mut self, text: &str) -> Result<()> {
        if !self.over {
            self.over = self.output.write(text)? == Reader::Gone;
        }
        Ok(())
    }

    fn object(&mut self, object: &serde_json::Value) -> Result<()> {
        self.write(&format!("{object}\n"))
    }

    /// Reports a program that is loaded and possibly attached. In text format, the message goes to
    /// standard error.
    pub(super) fn program(&mut self, job: &Job, attached: Option<&Attachment>) -> Result<()> {
        let place = attached.map(|attached| attached.place.as_str());
        if self.json {
            return self.object(&json!({
                "kind": "program",
                "name": job.program.name,
                "section": job.program.section,
                "instructions": job.program.instructions,
                "attached": place,
            }));
        }
        let done = match place {
            Some(place) => format!("attached to {}", escape(place)),
            None => "verified".to_owned(),
        };
        let name = escape(&job.program.name);
        let count = job.program.instructions;
        let message = format!("{name}: {done} ({count} instructions)\n");
        patient::offer(std::io::stderr(), message.as_bytes());
        Ok(())
    }

    /// Prints lines that programs printed.
    pub(super) fn printed(&mut self, lines: &[String]) -> Result<()> {
        for line in lines {
            if self.json {
                self.object(&json!({"kind": "printed", "text": line}))?;
            } else {
                self.write(&format!("{}\n", escape(line)))?;
            }
        }
        Ok(())
    }

    /// Prints the output of an iterator.
    pub(super) fn iterator(&mut self, program: &str, text: &str) -> Result<()> {
        if self.json {
            return self.object(&json!({"kind": "iterator", "program": program, "text": text}));
        }
        for line in text.lines() {
            self.write(&format!("{}\n", escape(line)))?;
        }
        Ok(())
    }

    /// Prints the number of packets accepted by a socket filter.
    pub(super) fn packets(&mut self, program: &str, passed: u64) -> Result<()> {
        if self.json {
            return self.object(&json!({"kind": "packets", "program": program, "passed": passed}));
        }
        self.write(&format!("{}: {passed} packets passed\n", escape(program)))
    }

    /// Prints the maps with their entries.
    pub(super) fn maps(&mut self, maps: &[MapContents]) -> Result<()> {
        for map in maps {
            if self.json {
                self.object(&as_json(map))?;
            } else {
                self.write(&as_text(map))?;
            }
        }
        Ok(())
    }
}

fn as_text(map: &MapContents) -> String {
    let name = escape(&map.name);
    let entries = match &map.entries {
        Ok(entries) => entries,
        Err(why) => return format!("{name} ({}): {}\n", map.kind, escape(why)),
    };
    let count = match entries.len() {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    };
    let mut text = format!("{name} ({}), {count}:\n", map.kind);
    for entry in entries {
        let key = escape(&decode(&map.key, &entry.key).to_string());
        text += &format!("  {key}: {}\n", escape(&value(map, entry)));
    }
    text
}

/// Formats a value. For a per-CPU map, lists the CPUs whose value is not zero, and the sum if
/// values are numbers.
fn value(map: &MapContents, entry: &MapEntry) -> String {
    let values: Vec<_> = entry
        .values
        .iter()
        .map(|bytes| decode(&map.value, bytes))
        .collect();
    if !map.per_cpu {
        return values.first().map(ToString::to_string).unwrap_or_default();
    }
    let used =
        |(cpu, bytes): &(usize, &Vec<u8>)| bytes.iter().any(|byte| *byte != 0).then_some(*cpu);
    let used: Vec<_> = entry
        .values
        .iter()
        .enumerate()
        .filter_map(|item| used(&item))
        .collect();
    let each: Vec<_> = used
        .iter()
        .map(|cpu| format!("cpu {cpu}: {}", values[*cpu]))
        .collect();
    let numbers: Option<Vec<i128>> = values
        .iter()
        .map(|value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
        .collect();
    match numbers {
        Some(numbers) => format!("{} ({})", numbers.iter().sum::<i128>(), each.join(", ")),
        None => each.join(", "),
    }
}

fn as_json(map: &MapContents) -> serde_json::Value {
    let mut object =
        json!({"kind": "map", "name": map.name, "type": map.kind, "per_cpu": map.per_cpu});
    match &map.entries {
        Err(why) => object["unlisted"] = json!(why),
        Ok(entries) => {
            let entry = |entry: &MapEntry| {
                let mut values: Vec<_> = entry
                    .values
                    .iter()
                    .map(|bytes| of(&decode(&map.value, bytes)))
                    .collect();
                let key = of(&decode(&map.key, &entry.key));
                match map.per_cpu {
                    true => json!({"key": key, "values": values}),
                    false => json!({"key": key, "value": values.pop()}),
                }
            };
            object["entries"] = entries.iter().map(entry).collect();
        }
    }
    object
}

fn of(value: &Value) -> serde_json::Value {
    match value {
        Value::Number(number) => whole(*number),
        Value::Float(number) => json!(number),
        Value::Bool(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::Named { value, name } => json!({"value": whole(*value), "name": name}),
        Value::Pointer(address) => json!(format!("{address:#x}")),
        Value::List(values) => values.iter().map(of).collect(),
        Value::Record(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), of(value)))
            .collect(),
        Value::Bytes(_) => json!(value.to_string()),
    }
}

/// Integers outside the 64-bit range become strings, because JSON readers would round them.
fn whole(number: i128) -> serde_json::Value {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => json!(number),
        (_, Ok(number)) => json!(number),
        _ => json!(number.to_string()),
    }
}
