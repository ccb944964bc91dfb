//! Reports of groups that a memory limit or reclaim holds back.

use noctule_model::{MemoryLimit, MemoryRow};

use super::*;

const MIB: u64 = 1 << 20;
/// Start of the windows.
const START: u64 = 100 * SECOND;

/// Returns the memory of a group that reached its limit `hits` times, and read `read` MiB, of which
/// `reread` MiB were evicted pages.
fn memory(
    id: u64,
    path: &str,
    limit_mib: Option<u64>,
    (hits, reread, read): (u64, u64, u64),
) -> MemoryRow {
    MemoryRow {
        cgroup: CgroupId(id),
        path: path.into(),
        taken_ns: 0,
        limit_bytes: limit_mib.map(|mib| mib * MIB),
        hits: Some(hits),
        reread_bytes: reread * MIB,
        read_bytes: Some(read * MIB),
        under_oom: false,
    }
}

/// Returns the report of a container that waited 800 ms for its disk, with the rows of each batch.
fn report_of(first: Vec<MemoryRow>, later: impl IntoIterator<Item = Vec<MemoryRow>>) -> WaitReport {
    let mut row = group(10, "/docker/aaaa", 0, 0, 0);
    row.counters = Counters::default();
    let batch = |taken_ns, memory: Vec<MemoryRow>, row: &CgroupRow| Batch {
        taken_ns,
        cgroups: vec![row.clone()],
        memory: memory
            .into_iter()
            .map(|row| MemoryRow { taken_ns, ..row })
            .collect(),
        ..Batch::default()
    };
    let mut builder = ReportBuilder::new(batch(START, first, &row));
    row.counters[Counter::CpuTime] = 100 * MS;
    row.counters[Counter::Blocked(BlockClass::Disk)] = 800 * MS;
    for memory in later {
        builder.add(batch(START + SECOND, memory, &row));
    }
    builder.waits(Level::Container, false, &Thresholds::default())
}

#[test]
fn disk_waits_at_the_memory_limit_are_blamed_on_it() {
    let own = |figures| memory(1, "/docker/aaaa", Some(64), figures);
    let above = |figures| memory(2, "/docker", Some(900), figures);
    let other = |figures| memory(3, "/docker/aa", Some(7), figures);
    let idle = (5, 5, 5);
    let cases = [
        // `(own, above, other)`, verdict, and the group that has the limit.
        (
            ((9, 95, 105), idle, idle),
            VerdictKind::HeldByMemoryLimit,
            None,
        ),
        (
            ((5, 95, 105), (9, 0, 0), idle),
            VerdictKind::HeldByMemoryLimit,
            Some("/docker"),
        ),
        // No or only few evicted pages were read again.
        (((9, 5, 105), idle, idle), VerdictKind::HeldByDisk, None),
        (((9, 25, 105), idle, idle), VerdictKind::HeldByDisk, None),
        // No limit was reached.
        (
            ((5, 95, 105), idle, (9, 9, 9)),
            VerdictKind::HeldByReclaim,
            None,
        ),
        (
            ((5, 5, 105), idle, (9, 9, 9)),
            VerdictKind::HeldByDisk,
            None,
        ),
    ];
    for ((mine, its, others), kind, group) in cases {
        let report = report_of(
            vec![own(idle), above(idle), other(idle)],
            [vec![own(mine), above(its), other(others)]],
        );
        let row = &report.rows[0];
        assert_eq!(row.verdict.kind, kind, "{mine:?} {its:?}");
        let limit = row.memory.as_ref().and_then(|memory| memory.limit.as_ref());
        let named = limit.and_then(|limit| limit.group.as_deref());
        assert_eq!(named, group, "{mine:?} {its:?}");
    }
}

#[test]
fn ended_group_was_held_by_its_limit() {
    let row = |figures| memory(1, "/docker/aaaa", Some(64), figures);
    let report = report_of(vec![row((5, 5, 5))], [vec![row((9, 95, 105))], Vec::new()]);
    let row = &report.rows[0];
    assert_eq!(row.verdict.kind, VerdictKind::HeldByMemoryLimit);
    let memory = row.memory.as_ref().expect("it was read");
    assert_eq!(memory.reread_bytes, Some(90 * MIB));
}

