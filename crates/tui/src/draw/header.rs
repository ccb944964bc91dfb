//! Draws the top of the screen: the machine, the agent, the window.

use noctule_model::{Counter, VerdictKind};
use noctule_text::{bytes, duration};
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::data::Window;
use crate::data::history::{self, LENGTH};
use crate::draw::line::put;
use crate::draw::palette::Palette;
use crate::draw::spark;
use crate::draw::wait_cells;
use crate::state::App;
use crate::state::layout::Areas;
use crate::table::View;
use crate::text;

/// The bar is drawn in the alarm style if at least this share of the node is busy.
const FULL: f64 = 0.9;
/// Width of the bar in the overview.
const BAR: usize = 10;

/// Draws as many lines as fit. In the overview, the headline comes first.
pub(crate) fn draw(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    let area = areas.header;
    if let (View::Overview, Some(window)) = (app.view, &app.shown.window) {
        overview(app, window, areas, palette, frame);
        return;
    }
    let Some(window) = &app.shown.window else {
        put(frame, area, 0, &title(app, None, area.width, palette));
        let wait = format!(
            " waiting for the first window of {}",
            duration(app.interval.as_nanos() as u64)
        );
        put(frame, area, 1, &Line::from(wait));
        return;
    };
    let shares = Shares::new(window);
    let bar = busy(app, &shares, areas, palette);
    let title = title(app, Some(window), area.width, palette);
    let lines = match area.height {
        0 | 1 => vec![bar],
        2 => vec![title, bar],
        3 => {
            let mut line = rest(&shares, palette);
            line.push_span(Span::raw("  "));
            line.extend(agent(window, palette));
            vec![title, bar, line]
        }
        _ => vec![title, bar, rest(&shares, palette), agent(window, palette)],
    };
    for (y, line) in (0..).zip(lines) {
        put(frame, area, y, &line);
    }
    graph(app, areas, palette, frame);
}

/// Shares of the CPUs' time, 0 to 1.
struct Shares {
    busy: Option<f64>,
    idle: Option<f64>,
    remainder: Option<f64>,
    /// Set only if idle and busy time include steal time, so that the remainder does not contain
    /// it.
    steal: Option<f64>,
}

impl Shares {
    fn new(window: &Window) -> Self {
        let node = &window.node;
        let share = |ns: u64| (node.elapsed_ns > 0).then(|| ns as f64 / node.elapsed_ns as f64);
        Self {
            busy: share(node.total[Counter::CpuTime]),
            idle: share(node.idle_ns),
            remainder: share(node.remainder_ns()),
            steal: node.steal_included_ns.and_then(share),
        }
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || "-".to_owned(),
        |share| noctule_text::percent(share * 100.0),
    )
}

/// Draws the headline, and below it the node on one line.
fn overview(app: &App, window: &Window, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    let area = areas.header;
    let lines = app.headline(frame.area().as_size());
    let verdict = match app.verdict().kind {
        VerdictKind::Quiet => palette.strong,
        kind => wait_cells::kind_style(kind, palette),
    };
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(at, (words, is_advice))| {
        let style = if is_advice { Style::new() } else { verdict };
        let mut line = Line::from(" ");
        if at == 0 && area.height == 1 && app.paused {
            line.push_span(Span::styled(" PAUSED ", palette.reversed));
            line.push_span(Span::raw(" "));
        }
        line.push_span(Span::styled(words, style));
        line
    });
    let mut lines: Vec<Line<'static>> = lines.collect();
    if area.height > 1 {
        lines.truncate(usize::from(area.height) - 1);
        lines.push(node(app, window, area.width, palette));
    }
    for (y, line) in (0..).zip(lines) {
        put(frame, area, y, &line);
    }
}

/// Draws the node and the agent on one line.
fn node(app: &App, window: &Window, width: u16, palette: &Palette) -> Line<'static> {
    let shares = Shares::new(window);
    let share = shares.busy.unwrap_or(0.0);
    let busy = match share >= FULL {
        true => palette.alarm,
        false => palette.graph,
    };
    let (full, empty) = spark::bar(share, BAR);
    let remainder = match shares.steal {
        None => format!("irq+steal {}", percent(shares.remainder)),
        steal => format!(
            "irq {}, steal {}",
            percent(shares.remainder),
            percent(steal)
        ),
    };
    let agent = &window.agent;
    let cost = noctule_text::percent(agent.cpu_percent);
    let mut facts = vec![
        vec![Span::raw(cpus(window))],
        vec![
            Span::raw(format!("busy {} ", percent(shares.busy))),
            Span::styled(full, busy),
            Span::styled(empty, palette.faint),
        ],
        vec![Span::raw(format!("idle {}", percent(shares.idle)))],
        vec![Span::raw(remainder)],
        vec![Span::raw(moment(app, window))],
        vec![Span::raw(format!("window {}", duration(window.length_ns)))],
        vec![Span::raw(format!(
            "noctule {cost} CPU, {}",
            bytes(agent.resident_bytes)
        ))],
    ];
    // In a recording, the time comes first, because users look for it.
    if app.place.is_some() {
        facts.swap(0, 4);
    }
    joined(app, facts, width, palette)
}

