//! `noctule diff`: compares two stretches of recordings.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use noctule_analysis::diff::{
    Did, Difference, FALSE_DISCOVERIES, LEAST_BLOCKS, Stretch, Tested, block_ns, can_find_one,
    differences,
};
use noctule_model::Level;
use noctule_text::{
    Align, Cell, Head, Tone, count, duration, escape, level_word, pad, ratio, width,
};
use serde_json::{Value, json};

use crate::args::{self, DiffArgs};
use crate::commands::shared::columns;
use crate::commands::shared::watch::Output;
use crate::commands::shared::window::{self, Window};
use crate::exit::{self, Usage};
use crate::print::Paint;

pub(crate) fn run(args: &DiffArgs) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let level = Level::from(args.by);
    let windows = [window(&args.before)?, window(&args.after)?];
    let length = |window: &Window| window.tape.stretch_ns(&window.stretch).unwrap_or(0);
    let block_ns = block_ns(length(&windows[0]).min(length(&windows[1])));
    let followed = windows.iter().all(Window::is_of_command);
    let empty = || match followed {
        true => Stretch::new(level, block_ns).of_command(),
        false => Stretch::new(level, block_ns),
    };
    let [before, after] = [
        read(&windows[0], empty(), block_ns)?,
        read(&windows[1], empty(), block_ns)?,
    ];
    let rows = differences(&before, &after);
    let answer = Answer {
        about: about([windows[0].command(), windows[1].command()]),
        followed,
        before: &before,
        after: &after,
        block_ns,
        level,
        rows: &rows,
    };
    let text = match args.json {
        true => format!("{}\n", answer.json()),
        false => answer.text(args.top, output.paint().wide(args.wide)),
    };
    match args.json {
        true => output.write(&text)?,
        false => output.print(&text)?,
    };
    Ok(exit::DONE)
}

/// Parses `FOLDER`, `FOLDER@TIME` or `FOLDER@TIME+DURATION`.
fn window(text: &str) -> Result<Window> {
    let place = match text.rsplit_once('@') {
        Some(place) if !Path::new(text).exists() => Some(place),
        _ => None,
    };
    let Some((folder, moment)) = place else {
        return Window::of(Path::new(text), None, None, Duration::MAX);
    };
    // A plus can also be part of the UTC offset: 2026-11-24T03:10+01:00.
    let (at, length) = match moment.rsplit_once('+') {
        Some((at, length)) if args::duration(length).is_ok() => (at, Some(length)),
        _ => (moment, None),
    };
    let length = length.map(args::duration).transpose();
    let length = length.map_err(|words| Usage(format!("{text}: {words}")))?;
    Window::of_place(text, (Path::new(folder), at), length)
}

/// Returns the line that describes the compared commands, if a recording was made with a command.
fn about([before, after]: [&[String]; 2]) -> Option<String> {
    let words = |command: &[String]| escape(&command.join(" "));
    match (before, after) {
        ([], []) => None,
        ([], command) | (command, []) => Some(format!(
            "comparing whole machines, because only one recording is of a command ({})",
            words(command)
        )),
        (before, after) if before == after => Some(format!("the command alone: {}", words(before))),
        (before, after) => {
            let (before, after) = (words(before), words(after));
            Some(format!(
                "the commands alone: {before} before, {after} after"
            ))
        }
    }
}

fn read(window: &Window, mut stretch: Stretch, block_ns: u64) -> Result<Stretch> {
    let mut batches = window.batches();
    batches.by_ref().for_each(|batch| stretch.add(&batch));
    window::warn(batches.damages().iter());
    if stretch.blocks() == 0 {
        let block = duration(block_ns);
        bail!(Usage(format!(
            "a recording is shorter than {block}: there is nothing to compare"
        )));
    }
    Ok(stretch)
}

/// The result of a comparison, ready to be drawn.
pub(crate) struct Answer<'a> {
    /// The first line, if a recording was made with a command.
    pub(crate) about: Option<String>,
    /// Whether the comparison includes only the commands.
    pub(crate) followed: bool,
    pub(crate) before: &'a Stretch,
    pub(crate) after: &'a Stretch,
    pub(crate) block_ns: u64,
    pub(crate) level: Level,
    pub(crate) rows: &'a [Difference],
}

