use noctule_model::{Counter, Histogram};

use super::*;

/// Returns when the series of a row began.
fn start<K: Ord + Clone>(table: &Table<K>, key: &K) -> u64 {
    let row = table.shown().find(|(shown, _)| *shown == key);
    row.expect("a row with series").1.born.start_unix_ns
}

fn cpu(ns: u64) -> Figures {
    let mut figures = Figures::default();
    figures.counters[Counter::CpuTime] = ns;
    figures
}

/// Runs one batch in which every row may have series under its key.
fn step(table: &mut Table<&'static str>, at: u64, rows: &[(&'static str, u64)]) -> String {
    for (key, ns) in rows {
        table.see(key, at, &cpu(*ns), None);
    }
    table.sweep(at);
    for (key, _) in rows {
        table.place(key, |_| Admission::Show((*key).into()));
    }
    let lines = table.lines(at, &"rest".into(), Measured::NONE, None);
    let show = |l: &Line| format!("{}={}", l.labels, l.figures.counters[Counter::CpuTime]);
    lines.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn rows_beyond_the_limit_are_summed() {
    let mut table = Table::new(2, 0);
    assert_eq!(step(&mut table, 1, &[("m", 1), ("n", 2)]), "m=1 n=2");
    let all = [("a", 5), ("m", 1), ("n", 2), ("z", 7)];
    assert_eq!(step(&mut table, 2, &all), "m=1 n=2 rest=12");
    assert_eq!(table.overflowed(), 2);
}

#[test]
fn overflow_row_gets_a_free_place_without_double_counting() {
    let mut table = Table::new(1, 0);
    assert_eq!(step(&mut table, 1, &[("a", 10), ("b", 20)]), "a=10 rest=20");
    assert_eq!(step(&mut table, 2, &[("b", 23)]), "b=3 rest=20");
    assert_eq!(step(&mut table, 3, &[("b", 30)]), "b=10 rest=20");
    assert_eq!(table.overflowed(), 0);
}

#[test]
fn row_admitted_late_counts_from_then() {
    let mut table = Table::new(1, 0);
    let starts = |table: &mut Table<&'static str>, at| {
        let lines = table.lines(at, &"rest".into(), Measured::NONE, None);
        let start = |line: Line| (line.labels.to_string(), line.born.start_unix_ns);
        lines.into_iter().map(start).collect::<Vec<_>>()
    };
    let expected = |list: &[(&str, u64)]| {
        let pair = |(labels, start): &(&str, u64)| ((*labels).to_owned(), *start);
        list.iter().map(pair).collect::<Vec<_>>()
    };
    table.begin(100);
    step(&mut table, 1, &[("a", 10), ("b", 20)]);
    assert_eq!(
        starts(&mut table, 1),
        expected(&[("a", 100), ("rest", 100)])
    );
    table.begin(200);
    step(&mut table, 2, &[("a", 11), ("b", 23)]);
    table.begin(300);
    // The overflow row does not include the growth of 3 since the last batch.
    assert_eq!(step(&mut table, 3, &[("b", 26)]), "b=3 rest=23");
    assert_eq!(
        starts(&mut table, 3),
        expected(&[("b", 300), ("rest", 100)])
    );
    assert_eq!(start(&table, &"b"), 300);
    // All figures of a new row were counted since the previous batch.
    table.begin(400);
    step(&mut table, 4, &[("c", 1)]);
    assert_eq!(
        starts(&mut table, 4),
        expected(&[("c", 400), ("rest", 100)])
    );
}

