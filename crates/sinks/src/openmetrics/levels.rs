//! Writes the metrics of the levels.

use noctule_model::{
    Counter, Counts, DestinationCounter, EventCounter, METRICS, Measurable, Measured, Metric,
    Source, Unit,
};

use super::budget::Line;
use super::choice::{CONNECTS, Choice, WAITS};
use super::energy;
use super::figures::Figures;
use super::snapshot::{Rows, Snapshot};
use super::text::Value;
use super::writer::{HistogramSample, Writer};

const NO_LABELS: (&[&str], &[&str]) = (&[], &[]);

/// Number of rows whose samples are passed on together.
const ROWS: usize = 64;

/// Writes all families of the level that have samples. Families are the outer loop, because
/// OpenMetrics requires the samples of a family to be contiguous. `part` receives the samples of up
/// to [`ROWS`] rows at a time.
pub(super) fn write(
    text: &mut Writer,
    level: &Rows<'_>,
    snapshot: &Snapshot,
    part: &mut dyn FnMut(Vec<u8>),
) {
    let here = |metric: &&Metric| snapshot.choice.has(level.name, metric);
    for metric in METRICS.iter().filter(here) {
        for (number, lines) in level.lines.chunks(ROWS).enumerate() {
            let rows = level.portion(lines, number == 0);
            write_family(text, &rows, metric, snapshot);
            part(text.take());
        }
    }
}

/// Writes the samples of some rows. The header of the family is written before its first sample.
fn write_family(text: &mut Writer, level: &Rows<'_>, metric: &Metric, snapshot: &Snapshot) {
    let Snapshot {
        measured,
        ref energy,
        ref choice,
        ..
    } = *snapshot;
    match metric.source {
        Source::Counters(list) => counters(text, level, metric, measured, list),
        Source::Blocked(classes) => {
            let list: Vec<Counter> = classes.iter().copied().map(Counter::Blocked).collect();
            counters(text, level, metric, measured, &list);
        }
        Source::Energy => energy::rows(text, level, metric, energy),
        Source::Frequency => frequency(text, level, metric),
        Source::Waits if measured.has_waits() => waits(text, level, metric, choice),
        Source::Waiting if measured.has_waits() => {
            now(text, level, metric, |line| {
                Value::Count(line.waiting.threads)
            });
        }
        Source::LongestWaiting if measured.has_waits() => {
            now(text, level, metric, |line| {
                Value::Nanoseconds(line.waiting.longest_ns)
            });
        }
        Source::Events(list) => labelled(text, level, metric, measured, list, |line| {
            &line.figures.events
        }),
        Source::Connections if measured.has(EventCounter::TcpAccepts) => {
            now(text, level, metric, |line| {
                Value::Count(line.sockets.connections)
            });
        }
        Source::Listeners if measured.has(EventCounter::TcpAccepts) => {
            now(text, level, metric, |line| {
                Value::Count(line.sockets.listeners)
            });
        }
        Source::Connects if connects_measured(measured) => {
            connects(text, level, metric, choice);
        }
        Source::Destinations(list) => destinations(text, level, metric, measured, list),
        Source::Blame if measured.has_waits() => blame(text, level, metric),
        Source::Verdict if measured.has_waits() => verdict(text, level, metric),
        Source::Waits
        | Source::Waiting
        | Source::LongestWaiting
        | Source::Connections
        | Source::Listeners
        | Source::Connects
        | Source::Blame
        | Source::Verdict => {}
    }
}

fn counters(
    text: &mut Writer,
    level: &Rows<'_>,
    metric: &Metric,
    measured: Measured,
    list: &[Counter],
) {
    labelled(text, level, metric, measured, list, |line| {
        &line.figures.counters
    });
}

/// Writes counters. If the metric has its own label, the label distinguishes the counters.
fn labelled<K: Measurable, const N: usize>(
    text: &mut Writer,
    level: &Rows<'_>,
    metric: &Metric,
    measured: Measured,
    list: &[K],
    counts: impl Fn(&Line) -> &Counts<K, N>,
) {
    let there = list.iter().copied().filter(|it| measured.has(*it));
    let parts: Vec<(&str, K)> = there.map(|it| (it.part(), it)).collect();
    if parts.is_empty() {
        return;
    }
    text.family(level.name, metric);
    for line in level.lines {
        for (name, counter) in &parts {
            let value = value(metric, counts(line)[*counter]);
            let names = &[*name][..metric.labels.len()];
            text.sample(line.born, &line.labels, (metric.labels, names), value);
        }
    }
}

