//! One interface to the formats.

use noctule_model::{Histogram, Kind, Metric};

use super::Exposition;
use super::pairs::PairLine;
use super::points::Points;
use super::proto::Families;
use super::reader::Reader;
use super::text::{Text, Value};
use super::view::Born;

/// The labels of a sample: lists that are escaped already, or empty, and the metric's own labels with
/// their values, which are escaped here.
#[derive(Clone, Copy)]
pub(super) struct SampleLabels<'a> {
    pub(super) identity: [&'a str; 2],
    pub(super) own: (&'a [&'a str], &'a [&'a str]),
}

/// A histogram of nanoseconds and the sum of its values.
pub(super) struct HistogramSample<'a> {
    pub(super) histogram: &'a Histogram,
    pub(super) sum_ns: u64,
    /// The powers of two at which classic buckets end.
    pub(super) powers: Vec<u32>,
}

impl HistogramSample<'_> {
    /// Each power with how many values are below it.
    pub(super) fn below(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut buckets = self.histogram.buckets().peekable();
        let mut below = 0;
        self.powers.iter().map(move |&bits| {
            // No bucket lies on both sides of a power of two.
            while let Some((_, count)) = buckets.next_if(|(low, _)| *low < 1 << bits) {
                below += count;
            }
            (bits, below)
        })
    }
}

/// An exposition in the making.
pub(super) enum Writer {
    Text(Text),
    Proto(Families),
    /// Metrics of OTLP; of the labels of a sample the first list is in the resource.
    Points(Points),
}

impl Writer {
    pub(super) fn new(exposition: Exposition) -> Self {
        match exposition {
            Exposition::Protobuf => Self::Proto(Families::default()),
            exposition => Self::Text(Text::new(exposition)),
        }
    }

    /// For whom it is; `None`: nothing comes after it.
    pub(super) fn reader(&self) -> Option<Reader> {
        match self {
            Self::Text(_) | Self::Proto(_) => Some(Reader::Scrapes),
            Self::Points(points) => points.reader(),
        }
    }

    /// Starts a family: `noctule_`, the level if there is one, the metric's name. Its samples must
    /// follow at once.
    pub(super) fn family<S>(&mut self, level: &str, metric: &Metric<S>) {
        if let Self::Points(points) = self {
            points.metric(level, metric);
            return;
        }
        let separator = if level.is_empty() { "" } else { "_" };
        let name = format!("noctule_{level}{separator}{}", metric.name);
        self.named_family(&name, metric.kind, metric.unit.name(), metric.help);
    }

    /// Starts a family with this name. Its samples must follow at once.
    pub(super) fn named_family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        match self {
            Self::Text(text) => text.family(name, kind, unit, help),
            Self::Proto(families) => families.family(name, kind, unit, help),
            // Names of others are in no OTLP.
            Self::Points(_) => {}
        }
    }

    /// One sample of the family. `identity` is a list of labels that is escaped already, or empty;
    /// `own` are the metric's own labels and their values, which are escaped here.
    pub(super) fn sample(
        &mut self,
        born: Born,
        identity: &str,
        own: (&[&str], &[&str]),
        value: Value,
    ) {
        self.pair_sample(born, [identity, ""], own, value);
    }

    /// One sample of a pair, with the labels of both.
    pub(super) fn pair<A>(&mut self, line: &PairLine<A>, own: (&[&str], &[&str]), value: Value) {
        self.pair_sample(line.born, [&line.labels, &line.partner], own, value);
    }

    /// The same with two lists of labels.
    pub(super) fn pair_sample(
        &mut self,
        born: Born,
        identity: [&str; 2],
        own: (&[&str], &[&str]),
        value: Value,
    ) {
        let labels = SampleLabels { identity, own };
        match self {
            Self::Text(text) => text.sample(labels, value),
            Self::Proto(families) => families.sample(labels, value),
            Self::Points(points) => points.sample(labels, value, born.start_unix_ns),
        }
    }

    /// A histogram of nanoseconds, in seconds.
    pub(super) fn histogram(&mut self, born: Born, identity: &str, sample: &HistogramSample<'_>) {
        let labels = SampleLabels {
            identity: [identity, ""],
            own: (&[], &[]),
        };
        match self {
            Self::Text(text) => text.histogram(labels, sample),
            Self::Proto(families) => families.histogram(labels, sample),
            Self::Points(points) => points.histogram(labels, sample, born.start_unix_ns),
        }
    }

    /// What was written since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.take(),
            Self::Proto(families) => families.take(),
            Self::Points(_) => Vec::new(),
        }
    }

    /// The same with the family that is being written, which ends with it.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        if let Self::Proto(families) = self {
            families.close();
        }
        self.take()
    }

    /// The end of the exposition.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if let Self::Text(text) = &mut self {
            text.end();
        }
        self.take_all()
    }
}
