//! `noctule probes`: lists traceable events and the fields of their records.

use std::fmt::Write as _;

use anyhow::Result;
use noctule_kernel::TraceEvents;
use noctule_text::{Tone, escape};
use noctule_trace::format::{EventFormat, Field};
use noctule_trace::print::{FieldTable, Print, TableKind};
use serde_json::{Value, json};

use super::tracepoints;
use crate::args::ProbesArgs;
use crate::commands::shared::watch::{Output, Reader};
use crate::exit;
use crate::print::Paint;
use crate::rights::Reading;

pub(crate) fn run(args: &ProbesArgs) -> Result<u8> {
    let events = tracepoints::open()?;
    let found = tracepoints::matching(&events, args.glob.as_deref().unwrap_or("*"))?;
    let registered = tracepoints::Registered::read(&events)?;
    let mut output = Output::open(args.output.as_deref())?;
    let mut answer = Vec::new();
    for (system, event) in found {
        let name = format!("{system}:{event}");
        let probe = Probe {
            definition: registered.definition(&name).map(str::to_owned),
            layout: match args.verbose {
                true => Some(layout(&events, &system, &event)?),
                false => None,
            },
            name,
        };
        if args.json {
            answer.push(probe.json());
        } else if output.print(&folded(&probe.text(), output.paint()))? == Reader::Gone {
            return Ok(exit::DONE);
        }
    }
    if args.json {
        output.write(&(json!({ "events": answer }).to_string() + "\n"))?;
    }
    Ok(exit::DONE)
}

/// Wraps lines that are too long, and indents the continuation.
fn folded(text: &str, paint: Paint) -> String {
    let line = |line: &str| {
        let hang = line.len() - line.trim_start().len();
        paint.folded(Tone::Plain, line, hang + 2)
    };
    text.lines().map(line).collect()
}

/// An event with the requested details.
struct Probe {
    name: String,
    /// The definition of a dynamic event, such as a kprobe or uprobe.
    definition: Option<String>,
    /// The layout, only with `-v`. If the layout is missing, the text explains why.
    layout: Option<Result<(EventFormat, Vec<FieldTable>), String>>,
}

fn layout(
    events: &TraceEvents,
    system: &str,
    event: &str,
) -> Result<Result<(EventFormat, Vec<FieldTable>), String>> {
    let reading = Reading::begin();
    let text = events.format(system, event)?;
    drop(reading);
    let Some(text) = text else {
        // The event was removed after the list was read.
        return Ok(Err("no format".to_owned()));
    };
    let format = EventFormat::parse_of(system, &text).map_err(|error| error.to_string());
    Ok(format.map(|format| {
        let print = Print::parse(&format);
        let tables = print.map(|print| print.tables()).unwrap_or_default();
        (format, tables)
    }))
}

impl Probe {
    fn text(&self) -> String {
        let mut out = escape(&self.name) + "\n";
        let Some(layout) = &self.layout else {
            return out;
        };
        // Writing to a string cannot fail.
        if let Some(definition) = &self.definition {
            let _ = writeln!(out, "  registered as {}", escape(definition));
        }
        match layout {
            Err(reason) => {
                let _ = writeln!(out, "  {}", escape(reason));
            }
            Ok((format, tables)) => {
                let width = |text: fn(&Field) -> usize| format.fields.iter().map(text).max();
                let name = width(|field| field.name.len()).unwrap_or(0);
                let declared = width(|field| field.declared.len()).unwrap_or(0);
                for field in &format.fields {
                    let sign = if field.signed { ", signed" } else { "" };
                    let _ = writeln!(
                        out,
                        "  {:name$}  {:declared$}  offset {}, size {}{sign}",
                        escape(&field.name),
                        escape(&field.declared),
                        field.offset,
                        field.size,
                    );
                    for table in tables.iter().filter(|table| table.field == field.name) {
                        out += &names(table);
                    }
                }
            }
        }
        out
    }

    fn json(&self) -> Value {
        let mut object = json!({ "event": self.name });
        if let Some(definition) = &self.definition {
            object["definition"] = definition.as_str().into();
        }
        match &self.layout {
            None => {}
            Some(Err(reason)) => object["error"] = reason.as_str().into(),
            Some(Ok((format, tables))) => {
                let field = |field: &Field| json_field(field, tables);
                object["id"] = format.id.into();
                object["fields"] = format.fields.iter().map(field).collect();
            }
        }
        object
    }
}

/// Lists the names of a field's values on one line.
fn names(table: &FieldTable) -> String {
    let mut out = match &table.kind {
        TableKind::Flags { .. } => "    flags: ".to_owned(),
        TableKind::Symbols => "    values: ".to_owned(),
    };
    let entry = |(value, name): &(u64, String)| format!("{}={value:#x}", escape(name));
    let entries: Vec<_> = table.entries.iter().map(entry).collect();
    out += &entries.join(", ");
    if !table.complete {
        out += ", and values that the format does not name";
    }
    out + "\n"
}

fn json_field(field: &Field, tables: &[FieldTable]) -> Value {
    let mut object = json!({
        "name": field.name,
        "type": field.declared,
        "offset": field.offset,
        "size": field.size,
        "signed": field.signed,
    });
    for table in tables.iter().filter(|table| table.field == field.name) {
        let kind = match &table.kind {
            TableKind::Flags { .. } => "flags",
            TableKind::Symbols => "values",
        };
        let entry = |(value, name): &(u64, String)| json!({"value": value, "name": name});
        object[kind] = table.entries.iter().map(entry).collect();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_shown_with_fields_and_names() {
        let format = "name: softirq\nID: 7\n\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\
                      \tfield:int by;\toffset:12;\tsize:4;\tsigned:1;\n\n\
                      print fmt: \"vec=%u\", __print_symbolic(REC->vec, {0, \"HI\"}, {1, \"TIMER\"})\n";
        let format = EventFormat::parse(format).unwrap();
        let tables = Print::parse(&format).unwrap().tables();
        let probe = Probe {
            name: "irq:softirq".to_owned(),
            definition: None,
            layout: Some(Ok((format, tables))),
        };
        let text = "irq:softirq\n  vec  unsigned int  offset 8, size 4\n    values: HI=0x0, TIMER=0x1\n  \
                    by   int           offset 12, size 4, signed\n";
        assert_eq!(probe.text(), text);
        let json = probe.json();
        assert_eq!(
            json["fields"][0]["values"][1],
            json!({"value": 1, "name": "TIMER"})
        );
        assert_eq!(json["fields"][1]["signed"], true);
    }
}
