use std::sync::Arc;

use noctule_model::{CgroupId, Counter, Owner};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn row(name: &str, used: u64, ended: bool) -> SubjectRow {
    let owner = Owner {
        path: format!("/system.slice/{name}"),
        unit: Some(name.into()),
        ..Owner::unknown(CgroupId(1))
    };
    let mut row = SubjectRow::new(owner.subject(), Arc::new(owner));
    row.counters[Counter::CpuTime] = used;
    row.events.sockets.connections = 1;
    row.ended = ended;
    row
}

/// Takes a batch each second.
struct Scene {
    short: ShortLived,
    second: u64,
    /// Rows of the last batch with their CPU time.
    shown: BTreeMap<String, u64>,
    /// Sum over the increases of all rows.
    counted: u64,
    connections: u64,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self {
            short: ShortLived::new(30 * SECOND, 3 * SECOND),
            second: 0,
            shown: BTreeMap::new(),
            counted: 0,
            connections: 0,
        };
        scene.step(vec![]);
        scene
    }

    /// Takes a batch with these rows, and returns what is shown.
    fn step(&mut self, subjects: Vec<SubjectRow>) -> &BTreeMap<String, u64> {
        self.second += 1;
        let batch = Batch {
            taken_ns: self.second * SECOND,
            subjects,
            ..Batch::default()
        };
        self.short.observe(&batch, 1000 + self.second - 1);
        let rows = self.short.rows(&batch);
        let shown = rows.iter().map(|row| {
            let Subject::Unit(name) = &row.subject else {
                panic!("only units");
            };
            (name.clone(), row.counters[Counter::CpuTime])
        });
        let shown: BTreeMap<_, _> = shown.collect();
        assert_eq!(shown.len(), rows.len(), "two rows with one name");
        for (name, value) in &shown {
            let before = self.shown.get(name).copied().unwrap_or(0);
            assert!(*value >= before, "{name} fell from {before} to {value}");
            self.counted += value - before;
        }
        self.connections = rows.iter().map(|it| it.events.sockets.connections).sum();
        self.shown = shown;
        &self.shown
    }

    /// Lets ten groups end after a second each, so that the next ones wait.
    fn churn(&mut self) {
        for number in 0..MANY {
            let name = format!("run-u{number}.service");
            self.step(vec![row(&name, 5, false)]);
            assert!(self.step(vec![row(&name, 7, true)]).contains_key(&name));
        }
    }
}

#[test]
fn many_short_groups_share_the_row_of_their_owner() {
    let mut scene = Scene::new();
    scene.churn();
    assert!(
        scene.step(vec![row("run-u50.service", 3, false)])
            == &[("run-u*.service".into(), 0)].into()
    );
    assert_eq!(
        scene.connections, 1,
        "a group without a row has open sockets"
    );
    let ended = scene.step(vec![row("run-u50.service", 4, true)]);
    assert_eq!(ended, &[("run-u*.service".into(), 4)].into());
    // A late record of the group's last process.
    let late = scene.step(vec![row("run-u50.service", 6, true)]);
    assert_eq!(late, &[("run-u*.service".into(), 6)].into());
    let others = scene.step(vec![
        row("cron.service", 1, false),
        row("a@b.service", 2, false),
    ]);
    let names: Vec<_> = others.keys().map(String::as_str).collect();
    assert_eq!(names, ["a@b.service", "cron.service", "run-u*.service"]);
}

#[test]
fn group_dropped_before_the_decision_counts_in_the_shared_row() {
    let mut scene = Scene::new();
    scene.churn();
    scene.step(vec![row("run-u50.service", 3, false)]);
    let shown = scene.step(vec![]);
    assert_eq!(shown, &[("run-u*.service".into(), 3)].into());
    // The rollup counts a subject that it lists again from 0.
    scene.step(vec![row("run-u50.service", 2, false)]);
    let shown = scene.step(vec![row("run-u50.service", 2, true)]);
    assert_eq!(shown, &[("run-u*.service".into(), 5)].into());
}

#[test]
fn a_group_that_lives_on_has_all_its_growth_in_its_own_row() {
    let mut scene = Scene::new();
    scene.churn();
    let began = scene.second;
    for age in 0..30 {
        let shown = scene.step(vec![row("run-u50.service", age, false)]);
        assert!(!shown.contains_key("run-u50.service"), "at {age} s");
    }
    let shown = scene.step(vec![row("run-u50.service", 30, false)]);
    let expected = [("run-u*.service", 0), ("run-u50.service", 30)];
    assert_eq!(
        shown,
        &expected.map(|(name, ns)| (name.to_owned(), ns)).into()
    );
    let subject = Subject::Unit("run-u50.service".into());
    let beginning = Some(((began + 1) * SECOND, 1000 + began));
    assert_eq!(scene.short.beginning(&subject), beginning);
    // It stays in its own row after its end.
    let shown = scene.step(vec![row("run-u50.service", 31, true)]);
    assert_eq!(shown["run-u50.service"], 31);
}

#[test]
fn the_first_short_groups_and_those_of_the_first_batch_have_their_own_rows() {
    let mut scene = Scene::new();
    for number in 0..MANY - 1 {
        let name = format!("run-u{number}.service");
        scene.step(vec![row(&name, 5, false)]);
        scene.step(vec![row(&name, 7, true)]);
    }
    let next = scene.step(vec![row("run-u50.service", 1, false)]);
    assert_eq!(next, &[("run-u50.service".into(), 1)].into());

    let mut short = ShortLived::new(30 * SECOND, 3 * SECOND);
    let subjects = (0..20).map(|number| row(&format!("run-u{number}.service"), 1, false));
    let mut batch = Batch {
        taken_ns: 1000 * SECOND,
        subjects: subjects.collect(),
        ..Batch::default()
    };
    for ended in [false, true] {
        batch.taken_ns += SECOND;
        batch.subjects.iter_mut().for_each(|row| row.ended = ended);
        short.observe(&batch, 0);
        assert_eq!(short.rows(&batch).len(), 20, "their age is unknown");
    }
}

/// Groups begin, end, come back under their old names, and take the name of the shared row.
#[test]
fn each_increase_is_in_one_row() {
    let mut scene = Scene::new();
    let mut groups: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut used = 0;
    let mut random = 1_u64;
    let mut roll = |sides: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % sides
    };
    for second in 0..900 {
        if second < 800 {
            let name = match roll(20) {
                0 => "run-u*.service".to_owned(),
                _ => format!("run-u{}.service", roll(400)),
            };
            let life = if roll(8) == 0 { 90 } else { roll(20) };
            groups.entry(name).or_default().1 = second + life;
        }
        // The rollup lists an ended group for a while.
        groups.retain(|_, (_, end)| *end + 60 > second);
        let rows = groups.iter_mut().map(|(name, (ns, end))| {
            let ended = *end <= second;
            // The last growth of a group is known after its end.
            if *end + 1 >= second {
                let growth = roll(100);
                *ns += growth;
                used += growth;
            }
            row(name, *ns, ended)
        });
        let rows = rows.collect();
        scene.step(rows);
    }
    assert!(used > 10_000);
    assert_eq!(scene.counted, used);
}
