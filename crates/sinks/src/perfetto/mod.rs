//! Perfetto traces, for ui.perfetto.dev and `trace_processor`: CPU use, waits and their culprits,
//! verdicts, and events on one time line.
//!
//! Counters exist for containers, units and cgroups, and cover the interval that ends at a batch.
//! Perfetto extends a value until the next one, so a counter is written only when it changes, at
//! the start of the interval.
//!
//! Times are `CLOCK_BOOTTIME`. Clock snapshots give the wall-clock time at the start of the trace,
//! and whenever the clock was set.

mod clock;
mod proto;

use std::collections::HashMap;

use noctule_analysis::{Judge, JudgeOptions, Key, Party, ReportBuilder, WaitReport, WaitReportRow};
use noctule_model::{Batch, Counter, Event, VerdictKind};
use noctule_text::{escape, sentence};
use prost::Message as _;
use serde_json::{Number, Value as Json};

use crate::events::{event_line, event_value};
use clock::Clock;
use proto::{
    AnnotationValue, ChildOrder, ClockSnapshot, ClockTime, CounterDescriptor, DebugAnnotation,
    EventType, Merge, Trace, TracePacket, TrackDescriptor, TrackEvent,
};

/// Id of the packet sequence, which all packets share.
const SEQUENCE: u32 = 1;

/// The groups of tracks, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Verdicts,
    Use,
    Waits,
    Pairs,
    Events,
}

impl Group {
    const ALL: [Self; 5] = [
        Self::Verdicts,
        Self::Use,
        Self::Waits,
        Self::Pairs,
        Self::Events,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Verdicts => "Verdicts",
            Self::Use => "CPU use",
            Self::Waits => "Run-queue latency",
            Self::Pairs => "Who hurts whom",
            Self::Events => "Events",
        }
    }

    const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Use => Some("CPUs"),
            Self::Waits | Self::Pairs => Some("ms/s"),
            Self::Verdicts | Self::Events => None,
        }
    }

    /// Returns the id of the group's track. Groups have the lowest ids.
    const fn track(self) -> u64 {
        1 + self as u64
    }
}

/// The subject of a track. Names are not enough, because two containers can have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// The whole node, or all events of a kind.
    All(String),
    One(Key),
    Pair(Key, Key),
}

/// A counter's track and its last value.
#[derive(Clone, Copy, Debug)]
struct Series {
    track: u64,
    value: f64,
    /// Number of the last interval that contained the counter.
    seen: u64,
}

/// The slice of a verdict that still applies.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    track: u64,
    kind: VerdictKind,
    culprit: Option<String>,
    ends: u64,
}

/// Turns batches and events into a trace. The caller appends the bytes that each call returns to
/// the trace file.
#[derive(Debug)]
pub struct Tracer {
    options: JudgeOptions,
    judge: Judge,
    before: Option<Batch>,
    clock: Clock,
    /// Whether the groups of tracks are already described.
    begun: bool,
    tracks: HashMap<(Group, Of), u64>,
    series: HashMap<(Group, Of), Series>,
    slices: HashMap<Key, Slice>,
    step: u64,
    packets: Vec<TracePacket>,
}

impl Tracer {
    /// Creates a tracer. The level in `options` must be the level of containers.
    pub fn new(options: JudgeOptions) -> Self {
        Self {
            options,
            judge: Judge::new(options),
            before: None,
            clock: Clock::default(),
            begun: false,
            tracks: HashMap::new(),
            series: HashMap::new(),
            slices: HashMap::new(),
            step: 0,
            packets: Vec::new(),
        }
    }

    /// Adds the next batch. The caller must pass every batch, in order.
    pub fn batch(&mut self, batch: &Batch) -> Vec<u8> {
        for (at, unix_ns) in self.clock.advance(batch) {
            self.clock_reading(at, unix_ns);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.describe_groups();
        }
        let judged = self.judge.observe(batch);
        if let Some(before) = self.before.take() {
            let began = self.clock.before();
            let mut builder = ReportBuilder::new(before);
            builder.add(batch.without_processes());
            self.figures(&builder, began);
        }
        if let Some(report) = judged.filter(|report| !report.provisional) {
            self.verdicts(&report);
        }
        self.before = Some(batch.without_processes());
        self.take()
    }

    /// Adds the events between the previous batch and the last one, in order.
    pub fn events(&mut self, events: &[Event]) -> Vec<u8> {
        for event in events {
            self.event(event);
        }
        self.take()
    }

