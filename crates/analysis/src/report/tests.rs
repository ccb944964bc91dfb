//! Reports of handmade batches.

use noctule_model::{Counter, EventCounter};

use super::*;

#[test]
fn duplicate_exit_counts_once() {
    let mut builder = ReportBuilder::new(batch(0, Vec::new(), Vec::new()));
    builder.add(batch(1, Vec::new(), vec![process(7, 300, false)]));
    builder.add(batch(2, Vec::new(), vec![process(7, 20, false)]));
    let rows = builder.report(Level::Process, false).rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].counters[Counter::CpuTime], 300);
}

fn process(pid: u32, cpu_ns: u64, followed: bool) -> ProcessRow {
    let mut row = ProcessRow {
        followed,
        ..ProcessRow::default()
    };
    row.id = ProcessId { pid, start_ns: 1 };
    row.counters[Counter::CpuTime] = cpu_ns;
    row
}

fn batch(taken_ns: u64, processes: Vec<ProcessRow>, exited: Vec<ProcessRow>) -> Batch {
    Batch {
        taken_ns,
        processes,
        exited,
        ..Batch::default()
    }
}

#[test]
fn process_ending_in_the_window_counts_once() {
    let mut builder = ReportBuilder::new(batch(0, vec![process(1, 10, false)], vec![]));
    builder.add(batch(5, vec![process(1, 20, false)], vec![]));
    // The kernel still lists the zombie after its last figures were reported.
    builder.add(batch(
        9,
        vec![process(1, 20, false)],
        vec![process(1, 25, false)],
    ));
    let report = builder.report(Level::Process, false);
    assert_eq!(report.window_ns, 9);
    let cpu: Vec<u64> = report
        .rows
        .iter()
        .map(|r| r.counters[Counter::CpuTime])
        .collect();
    assert_eq!(cpu, [15]);
}

/// Returns a group with this CPU use and number of process starts since the agent started.
fn used(id: u64, cpu_ns: u64, starts: u64) -> CgroupRow {
    let mut row = CgroupRow {
        id: CgroupId(id),
        ..CgroupRow::default()
    };
    row.counters[Counter::CpuTime] = cpu_ns;
    row.events[EventCounter::ProcessStarts] = starts;
    row
}

#[test]
fn rows_of_waits_leave_out_groups_without_threads() {
    let in_unit = |id: u64, unit: &str| {
        let owner = Owner {
            unit: Some(unit.to_owned()),
            ..Owner::unknown(CgroupId(id))
        };
        CgroupRow {
            owner: Some(Arc::new(owner)),
            ..used(id, 5, 0)
        }
    };
    let listed = |taken_ns, cpu_ns| {
        let mut inner = in_unit(2, "busy.service");
        inner.counters[Counter::CpuTime] = cpu_ns;
        let mut queued = used(4, 5, 0);
        queued.waiting = Waiting::thread(taken_ns);
        let outer = in_unit(1, "busy.service");
        let (idle, waited) = (in_unit(3, "idle.service"), used(5, 5, 0));
        let cgroups = vec![outer, inner, idle, queued, waited];
        Batch {
            cgroups,
            ..batch(taken_ns, vec![], vec![])
        }
    };
    let mut builder = ReportBuilder::new(listed(0, 5));
    builder.add(listed(1, 9));
    let (_, last) = builder.ends();
    let ids = |level| {
        let waited = IdSet::from_iter([CgroupId(5)]);
        let rows = builder.inhabited_cgroups(last, level, &waited).into_iter();
        rows.map(|row| row.owner.cgroup.0).collect::<Vec<_>>()
    };
    assert_eq!(ids(Level::Cgroup), [2, 4, 5]);
    assert_eq!(ids(Level::Unit), [1, 2, 4, 5], "all groups of the unit");
}

#[test]
fn removed_group_keeps_its_use_in_the_window() {
    let listed = |taken_ns, cgroups| Batch {
        cgroups,
        ..batch(taken_ns, vec![], vec![])
    };
    let mut builder = ReportBuilder::new(listed(0, vec![used(1, 5, 1)]));
    builder.add(listed(1, vec![used(1, 9, 3), used(2, 30, 4)]));
    // The accounts disappear before the events. The other group remains.
    builder.add(listed(2, vec![used(1, 0, 3), used(2, 31, 4)]));
    builder.add(listed(3, vec![used(2, 33, 4)]));
    let report = builder.report(Level::Cgroup, false);
    let reported = report.rows.iter().map(|row| {
        let events = row.events.expect("a row of a group").counters;
        let starts = events[EventCounter::ProcessStarts];
        (row.counters[Counter::CpuTime], starts)
    });
    assert_eq!(reported.collect::<Vec<_>>(), [(33, 4), (4, 2)]);
}

#[test]
fn process_without_an_exit_record_keeps_its_use() {
    let mut builder = ReportBuilder::new(batch(0, vec![process(1, 5, false)], vec![]));
    builder.add(batch(1, vec![process(1, 9, false)], vec![]));
    builder.add(batch(2, vec![], vec![]));
    let cpu = |builder: &ReportBuilder| {
        let rows = builder.report(Level::Process, false).rows;
        let cpu = rows.iter().map(|row| row.counters[Counter::CpuTime]);
        cpu.collect::<Vec<_>>()
    };
    assert_eq!(cpu(&builder), [4]);
    builder.add(batch(3, vec![], vec![process(1, 11, false)]));
    assert_eq!(cpu(&builder), [6], "it comes late");
}