impl Answer<'_> {
    pub(crate) fn text(&self, top: usize, paint: Paint) -> String {
        let shown = &self.rows[..self.rows.len().min(top)];
        let mut columns = vec![Column {
            head: head(level_word(self.level), Align::Left, 0, Some(8)),
            cells: shown.iter().map(|row| escape(&row.name).into()).collect(),
        }];
        columns.push(changes("CPUs", 1, shown, |row| self.usage(row)));
        if self.level != Level::Process {
            columns.push(changes("waiting", 2, shown, |row| self.waiting(row)));
            columns.push(changes("p99 wait", 3, shown, length));
            let moved = shown.iter().map(|row| {
                let distance = row.distance.map(|distance| distance * 100.0);
                distance.map_or_else(|| "-".to_owned(), noctule_text::percent)
            });
            columns.push(Column {
                head: head("moved", Align::Right, 4, None),
                cells: moved.map(Cell::from).collect(),
            });
        }
        let heads: Vec<Head> = columns.iter().map(|column| column.head.clone()).collect();
        let cells = |row: usize| columns.iter().map(move |column| column.cells[row].clone());
        let rows: Vec<Vec<Cell>> = (0..shown.len()).map(|row| cells(row).collect()).collect();
        let lines = noctule_text::table(&heads, &rows, paint.width());
        let about = self.about.iter();
        let about = about.map(|words| paint.folded(Tone::Plain, words, 0));
        let mut text = about.collect::<String>() + &paint.line(&lines.head);
        text.extend(lines.rows.iter().map(|row| paint.line(row)));
        let mut note = |tone, words: &str| text.push_str(&paint.folded(tone, words, 0));
        if !lines.dropped.is_empty() {
            let dropped = lines.dropped.iter().map(|&at| heads[at].title.as_str());
            let dropped: Vec<&str> = dropped.collect();
            let words = format!("no room for: {} (--wide)", dropped.join(", "));
            note(Tone::Faint, &words);
        }
        if self.rows.len() > top {
            let more = columns::more(self.rows.len() - top);
            note(Tone::Faint, &format!("{more} (--top)"));
        }
        self.legend()
            .iter()
            .for_each(|words| note(Tone::Plain, words));
        text
    }

    /// Compares CPU usage, in CPUs.
    fn usage(&self, row: &Difference) -> Change {
        let used = self.shares([row.before.cpu_ns, row.after.cpu_ns]);
        Change::new(used.map(Some), ratio, row.usage)
    }

    /// Compares the time spent runnable but not running, per second.
    fn waiting(&self, row: &Difference) -> Change {
        let waited = self.shares([row.before.wait_ns, row.after.wait_ns]);
        let per_second = |share: f64| duration((share * 1e9) as u64) + "/s";
        Change::new(waited.map(Some), per_second, row.waiting)
    }

    fn shares(&self, [before, after]: [u64; 2]) -> [f64; 2] {
        let share = |ns: u64, of: &Stretch| ns as f64 / of.length_ns().max(1) as f64;
        [share(before, self.before), share(after, self.after)]
    }

    /// Explains the marks.
    fn legend(&self) -> Vec<String> {
        let blocks = (self.before.blocks(), self.after.blocks());
        let lengths = format!(
            "{} before, {} after, in {} and {} blocks of {}",
            duration(self.before.length_ns()),
            duration(self.after.length_ns()),
            blocks.0,
            blocks.1,
            duration(self.block_ns)
        );
        let left_out = [self.before, self.after].map(Stretch::left_out_ns);
        let lengths = match left_out {
            [0, 0] => lengths,
            [before, after] => format!(
                "{lengths}; the {} and {} after the last block are left out",
                duration(before),
                duration(after)
            ),
        };
        if blocks.0.min(blocks.1) < LEAST_BLOCKS {
            return vec![format!(
                "{lengths}: too short to tell changes from noise ({LEAST_BLOCKS} blocks are \
                 needed)"
            )];
        }
        let changed = self.rows.iter().filter(|row| row.changed()).count();
        let share = FALSE_DISCOVERIES * 100.0;
        let changed = format!(
            "{} of {} changed. *: significant (rank-sum test of the blocks; at most {share:.0}% of the \
             marks are due to chance)",
            count(changed as u64),
            count(self.rows.len() as u64)
        );
        let mut legend = vec![lengths, changed];
        if !can_find_one(self.before, self.after, self.rows) {
            let words = "Too few blocks to mark a change in a single row: compare longer windows";
            legend.push(words.to_owned());
        }
        legend
    }

    fn json(&self) -> Value {
        let stretch = |stretch: &Stretch| {
            json!({
                "window_seconds": stretch.length_ns() as f64 / 1e9,
                "blocks": stretch.blocks(),
                "left_out_seconds": stretch.left_out_ns() as f64 / 1e9,
            })
        };
        let rows = self.rows.iter().map(|row| {
            let mut fields = json!({
                "name": row.name,
                "changed": row.changed(),
                "before": did(&row.before, self.level),
                "after": did(&row.after, self.level),
                "cpu": tested(row.usage),
            });
            if self.level != Level::Process {
                fields["wait"] = tested(row.waiting);
                fields["wait_p99"] = tested(row.length);
                if let Some(distance) = row.distance {
                    fields["wait_distance"] = distance.into();
                }
            }
            fields
        });
        let rows: Vec<Value> = rows.collect();
        json!({
            "before": stretch(self.before),
            "after": stretch(self.after),
            "followed": self.followed,
            "block_seconds": self.block_ns as f64 / 1e9,
            "false_discovery_rate": FALSE_DISCOVERIES,
            "rows": rows,
        })
    }
}

