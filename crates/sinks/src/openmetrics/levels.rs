//! The metrics of every level.

use noctule_model::{
    Cause, Counter, Counts, DestinationCounter, EventCounter, METRICS, Measurable, Measured,
    Metric, Sockets, Source, Unit, VerdictKind,
};

use super::budget::Line;
use super::energy::{self, Energy};
use super::figures::Figures;
use super::snapshot::Level;
use super::text::{Powers, Text, Value};

/// The buckets of waits for a CPU end at these powers of two of nanoseconds: 1 us to 17 s.
const WAIT_POWERS: Powers = 10..=34;
/// The buckets of connects: 16 us, faster than the loopback, to 275 s, longer than a SYN is repeated
/// by default (127 s).
const CONNECT_POWERS: Powers = 14..=38;

const NO_LABELS: (&[&str], &[&str]) = (&[], &[]);

/// Writes every family of the level that has samples. Families are the outer loop, because
/// OpenMetrics wants the samples of a family together.
pub(super) fn write(text: &mut Text, level: &Level, measured: Measured, energy: &Energy) {
    if level.lines.is_empty() {
        return;
    }
    let here = |metric: &&Metric| metric.source.levels().contains(&level.name);
    for metric in METRICS.iter().filter(here) {
        match metric.source {
            Source::Nanoseconds(counter) | Source::Count(counter) => {
                counters(text, level, metric, measured, &[("", counter)]);
            }
            Source::Labelled(parts) | Source::LabelledNanoseconds(parts) => {
                counters(text, level, metric, measured, parts);
            }
            Source::Energy => energy::rows(text, level, metric, energy),
            Source::Frequency => frequency(text, level, metric),
            Source::Waits if waits_measured(measured) => waits(text, level, metric),
            Source::Event(counter) => events(text, level, metric, measured, &[("", counter)]),
            Source::LabelledEvents(parts) => events(text, level, metric, measured, parts),
            Source::Connections if measured.has(EventCounter::TcpAccepts) => {
                open(text, level, metric, |sockets| sockets.connections);
            }
            Source::Listeners if measured.has(EventCounter::TcpAccepts) => {
                open(text, level, metric, |sockets| sockets.listeners);
            }
            Source::Connects if connects_measured(measured) => connects(text, level, metric),
            Source::Destinations(parts) => destinations(text, level, metric, measured, parts),
            Source::Blame if waits_measured(measured) => blame(text, level, metric),
            Source::Verdict if waits_measured(measured) => verdict(text, level, metric),
            Source::Waits
            | Source::Connections
            | Source::Listeners
            | Source::Connects
            | Source::Blame
            | Source::Verdict => {}
        }
    }
}

fn counters(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, Counter)],
) {
    labelled(text, level, metric, measured, parts, |f| &f.counters);
}

fn events(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, EventCounter)],
) {
    labelled(text, level, metric, measured, parts, |f| &f.events);
}

/// Counters that are distinguished by the metric's own label; a metric without one has one part.
fn labelled<K: Measurable, const N: usize>(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, K)],
    counts: fn(&Figures) -> &Counts<K, N>,
) {
    if !parts.iter().any(|(_, counter)| measured.has(*counter)) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        for (name, counter) in parts.iter().filter(|(_, c)| measured.has(*c)) {
            let value = value(metric, counts(&line.figures)[*counter]);
            let names = &[*name][..metric.labels.len()];
            text.sample(&line.labels, (metric.labels, names), value);
        }
    }
}

/// What is counted in nanoseconds is shown in seconds.
fn value(metric: &Metric, count: u64) -> Value {
    match metric.unit {
        Unit::Seconds => Value::Nanoseconds(count),
        _ => Value::Count(count),
    }
}

fn open(text: &mut Text, level: &Level, metric: &Metric, open: fn(&Sockets) -> u64) {
    text.family(level.name, metric);
    for line in &level.lines {
        text.sample(&line.labels, NO_LABELS, Value::Count(open(&line.sockets)));
    }
}

fn connects(text: &mut Text, level: &Level, metric: &Metric) {
    text.family(level.name, metric);
    for line in &level.lines {
        let Figures {
            events, connects, ..
        } = &line.figures;
        let sum_ns = events[EventCounter::TcpConnectNs];
        text.histogram(&line.labels, connects, sum_ns, CONNECT_POWERS);
    }
}

fn destinations(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, DestinationCounter)],
) {
    let there = |part: &&(&str, DestinationCounter)| measured.has(part.1.whole());
    if level.destinations.is_empty() || !parts.iter().any(|part| there(&part)) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.destinations {
        for (name, counter) in parts.iter().filter(there) {
            let value = value(metric, line.amount[*counter]);
            let names = &[&line.partner, *name][..metric.labels.len()];
            text.sample(&line.labels, (metric.labels, names), value);
        }
    }
}

fn frequency(text: &mut Text, level: &Level, metric: &Metric) {
    let hertz = |line: &Line| line.frequency_hertz.filter(|hertz| hertz.is_finite());
    if level.lines.iter().all(|line| hertz(line).is_none()) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        if let Some(hertz) = hertz(line) {
            // A fraction of a hertz is noise, and would be a third of the line.
            text.sample(&line.labels, NO_LABELS, Value::Float(hertz.round()));
        }
    }
}

fn waits(text: &mut Text, level: &Level, metric: &Metric) {
    text.family(level.name, metric);
    for line in &level.lines {
        let Figures {
            counters, waits, ..
        } = &line.figures;
        let causes = Cause::ALL.iter();
        let sum_ns = causes.map(|cause| counters[Counter::Wait(*cause)]).sum();
        text.histogram(&line.labels, waits, sum_ns, WAIT_POWERS);
    }
}

fn blame(text: &mut Text, level: &Level, metric: &Metric) {
    if level.blames.is_empty() {
        return;
    }
    text.family(level.name, metric);
    for line in &level.blames {
        let value = Value::Nanoseconds(line.amount);
        text.sample(&line.labels, (metric.labels, &[&line.partner]), value);
    }
}

fn verdict(text: &mut Text, level: &Level, metric: &Metric) {
    let mut judged = level
        .lines
        .iter()
        .filter_map(|line| Some((line, line.verdict?)))
        .peekable();
    if judged.peek().is_none() {
        return;
    }
    text.family(level.name, metric);
    for (line, verdict) in judged {
        for kind in VerdictKind::ALL {
            let value = Value::Count(u64::from(kind == verdict));
            text.sample(&line.labels, (metric.labels, &[kind.name()]), value);
        }
    }
}

pub(super) fn waits_measured(measured: Measured) -> bool {
    let mut causes = Cause::ALL.iter();
    causes.any(|cause| measured.has(Counter::Wait(*cause)))
}

pub(super) fn connects_measured(measured: Measured) -> bool {
    measured.has(EventCounter::TcpConnects)
}
