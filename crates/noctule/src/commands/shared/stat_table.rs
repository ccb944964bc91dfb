//! The table of `noctule stat`, also printed by `noctule run` at startup.

use noctule_analysis::{Report, Row};
use noctule_model::{Counter, EventCounter, Level, Loss, SOFTIRQ_VECTORS};
use noctule_text::{self as text, Tone, escape};

use super::columns::{Choice, Column, Figure, more};
use crate::print::Paint;
use crate::users::Users;

/// Returns the figure of a row in a column.
type Of = fn(&Report, &Line<'_>) -> Option<Figure>;

/// Returns the columns. On a narrow terminal, columns with higher priority numbers are dropped
/// first. Unmeasured counters and events with a count of 0 have no figure.
pub(crate) fn columns() -> Vec<Column<Of>> {
    vec![
        Column::text("name", 0, 12, |_, line| Some(Figure::text(&*line.name))),
        Column::number("CPU%", 1, |report, line| {
            let used = line.row.counters[Counter::CpuTime] as f64;
            let share = used * 100.0 / report.window_ns.max(1) as f64;
            Some(Figure::number(share, text::decimal(share)))
        }),
        Column::number("CPU", 2, |report, line| {
            let ns = value(report, line, Counter::CpuTime)?;
            Some(Figure::number(ns as f64, text::duration(ns)))
        }),
        Column::number("joules", 4, |report, line| {
            let energy = report.energy.as_ref()?;
            let uj = energy.total_uj(&line.row.joules);
            (!energy.kinds.is_empty()).then(|| Figure::number(uj as f64, text::joules(uj)))
        }),
        Column::number("freq", 17, |report, line| {
            let counters = &line.row.counters;
            let hertz = counters.frequency_hertz(report.measured, report.node.nominal_hertz)?;
            Some(Figure::number(hertz, text::frequency(hertz)))
        }),
        Column::number("cycles", 15, |report, line| {
            count(report, line, Counter::Cycles)
        }),
        Column::number("instr", 14, |report, line| {
            count(report, line, Counter::Instructions)
        }),
        Column::number("IPC", 13, |report, line| {
            let instructions = value(report, line, Counter::Instructions)?;
            let cycles = value(report, line, Counter::Cycles).filter(|cycles| *cycles > 0)?;
            let ratio = instructions as f64 / cycles as f64;
            Some(Figure::number(ratio, text::ratio(ratio)))
        }),
        Column::number("misses", 16, |report, line| {
            count(report, line, Counter::CacheMisses)
        }),
        Column::number("pg read", 18, |report, line| {
            count(report, line, Counter::PageReads)
        }),
        Column::number("pg write", 19, |report, line| {
            count(report, line, Counter::PageWrites)
        }),
        Column::number("softirq", 12, |report, line| {
            let vectors = (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq);
            let sum: Option<u64> = vectors.map(|vector| value(report, line, vector)).sum();
            sum.map(of_count)
        }),
        Column::number("vol", 7, |report, line| {
            count(report, line, Counter::SwitchesVoluntary)
        }),
        Column::number("preempt", 6, |report, line| {
            count(report, line, Counter::SwitchesPreempted)
        }),
        Column::number("starts", 11, |report, line| {
            sum(report, line, &[EventCounter::ProcessStarts]).map(of_count)
        }),
        Column::number("conns", 8, |report, line| {
            let made = [EventCounter::TcpConnects, EventCounter::TcpAccepts];
            sum(report, line, &made).map(of_count)
        }),
        Column::number("received", 9, |report, line| {
            bytes(report, line, EventCounter::TcpBytesReceived)
        }),
        Column::number("sent", 10, |report, line| {
            bytes(report, line, EventCounter::TcpBytesSent)
        }),
        Column::number("oom", 5, |report, line| {
            sum(report, line, &[EventCounter::OomKills]).map(of_count)
        }),
        user_column(1, |_, line| line.user()),
        Column::text("in", 3, 12, |_, line| line.place()),
        command_column(1, |_, line| line.command()),
    ]
}

/// Returns the optional column with the user of a process.
pub(crate) fn user_column<F>(priority: u8, figure: F) -> Column<F> {
    let column = Column::text("user", priority, 6, figure);
    column.on_request().of_processes()
}

/// Returns the optional column with the command line of a process.
pub(crate) fn command_column<F>(priority: u8, figure: F) -> Column<F> {
    let column = Column::text("command", priority, 12, figure);
    column.on_request().of_processes()
}

/// Returns the value of an event counter in bytes, if it is not 0.
fn bytes(report: &Report, line: &Line<'_>, counter: EventCounter) -> Option<Figure> {
    let bytes = sum(report, line, &[counter])?;
    Some(Figure::number(bytes as f64, text::bytes(bytes)))
}

/// Returns the sum of several event counters, if it is not 0.
fn sum(report: &Report, line: &Line<'_>, counters: &[EventCounter]) -> Option<u64> {
    let events = line.row.events.as_ref()?;
    let values = counters
        .iter()
        .map(|counter| report.measured.value(&events.counters, *counter));
    values.sum::<Option<u64>>().filter(|sum| *sum > 0)
}

fn count(report: &Report, line: &Line<'_>, counter: Counter) -> Option<Figure> {
    value(report, line, counter).map(of_count)
}

fn of_count(count: u64) -> Figure {
    Figure::number(count as f64, text::count(count))
}

fn value(report: &Report, line: &Line<'_>, counter: Counter) -> Option<u64> {
    report.measured.value(&line.row.counters, counter)
}

/// One line of the table: a row with its name and level.
pub(crate) struct Line<'a> {
    pub(crate) name: String,
    pub(crate) row: &'a Row,
    level: Level,
    /// Whether the line represents several rows.
    sum: bool,
    /// Whether the CPU time of the line is unknown.
    pub(crate) unmeasured: bool,
    users: &'a Users,
}

