//! Prometheus' protobuf format (`io.prometheus.client`), length-delimited. It is the only format
//! with native histograms.

use noctule_model::{Histogram, Kind};
use prost::Message;

use super::text::Value;
use super::writer::{HistogramSample, SampleLabels};

/// 2^3 buckets for each power of two, like the histograms in the kernel.
pub(super) const SCHEMA: i32 = 3;

/// Upper bound of the zero bucket: the default of Prometheus' client libraries.
pub(super) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// Longest run of empty buckets that is written explicitly instead of starting a new span.
const GAP: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct CounterNumber {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(message, optional, tag = "3")]
    created: Option<Timestamp>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanoseconds: i32,
}

impl Timestamp {
    /// Returns `None` if the time is unknown.
    fn new(unix_ns: u64) -> Option<Self> {
        (unix_ns > 0).then_some(Self {
            seconds: (unix_ns / 1_000_000_000) as i64,
            nanoseconds: (unix_ns % 1_000_000_000) as i32,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoHistogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    created: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoMetric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<CounterNumber>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<ProtoHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    /// 0 is a counter, 1 a gauge, 4 a histogram.
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<ProtoMetric>,
    #[prost(string, tag = "5")]
    unit: String,
}

/// Number of the field `metric` in `MetricFamily`.
const METRIC: u32 = 4;

/// Metric families while they are written.
#[derive(Default)]
pub(super) struct Families {
    out: Vec<u8>,
    /// The current family, without its samples.
    open: Option<Family>,
    /// Samples of the current family, already encoded, because unencoded messages would take ten
    /// times as much memory.
    samples: Vec<u8>,
}

impl Families {
    /// Starts a family, or continues the current one if it has this name.
    pub(super) fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        let (suffix, kind) = match kind {
            Kind::Counter => ("_total", 0),
            Kind::Gauge => ("", 1),
            Kind::Histogram => ("", 4),
        };
        let name = format!("{name}{suffix}");
        if self.open.as_ref().is_some_and(|open| open.name == name) {
            return;
        }
        self.close();
        self.open = Some(Family {
            name,
            help: help.to_owned(),
            kind,
            metric: Vec::new(),
            unit: unit.to_owned(),
        });
    }

    fn push(&mut self, metric: &ProtoMetric) {
        prost::encoding::message::encode(METRIC, metric, &mut self.samples);
    }

    /// Adds a sample. `start_unix_ns` is when a counter was 0, in nanoseconds since 1970; 0 if that
    /// is unknown.
    pub(super) fn sample(&mut self, labels: SampleLabels<'_>, value: Value, start_unix_ns: u64) {
        let Some(family) = &self.open else {
            return;
        };
        let value = value.as_f64();
        let created = Timestamp::new(start_unix_ns);
        let (gauge, counter) = match family.kind {
            0 => (None, Some(CounterNumber { value, created })),
            _ => (Some(Number { value }), None),
        };
        self.push(&ProtoMetric {
            label: label_pairs(labels),
            gauge,
            counter,
            histogram: None,
        });
    }

    /// Adds a histogram. `start_unix_ns` is the same as for [`Families::sample`].
    pub(super) fn histogram(
        &mut self,
        labels: SampleLabels<'_>,
        sample: &HistogramSample<'_>,
        start_unix_ns: u64,
    ) {
        let bucket = sample.below().map(|(bits, count)| Bucket {
            cumulative_count: count,
            upper_bound: ((1_u64 << bits) - 1) as f64 / 1e9,
        });
        let mut histogram = native(sample.histogram);
        histogram.bucket = bucket.collect();
        histogram.sample_sum = sample.sum_ns as f64 / 1e9;
        histogram.created = Timestamp::new(start_unix_ns);
        self.push(&ProtoMetric {
            label: label_pairs(labels),
            gauge: None,
            counter: None,
            histogram: Some(histogram),
        });
    }

    /// Returns the families that were completed since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Completes the current family.
    pub(super) fn close(&mut self) {
        if let Some(family) = self.open.take() {
            let length = family.encoded_len() + self.samples.len();
            prost::encoding::encode_varint(length as u64, &mut self.out);
            self.out.extend(family.encode_to_vec());
            self.out.append(&mut self.samples);
        }
    }
}

/// Returns the schema 3 bucket for a value in seconds. The bucket's upper bound is 2^(index/8).
fn index(seconds: f64) -> i32 {
    (seconds.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

/// Converts a histogram of nanoseconds into schema 3 buckets in seconds. Returns the number of
/// values that are 0, and each non-empty bucket with its count, in ascending order.
///
/// Both kinds have 8 buckets per power of two. The buckets of noctule have equal widths within a
/// power of two, and start at powers of two of nanoseconds, so the bounds differ. Each of these
/// buckets is therefore counted in the schema 3 bucket that contains its middle. Counts are exact
/// and buckets never shrink, but a value can be one bucket off.
pub(super) fn exponential(histogram: &Histogram) -> (u64, Vec<(i32, u64)>) {
    let mut zero_count = 0;
    let mut counts: Vec<(i32, u64)> = Vec::new();
    for (middle_ns, count) in histogram.middles() {
        if middle_ns == 0 {
            zero_count += count;
            continue;
        }
        let index = index(middle_ns as f64 / 1e9);
        match counts.last_mut() {
            Some(last) if last.0 == index => last.1 += count,
            _ => counts.push((index, count)),
        }
    }
    (zero_count, counts)
}

/// Encodes the histogram as the format requires: spans of buckets, and each count as the difference
/// from the previous count.
fn native(histogram: &Histogram) -> ProtoHistogram {
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = (Vec::new(), Vec::new());
    let (zero_count, counts) = exponential(histogram);
    let (mut next, mut before) = (0, 0_i64);
    for (index, count) in counts {
        let gap = index - next;
        match spans.last_mut() {
            Some(span) if gap <= GAP => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                span.length += 1 + gap as u32;
            }
            _ => spans.push(Span {
                offset: gap,
                length: 1,
            }),
        }
        deltas.push(count as i64 - before);
        before = count as i64;
        next = index + 1;
    }
    if spans.is_empty() {
        // An empty span marks the histogram as native even if it has no values.
        spans.push(Span {
            offset: 0,
            length: 0,
        });
    }
    ProtoHistogram {
        sample_count: histogram.count(),
        sample_sum: 0.0,
        bucket: Vec::new(),
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        zero_count,
        positive_span: spans,
        positive_delta: deltas,
        created: None,
    }
}

fn label_pairs(labels: SampleLabels<'_>) -> Vec<Label> {
    let SampleLabels {
        identity,
        own: (names, values),
    } = labels;
    let label = |(name, value): (&str, String)| Label {
        name: name.to_owned(),
        value,
    };
    let known = identity.into_iter().flat_map(pairs).map(label);
    let own = names.iter().zip(values);
    known
        .chain(own.map(|(name, value)| label((name, shown(value)))))
        .collect()
}

/// Returns a value as scrapers store it after they have read one of the text formats.
pub(crate) fn shown(value: &str) -> String {
    let mut escaped = String::new();
    super::escape::push_label_value(&mut escaped, value);
    unescaped(&escaped)
}

/// Parses a list of labels that is escaped for the text formats.
pub(super) fn pairs(mut list: &str) -> impl Iterator<Item = (&str, String)> {
    std::iter::from_fn(move || {
        let (name, rest) = list.split_once("=\"")?;
        let end = closing_quote(rest);
        list = rest[end..].trim_start_matches('"');
        list = list.strip_prefix(',').unwrap_or(list);
        Some((name, unescaped(&rest[..end])))
    })
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    let found = text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    found.unwrap_or(text.len())
}

fn unescaped(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some(c) => c,
                None => '\\',
            }),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the count of each bucket by index, decoded as a reader of the format does.
    fn read(histogram: &ProtoHistogram) -> Vec<(i32, i64)> {
        let mut counts = Vec::new();
        let (mut at, mut count) = (0, 0);
        let mut deltas = histogram.positive_delta.iter();
        for span in &histogram.positive_span {
            at += span.offset;
            for _ in 0..span.length {
                count += deltas.next().expect("a delta for each bucket");
                counts.push((at, count));
                at += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        counts
    }

    #[test]
    fn values_are_at_most_one_bucket_off() {
        for ns in (0..40).flat_map(|bits| [1_u64 << bits, 3 << bits >> 1, 7 << bits >> 2]) {
            let mut counts = [0; Histogram::BUCKETS];
            counts[Histogram::bucket(ns)] = 5;
            let native = native(&Histogram::from_counts(counts));
            let read = read(&native);
            assert_eq!(read.len(), 1, "{ns}");
            let (at, count) = read[0];
            assert_eq!((count, native.sample_count, native.zero_count), (5, 5, 0));
            let exact = index(ns as f64 / 1e9);
            assert!((at - exact).abs() <= 1, "{ns} ns: {at} instead of {exact}");
        }
    }

    #[test]
    fn empty_buckets_and_zeros_are_encoded() {
        let none = native(&Histogram::default());
        assert_eq!(read(&none), []);
        assert_eq!(none.positive_span.len(), 1, "it says that it is native");
        let counts = (0..Histogram::BUCKETS as u64).map(|bucket| bucket % 5);
        let histogram = Histogram::from_counts(counts);
        let native = native(&histogram);
        let sum: i64 = read(&native).iter().map(|(_, count)| count).sum();
        assert_eq!(sum as u64 + native.zero_count, histogram.count());
        let apart = Histogram::from_buckets([(0, 7), (1 << 10, 1), (1 << 30, 2)]);
        let native = super::native(&apart);
        assert_eq!(native.zero_count, 7);
        assert_eq!(native.positive_span.len(), 2);
        let counts: Vec<i64> = read(&native).iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn labels_equal_those_of_the_text_format() {
        let list = r#"a="x\\y\"z\nw",b="",c="1,d=\"2\"""#;
        let labels = SampleLabels {
            identity: [list, ""],
            own: (&["own"], &["q\"\u{1b}\\"]),
        };
        let pairs = label_pairs(labels);
        let read: Vec<(&str, &str)> = pairs
            .iter()
            .map(|label| (label.name.as_str(), label.value.as_str()))
            .collect();
        let expected = [
            ("a", "x\\y\"z\nw"),
            ("b", ""),
            ("c", "1,d=\"2\""),
            ("own", "q\"\\u{1b}\\"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn several_families_are_written_in_order() {
        let mut families = Families::default();
        let none = SampleLabels {
            identity: ["", ""],
            own: (&[], &[]),
        };
        families.family("a", Kind::Counter, "", "A.");
        families.sample(none, Value::Nanoseconds(1_500_000_000), 1_000_000_002);
        families.family("b", Kind::Gauge, "", "B.");
        families.sample(none, Value::Count(3), 1);
        families.close();
        let bytes = families.take();
        let mut rest = bytes.as_slice();
        let first = Family::decode_length_delimited(&mut rest).expect("a family");
        let second = Family::decode_length_delimited(&mut rest).expect("a family");
        assert!(rest.is_empty());
        assert_eq!(first.name, "a_total");
        let created = Timestamp {
            seconds: 1,
            nanoseconds: 2,
        };
        let counter = CounterNumber {
            value: 1.5,
            created: Some(created),
        };
        assert_eq!(first.metric[0].counter, Some(counter));
        assert_eq!(second.name, "b");
        assert_eq!(second.metric[0].gauge, Some(Number { value: 3.0 }));
    }
}
