//! Decodes the written traces with the same messages.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use noctule_model::{CgroupId, CgroupRow, Container, ContainerRole, Owner, Runtime};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A container with this id. All of these containers are named `web`.
fn container(id: u64) -> Owner {
    Owner {
        container: Some(Container {
            id: format!("{id:064}"),
            runtime: Runtime::Docker,
            role: ContainerRole::Workload,
            name: Some("web".into()),
            image: None,
            chain: Vec::new(),
        }),
        path: format!("/docker/{id}"),
        ..Owner::unknown(CgroupId(id))
    }
}

fn batch(at: u64, cpu_ns: &[u64]) -> Batch {
    let row = |(id, cpu_ns): (u64, &u64)| {
        let mut row = CgroupRow {
            id: CgroupId(id),
            owner: Some(Arc::new(container(id))),
            ..CgroupRow::default()
        };
        row.counters[Counter::CpuTime] = *cpu_ns;
        row
    };
    Batch {
        sequence: at,
        taken_ns: at * SECOND,
        time_unix_ns: (1000 + at) * SECOND,
        boot_unix_ns: 1000 * SECOND,
        cgroups: (1..).zip(cpu_ns).map(row).collect(),
        measured: Counter::all().collect(),
        ..Batch::default()
    }
}

#[test]
fn containers_with_equal_names_have_separate_tracks() {
    let mut tracer = Tracer::new(JudgeOptions::default());
    let mut bytes = tracer.batch(&batch(1, &[0, 0]));
    bytes.extend(tracer.batch(&batch(2, &[SECOND / 2, SECOND / 4])));
    bytes.extend(tracer.finish());
    let trace = Trace::decode(&*bytes).expect("a trace");
    let descriptors = trace
        .packet
        .iter()
        .filter_map(|it| it.track_descriptor.as_ref());
    let named = descriptors.filter(|it| it.name.as_deref() == Some("web"));
    let tracks: HashSet<u64> = named
        .map(|it| {
            // By default Perfetto merges tracks with the same name.
            assert_eq!(it.sibling_merge_behavior(), Merge::None);
            it.uuid()
        })
        .collect();
    assert_eq!(tracks.len(), 2, "{trace:?}");
    let events = trace.packet.iter().filter_map(|it| it.track_event.as_ref());
    let of_them = events.filter(|it| tracks.contains(&it.track_uuid()));
    let mut values: Vec<f64> = of_them.map(TrackEvent::double_counter_value).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values, [0.0, 0.0, 0.25, 0.5]);
}

/// Perfetto extends a counter's value until the next one, so the value of an interval is at its
/// start.
#[test]
fn counter_values_are_at_the_start_of_their_interval() {
    let mut tracer = Tracer::new(JudgeOptions::default());
    let mut bytes = tracer.batch(&batch(1, &[0, 0]));
    bytes.extend(tracer.batch(&batch(2, &[SECOND / 2, SECOND / 4])));
    // The second container was removed.
    bytes.extend(tracer.batch(&batch(4, &[SECOND])));
    bytes.extend(tracer.batch(&batch(5, &[SECOND])));
    bytes.extend(tracer.batch(&batch(6, &[2 * SECOND])));
    bytes.extend(tracer.finish());
    let trace = Trace::decode(&*bytes).expect("a trace");
    let mut tracks: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
    for packet in &trace.packet {
        let event = packet.track_event.as_ref();
        if let Some((event, value)) = event.and_then(|it| Some((it, it.double_counter_value?))) {
            let samples = tracks.entry(event.track_uuid()).or_default();
            samples.push((packet.timestamp() / SECOND, value));
        }
    }
    let samples: Vec<_> = tracks.into_values().collect();
    let first = vec![(1, 0.5), (2, 0.25), (4, 0.0), (5, 1.0), (6, 0.0)];
    assert_eq!(samples, [first, vec![(1, 0.25), (2, 0.0)]]);
}

