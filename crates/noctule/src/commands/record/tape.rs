//! `noctule tape`: shows the contents of a recording.

use anyhow::Result;
use noctule_tape::{Damage, Segment, Span, Tape};
use noctule_text::{Align, Cell, Head, Tone, bytes, count, date_time, duration, escape};
use serde_json::{Value, json};

use crate::args::{TapeArgs, TapeCommand, TapeInfoArgs};
use crate::commands::shared::watch::Output;
use crate::commands::shared::window;
use crate::config::Config;
use crate::exit;
use crate::print::{Paint, utc_offset};

pub(crate) fn run(args: &TapeArgs, config: &Config) -> Result<u8> {
    match &args.command {
        TapeCommand::Info(args) => info(args),
        TapeCommand::Export(args) => super::export::run(args, config),
    }
}

fn info(args: &TapeInfoArgs) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let tape = window::open(&args.folder)?;
    // Reads every row once, to verify all checksums.
    let damages = tape.check();
    let text = match args.json {
        true => format!("{}\n", as_json(&tape, &damages)),
        false => as_text(&tape, &damages, output.paint()),
    };
    match args.json {
        true => output.write(&text)?,
        false => output.print(&text)?,
    };
    Ok(match damages.is_empty() {
        true => exit::DONE,
        false => exit::FAILED,
    })
}

/// Returns the bytes of each table, sorted by name.
fn tables(tape: &Tape) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (table, bytes) in tape.segments().iter().flat_map(Segment::tables) {
        *sums.entry(table).or_insert(0) += bytes;
    }
    sums.into_iter().collect()
}

fn segments<'a>(tape: &'a Tape, span: &Span) -> &'a [Segment] {
    &tape.segments()[span.segments.0..=span.segments.1]
}

/// Returns the time between the first and last batch. Uses the monotonic clock if its readings are
/// available.
fn length(tape: &Tape, span: &Span) -> u64 {
    let by_wall = || span.to_unix_ns.saturating_sub(span.from_unix_ns);
    tape.length_ns(span).unwrap_or_else(by_wall)
}

fn sum(segments: &[Segment], of: impl Fn(&Segment) -> u64) -> u64 {
    segments.iter().map(of).sum()
}

fn as_text(tape: &Tape, damages: &[Damage], paint: Paint) -> String {
    let time = |unix_ns| date_time(unix_ns, utc_offset(unix_ns));
    let spans = tape.spans();
    let rows: Vec<Vec<String>> = spans
        .iter()
        .map(|span| {
            let segments = segments(tape, span);
            let batches = sum(segments, Segment::batches);
            let meta = segments[0].meta();
            vec![
                time(span.from_unix_ns),
                duration(length(tape, span)),
                count(batches),
                count(span.batches().saturating_sub(batches)),
                count(sum(segments, Segment::events)),
                bytes(sum(segments, Segment::bytes)),
                escape(&format!("{} {}", meta.host, meta.kernel)),
                escape(&meta.command.join(" ")),
            ]
        })
        .collect();
    let mut text = table(&SPANS, &rows, paint);
    text.push('\n');
    let rows: Vec<Vec<String>> = tables(tape)
        .into_iter()
        .map(|(table, size)| vec![escape(&table), bytes(size)])
        .collect();
    text.push_str(&table(
        &[("table", 0, Some(8)), ("size", 1, None)],
        &rows,
        paint,
    ));
    for damage in damages {
        let line = escape(&damage.to_string());
        text.push_str(&paint.folded(Tone::Bad, &line, 2));
    }
    text
}

/// A column: its title, its priority, and the width to which it can be shortened. Columns with
/// higher priorities are dropped first on a narrow terminal. Columns that can be shortened are
/// left-aligned.
type Title = (&'static str, u8, Option<usize>);

const SPANS: [Title; 8] = [
    ("from", 0, None),
    ("length", 1, None),
    ("batches", 4, None),
    ("missing", 2, None),
    ("events", 5, None),
    ("size", 3, None),
    ("host", 6, Some(12)),
    ("command", 7, Some(8)),
];

fn table(titles: &[Title], rows: &[Vec<String>], paint: Paint) -> String {
    let heads: Vec<Head> = titles
        .iter()
        .enumerate()
        .map(|(i, (title, priority, least))| Head {
            title: (*title).to_owned(),
            align: match i == 0 || least.is_some() {
                true => Align::Left,
                false => Align::Right,
            },
            priority: *priority,
            least: *least,
        })
        .collect();
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| row.iter().cloned().map(Cell::from).collect())
        .collect();
    let lines = noctule_text::table(&heads, &cells, paint.width());
    let rows = lines.rows.iter().map(|row| paint.line(row));
    paint.line(&lines.head) + &rows.collect::<String>()
}

fn as_json(tape: &Tape, damages: &[Damage]) -> Value {
    let spans = tape.spans();
    let spans = spans.iter().map(|span| {
        let segments = segments(tape, span);
        let batches = sum(segments, Segment::batches);
        let meta = segments[0].meta();
        json!({
            "from_unix_nano": span.from_unix_ns,
            "to_unix_nano": span.to_unix_ns,
            "segments": segments.len(),
            "batches": batches,
            "missing_batches": span.batches().saturating_sub(batches),
            "events": sum(segments, Segment::events),
            "bytes": sum(segments, Segment::bytes),
            "host.name": meta.host,
            "os.version": meta.kernel,
            "host.arch": meta.machine,
            "noctule.version": meta.version,
            "command": meta.command,
        })
    });
    let spans: Vec<Value> = spans.collect();
    let damages = damages.iter().map(|damage| {
        json!({
            "path": damage.path.to_string_lossy(),
            "offset": damage.offset,
            "reason": damage.reason,
        })
    });
    let damages: Vec<Value> = damages.collect();
    let tables: serde_json::Map<String, Value> = tables(tape)
        .into_iter()
        .map(|(table, bytes)| (table, bytes.into()))
        .collect();
    json!({ "spans": spans, "tables": tables, "damages": damages })
}