    /// Handles a restart of the agent, after which counters start at 0. `boot` identifies the
    /// current boot of the machine.
    pub fn restart(&mut self, boot: &str) -> Vec<u8> {
        self.close();
        self.clock.restart(boot);
        self.judge = Judge::new(self.options);
        self.before = None;
        self.take()
    }

    /// Ends all open slices and counters.
    pub fn finish(mut self) -> Vec<u8> {
        self.close();
        self.take()
    }

    fn take(&mut self) -> Vec<u8> {
        let packet = std::mem::take(&mut self.packets);
        Trace { packet }.encode_to_vec()
    }

    /// Writes a clock snapshot with the wall-clock time at a trace time.
    fn clock_reading(&mut self, at: u64, unix_ns: u64) {
        let clock = |id, timestamp| ClockTime {
            clock_id: Some(id),
            timestamp: Some(timestamp),
        };
        let clocks = vec![clock(proto::BOOTTIME, at), clock(proto::REALTIME, unix_ns)];
        self.packets.push(TracePacket {
            timestamp: Some(at),
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..packet()
        });
    }

    fn describe_groups(&mut self) {
        for (rank, group) in (0..).zip(Group::ALL) {
            self.describe(TrackDescriptor {
                uuid: Some(group.track()),
                name: Some(group.name().into()),
                child_ordering: Some(ChildOrder::Lexicographic.into()),
                sibling_order_rank: Some(rank),
                ..TrackDescriptor::default()
            });
        }
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        self.packets.push(TracePacket {
            track_descriptor: Some(descriptor),
            ..packet()
        });
    }

    /// Returns the track of a subject, and describes it if it is new.
    fn track(&mut self, group: Group, of: Of, name: &str) -> u64 {
        let key = (group, of);
        if let Some(track) = self.tracks.get(&key) {
            return *track;
        }
        let track = Group::ALL.len() as u64 + 1 + self.tracks.len() as u64;
        let unit = group.unit().map(str::to_owned);
        self.describe(TrackDescriptor {
            uuid: Some(track),
            name: Some(escape(name)),
            parent_uuid: Some(group.track()),
            sibling_merge_behavior: Some(Merge::None.into()),
            counter: unit.map(|unit| CounterDescriptor {
                unit_name: Some(unit),
            }),
            ..TrackDescriptor::default()
        });
        self.tracks.insert(key, track);
        track
    }

    /// Writes the counters of the interval that began at `at`.
    fn figures(&mut self, builder: &ReportBuilder, at: u64) {
        let level = self.options.level;
        let window_ns = builder.ended_ns().saturating_sub(builder.started_ns());
        let window_ns = window_ns.max(1) as f64;
        self.step += 1;
        let report = builder.report(level, false);
        let total = report.node.total[Counter::CpuTime] as f64 / window_ns;
        self.count(Group::Use, Of::All("node".into()), "(node)", at, total);
        for row in &report.rows {
            let cpus = row.counters[Counter::CpuTime] as f64 / window_ns;
            let of = Of::One(Party::Group(row.owner.clone()).key(level));
            self.count(Group::Use, of, &row.owner.name(level), at, cpus);
        }
        let waits = builder.waits(level, false, &self.options.thresholds);
        let per_second = |ns: u64| ns as f64 / window_ns * 1e3;
        for row in &waits.rows {
            let (victim, key) = (row.party.name(level), row.party.key(level));
            let waited = per_second(row.total_ns());
            self.count(Group::Waits, Of::One(key.clone()), &victim, at, waited);
            for culprit in &row.culprits {
                let of = Of::Pair(key.clone(), culprit.party.key(level));
                let pair = format!("{victim} waits for {}", culprit.party.name(level));
                let waited = per_second(culprit.blame.wait_ns);
                self.count(Group::Pairs, of, &pair, at, waited);
            }
        }
        // A counter without a value in this interval is 0.
        let step = self.step;
        let ended = self.series.extract_if(|_, series| series.seen < step);
        let ended: Vec<u64> = ended.map(|(_, series)| series.track).collect();
        for track in ended {
            self.counter(track, at, 0.0);
        }
    }

    fn count(&mut self, group: Group, of: Of, name: &str, at: u64, value: f64) {
        let key = (group, of);
        let known = self.series.get(&key).copied();
        if known.is_none() && value == 0.0 {
            return;
        }
        let track = known.map_or_else(
            || self.track(group, key.1.clone(), name),
            |known| known.track,
        );
        if known.is_none_or(|known| known.value != value) {
            self.counter(track, at, value);
        }
        let seen = self.step;
        self.series.insert(key, Series { track, value, seen });
    }

