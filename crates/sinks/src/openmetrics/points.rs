//! The metrics of a snapshot as requests of OTLP.

use noctule_model::{Metric, OtelKind, OtelMetric, otel_attributes};
use prost::Message as _;

use super::proto::{SCHEMA, ZERO_THRESHOLD, exponential, pairs, shown};
use super::snapshot::Snapshot;
use super::text::Value;
use super::writer::{HistogramSample, SampleLabels, Writer};
use super::{levels, own};
use crate::otlp::messages::{
    self, Buckets, CUMULATIVE, ExponentialHistogram, ExponentialPoint, Gauge, KeyValue,
    MetricsRequest, NumberPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use crate::otlp::{Identity, REQUEST_BYTES, Request, of_labels, scope};

/// Points of one resource in the making.
pub(super) struct Points {
    metrics: Vec<messages::Metric>,
    /// The metric that samples go to, and what it is.
    open: Option<(usize, OtelMetric)>,
    /// Since when sums count.
    start_unix_ns: u64,
    /// The same of the next sample alone.
    next_start_unix_ns: Option<u64>,
    time_unix_ns: u64,
    count: u64,
}

impl Points {
    fn new(start_unix_ns: u64, time_unix_ns: u64) -> Self {
        Self {
            metrics: Vec::new(),
            open: None,
            start_unix_ns,
            next_start_unix_ns: None,
            time_unix_ns,
            count: 0,
        }
    }

    /// Samples from here on belong to this metric. Several of ours can have one name.
    pub(super) fn metric<S>(&mut self, level: &str, metric: &Metric<S>) {
        let otel = OtelMetric::new(level, metric);
        let known = self.metrics.iter().position(|it| it.name == otel.name);
        let at = known.unwrap_or_else(|| {
            let mut made = messages::Metric {
                name: otel.name.clone(),
                description: metric.help.to_owned(),
                unit: otel.unit.to_owned(),
                ..messages::Metric::default()
            };
            let sum = |monotonic| Sum {
                points: Vec::new(),
                temporality: CUMULATIVE,
                monotonic,
            };
            match otel.kind {
                OtelKind::Sum => made.sum = Some(sum(true)),
                OtelKind::UpDownSum => made.sum = Some(sum(false)),
                OtelKind::Gauge => made.gauge = Some(Gauge::default()),
                OtelKind::ExponentialHistogram => {
                    made.exponential = Some(ExponentialHistogram {
                        points: Vec::new(),
                        temporality: CUMULATIVE,
                    });
                }
            }
            self.metrics.push(made);
            self.metrics.len() - 1
        });
        self.open = Some((at, otel));
    }

    pub(super) fn sample(&mut self, labels: SampleLabels<'_>, value: Value) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let (int, double) = match value {
            Value::Count(count) => (Some(count.try_into().unwrap_or(i64::MAX)), None),
            other => (None, Some(other.as_f64())),
        };
        let start = self.next_start_unix_ns.take().unwrap_or(self.start_unix_ns);
        let metric = &mut self.metrics[*at];
        let is_gauge = metric.gauge.is_some();
        let point = NumberPoint {
            attributes: attributes(otel, labels),
            start_unix_ns: if is_gauge { 0 } else { start },
            time_unix_ns: self.time_unix_ns,
            double,
            int,
        };
        let gauge = metric.gauge.as_mut().map(|it| &mut it.points);
        let points = gauge.or(metric.sum.as_mut().map(|it| &mut it.points));
        if let Some(points) = points {
            points.push(point);
            self.count += 1;
        }
    }

    pub(super) fn histogram(&mut self, labels: SampleLabels<'_>, sample: &HistogramSample<'_>) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let Some(exponential) = &mut self.metrics[*at].exponential else {
            return;
        };
        let (zero_count, positive) = buckets(sample);
        exponential.points.push(ExponentialPoint {
            attributes: attributes(otel, labels),
            start_unix_ns: self.start_unix_ns,
            time_unix_ns: self.time_unix_ns,
            count: sample.histogram.count(),
            sum: Some(sample.sum_ns as f64 / 1e9),
            scale: SCHEMA,
            zero_count,
            positive,
            zero_threshold: ZERO_THRESHOLD,
        });
        self.count += 1;
    }

    /// The next sample counts from then.
    pub(super) fn next_since(&mut self, start_unix_ns: u64) {
        self.next_start_unix_ns = Some(start_unix_ns);
    }
}

