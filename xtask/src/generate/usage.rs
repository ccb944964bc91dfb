//! Generates the rows of docs/json.md that describe the usage of a `stat` row, from
//! `crates/schema`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_schema::Type;
use noctule_schema::events::EVENTS;
use noctule_schema::usage::USAGE;

const PAGE: &str = "docs/json.md";

/// Returns the page, with the generated rows instead of the rows from the first key to the last.
pub(super) fn page(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let row = |key: &str, value_type: Type, levels: &str, help: &str| {
        let start = format!("| `{key}` | ");
        let row = format!("{start}{} | {levels} | {help} |", value_type.name());
        (start, row)
    };
    let usage = USAGE.iter().map(|it| &it.field);
    let usage = usage.map(|it| row(it.key, it.value_type, "all", it.help));
    let events = EVENTS.iter();
    let events = events.map(|it| row(it.key, it.value_type(), "all but process", it.help));
    let rows: Vec<(String, String)> = usage.chain(events).collect();
    // A new field has no row yet.
    let at = |(start, _): &(String, String)| lines.iter().position(|line| line.starts_with(start));
    let ends = rows.iter().find_map(at).zip(rows.iter().rev().find_map(at));
    let (first, last) = ends.with_context(|| format!("{PAGE} lacks the rows of usage"))?;
    let rows = rows.iter().map(|(_, row)| row.as_str());
    let before = lines[..first].iter().copied();
    let page: Vec<&str> = before
        .chain(rows)
        .chain(lines[last + 1..].iter().copied())
        .collect();
    Ok(page.join("\n") + "\n")
}
