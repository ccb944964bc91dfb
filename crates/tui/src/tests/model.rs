//! Tests from batches to rows.

use std::collections::HashSet;
use std::time::Duration;

use noctule_analysis::{KindReport, Selection, Thresholds};
use noctule_model::{EnergySource, FeatureId, FeatureState, Level, Loss, ProgramCost, ZoneKind};

use super::fixture::{Fake, TICK};
use crate::data::Data;
use crate::data::history::LENGTH;
use crate::data::level;
use crate::table::columns::COLUMNS;
use crate::table::fit::fit;
use crate::table::{Charged, Facts, View};

fn pids(data: &Data) -> Vec<u32> {
    let rows = data.rows(Level::Process).iter();
    let mut pids: Vec<u32> = rows
        .map(|row| row.process.as_ref().unwrap().id.pid)
        .collect();
    pids.sort_unstable();
    pids
}

fn data() -> Data {
    Data::new(
        Duration::from_nanos(TICK),
        Thresholds::default(),
        Selection::default(),
    )
}

fn two_processes() -> Fake {
    Fake::new()
        .process(1, 0, "a", "/a")
        .process(2, 0, "b", "/b")
}

#[test]
fn idle_row_stays_for_a_minute() {
    let mut fake = two_processes();
    let mut data = data();
    data.push(fake.tick(&[]));
    assert!(data.window.is_none(), "one batch is no window");
    data.push(fake.tick(&[(1, 10), (2, 10)]));
    for _ in 1..LENGTH {
        data.push(fake.tick(&[(1, 10)]));
        assert_eq!(pids(&data), [1, 2]);
    }
    data.push(fake.tick(&[(1, 10)]));
    assert_eq!(pids(&data), [1]);
    assert_eq!(data.rows(Level::Cgroup).len(), 1);
    data.push(fake.tick(&[(2, 10)]));
    assert_eq!(pids(&data), [1, 2]);
}

#[test]
fn row_idle_for_a_minute_looks_the_same_recorded() {
    let mut fake = Fake::new().process(1, 0, "a", "/a");
    let mut batches = vec![fake.tick(&[]), fake.tick(&[(1, 10)])];
    // Process 2 starts while top runs, sleeps, and runs again.
    let mut fake = fake.process(2, 0, "b", "/b");
    batches.push(fake.tick(&[(1, 10), (2, 10)]));
    batches.extend((0..LENGTH + 5).map(|_| fake.tick(&[(1, 10)])));
    batches.push(fake.tick(&[(1, 10), (2, 10)]));
    let minute = |batches: &[_]| {
        let mut data = data();
        batches.iter().cloned().for_each(|batch| data.push(batch));
        let rows = data.rows(Level::Process).iter();
        let row = rows.clone().find(|row| {
            let process = row.process.as_ref();
            process.is_some_and(|process| process.id.pid == 2)
        });
        let key = level::key(row.expect("it ran"), Level::Process);
        data.history(Level::Process).minute([&key])
    };
    let recorded = minute(&batches[batches.len() - 1 - LENGTH..]);
    assert_eq!(recorded[0], Some(0.0));
    assert_eq!(minute(&batches), recorded);
}

#[test]
fn an_idle_row_shows_nothing_of_the_window_before() {
    let mut fake = two_processes();
    let mut data = data();
    data.push(fake.tick(&[]));
    data.push(fake.tick(&[(1, 10)]));
    data.push(fake.tick(&[]));
    assert!(data.rows(Level::Process)[0].counters.is_zero());
    assert!(data.rows(Level::Cgroup)[0].counters.is_zero());
}

#[test]
fn idle_row_follows_its_process_to_another_group() {
    let mut fake = two_processes();
    let mut data = data();
    data.push(fake.tick(&[]));
    data.push(fake.tick(&[(1, 10), (2, 10)]));
    let mut batch = fake.tick(&[(2, 10)]);
    let there = batch.processes[1].owner.clone();
    batch.processes[0].owner.clone_from(&there);
    batch.processes[0].parent_pid = 2;
    data.push(batch);
    let rows = data.rows(Level::Process).iter();
    let row = rows.rev().find(|row| row.counters.is_zero());
    let row = row.expect("the first process is idle");
    assert_eq!(Some(&row.owner), there.as_ref());
    assert_eq!(row.process.as_ref().unwrap().parent_pid, 2);
}

#[test]
fn ended_process_is_shown_once() {
    let mut fake = two_processes();
    let mut data = data();
    data.push(fake.tick(&[]));
    data.push(fake.tick(&[(1, 10), (2, 10)]));
    let ended = fake.exit(2);
    let mut batch = fake.tick(&[(1, 10)]);
    batch.exited.push(ended);
    data.push(batch);
    assert_eq!(pids(&data), [1, 2]);
    data.push(fake.tick(&[(1, 10)]));
    assert_eq!(pids(&data), [1]);
}