fn cpus(window: &Window) -> String {
    noctule_text::counted(window.node.cpus.into(), "CPU", "CPUs")
}

fn title(app: &App, window: Option<&Window>, width: u16, palette: &Palette) -> Line<'static> {
    let facts = window.map(|window| {
        let mut facts = [
            cpus(window),
            format!("window {}", duration(window.length_ns)),
            moment(app, window),
        ];
        if app.place.is_some() {
            facts.rotate_right(1);
        }
        facts.map(|fact| vec![Span::raw(fact)])
    });
    let facts = facts.into_iter().flatten().collect();
    joined(app, facts, width, palette)
}

/// Draws the name of the machine, followed by the facts that fit.
fn joined(
    app: &App,
    facts: Vec<Vec<Span<'static>>>,
    width: u16,
    palette: &Palette,
) -> Line<'static> {
    let mut line = Line::from(" ");
    if app.paused {
        line.push_span(Span::styled(" PAUSED ", palette.reversed));
        line.push_span(Span::raw(" "));
    }
    line.push_span(Span::styled(app.hostname.clone(), palette.strong));
    for fact in facts {
        let fact = Line::from([vec![Span::raw(" · ")], fact].concat());
        if line.width() + fact.width() <= usize::from(width) {
            line.extend(fact);
        }
    }
    line
}

/// Formats the time at which the window ends. For a recording, also shows the date and the playback
/// speed.
fn moment(app: &App, window: &Window) -> String {
    let Some(place) = &app.place else {
        return app.clock(window.time_unix_ns);
    };
    let at = window.time_unix_ns;
    let mut words = noctule_text::date_time(at, (app.utc_offset)(at));
    match place.speed {
        Some(speed) => words.push_str(&format!(" ▶ {speed}x")),
        None => words.push_str(" (recorded)"),
    }
    if place.busy {
        words.push_str(" …");
    }
    words
}

/// Draws the busy bar. If the header has only one line, the bar includes the other figures.
fn busy(app: &App, shares: &Shares, areas: &Areas, palette: &Palette) -> Line<'static> {
    let width = usize::from(areas.header.width);
    let (alone, wide) = (areas.header.height == 1, areas.graph.width > 0);
    let share = shares.busy.unwrap_or(0.0);
    let style = if share >= FULL {
        palette.alarm
    } else {
        palette.graph
    };
    let mut spans = vec![
        Span::raw(" busy "),
        Span::styled(format!("{:>6}", percent(shares.busy)), palette.strong),
        Span::raw(" "),
    ];
    let mut after = Vec::new();
    if alone && app.paused {
        after.push(Span::styled("PAUSED", palette.reversed));
    }
    if alone && app.shown.warning().is_some_and(|it| it.is_losing) {
        after.push(Span::styled("!", palette.alarm));
    }
    let used: usize = spans.iter().chain(&after).map(Span::width).sum();
    let room = width.saturating_sub(used + 1);
    // If the graph is not at the side, it follows the bar.
    let graph = if wide || room < 20 {
        0
    } else {
        1 + history::columns(room * 3 / 5)
    };
    let (full, empty) = spark::bar(share, (room - graph).min(60));
    spans.push(Span::styled(full, style));
    spans.push(Span::styled(empty, palette.faint));
    if graph > 0 {
        let minute = spark::graph(&app.shown.node_minute(graph - 1), 1.0, 1).concat();
        spans.push(Span::styled(format!(" {minute}"), palette.graph));
    }
    spans.extend(after);
    Line::from(spans)
}

fn rest(shares: &Shares, palette: &Palette) -> Line<'static> {
    let mut spans = vec![
        Span::styled(" idle ", palette.faint),
        Span::raw(format!("{:>6}", percent(shares.idle))),
    ];
    let rest = match shares.steal {
        None => vec![("   irq+steal ", shares.remainder)],
        steal => vec![("   irq ", shares.remainder), ("   steal ", steal)],
    };
    for (word, share) in rest {
        spans.push(Span::styled(word, palette.faint));
        spans.push(Span::raw(percent(share)));
    }
    Line::from(spans)
}

fn agent(window: &Window, palette: &Palette) -> Line<'static> {
    let agent = &window.agent;
    let mut spans = vec![
        Span::styled(" noctule ", palette.faint),
        Span::raw(format!(
            "{} CPU · {}",
            noctule_text::percent(agent.cpu_percent),
            bytes(agent.resident_bytes)
        )),
    ];
    if let Some(ns) = agent.run_ns {
        spans.push(Span::raw(format!(" · {} per BPF run", text::length(ns))));
    }
    Line::from(spans)
}

/// Draws the last minute of the node, at the side of a wide header.
fn graph(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    let area = areas.graph;
    if area.width == 0 {
        return;
    }
    let caption = format!(" busy, last {}", text::length(app.span_ns()));
    put(frame, area, 0, &Line::styled(caption, palette.faint));
    let minute = app.shown.node_minute(LENGTH);
    let rows = usize::from(area.height.saturating_sub(1));
    for (y, line) in (1..).zip(spark::graph(&minute, 1.0, rows)) {
        let line = Line::styled(format!(" {line}"), palette.graph);
        put(frame, area, y, &line);
    }
}
