//! The output of `noctule why` as text.

use noctule_analysis::{CpuUse, Party, ProcessUse, StripStep, WaitReportRow, Why};
use noctule_model::{BlockClass, Cause, EventCounter, ExitKind, Level};
use noctule_text::{self as text, Tone, WAIT_SCALE, duration, escape, percent, share};

use super::{disk_lines, released};
use crate::print::Paint;

/// Width of the labels.
const LABEL: usize = 10;
/// Minimum number of columns that a terminal shows of the command line of a process.
const COMMAND: usize = 16;

/// Maximum number of jobs to list for a culprit that consists of many.
const MEMBERS: usize = 3;
/// Maximum number of CPUs and of their holders to list, and the minimum share to list.
const CPUS: usize = 8;
const HOLDERS: usize = 3;
const MIN_NOTABLE_SHARE: f64 = 0.01;
/// Minimum share of the waits behind others for a culprit whose processes are listed.
const WITH_PROCESSES: f64 = 0.05;
/// Minimum share of the waits for a cause to be listed. Smaller shares are shown as 0.0%.
const LEAST_CAUSE: f64 = 0.0005;
/// The label of the causes.
const CAUSES: &str = "causes";
/// Minimum share of the threads' time for a class of blocked time to be listed.
const SHOWN: f64 = 0.001;
/// Explains the figures of culprits and of their processes.
const BEHIND: &str = "(a group: time spent waiting behind it, and its share of all time spent waiting \
                      for others; a process: its CPU time on any CPU)";

/// Renders the complete output; empty if the report has no row of the group.
pub(crate) fn draw(why: &Why, paint: Paint) -> String {
    let Some(row) = why.row() else {
        return String::new();
    };
    let reason = why.reason(row);
    let name = row.party.name(why.level);
    let answer = escape(&text::answer(&name, &reason));
    let mut out = String::new();
    if let Some(asked) = &why.asked {
        let (pid, comm) = (asked.id.pid, &asked.comm);
        let words = format!("{pid} ({comm}) is in {name}: this report covers the whole group");
        out.push_str(&paint.folded(Tone::Strong, &escape(&words), 2));
    }
    out.push_str(&(paint.folded(Tone::Strong, &answer, 2) + "\n"));
    let mut line = |label: &str, words: &str| {
        let label = format!("{label:LABEL$}");
        let lines = text::fold(&(label.clone() + words), paint.width(), LABEL);
        let words = lines.join("\n");
        let words = words.strip_prefix(&label).unwrap_or(&words);
        let words = match label.trim_end() {
            CAUSES => coloured(words, paint),
            _ => words.to_owned(),
        };
        out.push_str(&format!("{}{words}\n", paint.dim(&label)));
    };
    if why.report.measured.has_blocked() {
        line("time", &time(row));
        for words in released::lines(row, why.level) {
            line("blocked", &words);
        }
    }
    for words in disk_lines::of_group(&why.report, row, why.level) {
        line("disk", &words);
    }
    let room = paint.width().map(|width| width.saturating_sub(LABEL));
    let window = why.report.window_ns;
    let cpus = text::cpus(row.cpu_ns as f64 / window.max(1) as f64);
    line("used", &format!("{} ({cpus})", duration(row.cpu_ns)));
    line("waited", &waited(row));
    if row.waiting.threads > 0 {
        line("now", &waiting(row));
    }
    for (index, words) in allowed(why, row).iter().enumerate() {
        line(first("limits", index), &escape(words));
    }
    if let Some(pressure) = why.pressure {
        let words = "of the last 10 s with a task waiting for a CPU (PSI)";
        line("pressure", &format!("{} {words}", percent(pressure)));
    }
    if row.histogram.count() > 0 {
        line("", WAIT_SCALE);
        line(
            "waits",
            &format!("{}  {}", text::drawn(&row.histogram), lengths(row)),
        );
    }
    if why.steps.len() > 1 {
        line("timeline", &course(why));
    }
    line(CAUSES, &causes(row));
    for (index, process) in why.processes.iter().enumerate() {
        line(first("processes", index), &process_line(process, room));
    }
    culprits(why, row, room, &mut line);
    holders(why, &mut line);
    if let Some((most, _)) = &row.hurts.most {
        let rate = duration((row.hurts.wait_ns as f64 * 1e9 / window.max(1) as f64) as u64);
        let most = escape(&most.name(why.level));
        line(
            "delays",
            &format!("other groups waited {rate} per second behind this group, {most} longest"),
        );
    }
    each_cpu(why, &mut line);
    if let Some(words) = events(why) {
        line("events", &words);
    }
    line("window", &text::seconds(window));
    out
}