/// Runs one batch of rows whose groups share the limit.
fn share(table: &mut Table<u32>, at: u64, rows: &[(u32, u64, u64)]) -> String {
    for (key, group, ns) in rows {
        table.see(key, at, &cpu(*ns), None);
        table.belongs(key, *group);
    }
    table.sweep(at);
    let show = |key: &u32| Admission::Show(key.to_string().into());
    for (key, ..) in rows {
        table.place(key, |_| show(key));
    }
    table.balance(at, show);
    let lines = table.lines(at, &"rest".into(), Measured::NONE, None);
    let show = |l: &Line| format!("{}={}", l.labels, l.figures.counters[Counter::CpuTime]);
    lines.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn readmitted_series_continues_its_value() {
    let mut table = Table::new(2, 0);
    let mut step = |at: u64, rows: &[(u32, u64, u64)]| {
        table.begin(at * 100);
        share(&mut table, at, rows)
    };
    assert_eq!(step(1, &[(1, 1, 10), (2, 1, 10)]), "1=10 2=10");
    assert_eq!(
        step(2, &[(1, 1, 10), (2, 1, 14), (3, 2, 5)]),
        "1=10 3=5 rest=0"
    );
    assert_eq!(
        step(3, &[(1, 1, 10), (2, 1, 20), (3, 2, 5)]),
        "1=10 3=5 rest=6"
    );
    // Below the previous value of 14, a scraper would see a counter reset.
    assert_eq!(step(4, &[(1, 1, 10), (2, 1, 25)]), "1=10 2=19 rest=6");
    assert_eq!(start(&table, &2), 100);
}

#[test]
fn full_group_gives_places_to_another() {
    let mut table: Table<u32> = Table::new(4, 60);
    let mut step = |at: u64, rows: &[(u32, u64, u64)]| share(&mut table, at, rows);
    // The rows of the flood end immediately. Without balancing they would keep their series for a
    // minute.
    let flood = [(1, 1, 10), (2, 1, 10), (3, 1, 10), (4, 1, 10), (5, 1, 10)];
    assert_eq!(step(1, &flood), "1=10 2=10 3=10 4=10 rest=10");
    let late = [(3, 1, 11), (8, 2, 7), (9, 2, 5), (10, 2, 3)];
    // Each group has two rows with series.
    assert_eq!(step(2, &late), "1=10 3=11 8=7 9=5 rest=13");
    let late = [(3, 1, 12), (8, 2, 8), (9, 2, 9), (10, 2, 4)];
    assert_eq!(step(3, &late), "1=10 3=12 8=8 9=9 rest=14");
}

#[test]
fn late_name_changes_the_labels_once() {
    let mut table = Table::new(1, 0);
    assert_eq!(step(&mut table, 1, &[("a", 5)]), "a=5");
    table.name(&"a", || None);
    assert_eq!(step(&mut table, 2, &[("a", 6)]), "a=6");
    table.name(&"a", || Some("named".into()));
    assert_eq!(step(&mut table, 3, &[("a", 7)]), "named=1 a=6");
    table.name(&"a", || Some("other".into()));
    let late = 2 + YOUNG_NS;
    assert_eq!(step(&mut table, late, &[("a", 8)]), "named=2 a=6");
    assert_eq!(step(&mut table, late + 1, &[("a", 9)]), "named=3");
}

#[test]
fn distributions_overflow_like_counters() {
    let waits = |count| Figures {
        waits: Histogram::from_counts([0, count]),
        ..Figures::default()
    };
    let mut table = Table::new(1, 0);
    let mut step = |at: u64, rows: &[(&'static str, u64)]| {
        for (key, count) in rows {
            table.see(key, at, &waits(*count), None);
        }
        table.sweep(at);
        for (key, _) in rows {
            table.place(key, |_| Admission::Show((*key).into()));
        }
        let lines = table.lines(at, &"rest".into(), Measured::NONE, None);
        let show = |l: &Line| format!("{}={}", l.labels, l.figures.waits.count());
        lines.iter().map(show).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(step(1, &[("a", 10), ("b", 20)]), "a=10 rest=20");
    assert_eq!(step(2, &[("b", 23)]), "b=3 rest=20");
}

#[test]
fn overflow_never_decreases() {
    let mut table = Table::new(0, 0);
    assert_eq!(step(&mut table, 1, &[("a", 10)]), "rest=10");
    assert_eq!(step(&mut table, 2, &[]), "rest=10");
    // Another row has the same name now.
    assert_eq!(step(&mut table, 3, &[("a", 4)]), "rest=14");
}

#[test]
fn a_row_stays_for_the_grace_time_with_its_last_figures() {
    let mut table = Table::new(9, 100);
    step(&mut table, 1, &[("a", 10)]);
    assert_eq!(step(&mut table, 101, &[("b", 1)]), "a=10 b=1");
    assert_eq!(step(&mut table, 102, &[("b", 1)]), "b=1");
}

#[test]
fn labels_are_requested_once() {
    let mut table = Table::new(9, 0);
    step(&mut table, 1, &[("a", 1)]);
    table.see(&"a", 2, &cpu(2), None);
    table.sweep(2);
    table.place(&"a", |_| panic!("it has labels"));
    let lines = table.lines(2, &"rest".into(), Measured::NONE, None);
    assert_eq!(&*lines[0].labels, "a");
}

#[test]
fn waiting_row_takes_no_place_and_loses_no_use() {
    let mut table = Table::new(1, 0);
    table.see(&"a", 1, &cpu(5), None);
    table.sweep(1);
    table.place(&"a", |_| Admission::Wait);
    assert!(
        table
            .lines(1, &"rest".into(), Measured::NONE, None)
            .is_empty()
    );
    assert_eq!(step(&mut table, 2, &[("a", 6)]), "a=6");
}

#[test]
fn zombie_figures_do_not_decrease_counters() {
    let mut table = Table::new(1, 100);
    step(&mut table, 1, &[("a", 5), ("a", 9)]);
    assert_eq!(step(&mut table, 2, &[("a", 5)]), "a=9");
}

#[test]
fn frequency_is_of_the_last_tick_and_absent_after_removal() {
    let measured = Measured::from_iter([Counter::CpuTime, Counter::Cycles]);
    let ran = |ns: u64, cycles: u64| {
        let mut figures = cpu(ns);
        figures.counters[Counter::Cycles] = cycles;
        figures
    };
    let mut table = Table::new(9, 100);
    let mut frequency = |at: u64, figures: Option<Figures>| {
        if let Some(figures) = figures {
            table.see(&"a", at, &figures, None);
            table.place(&"a", |_| Admission::Show("a".into()));
        }
        table.sweep(at);
        table.lines(at, &"rest".into(), measured, None)[0].frequency_hertz
    };
    assert_eq!(frequency(1, Some(ran(10, 20))), Some(2e9));
    assert_eq!(frequency(2, Some(ran(20, 50))), Some(3e9));
    assert_eq!(frequency(3, Some(ran(20, 50))), None, "it did not run");
    assert_eq!(frequency(4, None), None);
}

#[test]
fn open_sockets_move_with_their_row() {
    let mut table = Table::new(1, 0);
    let mut step = |at: u64, rows: &[(&'static str, u64)]| {
        for (key, connections) in rows {
            table.see(key, at, &Figures::default(), None);
            let listeners = 0;
            let sockets = Sockets {
                connections: *connections,
                listeners,
            };
            table.note(key, None, sockets, Waiting::default());
        }
        table.sweep(at);
        for (key, _) in rows {
            table.place(key, |_| Admission::Show((*key).into()));
        }
        let lines = table.lines(at, &"rest".into(), Measured::NONE, None);
        let show = |l: &Line| format!("{}={}", l.labels, l.sockets.connections);
        lines.iter().map(show).collect::<Vec<_>>().join(" ")
    };
    let rows = [("a", 1), ("b", 2), ("c", 4)];
    assert_eq!(step(1, &rows), "a=1 rest=6");
    assert_eq!(step(2, &rows[1..]), "b=2 rest=4");
    assert_eq!(step(3, &[("b", 1), ("c", 0)]), "b=1 rest=0");
}