fn did(did: &Did, level: Level) -> Value {
    let mut fields = json!({ "cpu.seconds": did.cpu_ns as f64 / 1e9 });
    if level != Level::Process {
        fields["wait.seconds"] = (did.wait_ns as f64 / 1e9).into();
        fields["waits"] = did.waits.count().into();
        for (key, quantile) in [("wait.p50_seconds", 0.5), ("wait.p99_seconds", 0.99)] {
            if let Some(ns) = did.waits.quantile(quantile) {
                fields[key] = (ns as f64 / 1e9).into();
            }
        }
    }
    fields
}

fn tested(tested: Tested) -> Value {
    let mut fields = json!({ "changed": tested.changed });
    if let Some(p) = tested.p {
        fields["p_value"] = p.into();
    }
    fields
}

struct Column {
    head: Head,
    cells: Vec<Cell>,
}

fn head(title: &str, align: Align, priority: u8, least: Option<usize>) -> Head {
    Head {
        title: title.to_owned(),
        align,
        priority,
        least,
    }
}

/// A figure before and after, and its change, as text.
struct Change {
    words: [String; 3],
    changed: bool,
}

impl Change {
    fn new(figures: [Option<f64>; 2], words: impl Fn(f64) -> String, tested: Tested) -> Self {
        let cell = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), &words);
        let [before, after] = figures;
        Self {
            words: [cell(before), cell(after), change(before, after, tested)],
            changed: tested.changed,
        }
    }
}

/// Compares the 99th percentile of the waits.
fn length(row: &Difference) -> Change {
    let p99 = |did: &Did| did.waits.quantile(0.99).map(|ns| ns as f64);
    let words = |ns: f64| duration(ns as u64);
    Change::new([p99(&row.before), p99(&row.after)], words, row.length)
}

/// Returns a column such as `0.52 -> 1.30 +150.0%*`, in which the parts of all rows are aligned.
fn changes(
    title: &str,
    priority: u8,
    rows: &[Difference],
    of: impl Fn(&Difference) -> Change,
) -> Column {
    let changes: Vec<Change> = rows.iter().map(of).collect();
    let wide = |part: usize| changes.iter().map(|it| width(&it.words[part])).max();
    let widths = [0, 1, 2].map(|part| wide(part).unwrap_or(0));
    let cell = |change: &Change| {
        let part = |at: usize| pad(&change.words[at], widths[at], Align::Right);
        let text = format!("{} → {} {}", part(0), part(1), part(2));
        let tone = match change.changed {
            true => Tone::Strong,
            false => Tone::Plain,
        };
        Cell::new(text, tone)
    };
    Column {
        head: head(title, Align::Left, priority, None),
        cells: changes.iter().map(cell).collect(),
    }
}

/// Formats a change as `+52.0%`, `new` or `gone`. A star marks a statistically significant change.
fn change(before: Option<f64>, after: Option<f64>, tested: Tested) -> String {
    let mark = if tested.changed { "*" } else { " " };
    let there = |figure: Option<f64>| figure.filter(|figure| *figure > 0.0);
    let words = match (there(before), there(after)) {
        (None, None) => "-".to_owned(),
        (None, Some(_)) => "new".to_owned(),
        (Some(_), None) => "gone".to_owned(),
        (Some(before), Some(after)) => {
            let percent = (after / before - 1.0) * 100.0;
            let sign = if percent < 0.0 { "-" } else { "+" };
            sign.to_owned() + &noctule_text::percent(percent.abs())
        }
    };
    words + mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_states_which_commands_were_recorded() {
        let (none, make, ls) = (
            Vec::new(),
            vec!["make".into(), "-j8".into()],
            vec!["ls\n".into()],
        );
        let said = |before: &Vec<String>, after: &Vec<String>| about([before, after]);
        assert_eq!(said(&none, &none), None);
        let cases = [
            (&make, &make, "the command alone: make -j8"),
            (
                &make,
                &ls,
                "the commands alone: make -j8 before, ls\\n after",
            ),
            (
                &none,
                &make,
                "comparing whole machines, because only one recording is of a command (make -j8)",
            ),
            (
                &make,
                &none,
                "comparing whole machines, because only one recording is of a command (make -j8)",
            ),
        ];
        for (before, after, expected) in cases {
            let words = said(before, after).expect("one is of a command");
            assert!(words.starts_with(expected), "{words}");
        }
    }
}
