//! Generates docs/event-fields.md from the kinds of events in `crates/schema`.

use std::fmt::Write as _;

use noctule_schema::event::{EventKind, KINDS};

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from crates/schema. Do not edit. -->

# Fields of events

This page lists the fields of each kind of event. They are the same in `noctule events --json` and in the file of
`noctule run --events`. In OTLP, keys that the semantic conventions do not define have the prefix `noctule.`.
[json.md](json.md#events) describes the fields that every event has: its time, its process and its owner. A field with
an unknown value is absent.
";

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    for kind in KINDS {
        add_kind(&mut page, kind);
    }
    page
}

fn add_kind(page: &mut String, kind: &EventKind) {
    let EventKind { name, help, fields } = kind;
    let head = format!("\n## {name}\n\n{help}\n\n| key | type | meaning |\n|---|---|---|\n");
    page.push_str(&head);
    for field in fields.iter().copied().flatten() {
        let value_type = field.value_type.name();
        let help = field.help.replace('|', "\\|");
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "| `{}` | {value_type} | {help} |", field.key);
    }
}