#[test]
fn gone_process_counts_as_exited_before_its_exit_record() {
    let mut builder = ReportBuilder::new(batch(0, vec![process(1, 5, false)], vec![]));
    let gone = ProcessRow {
        gone: true,
        ..process(1, 9, false)
    };
    builder.add(batch(1, vec![gone, process(2, 1, false)], vec![]));
    let rows = builder.report(Level::Process, false).rows;
    let exited = rows
        .iter()
        .map(|row| row.process.as_ref().map(|it| it.exited));
    assert_eq!(exited.collect::<Vec<_>>(), [Some(true), Some(false)]);
}

#[test]
fn descendants_stay_selected_when_their_parent_ends() {
    let row = |pid, parent_pid, cpu_ns| ProcessRow {
        parent_pid,
        ..process(pid, cpu_ns, false)
    };
    let first = batch(0, vec![row(1, 0, 0), row(5, 1, 1)], vec![]);
    let mut builder = ReportBuilder::new(first).with(Detail::Trees);
    let all = vec![row(1, 0, 0), row(5, 1, 2), row(6, 5, 1), row(7, 6, 1)];
    builder.add(batch(1, all, vec![]));
    let left = vec![row(1, 0, 0), row(5, 1, 3), row(7, 1, 9)];
    builder.add(batch(2, left, vec![row(6, 5, 2)]));
    let builder = builder.select(Selection::default().with_processes(&[5]));
    let rows = builder.report(Level::Process, false).rows;
    let pids = rows
        .iter()
        .map(|row| row.process.as_ref().map(|it| it.id.pid));
    let mut pids: Vec<u32> = pids.flatten().collect();
    pids.sort_unstable();
    assert_eq!(pids, [5, 6, 7]);
}

#[test]
fn report_can_be_limited_to_followed_processes() {
    let first = batch(0, vec![process(1, 10, false)], vec![]);
    let mut builder = ReportBuilder::new(first);
    let rows = vec![
        process(1, 30, false),
        process(2, 5, true),
        process(3, 0, true),
    ];
    builder.add(batch(1, rows, vec![]));
    let pids = |only| {
        let report = builder.report(Level::Process, only);
        let pid = |r: &Row| r.process.as_ref().expect("a process row").id.pid;
        report.rows.iter().map(pid).collect::<Vec<_>>()
    };
    assert_eq!(pids(false), [1, 2]);
    assert_eq!(pids(true), [2]);
}

#[test]
fn report_has_event_growth_and_final_open_sockets() {
    let row = |accepts, connections| {
        let mut row = CgroupRow::default();
        row.events[EventCounter::TcpAccepts] = accepts;
        row.sockets.connections = connections;
        row
    };
    let batch = |row: CgroupRow| Batch {
        node: Node {
            events: row.events,
            sockets: row.sockets,
            ..Node::default()
        },
        cgroups: vec![row],
        ..Batch::default()
    };
    let mut builder = ReportBuilder::new(batch(row(9, 7)));
    builder.add(batch(row(10, 3)));
    let report = builder.report(Level::Container, false);
    let events = report.rows[0].events.expect("a row of a group");
    let grown = [events.counters, report.node.events];
    assert_eq!(grown.map(|events| events[EventCounter::TcpAccepts]), [1, 1]);
    let open = [events.sockets, report.sockets];
    assert_eq!(open.map(|sockets| sockets.connections), [3, 3]);
    assert_eq!(report.sum().events, Some(events));
}

#[test]
fn group_report_keeps_only_ended_kernel_threads() {
    let all = || {
        let mut builder = ReportBuilder::new(batch(0, vec![], vec![]));
        builder.add(batch(1, vec![process(1, 5, true)], vec![]));
        builder
    };
    let thread = || ProcessRow {
        kernel_thread: true,
        ..process(3, 4, true)
    };
    let ended = || vec![process(1, 9, true), process(2, 3, true), thread()];
    let ended = || batch(2, vec![], ended());
    let mut builder = all();
    builder.add(ended());
    assert_eq!(builder.exited.len(), 3);
    let mut of_groups = all().with(Detail::Groups);
    of_groups.add(ended());
    assert_eq!(
        of_groups.exited.keys().copied().collect::<Vec<_>>(),
        [thread().id]
    );
    let rows = |it: &ReportBuilder| format!("{:?}", it.report(Level::Container, false));
    assert_eq!(rows(&of_groups), rows(&builder));
}

#[test]
fn process_rows_have_no_events() {
    let mut builder = ReportBuilder::new(batch(0, vec![], vec![]));
    builder.add(batch(1, vec![process(1, 5, true)], vec![]));
    for level in [Level::Process, Level::Container] {
        let report = builder.report(level, true);
        assert_eq!(report.rows[0].events, None, "{level:?}");
        assert_eq!(report.sum().events, None, "{level:?}");
    }
}
