//! The metrics of every level.

use noctule_model::{Cause, Counter, METRICS, Measured, Metric, Source, VerdictKind};

use super::budget::Line;
use super::exporter::Level;
use super::figures::Figures;
use super::text::{Text, Value};

const NO_LABELS: (&[&str], &[&str]) = (&[], &[]);

/// Writes every family of the level that has samples. Families are the outer loop, because
/// OpenMetrics wants the samples of a family together.
pub(super) fn write(text: &mut Text, level: &Level, measured: Measured) {
    if level.lines.is_empty() {
        return;
    }
    let here = |metric: &&Metric| metric.source.levels().contains(&level.name);
    for metric in METRICS.iter().filter(here) {
        match metric.source {
            Source::Nanoseconds(counter) => {
                one(text, level, metric, measured, counter, Value::Nanoseconds);
            }
            Source::Count(counter) => one(text, level, metric, measured, counter, Value::Count),
            Source::Labelled(parts) => {
                labelled(text, level, metric, measured, parts, Value::Count);
            }
            Source::LabelledNanoseconds(parts) => {
                labelled(text, level, metric, measured, parts, Value::Nanoseconds);
            }
            Source::Frequency => frequency(text, level, metric),
            Source::Waits => waits(text, level, metric, measured),
            Source::Blame => blame(text, level, metric, measured),
            Source::Verdict => verdict(text, level, metric, measured),
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
        text.sample(
            &line.labels,
            NO_LABELS,
            value(line.figures.counters[counter]),
        );
    }
}

fn labelled(
    text: &mut Text,
    level: &Level,
    metric: &Metric,
    measured: Measured,
    parts: &[(&str, Counter)],
    value: fn(u64) -> Value,
) {
    if !parts.iter().any(|(_, counter)| measured.has(*counter)) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        for (name, counter) in parts.iter().filter(|(_, c)| measured.has(*c)) {
            let value = value(line.figures.counters[*counter]);
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

fn waits(text: &mut Text, level: &Level, metric: &Metric, measured: Measured) {
    if !waits_measured(measured) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.lines {
        let Figures { counters, waits } = &line.figures;
        let causes = Cause::ALL.iter();
        let sum_ns = causes.map(|cause| counters[Counter::Wait(*cause)]).sum();
        text.histogram(&line.labels, waits, sum_ns);
    }
}

fn blame(text: &mut Text, level: &Level, metric: &Metric, measured: Measured) {
    if level.blames.is_empty() || !waits_measured(measured) {
        return;
    }
    text.family(level.name, metric);
    for line in &level.blames {
        let value = Value::Nanoseconds(line.wait_ns);
        text.sample(&line.labels, (metric.labels, &[&line.culprit]), value);
    }
}

fn verdict(text: &mut Text, level: &Level, metric: &Metric, measured: Measured) {
    let mut judged = level
        .lines
        .iter()
        .filter_map(|line| Some((line, line.verdict?)))
        .peekable();
    if judged.peek().is_none() || !waits_measured(measured) {
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