#[test]
fn warnings_name_losses_and_features_that_can_be_enabled_here() {
    let mut data = data();
    let mut fake = Fake::new();
    let push = |data: &mut Data, fake: &mut Fake, count| {
        fake.batch.losses = vec![Loss {
            kind: "exit_record",
            place: "switch.exits",
            count,
        }];
        data.push(fake.tick(&[]));
        data.warning().map(|it| (it.words, it.is_losing))
    };
    assert_eq!(push(&mut data, &mut fake, 5), None, "lost before we looked");
    let growing = push(&mut data, &mut fake, 7);
    let losing = ("losing exit_record (7)".to_owned(), true);
    assert_eq!(growing, Some(losing));
    for _ in 1..LENGTH {
        assert!(push(&mut data, &mut fake, 7).is_some());
    }
    assert_eq!(push(&mut data, &mut fake, 7), None);
    let elsewhere = "on a virtual machine, ask the provider";
    fake = fake
        .off_with_fix(FeatureId::Cycles, FeatureState::Off, elsewhere)
        .off_with_fix(FeatureId::Tracefs, FeatureState::Degraded, "mount it")
        .off(FeatureId::TcpEvents, FeatureState::On);
    let off = push(&mut data, &mut fake, 7);
    assert_eq!(off, Some(("tracefs degraded".to_owned(), false)));
}

#[test]
fn the_agent_is_measured_like_everything_else() {
    let mut fake = Fake::new();
    let mut data = data();
    data.push(fake.tick(&[]));
    data.push(fake.tick(&[]));
    let agent = data.window.as_ref().unwrap().agent;
    assert_eq!(format!("{:.2}", agent.cpu_percent), "0.31");
    assert_eq!(agent.run_ns, None, "not measured is not zero");
    let program = |run_ns, runs| ProgramCost {
        run_ns,
        runs,
        ..ProgramCost::default()
    };
    fake.batch.agent.programs = Some(vec![program(300, 1), program(100, 3)]);
    data.push(fake.tick(&[]));
    assert_eq!(data.window.unwrap().agent.run_ns, Some(100.0));
}

#[test]
fn two_batches_of_one_moment_give_no_rates() {
    let mut fake = two_processes();
    let mut data = data();
    let mut batch = fake.tick(&[]);
    data.push(batch.clone());
    batch.processes = fake.tick(&[(1, 10)]).processes;
    data.push(batch);
    assert_eq!(data.window.as_ref().unwrap().length_ns, 0);
    assert_eq!(pids(&data), [1]);
}

#[test]
fn columns_fill_the_width_and_leave_in_order_of_priority() {
    let levels = level::LEVELS.map(|level| (View::Use, level));
    let overview = level::LEVELS.map(|level| (View::Overview, level));
    let waits = level::LEVELS.map(|level| (View::Waits, level));
    let energy = level::LEVELS.map(|level| (View::Energy, level));
    let kind = |kind, root| KindReport {
        kind,
        source: EnergySource::Powercap,
        root,
    };
    let kinds = ZoneKind::ALL.map(|it| kind(it, it == ZoneKind::Psys));
    for (view, level) in levels
        .into_iter()
        .chain(overview)
        .chain(waits)
        .chain(energy)
    {
        let facts = Facts {
            view,
            level,
            window_ns: 1,
            charged: Charged::new(&kinds),
            measured: noctule_model::Counter::all().collect(),
            nominal_hertz: None,
            has_files: true,
        };
        let mut before = 0;
        for width in 0..300 {
            let placed = fit(&facts, &HashSet::new(), width, false);
            let used: usize = placed.iter().map(|p| p.width + 1).sum();
            assert!(width < 11 || used == width + 1, "{width}");
            let dropped = (0..COLUMNS.len())
                .filter(|&i| COLUMNS[i].is_available(&facts))
                .filter(|&i| placed.iter().all(|p| p.column != i))
                .map(|i| COLUMNS[i].priority)
                .min();
            let kept = placed.iter().map(|p| COLUMNS[p.column].priority).max();
            assert!(dropped.is_none_or(|dropped| Some(dropped) > kept));
            // At two of the widths, the name column grows and a column or two disappear.
            assert!(placed.len() + 3 > before, "{width}");
            before = placed.len();
        }
    }
}

#[test]
fn headings_fit_with_the_mark_of_the_sort_column() {
    for column in COLUMNS {
        assert!(column.title.len() < column.width, "{}", column.title);
        assert!(column.width <= column.widest && !column.help.is_empty());
    }
}