    fn counter(&mut self, track: u64, at: u64, value: f64) {
        let mut event = of_track(EventType::Counter, track);
        event.double_counter_value = Some(value);
        self.push(at, event);
    }

    fn push(&mut self, at: u64, event: TrackEvent) {
        self.packets.push(TracePacket {
            timestamp: Some(at),
            track_event: Some(event),
            ..packet()
        });
    }

    /// Writes the verdicts. A slice lasts as long as the verdict does not change.
    fn verdicts(&mut self, report: &WaitReport) {
        let ends = self.clock.last();
        let begins = ends.saturating_sub(report.window_ns);
        let level = self.options.level;
        let hurt = |row: &&WaitReportRow| row.verdict.kind != VerdictKind::Quiet;
        for row in report.rows.iter().filter(hurt) {
            let key = row.party.key(level);
            let culprit = row.verdict.culprit.as_ref().map(|it| it.name(level));
            let kind = row.verdict.kind;
            if let Some(slice) = self.slices.get_mut(&key) {
                if (slice.kind, &slice.culprit) == (kind, &culprit) {
                    slice.ends = ends;
                    continue;
                }
                let over = of_track(EventType::SliceEnd, slice.track);
                self.push(begins, over);
            }
            let name = row.party.name(level);
            let track = self.track(Group::Verdicts, Of::One(key.clone()), &name);
            let mut event = of_track(EventType::SliceBegin, track);
            event.categories = vec!["verdict".into()];
            event.name = Some(sentence(&report.reason(row, level)));
            event.debug_annotations = vec![annotation(Some("verdict".into()), kind.name().into())];
            self.push(begins, event);
            let slice = Slice {
                track,
                kind,
                culprit,
                ends,
            };
            self.slices.insert(key, slice);
        }
        self.end_slices(|slice| slice.ends < ends);
    }

    fn end_slices(&mut self, is_over: impl Fn(&Slice) -> bool) {
        let over = self.slices.extract_if(|_, slice| is_over(slice));
        let over: Vec<Slice> = over.map(|(_, slice)| slice).collect();
        for slice in over {
            self.push(slice.ends, of_track(EventType::SliceEnd, slice.track));
        }
    }

    fn close(&mut self) {
        self.end_slices(|_| true);
        let at = self.clock.last();
        let series: Vec<_> = self.series.drain().collect();
        for (_, series) in series {
            self.counter(series.track, at, 0.0);
        }
    }

    fn event(&mut self, event: &Event) {
        let line = event_line(event, 0);
        let kind = event.what.name();
        let track = self.track(Group::Events, Of::All(kind.into()), kind);
        let mut shown = of_track(EventType::Instant, track);
        shown.categories = vec!["event".into()];
        shown.name = Some(format!("{} {}", line.who, line.what).trim().to_owned());
        let fields = event_value(event).into_iter();
        let annotations = fields.map(|(name, value)| annotation(Some(name), value));
        shown.debug_annotations = annotations.collect();
        self.push(self.clock.of_event(event.time_unix_ns), shown);
    }
}

fn packet() -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        ..TracePacket::default()
    }
}

fn of_track(kind: EventType, track: u64) -> TrackEvent {
    TrackEvent {
        r#type: Some(kind.into()),
        track_uuid: Some(track),
        ..TrackEvent::default()
    }
}

/// Converts a JSON value to an annotation. Items of a list have no name.
fn annotation(name: Option<String>, value: Json) -> DebugAnnotation {
    let mut made = DebugAnnotation {
        name,
        ..DebugAnnotation::default()
    };
    match value {
        Json::Null => {}
        Json::Bool(value) => made.value = Some(AnnotationValue::Bool(value)),
        Json::Number(number) => made.value = number_of(&number),
        Json::String(text) => made.value = Some(AnnotationValue::Text(text)),
        Json::Array(items) => {
            let items = items.into_iter().map(|item| annotation(None, item));
            made.array_values = items.collect();
        }
        Json::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| annotation(Some(name), value));
            made.dict_entries = fields.collect();
        }
    }
    made
}

fn number_of(number: &Number) -> Option<AnnotationValue> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Some(AnnotationValue::Uint(number)),
        (None, Some(number)) => Some(AnnotationValue::Int(number)),
        (None, None) => number.as_f64().map(AnnotationValue::Double),
    }
}

#[cfg(test)]
mod tests;
