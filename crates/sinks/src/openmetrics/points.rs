//! Encodes the metrics of a snapshot as OTLP requests.

use noctule_model::{Metric, OtelKind, OtelMetric, otel_attributes};
use prost::Message as _;

use super::proto::{SCHEMA, ZERO_THRESHOLD, exponential, pairs, shown};
use super::snapshot::Snapshot;
use super::text::Value;
use super::view::View;
use super::writer::{HistogramSample, SampleLabels, Writer};
use super::{levels, own};
use crate::otlp::messages::{
    self, Buckets, CUMULATIVE, ExponentialHistogram, ExponentialPoint, Gauge, KeyValue,
    MetricsRequest, NumberPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use crate::otlp::{Identity, REQUEST_BYTES, Request, SCHEMA_URL, of_labels, scope};

/// Time between the start of a sum and its point of value 0. In OTLP, a point at the start itself
/// would mean that the start is unknown.
const ZERO_AFTER_NS: u64 = 1;

/// The points of one resource while they are collected.
pub(super) struct Points {
    metrics: Vec<messages::Metric>,
    /// The metric that receives the next samples: its index and definition.
    open: Option<(usize, OtelMetric)>,
    time_unix_ns: u64,
    count: u64,
}

impl Points {
    fn new(time_unix_ns: u64) -> Self {
        Self {
            metrics: Vec::new(),
            open: None,
            time_unix_ns,
            count: 0,
        }
    }

    /// Selects the metric that receives the next samples. Several metrics of noctule can have the
    /// same OTLP name.
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

    /// Adds a sample. A sum that is new to the receiver gets a second point: 0 at its start, if
    /// that is known.
    pub(super) fn sample(
        &mut self,
        labels: SampleLabels<'_>,
        value: Value,
        start_unix_ns: u64,
        is_new: bool,
    ) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let has_zero = is_new && start_unix_ns > 0;
        let metric = &mut self.metrics[*at];
        let is_gauge = metric.gauge.is_some();
        let attributes = attributes(otel, labels);
        let point = |time_unix_ns, value| {
            let (int, double) = match value {
                Value::Count(count) => (Some(count.try_into().unwrap_or(i64::MAX)), None),
                other => (None, Some(other.as_f64())),
            };
            NumberPoint {
                attributes: attributes.clone(),
                start_unix_ns: if is_gauge { 0 } else { start_unix_ns },
                time_unix_ns,
                double,
                int,
            }
        };
        let gauge = metric.gauge.as_mut().map(|it| &mut it.points);
        let points = gauge.or(metric.sum.as_mut().map(|it| &mut it.points));
        if let Some(points) = points {
            if has_zero {
                points.push(point(start_unix_ns + ZERO_AFTER_NS, value.zero()));
            }
            points.push(point(self.time_unix_ns, value));
            self.count += 1 + u64::from(has_zero);
        }
    }

    /// Like [`Points::sample`].
    pub(super) fn histogram(
        &mut self,
        labels: SampleLabels<'_>,
        sample: &HistogramSample<'_>,
        start_unix_ns: u64,
        is_new: bool,
    ) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let Some(exponential) = &mut self.metrics[*at].exponential else {
            return;
        };
        let has_zero = is_new && start_unix_ns > 0;
        let attributes = attributes(otel, labels);
        let point = |time_unix_ns, sample: &HistogramSample<'_>| {
            let (zero_count, positive) = buckets(sample);
            ExponentialPoint {
                attributes: attributes.clone(),
                start_unix_ns,
                time_unix_ns,
                count: sample.histogram.count(),
                sum: Some(sample.sum_ns as f64 / 1e9),
                scale: SCHEMA,
                zero_count,
                positive,
                zero_threshold: ZERO_THRESHOLD,
            }
        };
        if has_zero {
            exponential
                .points
                .push(point(start_unix_ns + ZERO_AFTER_NS, &sample.empty()));
        }
        exponential.points.push(point(self.time_unix_ns, sample));
        self.count += 1 + u64::from(has_zero);
    }
}

/// Converts the buckets. Prometheus' index refers to the upper bound of a bucket, and OTLP's index
/// to the lower bound.
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
        // The row's labels are in the resource.
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

/// Collects resources until a request is large enough.
struct Requests<'a> {
    identity: &'a Identity,
    pass_on: &'a mut dyn FnMut(Request),
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
                schema_url: SCHEMA_URL.to_owned(),
            }],
            schema_url: SCHEMA_URL.to_owned(),
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
            (self.pass_on)(Request {
                body,
                items: std::mem::take(&mut self.items),
            });
        }
    }
}