/// Returns the label of a list for its first line, and none for the others.
fn first(label: &'static str, index: usize) -> &'static str {
    match index {
        0 => label,
        _ => "",
    }
}

/// Lists the groups that had the CPU while this group waited, with their busiest processes.
fn culprits(
    why: &Why,
    row: &WaitReportRow,
    room: Option<usize>,
    line: &mut impl FnMut(&str, &str),
) {
    let behind = |party: &Party, ns| {
        let name = escape(&party.name(why.level));
        format!(
            "{name}  {}  {}",
            duration(ns),
            share(ns, row.wait_on_others_ns())
        )
    };
    let verdict = &row.verdict;
    let family = verdict.culprit.as_ref();
    let family = family.filter(|party| matches!(party, Party::Below { .. }));
    if let Some(family) = family {
        line("behind", &behind(family, verdict.evidence.top_culprit_ns));
    }
    let mut members = 0;
    for (culprit, processes) in &why.culprits {
        if family.is_some_and(|family| family.has(&culprit.party)) {
            members += 1;
            if members > MEMBERS {
                continue;
            }
        }
        let wait_ns = culprit.blame.wait_ns;
        line("behind", &behind(&culprit.party, wait_ns));
        let is_main = wait_ns as f64 >= WITH_PROCESSES * row.wait_on_others_ns() as f64;
        for process in processes.iter().filter(|_| is_main) {
            let room = room.map(|room| room.saturating_sub(2));
            line("", &format!("  {}", process_line(process, room)));
        }
    }
    if let Some(family) = family
        && members > MEMBERS
    {
        let name = escape(&family.name(why.level));
        line("", &format!("{} more of {name}", members - MEMBERS));
    }
    if !why.culprits.is_empty() {
        line("", BEHIND);
    }
}

/// Lists the groups that held locks, each with its own verdict.
fn holders(why: &Why, line: &mut impl FnMut(&str, &str)) {
    for row in &why.holders {
        let verdict = text::sentence(&why.report.reason(row, why.level));
        let name = row.party.name(why.level);
        line("holder", &escape(&format!("{name}: {verdict}")));
    }
}

/// Lists the activity of each CPU. If there are too many CPUs, only the busiest are listed.
fn each_cpu(why: &Why, line: &mut impl FnMut(&str, &str)) {
    let mut shown: Vec<&CpuUse> = why.cpus.iter().collect();
    shown.sort_by(|a, b| b.busy().total_cmp(&a.busy()));
    let rest = shown.split_off(shown.len().min(CPUS));
    shown.sort_by_key(|cpu| cpu.cpu);
    for (place, cpu) in shown.iter().enumerate() {
        let label = if place == 0 { "CPUs" } else { "" };
        line(label, &cpu_line(cpu, why.level));
    }
    if !rest.is_empty() {
        let busy = rest.iter().map(|cpu| cpu.busy()).sum::<f64>() / rest.len() as f64;
        let busy = percent(busy * 100.0);
        line("", &format!("{} more, {busy} busy on average", rest.len()));
    }
}

/// Renders how busy a CPU was, and which groups or processes ran on it.
fn cpu_line(cpu: &CpuUse, level: Level) -> String {
    let share = |ns: u64| percent(cpu.part(ns) * 100.0);
    let holders = cpu
        .holders
        .iter()
        .map(|(party, ns)| (party.name(level), *ns));
    let taken = [("interrupts", cpu.interrupt_ns), ("steal", cpu.steal_ns)];
    let taken = taken
        .into_iter()
        .filter_map(|(word, ns)| Some((word.to_owned(), ns?)));
    let parts = holders.take(HOLDERS).chain(taken);
    let parts = parts.filter(|(_, ns)| cpu.part(*ns) >= MIN_NOTABLE_SHARE);
    let parts: Vec<String> = parts
        .map(|(name, ns)| format!("{} {}", escape(&name), share(ns)))
        .collect();
    let busy = format!("{} busy {}", cpu.cpu, percent(cpu.busy() * 100.0));
    match parts.is_empty() {
        true => busy,
        false => format!("{busy}: {}", parts.join(", ")),
    }
}

/// Renders the time of the threads: running, runnable, then blocked by class in descending order.
fn time(row: &WaitReportRow) -> String {
    let all = row.threads_ns();
    let blocked = BlockClass::ALL.map(|class| (class.name(), row.blocked_ns[class as usize]));
    let mut parts = [("running", row.cpu_ns), ("runnable", row.total_ns())].to_vec();
    parts.extend(blocked);
    parts[2..].sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    let parts = parts.into_iter().enumerate();
    let shown = parts.filter(|&(place, (_, ns))| place < 2 || ns as f64 >= SHOWN * all as f64);
    let shown = shown.map(|(_, (name, ns))| format!("{name} {}", share(ns, all)));
    shown.collect::<Vec<_>>().join(", ")
}

fn waited(row: &WaitReportRow) -> String {
    let (waited, wanted) = (row.total_ns(), row.total_ns() + row.cpu_ns);
    let part = share(waited, wanted);
    format!("{} ({part} of its CPU demand)", duration(waited))
}

/// Renders CPU usage and waits over time, one character per second.
fn course(why: &Why) -> String {
    let of = |part: fn(&StripStep) -> Option<f64>| text::strip(why.steps.iter().map(part));
    let used = |step: &StripStep| Some(step.cpu_ns as f64 / step.length_ns.max(1) as f64);
    let (used, waited) = (of(used), of(StripStep::wait_share));
    format!("used [{used}] of 1 CPU, waited [{waited}] of its CPU demand; one bar per second")
}

/// Describes the waits in progress.
fn waiting(row: &WaitReportRow) -> String {
    let longest = duration(row.waiting.longest_ns);
    match row.waiting.threads {
        1 => format!("1 thread runnable but not running for {longest}"),
        threads => format!("{threads} threads runnable and waiting, the longest for {longest}"),
    }
}

/// Describes the CPU limit, weight and affinity.
fn allowed(why: &Why, row: &WaitReportRow) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(quota) = &row.quota {
        let whose = match &quota.group {
            Some(group) => format!(" by {group}"),
            None => String::new(),
        };
        let (used, all) = (quota.throttled_periods, quota.periods);
        let limit = text::cpus(quota.cpus);
        words.push(format!(
            "{limit}{whose}, used up in {used} of {all} periods"
        ));
    }
    if why.idle == Some(true) {
        words.push("CPU time only when no other group wants it (cpu.idle=1)".to_owned());
    } else if let Some(weight) = why.weight {
        let (name, value, usual) = (weight.name(), weight.value(), weight.usual());
        words.push(format!("CPU {name} {value} (default {usual})"));
    }
    if let Some(cpus) = &why.allowed {
        words.push(text::cpu_numbers(cpus));
    }
    words
}

