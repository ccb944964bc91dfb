//! Draws the pane with all details of one group's waits.

use noctule_analysis::{Culprit, WaitReportRow};
use noctule_model::{BlockClass, Cause, Preemptor};
use noctule_text::{WAIT_LENGTHS, WAIT_SCALE, count, duration, escape, lengths, percent, share};
use ratatui::text::{Line, Span};

use crate::data::commands::Command;
use crate::data::waits;
use crate::data::waits::{LastVerdict, Waited};
use crate::draw::line::labelled;
use crate::draw::palette::Palette;
use crate::draw::spark;
use crate::draw::wait_cells;
use crate::state::App;
use crate::table::Item;
use crate::text::{self, Align};

/// Height of the distribution, in lines.
const HEIGHT: usize = 4;
/// Width of each length in the distribution.
const STRIPE: usize = 4;
/// Maximum width of the bar of causes.
const BAR: usize = 60;
/// Width of a culprit's name.
const NAME: usize = 36;
/// Width of the label of a part of the time.
const LABEL: usize = 11;
/// Minimum share of the threads' time for a class of blocked time to be listed.
const SHOWN: f64 = 0.001;
/// Maximum number of culprits to list, and of commands for each group.
const CULPRITS: usize = 5;
const COMMANDS: usize = 3;

/// Draws the answer below the title: the verdict, where the group's time went, its commands, and
/// the groups that it waited for.
pub(crate) fn answer(
    app: &App,
    item: &Item,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let Some(waited) = &item.waited else {
        return Vec::new();
    };
    let mut lines = match &waited.verdict {
        Some(last) => verdict(app, item, last, width, palette),
        None => labelled("verdict", &first_verdict_hint(app), width, palette),
    };
    lines.extend(time(app, &waited.now, width, palette));
    lines.extend(culprits(app, &waited.now, width, palette));
    lines.extend(commands(app, app.commands.of(&item.key), width, palette));
    lines.push(Line::default());
    lines
}

/// Draws the details: figures of the window, distribution, causes.
pub(crate) fn lines(
    app: &App,
    waited: &Waited,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let row = &waited.now;
    let window = duration(app.facts().window_ns);
    let heading = format!(" waits in the window of {window}");
    let mut lines = vec![Line::default(), Line::styled(heading, palette.faint)];
    lines.extend(sums(app, row, width, palette));
    lines.push(Line::default());
    lines.extend(distribution(row, width, palette));
    lines.push(Line::default());
    lines.extend(causes(row, width, palette));
    lines.extend(preemptions(row, width, palette));
    lines
}

/// Draws where the time of the group's threads went: running, runnable, then blocked by class. Each
/// line has the average number of threads, and a bar.
fn time(app: &App, row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let all = row.threads_ns();
    let window = app.facts().window_ns.max(1) as f64;
    let threads = all as f64 / window;
    let heading = format!(" where the time of its {threads:.1} threads went: share, threads");
    let mut lines = vec![
        Line::default(),
        Line::styled(text::keep_start(&heading, width), palette.faint),
    ];
    let mut blocked: Vec<_> = BlockClass::ALL
        .into_iter()
        .map(|class| {
            (
                class.name(),
                row.blocked_ns[class as usize],
                class.is_stall(),
            )
        })
        .filter(|(_, ns, _)| *ns as f64 >= SHOWN * all as f64 && *ns > 0)
        .collect();
    blocked.sort_by_key(|&(_, ns, _)| std::cmp::Reverse(ns));
    let busy = [
        ("running", row.cpu_ns, false),
        ("runnable", row.total_ns(), true),
    ];
    let columns = width.saturating_sub(LABEL + 18).min(BAR);
    lines.extend(busy.into_iter().chain(blocked).map(|(name, ns, hurts)| {
        let part = ns as f64 / all.max(1) as f64;
        let label = text::pad(name, LABEL, Align::Left);
        let figures = format!(
            "{:>7} {:>6}  ",
            share(ns, all),
            noctule_text::ratio(ns as f64 / window)
        );
        let style = match hurts {
            true => palette.alarm,
            false => palette.graph,
        };
        Line::from(vec![
            Span::styled(format!(" {label}"), palette.faint),
            Span::raw(figures),
            Span::styled(spark::bar(part, columns).0, style),
        ])
    }));
    lines
}

