//! A common interface to all formats.

use std::sync::LazyLock;

use noctule_model::{Histogram, Kind, Metric};

use super::Exposition;
use super::pairs::PairLine;
use super::points::Points;
use super::proto::Families;
use super::text::{Text, Value};
use super::view::{Born, View};

/// The labels of a sample. The lists in `identity` are already escaped, and can be empty. The
/// metric's own labels and values in `own` are escaped here.
#[derive(Clone, Copy)]
pub(super) struct SampleLabels<'a> {
    pub(super) identity: [&'a str; 2],
    pub(super) own: (&'a [&'a str], &'a [&'a str]),
}

/// A histogram of nanoseconds and the sum of its values.
pub(super) struct HistogramSample<'a> {
    pub(super) histogram: &'a Histogram,
    pub(super) sum_ns: u64,
    /// Exponents of the bounds of the classic buckets, as powers of two.
    pub(super) powers: Vec<u32>,
}

static NO_WAITS: LazyLock<Histogram> = LazyLock::new(Histogram::default);

impl HistogramSample<'_> {
    /// Returns the same buckets without any values.
    pub(super) fn empty(&self) -> Self {
        Self {
            histogram: &NO_WAITS,
            sum_ns: 0,
            powers: self.powers.clone(),
        }
    }

    /// Returns each power with the number of values below it.
    pub(super) fn below(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut buckets = self.histogram.buckets().peekable();
        let mut below = 0;
        self.powers.iter().map(move |&bits| {
            // Powers of two are bucket bounds, so no bucket contains a power in its interior.
            while let Some((_, count)) = buckets.next_if(|(low, _)| *low < 1 << bits) {
                below += count;
            }
            (bits, below)
        })
    }
}

/// An exposition while it is written for one reader.
pub(super) struct Writer {
    format: Format,
    view: View,
    /// Time at which the figures were taken, in nanoseconds of `CLOCK_MONOTONIC`.
    taken_ns: u64,
    /// Kind of the current family.
    kind: Kind,
}

enum Format {
    Text(Text),
    Proto(Families),
    /// OTLP metrics. A sample has several lists of labels. The resource contains the first one.
    Points(Points),
}

impl Writer {
    pub(super) fn new(exposition: Exposition, view: View, taken_ns: u64) -> Self {
        let format = match exposition {
            Exposition::Protobuf => Format::Proto(Families::default()),
            exposition => Format::Text(Text::new(exposition)),
        };
        Self::of(format, view, taken_ns)
    }

    pub(super) fn of_points(points: Points, view: View, taken_ns: u64) -> Self {
        Self::of(Format::Points(points), view, taken_ns)
    }

    fn of(format: Format, view: View, taken_ns: u64) -> Self {
        Self {
            format,
            view,
            taken_ns,
            kind: Kind::Gauge,
        }
    }

    /// Returns the points; `None` for the other formats.
    pub(super) fn into_points(self) -> Option<Points> {
        match self.format {
            Format::Points(points) => Some(points),
            Format::Text(_) | Format::Proto(_) => None,
        }
    }

    /// Returns whether the series of the current family is new to the reader.
    fn is_new(&self, born: Born) -> bool {
        self.kind != Kind::Gauge && self.view.is_new(born, self.taken_ns)
    }

    /// Starts a family. Its name consists of `noctule_`, the level if there is one, and the
    /// metric's name. The family's samples must follow before another family starts.
    pub(super) fn family<S>(&mut self, level: &str, metric: &Metric<S>) {
        if let Format::Points(points) = &mut self.format {
            points.metric(level, metric);
            self.kind = metric.kind;
            return;
        }
        let separator = if level.is_empty() { "" } else { "_" };
        let name = format!("noctule_{level}{separator}{}", metric.name);
        self.named_family(&name, metric.kind, metric.unit.name(), metric.help);
    }

    /// Starts a family with this name. Its samples must follow before another family starts.
    pub(super) fn named_family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        self.kind = kind;
        match &mut self.format {
            Format::Text(text) => text.family(name, kind, unit, help),
            Format::Proto(families) => families.family(name, kind, unit, help),
            // OTLP does not include the names of other exporters.
            Format::Points(_) => {}
        }
    }

    /// Writes a sample of the current family. `identity` is a list of labels that is already
    /// escaped, or empty. `own` contains the metric's own labels and their values, which are
    /// escaped here.
    pub(super) fn sample(
        &mut self,
        born: Born,
        identity: &str,
        own: (&[&str], &[&str]),
        value: Value,
    ) {
        self.pair_sample(born, [identity, ""], own, value);
    }

    /// Writes a sample of a pair, with the labels of both sides.
    pub(super) fn pair<A>(&mut self, line: &PairLine<A>, own: (&[&str], &[&str]), value: Value) {
        self.pair_sample(line.born, [&line.labels, &line.partner], own, value);
    }

    /// Like [`Writer::sample`], with two lists of labels.
    pub(super) fn pair_sample(
        &mut self,
        born: Born,
        identity: [&str; 2],
        own: (&[&str], &[&str]),
        value: Value,
    ) {
        let labels = SampleLabels { identity, own };
        let is_new = self.is_new(born);
        let shown = if is_new { value.zero() } else { value };
        match &mut self.format {
            Format::Text(text) => text.sample(labels, shown),
            Format::Proto(families) => families.sample(labels, shown, born.start_unix_ns),
            Format::Points(points) => points.sample(labels, value, born.start_unix_ns, is_new),
        }
    }

    /// Writes a histogram of nanoseconds, in seconds.
    pub(super) fn histogram(&mut self, born: Born, identity: &str, sample: &HistogramSample<'_>) {
        let labels = SampleLabels {
            identity: [identity, ""],
            own: (&[], &[]),
        };
        let is_new = self.is_new(born);
        let start_unix_ns = born.start_unix_ns;
        if let Format::Points(points) = &mut self.format {
            points.histogram(labels, sample, start_unix_ns, is_new);
            return;
        }
        let empty = is_new.then(|| sample.empty());
        let shown = empty.as_ref().unwrap_or(sample);
        match &mut self.format {
            Format::Text(text) => text.histogram(labels, shown),
            Format::Proto(families) => families.histogram(labels, shown, start_unix_ns),
            Format::Points(_) => {}
        }
    }

    /// Returns the bytes written since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match &mut self.format {
            Format::Text(text) => text.take(),
            Format::Proto(families) => families.take(),
            Format::Points(_) => Vec::new(),
        }
    }

    /// Like [`Writer::take`], but also completes the current family.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        if let Format::Proto(families) = &mut self.format {
            families.close();
        }
        self.take()
    }

    /// Writes the end of the exposition and returns the remaining bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if let Format::Text(text) = &mut self.format {
            text.end();
        }
        self.take_all()
    }
}