impl<'a> Line<'a> {
    pub(crate) fn of(row: &'a Row, level: Level, users: &'a Users) -> Self {
        Self {
            name: name(row, level),
            row,
            level,
            sum: false,
            unmeasured: false,
            users,
        }
    }

    pub(crate) fn sum(name: String, row: &'a Row, level: Level, users: &'a Users) -> Self {
        Self {
            name,
            row,
            level,
            sum: true,
            unmeasured: false,
            users,
        }
    }

    /// Returns the container, unit or cgroup of a process, or the path of a container.
    pub(crate) fn place(&self) -> Option<Figure> {
        let text = match self.level {
            _ if self.sum => return None,
            Level::Process => self.row.name(Level::Container),
            Level::Container | Level::Pod => self.row.owner.path.clone(),
            Level::Unit | Level::Cgroup => return None,
        };
        Some(Figure::text(escape(&text)))
    }

    pub(crate) fn user(&self) -> Option<Figure> {
        let process = self.row.process.as_ref().filter(|it| !it.exited)?;
        self.users.of(process.id.pid).map(Figure::text)
    }

    pub(crate) fn command(&self) -> Option<Figure> {
        let process = self.row.process.as_ref().filter(|it| !it.exited)?;
        self.users.command(process.id.pid).map(Figure::text)
    }
}

/// Renders the table, with the rest of the machine below it. With `together`, the last line is the
/// sum of all rows, which is the total of the followed command.
pub(crate) fn draw(
    report: &Report,
    level: Level,
    top: usize,
    together: bool,
    choice: &Choice,
    users: &Users,
    paint: Paint,
) -> String {
    let figure = |of: &Of, line: &Line<'_>| of(report, line);
    let columns = columns();
    let rows = report.rows.iter();
    let mut lines: Vec<Line<'_>> = rows.map(|row| Line::of(row, level, users)).collect();
    choice.sort(&columns, &mut lines, figure);
    let hidden = lines.split_off(lines.len().min(top));
    let sum = report.sum();
    if together && report.rows.len() > 1 {
        let name = format!("all {} together", report.rows.len());
        lines.push(Line::sum(name, &sum, level, users));
    }
    let drawn = choice.draw(&columns, &lines, level, figure, paint);
    let mut out = drawn.head + &drawn.rows.concat();
    if !hidden.is_empty() {
        let used = hidden
            .iter()
            .map(|line| line.row.counters[Counter::CpuTime]);
        let cpu = text::duration(used.sum());
        let hidden = format!("{}: {cpu}", more(hidden.len()));
        out.push_str(&paint.folded(Tone::Faint, &hidden, 0));
    }
    out.push_str(&drawn.dropped);
    if report.unrecorded_ns > 0 {
        let time = text::duration(report.unrecorded_ns);
        let ended = format!("processes that ended without a record: {time}");
        out.push_str(&paint.folded(Tone::Plain, &ended, 0));
    }
    out.push_str(&machine(report, paint));
    out.push_str(&lost(&report.losses, paint));
    out
}

/// Renders the losses in the window, if there are any.
pub(crate) fn lost(losses: &[Loss], paint: Paint) -> String {
    if losses.is_empty() {
        return String::new();
    }
    let words = losses.iter();
    let words = words.map(|loss| format!("{} {} ({})", loss.count, loss.kind, loss.place));
    let words = words.collect::<Vec<_>>().join(", ");
    let words = format!("lost in the window: {words}; docs/json.md explains these losses");
    paint.folded(Tone::Plain, &words, 0)
}

