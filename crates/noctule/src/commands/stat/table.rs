//! The table of `noctule stat`.

use noctule_model::{Counter, Level, Report, Row, SOFTIRQ_VECTORS, escape_terminal};

use crate::print::{self, Paint};

/// One column: its title, and its cell in a row. A counter that is not measured gives `None`; a
/// column of nothing but those is left out.
struct Column {
    title: &'static str,
    cell: fn(&Report, &Row) -> Option<String>,
}

const COLUMNS: &[Column] = &[
    Column {
        title: "CPU%",
        cell: |report, row| {
            let share = row.counters[Counter::CpuTime] as f64 / report.window_ns.max(1) as f64;
            Some(format!("{:.1}", share * 100.0))
        },
    },
    Column {
        title: "CPU",
        cell: |report, row| {
            report
                .measured
                .value(&row.counters, Counter::CpuTime)
                .map(print::time)
        },
    },
    Column {
        title: "freq",
        cell: |report, row| {
            let hertz = report.node.nominal_hertz;
            row.counters
                .frequency_hertz(report.measured, hertz)
                .map(print::frequency)
        },
    },
    Column {
        title: "cycles",
        cell: |report, row| count(report, row, Counter::Cycles),
    },
    Column {
        title: "instr",
        cell: |report, row| count(report, row, Counter::Instructions),
    },
    Column {
        title: "IPC",
        cell: |report, row| {
            let value = |counter| report.measured.value(&row.counters, counter);
            let (instructions, cycles) = (value(Counter::Instructions)?, value(Counter::Cycles)?);
            (cycles > 0).then(|| format!("{:.2}", instructions as f64 / cycles as f64))
        },
    },
    Column {
        title: "misses",
        cell: |report, row| count(report, row, Counter::CacheMisses),
    },
    Column {
        title: "pg read",
        cell: |report, row| count(report, row, Counter::PageReads),
    },
    Column {
        title: "pg write",
        cell: |report, row| count(report, row, Counter::PageWrites),
    },
    Column {
        title: "softirq",
        cell: |report, row| {
            let vectors = (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq);
            let values = vectors.map(|vector| report.measured.value(&row.counters, vector));
            values.sum::<Option<u64>>().map(print::count)
        },
    },
    Column {
        title: "vol",
        cell: |report, row| count(report, row, Counter::SwitchesVoluntary),
    },
    Column {
        title: "preempt",
        cell: |report, row| count(report, row, Counter::SwitchesPreempted),
    },
];

fn count(report: &Report, row: &Row, counter: Counter) -> Option<String> {
    report
        .measured
        .value(&row.counters, counter)
        .map(print::count)
}

/// The table with the window above it and the rest of the machine below.
pub(super) fn draw(report: &Report, level: Level, top: usize, paint: Paint) -> String {
    let shown = &report.rows[..report.rows.len().min(top)];
    let mut header = vec![name_title(level)];
    let mut rows: Vec<Vec<String>> = shown.iter().map(|row| vec![name(row, level)]).collect();
    for column in COLUMNS {
        let cells: Vec<Option<String>> =
            shown.iter().map(|row| (column.cell)(report, row)).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        header.push(column.title);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.push(cell.unwrap_or_else(|| "-".into()));
        }
    }
    if matches!(level, Level::Process | Level::Container | Level::Pod) {
        header.push("  in");
        for (row, cells) in shown.iter().zip(&mut rows) {
            cells.push(place(row, level));
        }
    }
    let mut out = print::table(&header, &rows, paint);
    let hidden = &report.rows[shown.len()..];
    if !hidden.is_empty() {
        let cpu: u64 = hidden
            .iter()
            .map(|row| row.counters[Counter::CpuTime])
            .sum();
        out.push_str(&paint.dim(&format!("{} more: {}\n", hidden.len(), print::time(cpu))));
    }
    out.push_str(&machine(report, paint));
    out
}

fn name_title(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Container => "container",
        Level::Pod => "pod",
        Level::Unit => "unit",
        Level::Cgroup => "cgroup",
    }
}

fn name(row: &Row, level: Level) -> String {
    let name = escape_terminal(&row.name(level));
    match &row.process {
        Some(process) => {
            let ended = if process.exited { " (ended)" } else { "" };
            let kernel = if process.kernel_thread {
                ("[", "]")
            } else {
                ("", "")
            };
            format!("{}{name}{} {}{ended}", kernel.0, kernel.1, process.id.pid)
        }
        None => name,
    }
}

/// Where a row belongs: container, unit or cgroup of a process; path of a container.
fn place(row: &Row, level: Level) -> String {
    let text = match level {
        Level::Process => row.name(Level::Container),
        _ => row.owner.path.clone(),
    };
    format!("  {}", escape_terminal(&text))
}

/// Window, idle and remainder, so that the sums close before the reader's eyes.
fn machine(report: &Report, paint: Paint) -> String {
    let node = &report.node;
    let share = |ns: u64| 100.0 * ns as f64 / node.elapsed_ns.max(1) as f64;
    let used = node.total[Counter::CpuTime];
    paint.dim(&format!(
        "{:.3} s on {} CPUs: {} used ({:.1} %), {} idle ({:.1} %), {} remainder ({:.2} %: \
         interrupts, steal)\n",
        report.window_ns as f64 / 1e9,
        node.cpus,
        print::time(used),
        share(used),
        print::time(node.idle_ns),
        share(node.idle_ns),
        print::time(node.remainder_ns()),
        share(node.remainder_ns()),
    ))
}