#[test]
fn group_hanging_at_its_limit_is_held_by_it() {
    let mut row = memory(1, "/docker/aaaa", Some(64), (5, 5, 5));
    row.under_oom = true;
    let mut group = group(10, "/docker/aaaa", 0, 0, 0);
    group.counters[Counter::Blocked(BlockClass::Memory)] = 900 * MS;
    let mut builder = ReportBuilder::new(Batch {
        memory: vec![row.clone()],
        ..Batch::default()
    });
    builder.add(Batch {
        taken_ns: SECOND,
        cgroups: vec![group],
        memory: vec![MemoryRow {
            taken_ns: SECOND,
            ..row
        }],
        ..Batch::default()
    });
    let report = builder.waits(Level::Container, false, &Thresholds::default());
    let row = &report.rows[0];
    assert_eq!(row.verdict.kind, VerdictKind::HeldByMemoryLimit);
    let limit = row.memory.as_ref().and_then(|memory| memory.limit.clone());
    let expected = MemoryLimit {
        bytes: 64 * MIB,
        group: None,
        under_oom: true,
    };
    assert_eq!(limit, Some(expected));
}

#[test]
fn figures_missing_from_the_kernel_are_no_evidence() {
    let row = |figures| memory(1, "/docker/aaaa", Some(64), figures);
    let (before, after) = (row((5, 5, 5)), row((9, 95, 105)));
    let without_reads = |row: &MemoryRow| MemoryRow {
        read_bytes: None,
        ..row.clone()
    };
    let without_hits = |row: &MemoryRow| MemoryRow {
        hits: None,
        ..row.clone()
    };
    let cases = [
        (
            without_reads(&before),
            without_reads(&after),
            VerdictKind::HeldByDisk,
        ),
        (
            without_hits(&before),
            without_hits(&after),
            VerdictKind::HeldByReclaim,
        ),
        // The kernel starts to count the bytes that the group itself reads.
        (row((5, 5, 500)), after, VerdictKind::HeldByDisk),
    ];
    for (before, after, kind) in cases {
        let report = report_of(vec![before], [vec![after.clone()]]);
        assert_eq!(report.rows[0].verdict.kind, kind, "{after:?}");
    }
}

#[test]
fn growth_before_the_window_is_not_counted_in_it() {
    let mut row = group(10, "/docker/aaaa", 0, 0, 0);
    let mut report = |first_ns, last_ns| {
        let batch = |taken_ns, memory: MemoryRow, row: &CgroupRow| Batch {
            taken_ns,
            cgroups: vec![row.clone()],
            memory: vec![memory],
            ..Batch::default()
        };
        let read = |taken_ns, figures| MemoryRow {
            taken_ns,
            ..memory(1, "/docker/aaaa", Some(64), figures)
        };
        let first = batch(START, read(first_ns, (5, 5, 5)), &row);
        let mut builder = ReportBuilder::new(first);
        row.counters[Counter::Blocked(BlockClass::Disk)] += 800 * MS;
        builder.add(batch(START + SECOND, read(last_ns, (9, 95, 105)), &row));
        builder.waits(Level::Container, false, &Thresholds::default())
    };
    let end = START + SECOND;
    let cases = [
        (START, end, VerdictKind::HeldByMemoryLimit, Some(90 * MIB)),
        (
            START - SECOND / 20,
            end,
            VerdictKind::HeldByMemoryLimit,
            Some(90 * MIB),
        ),
        (START - SECOND, end, VerdictKind::HeldByMemoryLimit, None),
        (
            START - SECOND,
            START - SECOND,
            VerdictKind::HeldByDisk,
            None,
        ),
    ];
    for (first_ns, last_ns, kind, bytes) in cases {
        let report = report(first_ns, last_ns);
        let row = &report.rows[0];
        assert_eq!(row.verdict.kind, kind, "{first_ns} {last_ns}");
        let memory = row.memory.as_ref();
        assert_eq!(memory.and_then(|memory| memory.reread_bytes), bytes);
    }
}

#[test]
fn recreated_group_does_not_continue_old_counters() {
    let row = |id, figures| memory(id, "/docker/aaaa", Some(64), figures);
    let report = report_of(vec![row(1, (500, 500, 500))], [vec![row(2, (4, 90, 100))]]);
    let row = &report.rows[0];
    assert_eq!(row.verdict.kind, VerdictKind::HeldByMemoryLimit);
    let bytes = row.memory.as_ref().and_then(|memory| memory.reread_bytes);
    assert_eq!(bytes, Some(90 * MIB));
}

#[test]
fn first_reading_is_not_counted_as_growth() {
    let row = |figures| memory(1, "/docker/aaaa", Some(64), figures);
    let report = report_of(Vec::new(), [vec![row((9, 95, 105))]]);
    let first = &report.rows[0];
    assert_eq!(first.verdict.kind, VerdictKind::HeldByDisk);
    assert_eq!(first.memory, None);
}