/// Lists the busiest commands of the group.
fn commands(
    app: &App,
    commands: &[Command],
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    if commands.is_empty() {
        return Vec::new();
    }
    let window = app.facts().window_ns.max(1) as f64;
    let mut lines = vec![
        Line::default(),
        Line::styled(" its commands, and the CPU that they used", palette.faint),
    ];
    let room = width.saturating_sub(31).clamp(8, NAME);
    lines.extend(commands.iter().take(COMMANDS).map(|command| {
        let name = text::pad(&text::shorten(&command.words(), room), room, Align::Left);
        let used = percent(command.cpu_ns as f64 * 100.0 / window);
        Line::from(format!(" {name} {used:>7}"))
    }));
    lines
}

fn first_verdict_hint(app: &App) -> String {
    let window = waits::verdict_window(app.interval).as_nanos() as u64;
    format!("none yet: its window is {} long", duration(window))
}

/// Describes the verdict, whose window is longer than the screen's, and compares the group's waits
/// with its usual waits.
fn verdict(
    app: &App,
    item: &Item,
    last: &LastVerdict,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let row = last.row();
    let kind = row.verdict.kind;
    let about = format!(
        "  over the {} until {}",
        duration(last.window_ns()),
        app.clock(last.time_unix_ns)
    );
    let mut first = labelled("verdict", "", width, palette).remove(0);
    first.push_span(Span::styled(
        kind.name(),
        wait_cells::verdict_style(item, palette),
    ));
    first.push_span(Span::styled(about, palette.faint));
    let mut lines = vec![first];
    let reason = app.reason(last, app.level());
    let mut because = noctule_text::sentence(&reason);
    for fact in noctule_text::facts(&reason) {
        because.push_str(&format!("; {fact}"));
    }
    lines.extend(labelled("because", &escape(&because), width, palette));
    if let Some(advice) = noctule_text::advice(&reason) {
        lines.extend(labelled("try", &escape(&advice), width, palette));
    }
    let usual = match row.verdict.evidence.baseline {
        Some(usual) => format!(
            "p99 {}, waited behind others for {} of the time that it wanted the CPU",
            duration(usual.p99_ns),
            percent(usual.contended_share * 100.0)
        ),
        None => "not known yet: too few windows so far".to_owned(),
    };
    lines.extend(labelled("usual", &usual, width, palette));
    lines
}

fn sums(app: &App, row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let (waited, wanted) = (row.total_ns(), row.total_ns() + row.cpu_ns);
    let rate = waited as f64 * 1e9 / app.facts().window_ns.max(1) as f64;
    let waited = format!(
        "{}, {} per second; {} of the time that it wanted the CPU",
        duration(waited),
        text::length(rate),
        share(waited, wanted)
    );
    let quantile = |q| {
        let value = row.histogram.quantile(q);
        value.map_or_else(|| "-".to_owned(), duration)
    };
    let waits = format!(
        "{}: p50 {}, p90 {}, p99 {}, max {}",
        count(row.histogram.count()),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(1.0)
    );
    let ran = duration(row.cpu_ns);
    let now = match row.waiting.threads {
        0 => "no thread waits".to_owned(),
        1 => format!("1 thread waits, for {}", duration(row.waiting.longest_ns)),
        threads => format!(
            "{threads} threads wait, the longest for {}",
            duration(row.waiting.longest_ns)
        ),
    };
    [
        ("waited", waited),
        ("now", now),
        ("ran", ran),
        ("waits", waits),
    ]
    .iter()
    .flat_map(|(label, value)| labelled(label, value, width, palette))
    .collect()
}