#[test]
fn annotations_keep_the_types_of_values() {
    let found = annotation(
        Some("all".into()),
        serde_json::json!({"b": true, "d": 1.0, "i": -7, "l": ["x", 2], "n": null, "u": 7}),
    );
    let value = |name: &str, value: AnnotationValue| DebugAnnotation {
        name: (!name.is_empty()).then(|| name.into()),
        value: Some(value),
        ..DebugAnnotation::default()
    };
    let list = DebugAnnotation {
        name: Some("l".into()),
        array_values: vec![
            value("", AnnotationValue::Text("x".into())),
            value("", AnnotationValue::Uint(2)),
        ],
        ..DebugAnnotation::default()
    };
    let expected = [
        value("b", AnnotationValue::Bool(true)),
        value("d", AnnotationValue::Double(1.0)),
        value("i", AnnotationValue::Int(-7)),
        list,
        DebugAnnotation {
            name: Some("n".into()),
            ..DebugAnnotation::default()
        },
        value("u", AnnotationValue::Uint(7)),
    ];
    assert_eq!(found.dict_entries, expected);
}

/// Returns the seconds of the events, and of both clocks in each clock snapshot.
fn times(bytes: &[u8]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let trace = Trace::decode(bytes).expect("a trace");
    let seconds = |ns: Option<u64>| ns.expect("a time") / SECOND;
    let packets = trace.packet.iter();
    let of_events = packets.filter_map(|packet| {
        let event = packet.track_event.as_ref()?;
        let is_event = event.r#type() == EventType::Instant;
        is_event.then(|| seconds(packet.timestamp))
    });
    let snapshots = trace.packet.iter().filter_map(|packet| {
        let [boot, real] = &packet.clock_snapshot.as_ref()?.clocks[..] else {
            panic!("{packet:?}");
        };
        assert_eq!((boot.clock_id, real.clock_id), (Some(6), Some(1)));
        assert_eq!(packet.timestamp, boot.timestamp);
        Some((seconds(boot.timestamp), seconds(real.timestamp)))
    });
    (of_events.collect(), snapshots.collect())
}

/// A batch `since_boot` seconds after a boot. The wall clock implies that the boot was at
/// `boot_unix`.
fn batch_of(since_boot: u64, boot_unix: u64) -> Batch {
    Batch {
        time_unix_ns: (boot_unix + since_boot) * SECOND,
        boot_unix_ns: boot_unix * SECOND,
        ..batch(since_boot, &[])
    }
}

/// A gap record at this wall-clock second.
fn event(unix: u64) -> Event {
    Event {
        time_unix_ns: unix * SECOND,
        process: None,
        origin: noctule_model::Origin::Seen,
        what: noctule_model::What::Gap {
            lost: vec![("process.exit", unix)],
            since_unix_ns: None,
        },
    }
}

#[test]
fn times_are_since_boot_despite_clock_changes() {
    let mut tracer = Tracer::new(JudgeOptions::default());
    let mut bytes = tracer.restart("a");
    bytes.extend(tracer.batch(&batch_of(10, 1000)));
    // The event is from before the first batch.
    bytes.extend(tracer.events(&[event(1004)]));
    bytes.extend(tracer.batch(&batch_of(20, 1000)));
    // The clock is set back by 500 s, between the second event and the third.
    bytes.extend(tracer.batch(&batch_of(30, 500)));
    bytes.extend(tracer.events(&[event(1022), event(1024), event(526)]));
    // The clock is set forward by an hour, and the agent is restarted in the same boot.
    bytes.extend(tracer.restart("a"));
    bytes.extend(tracer.batch(&batch_of(40, 4100)));
    bytes.extend(tracer.events(&[event(4135)]));
    // The machine is rebooted 50 s later, and then rebooted again with a wrong wall clock.
    bytes.extend(tracer.restart("b"));
    bytes.extend(tracer.batch(&batch_of(2, 4188)));
    bytes.extend(tracer.events(&[event(4189)]));
    bytes.extend(tracer.restart("c"));
    bytes.extend(tracer.batch(&batch_of(3, 0)));
    bytes.extend(tracer.batch(&batch_of(7, 0)));
    bytes.extend(tracer.events(&[event(6)]));
    bytes.extend(tracer.finish());
    let (events, snapshots) = times(&bytes);
    assert_eq!(events, [4, 22, 24, 26, 35, 89, 93]);
    // Each change is preceded by a reading of the previous wall clock.
    let expected = [
        (0, 1000),
        (29, 1029),
        (30, 530),
        (39, 539),
        (40, 4140),
        (90, 4190),
        (90, 3),
    ];
    assert_eq!(snapshots, expected);
}
