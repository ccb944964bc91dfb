//! Tests that batches and events are read back unchanged.

use std::sync::Arc;

use noctule_analysis::{ReportBuilder, Thresholds};
use noctule_model::{
    Batch, Cause, CgroupId, CgroupRow, Counter, Event, Level, Owner, ProcessId, ProcessRow,
    QuotaRow, VerdictKind,
};
use proptest::prelude::{ProptestConfig, any, proptest};

use super::world::World;
use super::{read, words, write};
use crate::tape::{Batches, Tape};

/// Increases the time between batches, because all rows are rewritten once a minute.
pub(super) fn spread(ticks: &mut [(Vec<Event>, Batch)], step_s: u64) {
    for (number, (_, batch)) in (0..).zip(ticks) {
        let more_ns = number * (step_s - 1) * 1_000_000_000;
        batch.time_unix_ns += more_ns;
        batch.taken_ns += more_ns;
    }
}

/// Formats a report as sorted lines, because rows with equal sort keys have no defined order.
fn lines(report: &impl std::fmt::Debug) -> Vec<String> {
    let text = format!("{report:#?}");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Builds a report from the batches that it needs.
fn gathered(mut batches: Batches<'_>) -> ReportBuilder {
    let mut builder = ReportBuilder::new(batches.next().expect("a batch"));
    while let Some(batch) = batches.next_for_report() {
        builder.add(batch);
    }
    builder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_and_events_round_trip(
        seed in any::<u64>(),
        ticks in 1..40_usize,
        segment_s in 1..30_u64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(seed);
        let all: Vec<_> = (0..ticks).map(|_| world.tick()).collect();
        write(folder.path(), segment_s, &all);
        let (batches, events, damages) = read(folder.path());
        assert_eq!(damages, 0);
        let batch = |tick: &(_, Batch)| tick.1.clone();
        assert_eq!(words(batches.into_iter()), words(all.iter().map(batch)));
        let expected: Vec<_> = all.into_iter().flat_map(|tick| tick.0).collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn window_begins_at_the_last_batch_up_to_its_start(
        seed in any::<u64>(),
        at in 0..30_usize,
        later_ns in 0..1_000_000_000_u64,
        segment_s in 7..300_u64,
        step_s in 1..9_u64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(seed);
        let mut all: Vec<_> = (0..30).map(|_| world.tick()).collect();
        spread(&mut all, step_s);
        write(folder.path(), segment_s, &all);
        let tape = Tape::open(folder.path()).expect("a tape");
        let [span] = &tape.spans()[..] else { panic!("one run: {:?}", tape.spans()) };
        let from = all[at].1.time_unix_ns + later_ns;
        let found = tape.batches(span, from).next().expect("a batch");
        assert_eq!(format!("{found:?}"), format!("{:?}", all[at].1));
        // A time before the first batch selects the first batch.
        let first = tape.batches(span, 0).next().expect("a batch");
        assert_eq!(first.sequence, all[0].1.sequence);
    }

    #[test]
    fn report_from_selected_batches_equals_the_full_one(
        seed in any::<u64>(),
        from in 0..40_usize,
        length in 1..40_usize,
        segment_s in 5..400_u64,
        step_s in 1..9_u64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(seed);
        let mut all: Vec<_> = (0..40).map(|_| world.tick()).collect();
        spread(&mut all, step_s);
        write(folder.path(), segment_s, &all);
        let tape = Tape::open(folder.path()).expect("a tape");
        let [span] = &tape.spans()[..] else { panic!("one run: {:?}", tape.spans()) };
        let to = (from + length).min(39);
        let (from_ns, to_ns) = (all[from].1.time_unix_ns, all[to].1.time_unix_ns);
        let last = all[to].1.sequence;
        let mut every = tape.batches(span, from_ns);
        let mut expected = ReportBuilder::new(every.next().expect("a batch"));
        every.take_while(|batch| batch.time_unix_ns <= to_ns).for_each(|it| expected.add(it));
        let found = gathered(tape.batches(span, from_ns).up_to(last));
        // All containers in the test data have the same id, so it is undefined which of their
        // groups gives a row its name.
        for level in [Level::Process, Level::Cgroup] {
            let report = |it: &ReportBuilder| lines(&it.report(level, false));
            assert_eq!(report(&found), report(&expected));
        }
        let waits = |it: &ReportBuilder| {
            lines(&it.waits(Level::Cgroup, false, &Thresholds::default()))
        };
        assert_eq!(waits(&found), waits(&expected));
        let of_groups = gathered(tape.batches_of_groups(span, from_ns).up_to(last));
        assert_eq!(waits(&of_groups), waits(&expected));
    }
}

#[test]
fn batch_without_exits_is_not_built_for_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = World::new(4).tick().1;
    let later = (1..50).map(|number| {
        let mut batch = first.clone();
        batch.exited.clear();
        batch.sequence += number;
        batch.time_unix_ns += number * 1_000_000_000;
        batch.taken_ns += number * 1_000_000_000;
        batch.node.elapsed_ns += number;
        (Vec::new(), batch)
    });
    let all: Vec<_> = std::iter::once((Vec::new(), first.clone()))
        .chain(later)
        .collect();
    write(folder.path(), 20, &all);
    let tape = Tape::open(folder.path()).expect("a tape");
    let batches = tape.batches(&tape.spans()[0], 0);
    let mut batches = batches.up_to(all[45].1.sequence);
    let mut made = vec![batches.next().expect("the first").sequence];
    while let Some(batch) = batches.next_for_report() {
        made.push(batch.sequence);
    }
    // The first and last batch of the window and of each segment.
    let places = [0, 19, 20, 39, 40, 45].map(|place| first.sequence + place);
    assert_eq!(made, places);
}

/// The segment lasts three minutes. A process exits in the second minute.
#[test]
fn report_includes_exits_in_skipped_minutes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut batch = World::new(4).tick().1;
    batch.exited.clear();
    let row = |pid| ProcessRow {
        id: ProcessId { pid, start_ns: 7 },
        ..ProcessRow::default()
    };
    batch.processes = vec![row(1), row(2)];
    let mut all = Vec::new();
    for number in 0..190 {
        batch.sequence += 1;
        batch.time_unix_ns += 1_000_000_000;
        batch.taken_ns += 1_000_000_000;
        batch.exited.clear();
        for row in &mut batch.processes {
            row.counters[Counter::CpuTime] += number;
        }
        if number == 90 {
            batch.exited.extend(batch.processes.pop());
        }
        all.push((Vec::new(), batch.clone()));
    }
    write(folder.path(), 300, &all);
    let tape = Tape::open(folder.path()).expect("a tape");
    let mut batches = tape.batches(&tape.spans()[0], all[5].1.time_unix_ns);
    let mut builder = ReportBuilder::new(batches.next().expect("the first"));
    let last = batches.next_for_report().expect("the last");
    assert_eq!(last.sequence, all[189].1.sequence);
    assert_eq!(last.processes.len(), 1);
    builder.add(last);
    assert!(batches.next_for_report().is_none());
    let report = builder.report(Level::Process, false);
    let rows = report.rows.iter().filter_map(|row| {
        let pid = row.process.as_ref()?.id.pid;
        Some((pid, row.counters[Counter::CpuTime]))
    });
    let sum = |from: u64, to: u64| (from..=to).sum();
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(1, sum(6, 189)), (2, sum(6, 90))]
    );
}

