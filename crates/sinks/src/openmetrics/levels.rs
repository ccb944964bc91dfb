//! The metrics of every level.

use noctule_model::{Counter, METRICS, Measured, Metric, Source};

use super::budget::Line;
use super::exporter::Level;
use super::text::{Text, Value};

const NO_LABELS: (&[&str], &[&str]) = (&[], &[]);

/// Writes every family of the level that has samples. Families are the outer loop, because
/// OpenMetrics wants the samples of a family together.
pub(super) fn write(text: &mut Text, level: &Level, measured: Measured) {
    if level.lines.is_empty() {
        return;
    }
    for metric in METRICS {
        match metric.source {
            Source::Nanoseconds(counter) => {
                one(text, level, metric, measured, counter, Value::Nanoseconds);
            }
            Source::Count(counter) => one(text, level, metric, measured, counter, Value::Count),
            Source::Labelled(parts) => labelled(text, level, metric, measured, parts),
            Source::Frequency => frequency(text, level, metric),
        }
    }
}

fn one(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    counter: Counter,
    value: fn(u64) -> Value,
) {
    if !measured.has(counter) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        text.sample(&line.labels, NO_LABELS, value(line.counters[counter]));
    }
}

fn labelled(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, Counter)],
) {
    if !parts.iter().any(|(_, counter)| measured.has(*counter)) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        for (name, counter) in parts.iter().filter(|(_, c)| measured.has(*c)) {
            let value = Value::Count(line.counters[*counter]);
            text.sample(&line.labels, (metric.labels, &[name]), value);
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
