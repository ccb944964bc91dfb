//! Tests of trees, including data that a healthy machine would not produce.

use noctule_model::Level;

use super::fixture::{Fake, app, feed, names, press};
use crate::state::App;
use crate::table::figures;

fn shown(mut fake: Fake, level: Level, used: &[(u32, u64)]) -> App {
    let batches = [fake.tick(&[]), fake.tick(used)];
    press(feed(app(level, 100, 40), batches), "t")
}

fn family() -> Fake {
    Fake::new()
        .process(1, 0, "init", "/")
        .process(10, 1, "shell", "/a/b")
        .process(11, 10, "make", "/a/b")
        .process(12, 11, "cc", "/a/b")
        .process(20, 1, "web", "/c")
}

#[test]
fn idle_parents_are_shown_and_siblings_sorted_by_sum() {
    let app = shown(family(), Level::Process, &[(12, 50), (20, 40)]);
    let expected = ["init", "├─shell", "│ └─make", "│   └─cc", "└─web"];
    assert_eq!(names(&app), expected);
    assert_eq!(names(&press(app, "r"))[1], "├─web");
}

#[test]
fn collapsed_row_shows_the_sum_of_its_tree() {
    let app = shown(family(), Level::Process, &[(10, 1), (12, 50), (20, 40)]);
    let app = press(app, "Down Down Left");
    assert_eq!(names(&app), ["init", "├─shell", "└─web"]);
    let collapsed = &app.lines[1];
    let percent = figures::cpu_percent(&app.facts(), &collapsed.item).unwrap();
    assert_eq!((percent.round(), collapsed.below.len()), (51.0, 2));
    assert_eq!(names(&press(app, "Right")).len(), 5);
}

#[test]
fn the_filter_keeps_the_rows_above_a_match() {
    let app = shown(family(), Level::Process, &[(12, 50), (20, 40)]);
    let app = press(app, "/ c c Enter");
    let matched: Vec<bool> = app.lines.iter().map(|line| line.matched).collect();
    assert_eq!(names(&app).last().unwrap(), "    └─cc");
    assert_eq!(matched, [false, false, false, true]);
}

#[test]
fn cgroups_stand_below_their_paths() {
    let app = shown(family(), Level::Cgroup, &[(12, 50), (20, 40)]);
    assert_eq!(names(&app), ["/", "├─a", "│ └─b", "└─c"]);
    let paths: Vec<&str> = app
        .lines
        .iter()
        .map(|line| line.item.row.owner.path.as_str())
        .collect();
    assert_eq!(paths, ["/", "/a", "/a/b", "/c"]);
}

#[test]
fn parent_cycles_do_not_hang() {
    let fake = Fake::new()
        .process(5, 6, "ring-a", "/")
        .process(6, 5, "ring-b", "/")
        .process(7, 6, "tail", "/")
        .process(8, 8, "self", "/");
    let used = [(5, 9), (6, 8), (7, 7), (8, 1)];
    let app = shown(fake, Level::Process, &used);
    assert_eq!(app.lines.len(), 4, "each is shown once");
}

#[test]
fn deep_trees_need_neither_stack_nor_width() {
    let depth = 20_000;
    let fake = (1..depth).fold(Fake::new(), |fake, pid| {
        fake.process(pid, pid - 1, "d", "/")
    });
    let app = shown(fake, Level::Process, &[(depth - 1, 10)]);
    assert_eq!(app.lines.len(), depth as usize - 1);
    let widest = app
        .lines
        .iter()
        .map(|line| line.guide.chars().count())
        .max();
    assert!(widest < Some(100));
    assert_eq!(app.lines[0].below.len(), depth as usize - 2);
    assert_eq!(press(app, "Down Left").lines.len(), 1);
}