/// Draws the histogram of wait lengths, with a scale below.
fn distribution(row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let counts = lengths(&row.histogram);
    let most = counts.iter().copied().max().unwrap_or(0);
    let room = width.saturating_sub(10);
    let stripe = (room / WAIT_LENGTHS).clamp(1, STRIPE);
    let values: Vec<Option<f32>> = counts
        .iter()
        .map(|&count| (count > 0).then_some(count as f32))
        .flat_map(|value| std::iter::repeat_n(value, stripe))
        .collect();
    let mut lines: Vec<Line<'static>> = spark::graph(&values, most as f32, HEIGHT)
        .into_iter()
        .enumerate()
        .map(|(i, part)| {
            let scale = match i {
                0 => count(most),
                _ => String::new(),
            };
            Line::from(vec![
                Span::styled(format!("{scale:>8} "), palette.faint),
                Span::styled(part, palette.graph),
            ])
        })
        .collect();
    let scale: String = match stripe {
        1 => WAIT_SCALE.to_owned(),
        // Each label starts at the first column of its wait length.
        _ => WAIT_SCALE
            .split_inclusive('s')
            .map(|part| {
                let label = part.trim_start();
                let columns = text::width(part) * stripe;
                text::pad(
                    &(" ".repeat((text::width(part) - text::width(label)) * stripe) + label),
                    columns,
                    Align::Left,
                )
            })
            .collect(),
    };
    lines.push(Line::styled(format!("{:9}{scale}", ""), palette.faint));
    lines
}

/// Draws each cause with its time and share, below a bar of all causes.
fn causes(row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" causes of its waits", palette.faint)];
    let mut bar = vec![Span::raw(" ")];
    let columns = width.saturating_sub(2).min(BAR);
    bar.extend(wait_cells::causes(row, columns, false, palette));
    lines.push(Line::from(bar));
    let total = row.total_ns();
    for cause in Cause::ALL {
        let ns = row.wait_ns[cause as usize];
        let mut spans = vec![Span::raw(" "), wait_cells::glyph(cause, palette)];
        let label = text::pad(cause.name(), 14, Align::Left);
        spans.push(Span::styled(format!(" {label}"), palette.faint));
        spans.push(Span::raw(format!("{}  {}", length(ns), part(ns, total))));
        lines.push(Line::from(spans));
    }
    lines
}

/// Lists the culprits, most to blame first, and the sum of the others.
fn culprits(app: &App, row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    if row.culprits.is_empty() {
        return Vec::new();
    }
    let heading = " culprits: time waited behind them, and how often they preempted it";
    let mut lines = vec![
        Line::default(),
        Line::styled(text::keep_start(heading, width), palette.faint),
    ];
    let others = row.wait_on_others_ns();
    // The name is followed by 30 columns of figures.
    let room = width.saturating_sub(31).clamp(8, NAME);
    let line = |culprit: &Culprit| {
        let name = escape(&culprit.party.name(app.level()));
        let ns = culprit.blame.wait_ns;
        let name = text::pad(&text::shorten(&name, room), room, Align::Left);
        let times = count(culprit.blame.preemptions);
        Line::from(format!(
            " {name} {}  {}  {times:>6}",
            length(ns),
            part(ns, others)
        ))
    };
    let there = |it: &&Culprit| it.blame.wait_ns > 0 || it.blame.preemptions > 0;
    let there: Vec<&Culprit> = row.culprits.iter().filter(there).collect();
    let (first, more) = there.split_at(there.len().min(CULPRITS));
    for culprit in first {
        lines.push(line(culprit));
        let commands = app.commands.of_party(&culprit.party, app.level());
        let commands: Vec<String> = commands.take(COMMANDS).map(Command::words).collect();
        if !commands.is_empty() {
            let words = format!("   {}", commands.join(", "));
            lines.push(Line::styled(text::keep_start(&words, width), palette.faint));
        }
    }
    if !more.is_empty() {
        let ns = more.iter().map(|culprit| culprit.blame.wait_ns).sum();
        let label = text::pad(&format!("{} more", more.len()), room, Align::Left);
        lines.push(Line::from(format!(
            " {label} {}  {}",
            length(ns),
            part(ns, others)
        )));
    }
    lines
}

fn preemptions(row: &WaitReportRow, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let words: Vec<String> = Preemptor::ALL
        .into_iter()
        .map(|by| format!("{} {}", by.name(), count(row.preemptions[by as usize])))
        .chain([format!("quota {}", count(row.throttles))])
        .collect();
    let mut lines = vec![Line::default()];
    lines.extend(labelled("preempted", &words.join(", "), width, palette));
    lines
}

fn length(ns: u64) -> String {
    format!("{:>7}", duration(ns))
}

fn part(ns: u64, of: u64) -> String {
    format!("{:>6}", share(ns, of))
}