fn lengths(row: &WaitReportRow) -> String {
    let at = |q| row.histogram.quantile(q).map_or("-".into(), duration);
    let count = text::count(row.histogram.count());
    let (p50, p90, p99) = (at(0.5), at(0.9), at(0.99));
    let max = row.histogram.max().map_or("-".into(), duration);
    format!("{count}: p50 {p50}, p90 {p90}, p99 {p99}, max {max}")
}

fn causes(row: &WaitReportRow) -> String {
    let total = row.total_ns();
    let shown = Cause::ALL
        .into_iter()
        .map(|cause| (cause, row.wait_ns[cause as usize]))
        .filter(|(_, ns)| *ns > 0 && *ns as f64 >= LEAST_CAUSE * total as f64);
    let words: Vec<String> = shown
        .map(|(cause, ns)| format!("{} {} {}", cause.name(), duration(ns), share(ns, total)))
        .collect();
    match words.is_empty() {
        true => "it did not wait".to_owned(),
        false => words.join(", "),
    }
}

/// Gives the names of causes their colours. Colours are added after the text was folded.
fn coloured(words: &str, paint: Paint) -> String {
    Cause::ALL.iter().fold(words.to_owned(), |words, &cause| {
        let name = paint.tone(Tone::Cause(cause), cause.name());
        words.replacen(&format!("{} ", cause.name()), &format!("{name} "), 1)
    })
}

/// Describes a process. On a terminal the line is shortened, because a command line can be very
/// long.
fn process_line(process: &ProcessUse, room: Option<usize>) -> String {
    let command = process.command.as_ref().unwrap_or(&process.comm);
    let state = match (process.exited, process.cpu_ns) {
        (true, _) => " (exited)",
        (false, 0) => " (did not run)",
        (false, _) => "",
    };
    let used = duration(process.cpu_ns);
    let policy = process.real_time.map(|policy| format!("[{policy}] "));
    let policy = policy.unwrap_or_default();
    let head = format!("{used:>7}  {} {policy}", process.id.pid);
    let taken = text::width(&head) + text::width(state);
    let command = escape(command);
    let command = match room {
        Some(room) => text::keep_start(&command, room.saturating_sub(taken).max(COMMAND)),
        None => command,
    };
    format!("{head}{command}{state}")
}

/// Lists the unusual events of the window.
fn events(why: &Why) -> Option<String> {
    let events = &why.events.as_ref()?.counters;
    let failures: u64 = EventCounter::all()
        .filter(|counter| matches!(counter, EventCounter::TcpConnectFailures(_)))
        .map(|counter| events[counter])
        .sum();
    let exits = |kind| events[EventCounter::ProcessExits(kind)];
    let counts = [
        (events[EventCounter::ProcessStarts], "processes started"),
        (exits(ExitKind::Failed), "failed"),
        (exits(ExitKind::Killed), "killed by a signal"),
        (exits(ExitKind::OomKilled), "killed for lack of memory"),
        (failures, "connections failed"),
        (events[EventCounter::TcpRetransmits], "segments resent"),
    ];
    let words: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", text::count(*count)))
        .collect();
    Some(match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    })
}