/// Returns the value in the metric's unit. Times are counted in nanoseconds and shown in seconds.
fn value(metric: &Metric, count: u64) -> Value {
    match metric.unit {
        Unit::Seconds => Value::Nanoseconds(count),
        _ => Value::Count(count),
    }
}

/// Writes a gauge.
fn now(text: &mut Writer, level: &Rows<'_>, metric: &Metric, value: fn(&Line) -> Value) {
    text.family(level.name, metric);
    for line in level.lines.iter().filter(|line| !line.ended) {
        text.sample(line.born, &line.labels, NO_LABELS, value(line));
    }
}

fn connects(text: &mut Writer, level: &Rows<'_>, metric: &Metric, choice: &Choice) {
    let powers = choice.powers(level.name, CONNECTS).collect::<Vec<u32>>();
    text.family(level.name, metric);
    for line in level.lines {
        let sample = HistogramSample {
            histogram: &line.figures.connects,
            sum_ns: line.figures.events[EventCounter::TcpConnectNs],
            powers: powers.clone(),
        };
        text.histogram(line.born, &line.labels, &sample);
    }
}

fn destinations(
    text: &mut Writer,
    level: &Rows<'_>,
    metric: &Metric,
    measured: Measured,
    list: &[DestinationCounter],
) {
    let there = |counter: &&DestinationCounter| measured.has(counter.whole());
    if level.destinations.is_empty() || !list.iter().any(|counter| there(&counter)) {
        return;
    }
    text.family(level.name, metric);
    for line in level.destinations {
        for counter in list.iter().filter(there) {
            let value = value(metric, line.amount[*counter]);
            // The metric's first label is the destination, which the labels of the partner already
            // contain.
            let labels = &metric.labels[1..];
            let names = &[counter.part()][..labels.len()];
            text.pair(line, (labels, names), value);
        }
    }
}

fn frequency(text: &mut Writer, level: &Rows<'_>, metric: &Metric) {
    let hertz = |line: &Line| line.frequency_hertz.filter(|hertz| hertz.is_finite());
    if level.lines.iter().all(|line| hertz(line).is_none()) {
        return;
    }
    text.family(level.name, metric);
    for line in level.lines {
        if let Some(hertz) = hertz(line) {
            // Fractions of a hertz are noise, and their digits would make up a third of the line.
            text.sample(
                line.born,
                &line.labels,
                NO_LABELS,
                Value::Float(hertz.round()),
            );
        }
    }
}

fn waits(text: &mut Writer, level: &Rows<'_>, metric: &Metric, choice: &Choice) {
    let powers = choice.powers(level.name, WAITS).collect::<Vec<u32>>();
    text.family(level.name, metric);
    for line in level.lines {
        let Figures {
            counters, waits, ..
        } = &*line.figures;
        let sum_ns = Counter::WAITS.iter().map(|wait| counters[*wait]).sum();
        let sample = HistogramSample {
            histogram: waits,
            sum_ns,
            powers: powers.clone(),
        };
        text.histogram(line.born, &line.labels, &sample);
    }
}

fn blame(text: &mut Writer, level: &Rows<'_>, metric: &Metric) {
    if level.blames.is_empty() {
        return;
    }
    text.family(level.name, metric);
    for line in level.blames {
        let value = Value::Nanoseconds(line.amount);
        text.pair(line, NO_LABELS, value);
    }
}

fn verdict(text: &mut Writer, level: &Rows<'_>, metric: &Metric) {
    let mut judged = level
        .lines
        .iter()
        .filter_map(|line| Some((line, line.verdict?)))
        .peekable();
    if judged.peek().is_none() {
        return;
    }
    text.family(level.name, metric);
    for (line, verdicts) in judged {
        for kind in verdicts.past_kinds() {
            let value = Value::Count(u64::from(kind == verdicts.now));
            text.sample(
                line.born,
                &line.labels,
                (metric.labels, &[kind.name()]),
                value,
            );
        }
    }
}

pub(super) fn connects_measured(measured: Measured) -> bool {
    measured.has(EventCounter::TcpConnects)
}
