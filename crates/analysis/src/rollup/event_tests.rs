//! Tests how the events of cgroups are summed up by subject.

use std::net::SocketAddr;

use noctule_model::{
    CgroupRow, DestinationCounter, DestinationRow, EventCounter, Events, Histogram, SubjectRow,
    WaitRow,
};

use super::*;

fn group(id: u64, path: &str, opened: u64, closed: u64) -> CgroupRow {
    let mut row = CgroupRow {
        id: CgroupId(id),
        owner: Some(Arc::new(Owner {
            path: path.into(),
            ..Owner::unknown(CgroupId(id))
        })),
        ..CgroupRow::default()
    };
    row.events[EventCounter::TcpAccepts] = opened;
    row.sockets.connections = opened - closed;
    row
}

#[test]
fn events_stay_but_only_live_groups_have_open_sockets() {
    let mut rollup = Rollup::new(100);
    let mut step = |at: u64, cgroups: Vec<CgroupRow>| {
        let mut batch = Batch {
            taken_ns: at,
            cgroups,
            ..Batch::default()
        };
        rollup.apply(&mut batch);
        let reported = |row: &SubjectRow| {
            let Events { counters, sockets } = row.events;
            (counters[EventCounter::TcpAccepts], sockets.connections)
        };
        batch.subjects.iter().map(reported).collect::<Vec<_>>()
    };
    let both = vec![group(1, "/a", 5, 1), group(2, "/a", 3, 3)];
    assert_eq!(step(1, both), [(8, 4)]);
    assert_eq!(step(2, vec![group(2, "/a", 9, 4)]), [(14, 5)]);
    assert_eq!(step(3, vec![]), [(14, 0)]);
    // A name that arrives late moves the connections to the new subject, but no events.
    assert_eq!(step(4, vec![group(3, "#3", 2, 0)]), [(2, 2), (14, 0)]);
    let named = step(5, vec![group(3, "/b", 2, 1)]);
    assert_eq!(named, [(2, 0), (14, 0), (0, 1)]);
}

fn address(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

/// Connections to each destination (0 for none) of two cgroups of one subject.
fn rows(connects: &[(u64, u16, u64)]) -> Vec<DestinationRow> {
    let row = |&(id, port, connects): &(u64, u16, u64)| {
        let mut row = DestinationRow {
            cgroup: CgroupId(id),
            destination: (port != 0).then(|| address(port)),
            counters: DestinationCounters::default(),
        };
        row.counters[DestinationCounter::Connects] = connects;
        row
    };
    connects.iter().map(row).collect()
}

#[test]
fn destinations_are_listed_while_present_and_sums_only_grow() {
    let steps = [
        (rows(&[(1, 80, 4), (2, 80, 1), (2, 0, 2)]), vec![(80, 5)], 7),
        // One destination was moved to the unnamed destinations, which grew by 3 at the same time.
        (rows(&[(1, 80, 4), (2, 0, 6)]), vec![(80, 5)], 10),
        (rows(&[(2, 0, 6), (1, 0, 4), (1, 81, 1)]), vec![(81, 1)], 11),
        (rows(&[]), vec![], 11),
    ];
    let mut rollup = Rollup::new(100);
    for (at, (destinations, reported, all)) in (1..).zip(steps) {
        let mut batch = Batch {
            taken_ns: at,
            cgroups: vec![group(1, "/a", 0, 0), group(2, "/a", 0, 0)],
            destinations,
            ..Batch::default()
        };
        rollup.apply(&mut batch);
        let row = &batch.subjects[0];
        let connects = |counters: &DestinationCounters| counters[DestinationCounter::Connects];
        let list = row.destinations.iter();
        let list = list.map(|d| (d.destination.port(), connects(&d.counters)));
        assert_eq!(list.collect::<Vec<_>>(), reported, "{at}");
        assert_eq!(connects(&row.all_destinations), all, "{at}");
    }
}

#[test]
fn destination_without_room_counts_only_in_the_total() {
    let mut standing = Standing::new(&Subject::Overflow, &Arc::new(Owner::unknown(CgroupId(1))));
    let mut room = 1;
    for (port, connects) in [(80, 1), (81, 2), (80, 4)] {
        let row = &rows(&[(1, port, connects)])[0];
        standing.connect(row.destination, &row.counters, &mut room);
    }
    let reported = &standing.row.destinations;
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].counters[DestinationCounter::Connects], 5);
    let all = &standing.row.all_destinations;
    assert_eq!(all[DestinationCounter::Connects], 7);
}

#[test]
fn connect_times_are_kept_apart_from_waits() {
    let row = |group, count| WaitRow {
        group,
        histogram: Histogram::from_counts([0, count]),
    };
    let mut batch = Batch {
        cgroups: vec![group(1, "/a", 0, 0)],
        connects: vec![
            row(Group::Cgroup(CgroupId(1)), 3),
            row(Group::Unnamed, 5),
            row(Group::Cgroup(CgroupId(9)), 7),
        ],
        ..Batch::default()
    };
    let mut rollup = Rollup::new(100);
    for _ in 0..2 {
        rollup.apply(&mut batch);
        let reported = |r: &SubjectRow| (r.subject.clone(), r.connects.count(), r.waits.count());
        let expected = [
            (Subject::Cgroup("/a".into()), 3, 0),
            (Subject::Overflow, 5, 0),
        ];
        assert_eq!(
            batch.subjects.iter().map(reported).collect::<Vec<_>>(),
            expected
        );
    }
}
