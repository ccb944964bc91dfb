//! The tables of `noctule energy`: rows and zones.

use noctule_analysis::{EnergyReport, Report, Row, ZoneReport};
use noctule_model::{
    Counter, Counters, Driver, FeatureState, Joules, Level, ZoneAccount, ZoneKind,
};
use noctule_text::{self as text, Align, Cell, Head, Tone, escape};

use crate::commands::shared::columns::{Choice, Column, Figure, more};
use crate::commands::shared::stat_table::{Line, command_column, user_column};
use crate::print::Paint;
use crate::users::Users;

/// Computes the figure of a row in a column.
type Of = Box<dyn Fn(&Report, &Line<'_>) -> Option<Figure>>;

/// Returns the columns. On a narrow terminal, columns with higher priority numbers are dropped
/// first, and zones are dropped in their order.
pub(crate) fn columns() -> Vec<Column<Of>> {
    let mut columns: Vec<Column<Of>> = vec![
        Column::text(
            "name",
            0,
            12,
            Box::new(|_, line| Some(Figure::text(&*line.name))),
        ),
        Column::number(
            "CPU",
            3,
            Box::new(|report, line| {
                let cpu = Counter::CpuTime;
                let ns = report.measured.value(&line.row.counters, cpu)?;
                (!line.unmeasured).then(|| Figure::number(ns as f64, text::duration(ns)))
            }),
        ),
    ];
    for (kind, turn) in ZoneKind::ALL.into_iter().zip(0..) {
        let (energy, power) = priorities(turn);
        let used: Of = Box::new(move |report, line| {
            let uj = joules(report, line, kind)?;
            Some(Figure::number(uj as f64, text::joules(uj)))
        });
        let watts: Of = Box::new(move |report, line| {
            let watts = power_of(joules(report, line, kind)?, report.window_ns);
            Some(Figure::number(watts, text::watts_alone(watts)))
        });
        columns.push(Column::number(kind.name(), energy, used));
        columns.push(Column::number(watts_name(kind), power, watts).titled("W"));
    }
    let user: Of = Box::new(|_, line| line.user());
    columns.push(user_column(1, user));
    let place: Of = Box::new(|_, line| line.place());
    columns.push(Column::text("in", 5, 12, place));
    let command: Of = Box::new(|_, line| line.command());
    columns.push(command_column(1, command));
    columns
}

/// Returns the priorities of a zone's joules and watts. The columns of the first zone are dropped
/// last.
const fn priorities(turn: u8) -> (u8, u8) {
    match turn {
        0 => (1, 2),
        turn => (6 + 2 * turn, 7 + 2 * turn),
    }
}

const fn watts_name(kind: ZoneKind) -> &'static str {
    match kind {
        ZoneKind::Package => "package W",
        ZoneKind::Core => "core W",
        ZoneKind::Uncore => "uncore W",
        ZoneKind::Dram => "dram W",
        ZoneKind::Psys => "psys W",
        ZoneKind::Platform => "platform W",
        ZoneKind::Gpu => "gpu W",
        ZoneKind::Other => "other W",
    }
}

/// Returns the row's energy in zones of this kind, if such a zone exists.
fn joules(report: &Report, line: &Line<'_>, kind: ZoneKind) -> Option<u64> {
    let kinds = &report.energy.as_ref()?.kinds;
    let there = kinds.iter().any(|zone| zone.kind == kind);
    there.then(|| line.row.joules[kind])
}

/// Renders the rows, the unattributed energy and the zones. With `together`, adds a line for the
/// sum of all rows.
pub(crate) fn draw(
    report: &Report,
    level: Level,
    top: usize,
    together: bool,
    choice: &Choice,
    users: &Users,
    paint: Paint,
) -> String {
    let Some(energy) = &report.energy else {
        return String::new();
    };
    let figure = |of: &Of, line: &Line<'_>| of(report, line);
    let columns = columns();
    let rows = report.rows.iter();
    let mut lines: Vec<Line<'_>> = rows.map(|row| Line::of(row, level, users)).collect();
    choice.sort(&columns, &mut lines, figure);
    let hidden = lines.split_off(lines.len().min(top));
    let all = report.sum();
    let mut rest = Row {
        counters: Counters::default(),
        joules: Joules::default(),
        ..all.clone()
    };
    let mut unrecorded = rest.clone();
    if !hidden.is_empty() {
        for line in &hidden {
            rest.counters += &line.row.counters;
            rest.joules += &line.row.joules;
        }
        let name = more(hidden.len());
        lines.push(Line::sum(name, &rest, level, users));
    }
    if !energy.unrecorded.is_zero() {
        unrecorded.joules = energy.unrecorded;
        let mut line = Line::sum("ended without a record".into(), &unrecorded, level, users);
        line.unmeasured = true;
        lines.push(line);
    }
    if together && report.rows.len() > 1 {
        let name = format!("all {} together", report.rows.len());
        lines.push(Line::sum(name, &all, level, users));
    }
    let drawn = choice.draw(&columns, &lines, level, figure, paint);
    let mut out = drawn.head + &drawn.rows.concat() + &drawn.dropped;
    out.push('\n');
    out.push_str(&zones(energy, report.window_ns, paint));
    out.push_str(&notes(report, energy, paint));
    out
}