impl Snapshot {
    /// Passes the figures to `pass_on` as OTLP requests, one at a time. `now_ns` is the same as for
    /// [`Snapshot::render`]. `view` determines which series are new to the receiver. New series get
    /// an additional point at 0.
    pub fn otlp(
        &self,
        identity: &Identity,
        view: View,
        now_ns: u64,
        pass_on: &mut dyn FnMut(Request),
    ) {
        let writer = || Writer::of_points(Points::new(self.time_unix_ns), view, self.taken_ns);
        let mut requests = Requests {
            identity,
            pass_on,
            open: MetricsRequest::default(),
            bytes: 0,
            items: 0,
        };
        let nothing = &mut |_| {};
        let mut node = writer();
        for level in self.levels.iter().filter(|level| level.name == "node") {
            levels::write(&mut node, &level.rows(), self, nothing);
        }
        own::write(&mut node, self, now_ns);
        if let Some(points) = node.into_points() {
            requests.add(identity.of_node(), points);
        }
        for level in self.levels.iter().filter(|level| level.name != "node") {
            for (line, rows) in level.each() {
                let mut row = writer();
                levels::write(&mut row, &rows, self, nothing);
                if let Some(points) = row.into_points() {
                    let subject = of_labels(pairs(&line.labels));
                    requests.add(identity.of(subject), points);
                }
            }
        }
        requests.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{
        Batch, CgroupId, Counter, DestinationCounter, EventCounter, Measured, Owner, Subject,
        SubjectDestination, SubjectRow,
    };

    use super::super::exporter::{Exporter, Options};
    use super::*;

    /// Returns the points of some sums of the row: the metric, the time and the value.
    fn points(requests: &[Request]) -> Vec<(String, u64, f64)> {
        let resources = requests.iter().flat_map(|request| {
            let decoded = MetricsRequest::decode(&*request.body);
            decoded.expect("a request").resources
        });
        let scopes = resources.skip(1).flat_map(|it| it.scopes);
        let metrics = scopes.flat_map(|it| it.metrics);
        let points = metrics.flat_map(|metric| {
            let points = metric.sum.into_iter().flat_map(|it| it.points);
            points.map(move |point| {
                let int = point.int.map(|int| int as f64);
                (metric.name.clone(), point, int)
            })
        });
        let wanted = ["cpu.time", "oom.kills", "destination_connects"];
        let wanted = points.filter(|(name, point, _)| {
            let attributes = format!("{:?}", point.attributes);
            let failed = attributes.contains("error.type");
            wanted.iter().any(|end| name.ends_with(end))
                && !failed
                && !attributes.contains("_other")
        });
        let value = |(name, point, int): (String, NumberPoint, Option<f64>)| {
            (
                name,
                point.time_unix_ns,
                int.or(point.double).unwrap_or_default(),
            )
        };
        wanted.map(value).collect()
    }

    #[test]
    fn row_new_to_the_receiver_starts_at_0() {
        let mut row = SubjectRow::new(
            Subject::Unit("new.service".into()),
            Arc::new(Owner::unknown(CgroupId(1))),
        );
        row.counters[Counter::CpuTime] = 2_000_000_000;
        row.events.counters[EventCounter::OomKills] = 1;
        row.all_destinations[DestinationCounter::Connects] = 3;
        row.destinations.push(SubjectDestination {
            destination: ([10, 0, 0, 1], 80).into(),
            counters: row.all_destinations,
        });
        let events = [EventCounter::OomKills, EventCounter::TcpConnects];
        let mut measured = Measured::from_iter(events);
        measured.extend([Counter::CpuTime]);
        let batch = |at: u64| Batch {
            taken_ns: at,
            time_unix_ns: 1000 + at,
            measured,
            ..Batch::default()
        };
        let mut exporter = Exporter::new(Options {
            start_unix_ns: 1000,
            ..Options::default()
        });
        exporter.observe(&batch(3));
        let snapshot = exporter.observe(&Batch {
            subjects: vec![row],
            ..batch(5)
        });
        let sent = |view| {
            let mut sent = Vec::new();
            let identity = Identity::default();
            snapshot.otlp(&identity, view, 7, &mut |request| sent.push(request));
            points(&sent)
        };
        let values = [
            ("noctule.unit.cpu.time", 2.0),
            ("noctule.unit.oom.kills", 1.0),
            ("noctule.unit.tcp.destination_connects", 3.0),
        ];
        let known = values.map(|(name, value)| (name.to_owned(), 1005, value));
        assert_eq!(sent(View::Since(5)), known);
        let of_new = |(name, time, value): (String, u64, f64)| {
            [(name.clone(), 1004, 0.0), (name, time, value)]
        };
        assert_eq!(sent(View::Since(3)), known.map(of_new).concat());
    }
}