fn name(row: &Row, level: Level) -> String {
    match (&row.process, &row.command) {
        (None, Some(command)) => text::command_name(command),
        (Some(process), _) => {
            let (name, exited) = (text::process_name(process), text::exited(process));
            format!("{name} {}{exited}", process.id.pid)
        }
        (None, None) => escape(&row.name(level)),
    }
}

/// Formats time taken from all CPUs, including idle ones, if it is known.
fn taken(name: &str, ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| {
        format!(
            "; {name} on all CPUs, including idle ones: {}",
            text::seconds(ns)
        )
    })
}

/// Renders the window, idle time and the rest (interrupts and steal), so that a reader can add up
/// the figures. If the kernel includes steal time in used and idle time, the rest excludes it.
fn machine(report: &Report, paint: Paint) -> String {
    paint.folded(Tone::Faint, &time_of_cpus(report), 0)
}

fn time_of_cpus(report: &Report) -> String {
    let node = &report.node;
    let share = |ns: u64| text::share(ns, node.elapsed_ns);
    let used = node.total[Counter::CpuTime];
    let (rest, counted) = match node.steal_included_ns {
        None => ("interrupts and steal", String::new()),
        Some(ns) => (
            "interrupts",
            format!(
                "; steal, which this kernel includes in used and idle time: {}",
                text::seconds(ns)
            ),
        ),
    };
    let others = match node.outside_unseen {
        true => "processes outside this pid namespace, ",
        false => "",
    };
    format!(
        "{} on {}: {} used ({}), {} idle ({}), {} {others}{rest} ({}){}{}{counted}",
        text::seconds(report.window_ns),
        text::counted(node.cpus.into(), "CPU", "CPUs"),
        text::seconds(used),
        share(used),
        text::seconds(node.idle_ns),
        share(node.idle_ns),
        text::seconds(node.remainder_ns()),
        share(node.remainder_ns()),
        taken("interrupts", node.interrupt_ns),
        taken("steal", node.steal_ns),
    )
}

#[cfg(test)]
mod tests {
    use noctule_analysis::ReportBuilder;
    use noctule_model::{Batch, Node};

    use super::*;

    #[test]
    fn steal_included_elsewhere_is_not_in_the_remainder() {
        let words = |steal_ns, steal_included_ns| {
            let node = |seconds: u64| Node {
                cpus: 2,
                elapsed_ns: 2_000_000_000 * seconds,
                idle_ns: 1_500_000_000 * seconds,
                steal_ns: Some(steal_ns).filter(|_| steal_included_ns == 0),
                steal_included_ns: Some(steal_included_ns * seconds).filter(|ns| *ns > 0),
                ..Node::default()
            };
            let [first, last] = [1, 2].map(|seconds| Batch {
                taken_ns: 1_000_000_000 * seconds,
                node: node(seconds),
                ..Batch::default()
            });
            let mut window = ReportBuilder::new(first);
            window.add(last);
            let words = time_of_cpus(&window.report(Level::Cgroup, false));
            words.split_once("0.500s ").expect("the rest").1.to_owned()
        };
        assert_eq!(
            words(0, 0),
            "interrupts and steal (25.0%); steal on all CPUs, including idle ones: 0.000s"
        );
        assert_eq!(
            words(0, 250_000_000),
            "interrupts (25.0%); steal, which this kernel includes in used and idle time: 0.250s"
        );
    }

    #[test]
    fn time_of_unseen_processes_is_not_called_interrupts() {
        let hidden = "s processes outside this pid namespace, interrupts and steal (";
        for outside_unseen in [false, true] {
            let mut window = ReportBuilder::new(Batch::default());
            window.add(Batch {
                node: Node {
                    outside_unseen,
                    ..Node::default()
                },
                ..Batch::default()
            });
            let words = time_of_cpus(&window.report(Level::Cgroup, false));
            assert_eq!(words.contains(hidden), outside_unseen, "{words}");
        }
    }

    /// Examples in the README are copied from a terminal. This test finds examples that are out of
    /// date.
    #[test]
    fn readme_shows_only_existing_columns() {
        let page = include_str!("../../../../../README.md");
        let heads: Vec<&str> = page.lines().filter(|l| l.contains(" CPU% ")).collect();
        assert!(!heads.is_empty(), "README.md has no example of stat");
        let words = |head: &'static str| head.split("  ").map(str::trim).filter(|w| !w.is_empty());
        for title in heads.into_iter().flat_map(words) {
            let known = columns().iter().any(|column| column.name == title);
            assert!(
                known || ["container", "process"].contains(&title),
                "{title}"
            );
        }
        assert!(page.contains("s interrupts and steal ("));
    }
}
