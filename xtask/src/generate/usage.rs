//! The rows of docs/json.md that say what a row of `stat` used, from `crates/schema`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_schema::usage::{USAGE, UsageField};

const PAGE: &str = "docs/json.md";

/// The page with these rows in place of those between the first key and the last.
pub(super) fn page(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let at = |row: &UsageField| {
        let start = format!("| `{}` | ", row.field.key);
        lines.iter().position(|line| line.starts_with(&start))
    };
    // A new field has no row yet.
    let first = USAGE.iter().find_map(at);
    let ends = first.zip(USAGE.iter().rev().find_map(at));
    let (first, last) = ends.with_context(|| format!("{PAGE} lacks the rows of usage"))?;
    let rows = USAGE.iter().map(|row| {
        let field = &row.field;
        let value_type = field.value_type.name();
        format!("| `{}` | {value_type} | all | {} |", field.key, field.help)
    });
    let own = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };
    let mut page = own(&lines[..first]);
    page.extend(rows);
    page.extend(own(&lines[last + 1..]));
    Ok(page.join("\n") + "\n")
}