#[test]
fn host_and_command_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 9, &[World::new(1).tick()]);
    let tape = Tape::open(folder.path()).expect("a tape");
    let meta = tape.segments()[0].meta();
    assert_eq!(meta.host, "h\u{e9}");
    assert_eq!(meta.command, ["make", "a b"]);
    assert!(tape.segments()[0].is_closed());
}

/// Adds a throttled group that also waits for another group while its quota lasts.
fn limited(all: &mut [(Vec<Event>, Batch)]) {
    const SECOND_NS: u64 = 1_000_000_000;
    let id = CgroupId(77);
    for (second, (_, batch)) in (0..).zip(all) {
        let mut row = CgroupRow {
            id,
            owner: Some(Arc::new(Owner {
                path: "/limited".into(),
                ..Owner::unknown(id)
            })),
            ..CgroupRow::default()
        };
        row.counters[Counter::CpuTime] = second * SECOND_NS * 3 / 10;
        row.counters[Counter::Wait(Cause::Throttle)] = second * SECOND_NS * 4 / 10;
        row.counters[Counter::Wait(Cause::Neighbour)] = second * SECOND_NS * 3 / 10;
        batch.measured = Counter::all().collect();
        batch.cgroups = vec![row];
        batch.quotas = vec![QuotaRow {
            cgroup: id,
            path: "/limited".into(),
            cpus: 0.3,
            period_ns: SECOND_NS / 10,
            periods: second * 10,
            throttled_periods: second * 10,
            throttled_ns: second * SECOND_NS * 4 / 10,
            ended: false,
        }];
    }
}

#[test]
fn neighbour_not_blamed_live_is_not_blamed_when_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(11);
    let mut all: Vec<_> = (0..40).map(|_| world.tick()).collect();
    limited(&mut all);
    spread(&mut all, 5);
    write(folder.path(), 70, &all);
    let mut live = ReportBuilder::new(all[2].1.clone());
    all[3..36].iter().for_each(|it| live.add(it.1.clone()));
    let tape = Tape::open(folder.path()).expect("a tape");
    let (from, last) = (all[2].1.time_unix_ns, all[35].1.sequence);
    let span = &tape.spans()[0];
    let read = [tape.batches(span, from), tape.batches_of_groups(span, from)];
    let verdict = |it: &ReportBuilder| {
        let report = it.waits(Level::Cgroup, false, &Thresholds::default());
        let mut rows = report.rows.into_iter();
        let row = rows.find(|row| row.party.name(Level::Cgroup) == "/limited");
        let row = row.expect("it waited");
        (row.verdict.kind, row.quota)
    };
    let (kind, quota) = verdict(&live);
    assert_eq!(kind, VerdictKind::HeldByQuota);
    for batches in read {
        assert_eq!(
            verdict(&gathered(batches.up_to(last))),
            (kind, quota.clone())
        );
    }
}