/// The upper bound of a bucket of Prometheus has its index; here the lower one has.
fn buckets(sample: &HistogramSample<'_>) -> (u64, Option<Buckets>) {
    let (zero_count, counted) = exponential(sample.histogram);
    let positive = counted.first().map(|(first, _)| {
        let last = counted.last().map_or(*first, |(last, _)| *last);
        let mut counts = vec![0; (last - first) as usize + 1];
        for (index, count) in &counted {
            counts[(index - first) as usize] = *count;
        }
        Buckets {
            offset: first - 1,
            counts,
        }
    });
    (zero_count, positive)
}

fn attributes(otel: &OtelMetric, labels: SampleLabels<'_>) -> Vec<KeyValue> {
    let SampleLabels {
        // The first list is that of the row: it is in the resource.
        identity: [_, partner],
        own: (names, values),
    } = labels;
    let fixed = otel.attributes.iter();
    let fixed = fixed.map(|(key, value)| KeyValue::text(*key, *value));
    let partner = pairs(partner).map(|(name, value)| (name.to_owned(), value));
    let own = names.iter().zip(values);
    let own = own.map(|(name, value)| ((*name).to_owned(), shown(value)));
    let mapped = partner
        .chain(own)
        .flat_map(|(name, value)| otel_attributes(&otel.name, &name, &value))
        .map(|(key, value)| KeyValue::text(key, value));
    fixed.chain(mapped).collect()
}

/// Resources until a request is large enough.
struct Requests<'a> {
    identity: &'a Identity,
    hand_on: &'a mut dyn FnMut(Request),
    open: MetricsRequest,
    bytes: usize,
    items: u64,
}

impl Requests<'_> {
    fn add(&mut self, resource: Resource, points: Points) {
        if points.metrics.is_empty() {
            return;
        }
        let resource = ResourceMetrics {
            resource: Some(resource),
            scopes: vec![ScopeMetrics {
                scope: Some(scope(&self.identity.version)),
                metrics: points.metrics,
            }],
        };
        let size = resource.encoded_len() + 8;
        if self.bytes > 0 && self.bytes + size > REQUEST_BYTES {
            self.close();
        }
        self.bytes += size;
        self.items += points.count;
        self.open.resources.push(resource);
    }

    fn close(&mut self) {
        if self.bytes > 0 {
            let body = std::mem::take(&mut self.open).encode_to_vec();
            self.bytes = 0;
            (self.hand_on)(Request {
                body,
                items: std::mem::take(&mut self.items),
            });
        }
    }
}

impl Snapshot {
    /// The same figures as requests of OTLP, each as it is made. `now_ns` is as for [`Snapshot::render`].
    pub fn otlp(&self, identity: &Identity, now_ns: u64, hand_on: &mut dyn FnMut(Request)) {
        let mut requests = Requests {
            identity,
            hand_on,
            open: MetricsRequest::default(),
            bytes: 0,
            items: 0,
        };
        let nothing = &mut |_| {};
        let mut node = Writer::Points(Points::new(self.start_unix_ns, self.time_unix_ns));
        for level in self.levels.iter().filter(|level| level.name == "node") {
            levels::write(&mut node, &level.rows(), self, nothing);
        }
        own::write(&mut node, self, now_ns);
        if let Writer::Points(points) = node {
            requests.add(identity.of_node(), points);
        }
        for level in self.levels.iter().filter(|level| level.name != "node") {
            for (line, rows) in level.each() {
                let mut row = Writer::Points(Points::new(line.start_unix_ns, self.time_unix_ns));
                levels::write(&mut row, &rows, self, nothing);
                if let Writer::Points(points) = row {
                    let subject = of_labels(pairs(&line.labels));
                    requests.add(identity.of(subject), points);
                }
            }
        }
        requests.close();
    }
}
