//! The metrics of a snapshot as requests of OTLP.

use noctule_model::{Metric, OtelKind, OtelMetric, otel_attributes};
use prost::Message as _;

use super::proto::{SCHEMA, ZERO_THRESHOLD, exponential, pairs, shown};
use super::reader::Reader;
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
    time_unix_ns: u64,
    reader: Option<Reader>,
    count: u64,
}

impl Points {
    fn new(time_unix_ns: u64, reader: Option<Reader>) -> Self {
        Self {
            metrics: Vec::new(),
            open: None,
            time_unix_ns,
            reader,
            count: 0,
        }
    }

    /// See [`Writer::reader`].
    pub(super) fn reader(&self) -> Option<Reader> {
        self.reader
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

    /// `start_unix_ns`: when a sum was 0, in nanoseconds since 1970.
    pub(super) fn sample(&mut self, labels: SampleLabels<'_>, value: Value, start_unix_ns: u64) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let (int, double) = match value {
            Value::Count(count) => (Some(count.try_into().unwrap_or(i64::MAX)), None),
            other => (None, Some(other.as_f64())),
        };
        let metric = &mut self.metrics[*at];
        let is_gauge = metric.gauge.is_some();
        let point = NumberPoint {
            attributes: attributes(otel, labels),
            start_unix_ns: if is_gauge { 0 } else { start_unix_ns },
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

    /// As [`Points::sample`].
    pub(super) fn histogram(
        &mut self,
        labels: SampleLabels<'_>,
        sample: &HistogramSample<'_>,
        start_unix_ns: u64,
    ) {
        let Some((at, otel)) = &self.open else {
            return;
        };
        let Some(exponential) = &mut self.metrics[*at].exponential else {
            return;
        };
        let (zero_count, positive) = buckets(sample);
        exponential.points.push(ExponentialPoint {
            attributes: attributes(otel, labels),
            start_unix_ns,
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
        let points = || Points::new(self.time_unix_ns, Some(Reader::Receiver));
        self.requests(identity, now_ns, &points, hand_on);
    }

    /// The same as the last that the receiver gets, with the events of new rows: no later request would have
    /// them. Its time is now, because the same figures may have been sent without them, with their own.
    pub fn last_otlp(&self, identity: &Identity, now_ns: u64, hand_on: &mut dyn FnMut(Request)) {
        let now_unix_ns = self.time_unix_ns + now_ns.saturating_sub(self.taken_ns);
        let points = || Points::new(now_unix_ns, None);
        self.requests(identity, now_ns, &points, hand_on);
    }

    fn requests(
        &self,
        identity: &Identity,
        now_ns: u64,
        points: &dyn Fn() -> Points,
        hand_on: &mut dyn FnMut(Request),
    ) {
        let mut requests = Requests {
            identity,
            hand_on,
            open: MetricsRequest::default(),
            bytes: 0,
            items: 0,
        };
        let nothing = &mut |_| {};
        let mut node = Writer::Points(points());
        for level in self.levels.iter().filter(|level| level.name == "node") {
            levels::write(&mut node, &level.rows(), self, nothing);
        }
        own::write(&mut node, self, now_ns);
        if let Writer::Points(points) = node {
            requests.add(identity.of_node(), points);
        }
        for level in self.levels.iter().filter(|level| level.name != "node") {
            for (line, rows) in level.each() {
                let mut row = Writer::Points(points());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{
        Batch, CgroupId, DestinationCounter, EventCounter, Measured, Owner, Subject,
        SubjectDestination, SubjectRow,
    };

    use super::super::exporter::{Exporter, Options};
    use super::*;

    /// Points of events of the row: the metric, its time and its value.
    fn events(requests: &[Request]) -> Vec<(String, u64, i64)> {
        let resources = requests.iter().flat_map(|request| {
            let decoded = MetricsRequest::decode(&*request.body);
            decoded.expect("a request").resources
        });
        let scopes = resources.skip(1).flat_map(|it| it.scopes);
        let metrics = scopes.flat_map(|it| it.metrics);
        let points = metrics.flat_map(|metric| {
            let points = metric.sum.into_iter().flat_map(|it| it.points);
            points.map(move |point| (metric.name.clone(), point.time_unix_ns, point.int))
        });
        let counted = points.filter_map(|(name, time, int)| Some((name, time, int?)));
        counted.filter(|(_, _, value)| *value != 0).collect()
    }

    #[test]
    fn the_last_figures_have_the_events_of_rows_that_were_not_sent_before() {
        let mut row = SubjectRow::new(
            Subject::Unit("new.service".into()),
            Arc::new(Owner::unknown(CgroupId(1))),
        );
        row.events.counters[EventCounter::OomKills] = 1;
        row.all_destinations[DestinationCounter::Connects] = 3;
        row.destinations.push(SubjectDestination {
            destination: ([10, 0, 0, 1], 80).into(),
            counters: row.all_destinations,
        });
        let batch = Batch {
            taken_ns: 5,
            time_unix_ns: 1005,
            measured: Measured::from_iter([EventCounter::OomKills, EventCounter::TcpConnects]),
            subjects: vec![row],
            ..Batch::default()
        };
        let mut exporter = Exporter::new(Options::default());
        exporter.shown_to(Reader::Receiver, 0);
        let snapshot = exporter.observe(&batch);
        let identity = Identity::default();
        let mut sent = Vec::new();
        snapshot.otlp(&identity, 7, &mut |request| sent.push(request));
        assert!(events(&sent).is_empty());
        let mut last = Vec::new();
        snapshot.last_otlp(&identity, 8, &mut |request| last.push(request));
        let expected = [
            ("noctule.unit.oom.kills", 1_i64),
            ("noctule.unit.tcp.destination_connects", 3),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), 1008_u64, value));
        assert_eq!(events(&last), expected);
    }
}
