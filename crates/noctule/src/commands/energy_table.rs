//! The tables of `noctule energy`: who, and which zone.

use noctule_analysis::{EnergyReport, Report, ZoneReport};
use noctule_model::{Counter, FeatureState, Joules, Level, ZoneAccount};
use noctule_text::{self as text, escape};

use super::table::{name, place, with_places};
use crate::print::{self, Paint};

/// The rows, what no row has, and the zones. `together`: a line for all rows.
pub(super) fn draw(
    report: &Report,
    level: Level,
    top: usize,
    together: bool,
    paint: Paint,
) -> String {
    let Some(energy) = &report.energy else {
        return String::new();
    };
    let (shown, hidden) = report.rows.split_at(report.rows.len().min(top));
    let mut header = vec![text::level_word(level), "CPU"];
    for kind in &energy.kinds {
        header.extend([kind.kind.name(), "W"]);
    }
    let line = |name: String, cpu_ns: Option<u64>, joules: &Joules| {
        let mut cells = vec![name, cpu_ns.map_or_else(|| "-".to_owned(), text::duration)];
        for kind in &energy.kinds {
            let uj = joules[kind.kind];
            cells.extend([
                text::joules(uj),
                text::watts_alone(power(uj, report.window_ns)),
            ]);
        }
        cells
    };
    let cpu = |counters| report.measured.value(counters, Counter::CpuTime);
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    for row in shown {
        cells.push(line(name(row, level), cpu(&row.counters), &row.joules));
        places.push(place(row, level));
    }
    let mut rest = |name: String, cpu_ns, joules: &Joules| {
        cells.push(line(name, cpu_ns, joules));
        places.push(String::new());
    };
    if !hidden.is_empty() {
        let mut sum = Joules::default();
        hidden.iter().for_each(|row| sum += &row.joules);
        let cpu_ns = hidden
            .iter()
            .map(|row| row.counters[Counter::CpuTime])
            .sum();
        rest(format!("{} more rows", hidden.len()), Some(cpu_ns), &sum);
    }
    if !energy.unrecorded.is_zero() {
        rest("ended without a record".into(), None, &energy.unrecorded);
    }
    if together && report.rows.len() > 1 {
        let sum = report.sum();
        let name = format!("all {} together", report.rows.len());
        rest(name, cpu(&sum.counters), &sum.joules);
    }
    let mut out = print::table(&header, &cells, paint);
    if matches!(level, Level::Process | Level::Container | Level::Pod) {
        out = with_places(&out, &places, paint);
    }
    out.push('\n');
    out.push_str(&zones(energy, report.window_ns, paint));
    out.push_str(&notes(report, energy, paint));
    out
}

/// A column of the zones: one of nothing but zeros is left out.
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
    let mut header = vec!["zone", "meter", "W", "total"];
    header.extend(parts.iter().map(|(title, _)| *title));
    header.extend(["error", "idle W", "shared by"]);
    let line = |zone: &ZoneReport| {
        let account = &zone.account;
        let mut cells = vec![
            text::zone_name(&zone.zone),
            zone.zone.source.name().to_owned(),
            text::watts_alone(power(account.total_uj, window_ns)),
            text::joules(account.total_uj),
        ];
        cells.extend(parts.iter().map(|(_, part)| text::joules(part(account))));
        let error = zone.error_ratio.map(text::half_width);
        cells.push(error.unwrap_or_else(|| "-".into()));
        cells.push(
            account
                .idle_watts
                .map_or_else(|| "-".into(), text::watts_alone),
        );
        cells.push(account.driver.name().replace('_', " "));
        cells
    };
    let cells: Vec<Vec<String>> = energy.zones.iter().map(line).collect();
    print::table(&header, &cells, paint)
}

/// What must be known to read the figures.
fn notes(report: &Report, energy: &EnergyReport, paint: Paint) -> String {
    let mut out = paint.dim(&format!(
        "{} on {} CPUs\n",
        text::seconds(report.window_ns),
        report.node.cpus
    ));
    for zone in &energy.zones {
        let name = text::zone_name(&zone.zone);
        if zone.state != FeatureState::On {
            let reason = zone.reason.as_deref().unwrap_or("unknown");
            out.push_str(&format!(
                "{name}: not read at the end: {}\n",
                escape(reason)
            ));
        }
        if zone.still {
            let update = text::duration(zone.zone.update_ns);
            out.push_str(&format!(
                "{name}: the meter did not move (it moves every {update} at most often): a longer window \
                 shows what was used\n"
            ));
        }
        if zone.gaps > 0 {
            let times = zone.gaps;
            out.push_str(&format!("{name}: not read, or jumped, {times} times\n"));
        }
        if zone.account.sockets_mixed {
            out.push_str(&format!(
                "{name}: who ran on which socket is not known; time on all of them counts\n"
            ));
        }
    }
    if energy.is_model() {
        out.push_str("no meter: these are watts of the model in the configuration\n");
    }
    out
}

fn power(uj: u64, window_ns: u64) -> f64 {
    uj as f64 * 1e3 / window_ns.max(1) as f64
}