/// A column of the table of zones. The column is dropped if all its values are 0.
type Part = (&'static str, fn(&ZoneAccount) -> u64);

const PARTS: [Part; 5] = [
    ("idle", |account| account.idle_uj),
    ("active", |account| account.active_uj),
    ("interrupts", |account| account.interrupts_uj),
    ("other", |account| account.other_uj),
    ("unattributed", |account| account.unattributed_uj),
];

fn zones(energy: &EnergyReport, window_ns: u64, paint: Paint) -> String {
    let there = |(_, part): &&Part| energy.zones.iter().any(|zone| part(&zone.account) > 0);
    let parts: Vec<&Part> = PARTS.iter().filter(there).collect();
    let head = |title: &str, priority| Head {
        title: title.to_owned(),
        align: Align::Right,
        priority,
        least: None,
    };
    let mut heads = vec![
        head("zone", 0),
        head("meter", 8),
        head("W", 1),
        head("total", 2),
    ];
    (heads[0].align, heads[0].least) = (Align::Left, Some(8));
    heads.extend(parts.iter().zip(4..).map(|((title, _), i)| head(title, i)));
    heads.extend([head("error", 3), head("idle W", 9), head("shared by", 10)]);
    let line = |zone: &ZoneReport| {
        let account = &zone.account;
        let mut cells = vec![
            text::zone_name(&zone.zone),
            zone.zone.source.name().to_owned(),
            text::watts_alone(power_of(account.total_uj, window_ns)),
            text::joules(account.total_uj),
        ];
        cells.extend(parts.iter().map(|(_, part)| text::joules(part(account))));
        let error = zone.error_ratio.map(text::half_width);
        cells.push(error.unwrap_or_else(|| "-".into()));
        let idle = account.idle_watts.map(text::watts_alone);
        cells.push(idle.unwrap_or_else(|| "-".into()));
        cells.push(account.driver.name().replace('_', " "));
        cells.into_iter().map(Cell::from).collect()
    };
    let cells: Vec<Vec<Cell>> = energy.zones.iter().map(line).collect();
    let lines = text::table(&heads, &cells, paint.width());
    let rows = lines.rows.iter().map(|row| paint.line(row));
    paint.line(&lines.head) + &rows.collect::<String>()
}

/// Renders the notes that are needed to interpret the figures.
fn notes(report: &Report, energy: &EnergyReport, paint: Paint) -> String {
    let window = text::seconds(report.window_ns);
    let cpus = text::counted(report.node.cpus.into(), "CPU", "CPUs");
    let window = format!("{window} on {cpus}");
    let mut out = paint.folded(Tone::Faint, &window, 0);
    let mut note = |words: &str| out.push_str(&paint.folded(Tone::Plain, words, 0));
    for zone in &energy.zones {
        let name = text::zone_name(&zone.zone);
        if zone.state != FeatureState::On {
            let reason = zone.reason.as_deref().unwrap_or("unknown");
            note(&format!(
                "{name}: not read at the end of the window: {}",
                escape(reason)
            ));
        }
        if zone.still {
            let update = text::duration(zone.zone.update_ns);
            note(&format!(
                "{name}: the meter did not change (it updates at most every {update}): use a \
                 longer window"
            ));
        }
        let account = &zone.account;
        let is_learned = account.driver != Driver::Parts;
        if is_learned && account.idle_doubt_uj > account.active_uj as f64 / 4.0 {
            note(&format!(
                "{name}: idle power is estimated within its bounds, because the machine was never \
                 close to idle; noctule run learns the idle power when the load changes"
            ));
        }
        if zone.gaps > 0 {
            let lasted = text::duration(zone.failed_ns);
            note(&format!(
                "{name}: unreadable, jumped or stuck {}, for {lasted} in total: energy used \
                 meanwhile is reported late or lost",
                text::counted(zone.gaps, "time", "times")
            ));
        }
        if zone.account.sockets_mixed {
            note(&format!(
                "{name}: the CPU time of a process is not known per socket, so its time on all \
                 sockets counts"
            ));
        }
    }
    if energy.is_model() {
        note("no meter: these watts come from the model in the configuration");
    }
    out
}

fn power_of(uj: u64, window_ns: u64) -> f64 {
    uj as f64 * 1e3 / window_ns.max(1) as f64
}
