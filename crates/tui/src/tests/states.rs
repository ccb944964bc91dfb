//! Tests of keys and batches against the state.

use noctule_model::{Batch, Counter, Level};
use ratatui::layout::Size;

use super::fixture::{Fake, app, feed, names, press};
use crate::state::keys::Mode;
use crate::state::{App, Input};
use crate::table::View;
use crate::table::columns::COLUMNS;

/// Creates ten processes, of which p0 is the busiest.
fn ten() -> Fake {
    (0..10).fold(Fake::new(), |fake, i| {
        fake.process(10 + i, 1, &format!("p{i}"), &format!("/{i}.service"))
    })
}

fn used(order: [u64; 10]) -> Vec<(u32, u64)> {
    (10..).zip(order.map(|rank| 20 - rank)).collect()
}

const FALLING: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const RISING: [u64; 10] = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

fn start(fake: &mut Fake) -> App {
    let batches: [Batch; 2] = [fake.tick(&[]), fake.tick(&used(FALLING))];
    feed(app(Level::Process, 80, 12), batches)
}

fn chosen(app: &App) -> Option<&str> {
    app.selected().map(|i| app.lines[i].name.as_str())
}

fn sorted_by(app: &App) -> &'static str {
    COLUMNS[app.sort()].title
}

#[test]
fn the_selection_stays_on_its_process_while_rows_move() {
    let mut fake = ten();
    let app = start(&mut fake);
    assert_eq!(chosen(&app), None);
    let app = press(app, "Down Down Down");
    assert_eq!(chosen(&app), Some("p2"));
    let app = feed(app, [fake.tick(&used(RISING))]);
    assert_eq!(names(&app)[0], "p9");
    assert_eq!(chosen(&app), Some("p2"));
    let (at, page) = (
        app.selected().unwrap(),
        usize::from(app.areas().body.height),
    );
    assert_eq!(at, 7);
    assert!(
        at >= app.offset && at < app.offset + page,
        "it stays in sight"
    );
}

#[test]
fn without_a_selection_the_table_stays_at_its_top() {
    let mut fake = ten();
    let app = feed(start(&mut fake), [fake.tick(&used(RISING))]);
    assert_eq!((app.offset, chosen(&app)), (0, None));
    let app = press(app, "Enter");
    assert_eq!(app.detail.unwrap().line.name, "p9", "Enter takes the first");
}

#[test]
fn selection_moves_to_next_row_when_process_ends() {
    let mut fake = ten();
    let app = press(start(&mut fake), "Down Down Down");
    let ended = fake.exit(12);
    let others: Vec<_> = used(FALLING)
        .into_iter()
        .filter(|(pid, _)| *pid != 12)
        .collect();
    let mut batch = fake.tick(&others);
    batch.exited.push(ended);
    let app = feed(app, [batch]);
    assert_eq!(
        chosen(&app),
        Some("p2 (exited)"),
        "it shows its last figures"
    );
    let app = feed(app, [fake.tick(&others)]);
    assert!(!names(&app).iter().any(|name| name.starts_with("p2")));
    assert!(app.selected().is_some());
}

#[test]
fn motions_stop_at_the_ends_and_pages_follow_the_size() {
    let mut fake = ten();
    let app = press(start(&mut fake), "Down Up Up");
    assert_eq!(chosen(&app), Some("p0"));
    let page = usize::from(app.areas().body.height);
    let app = press(app, "PgDn");
    assert_eq!(app.selected(), Some(page.min(9)));
    let app = press(app, "End Down j");
    assert_eq!((app.selected(), app.offset), (Some(9), 10 - page));
    let app = app.step(Input::Size(Size::new(80, 5)));
    let page = usize::from(app.areas().body.height);
    assert!(app.selected().unwrap() < app.offset + page);
    assert_eq!(press(app, "Home").offset, 0);
}

#[test]
fn escape_closes_one_thing_at_a_time() {
    let mut fake = ten();
    let app = press(start(&mut fake), "/ p Enter Down Enter ?");
    assert_eq!(app.mode, Mode::Help);
    let app = press(app, "Esc");
    assert_eq!(
        app.mode,
        Mode::Detail,
        "help goes back to where it was opened"
    );
    let app = press(app, "Esc");
    assert_eq!((app.mode, app.detail.is_some()), (Mode::Table, false));
    assert_eq!(app.filter, "p");
    let app = press(app, "Esc");
    assert!(app.filter.is_empty() && chosen(&app).is_some());
    let app = press(app, "Esc");
    assert_eq!(chosen(&app), None);
    assert!(!app.quit);
    assert!(press(app, "q").quit);
}

#[test]
fn the_filter_finds_names_paths_and_pids_in_any_case() {
    let mut fake = ten();
    let start = start(&mut fake);
    for (keys, found) in [
        ("/ P 3", vec!["p3"]),
        ("/ / 4 . S", vec!["p4"]),
        ("/ 1 9", vec!["p9"]),
        ("/ q", vec![]),
        ("/ x ^u p 1", vec!["p1"]),
        ("/ p 1 x Backspace", vec!["p1"]),
    ] {
        assert_eq!(names(&press(start.clone(), keys)), found, "{keys}");
    }
    let app = press(start, "/ p 1 Esc");
    assert_eq!((names(&app).len(), app.mode), (10, Mode::Table));
}

#[test]
fn ctrl_c_quits_from_everywhere() {
    let mut fake = ten();
    let start = start(&mut fake);
    for keys in ["^c", "/ a ^c", "? ^c", "Enter ^c"] {
        assert!(press(start.clone(), keys).quit, "{keys}");
    }
    assert!(!press(start, "/ q c").quit);
}

#[test]
fn filter_length_is_limited() {
    let mut fake = ten();
    let app = press(start(&mut fake), &format!("/ {}", "ä ".repeat(500)));
    assert_eq!(app.filter.chars().count(), 128);
}

#[test]
fn pause_freezes_the_screen_but_not_collection() {
    let mut fake = ten();
    let app = press(start(&mut fake), "Space");
    let batches: Vec<Batch> = (0..3).map(|_| fake.tick(&used(RISING))).collect();
    let app = feed(app, batches);
    assert_eq!(names(&app)[0], "p0");
    let end = |app: &App| app.shown.window.as_ref().map(|window| window.time_unix_ns);
    let frozen = end(&app);
    let app = press(app, "5");
    assert_eq!(
        app.lines.len(),
        10,
        "other levels of the frozen window can be seen"
    );
    let app = press(app, "1 Space");
    assert_eq!(names(&app)[0], "p9");
    assert!(end(&app) > frozen);
    let minute = app.shown.node_minute(60);
    assert_eq!(minute.iter().flatten().count(), 4, "nothing was missed");
}

#[test]
fn sorting_walks_the_columns_and_reverses() {
    let mut fake = ten();
    let app = start(&mut fake);
    assert_eq!((sorted_by(&app), app.descending), ("CPU%", true));
    let app = press(app, "r");
    assert_eq!(names(&app)[0], "p9");
    let app = press(app, "< <");
    assert_eq!((sorted_by(&app), app.descending), ("NAME", false));
    assert_eq!(names(&app)[0], "p0");
    let mut walked = app.clone();
    let here = COLUMNS.iter().filter(|c| c.views.contains(&View::Use));
    for _ in here {
        walked = press(walked, ">");
    }
    assert_eq!(
        sorted_by(&walked),
        "NAME",
        "all are measured, so it comes round"
    );
}

#[test]
fn a_sort_column_that_a_level_lacks_is_remembered() {
    let mut fake = ten();
    let app = press(start(&mut fake), "< < <");
    assert_eq!(sorted_by(&app), "PID");
    let app = press(app, "2");
    assert_eq!(sorted_by(&app), "CPU%");
    assert_eq!(sorted_by(&press(app, "1")), "PID");
}

#[test]
fn columns_of_unmeasured_counters_cannot_be_chosen() {
    let mut fake = ten().unmeasured();
    let app = start(&mut fake);
    assert_eq!(sorted_by(&press(app.clone(), "s s s")), "PID");
    assert_eq!(sorted_by(&press(app, "s s")), "TIME");
}

#[test]
fn levels_are_chosen_by_number_letter_or_tab() {
    let app = app(Level::Process, 80, 24);
    for (keys, level) in [
        ("c", Level::Container),
        ("3", Level::Unit),
        ("o", Level::Pod),
        ("g", Level::Cgroup),
        ("Tab", Level::Container),
        ("Tab Tab Tab Tab Tab", Level::Process),
        ("BackTab", Level::Cgroup),
    ] {
        assert_eq!(press(app.clone(), keys).level(), level, "{keys}");
    }
}

#[test]
fn panes_scroll_no_further_than_their_end() {
    let mut fake = ten();
    let app = press(start(&mut fake), "? End");
    let end = app.scroll;
    assert!(end > 0);
    assert_eq!(press(app.clone(), "Down PgDn").scroll, end);
    assert_eq!(press(app.clone(), "Home Up").scroll, 0);
    let app = app.step(Input::Size(Size::new(80, 200)));
    assert_eq!(app.scroll, 0, "everything fits now");
}

#[test]
fn detail_pane_follows_its_process_and_reports_its_exit() {
    let mut fake = ten();
    let app = press(start(&mut fake), "Down Down Enter");
    let app = feed(app, [fake.tick(&used(RISING))]);
    let detail = app.detail.as_ref().unwrap();
    assert_eq!((detail.line.name.as_str(), detail.gone), ("p1", false));
    let ended = fake.exit(11);
    let mut batch = fake.tick(&[]);
    batch.exited.push(ended);
    let app = feed(app, [batch, fake.tick(&[])]);
    let detail = app.detail.as_ref().unwrap();
    assert_eq!(
        (detail.line.name.as_str(), detail.gone),
        ("p1 (exited)", true)
    );
}

#[test]
fn the_mouse_selects_opens_sorts_and_scrolls() {
    use crate::state::keys::{Pointed, Pointer};
    let at = |app: App, what, x, y| app.step(Input::Mouse(Pointer { what, x, y }));
    let app = start(&mut ten());
    let areas = app.areas();
    let (titles, body) = (areas.titles.y, areas.body.y);
    let app = at(app, Pointed::Click, 3, body + 2);
    assert_eq!((app.selected(), app.mode), (Some(2), Mode::Table));
    let app = at(app, Pointed::Click, 3, body + 2);
    assert_eq!(app.mode, Mode::Detail);
    let app = press(app, "Esc");
    let app = at(app, Pointed::Click, 9, titles);
    assert_eq!((sorted_by(&app), app.descending), ("NAME", false));
    let app = at(app, Pointed::Click, 9, titles);
    assert_eq!((sorted_by(&app), app.descending), ("NAME", true));
    let app = at(press(app, "Esc"), Pointed::Down, 3, body);
    let hidden = app.lines.len() - usize::from(areas.body.height);
    assert!(hidden > 0);
    assert_eq!((app.selected(), app.offset), (None, hidden.min(3)));
    let app = at(press(app, "?"), Pointed::Down, 0, 0);
    assert_eq!(app.scroll, 3);
}

#[test]
fn hidden_columns_stay_hidden_in_other_views_and_come_back() {
    let app = press(start(&mut ten()), "f Home Space Esc w e e U");
    assert_eq!(app.hidden.len(), 1);
    let app = press(app, "f Home Down Space");
    assert_eq!(app.hidden.len(), 1, "the name stays");
    let app = press(app, "Home Space End Enter");
    assert_eq!((app.hidden.len(), app.mode), (0, Mode::Table));
    assert_eq!(sorted_by(&app), "PRE/s");
}

#[test]
fn processes_of_a_command_are_one_row_on_request() {
    let fake = [("a", "/x"), ("a", "/x"), ("a", "/y"), ("b", "/x")].into_iter();
    let mut fake = (10..)
        .zip(fake)
        .fold(Fake::new(), |fake, (pid, (name, path))| {
            fake.process(pid, 1, name, path)
        });
    let used = [(10, 20), (11, 30), (12, 10), (13, 5)];
    let batches = [fake.tick(&[]), fake.tick(&used)];
    let app = feed(app(Level::Process, 80, 20), batches);
    assert_eq!(names(&app), ["a", "a", "a", "b"]);
    let app = press(app, "m");
    assert_eq!(names(&app), ["a x2", "a", "b"]);
    let cpu: Vec<_> = app
        .lines
        .iter()
        .map(|line| line.item.row.counters[Counter::CpuTime])
        .collect();
    assert_eq!(cpu, [500_000_000, 100_000_000, 50_000_000]);
    assert_eq!(app.lines[0].below.len(), 2, "the graph shows both");
    assert_eq!(
        names(&press(app.clone(), "/ y")),
        ["a"],
        "the filter chooses processes"
    );
    assert_eq!(names(&press(app, "m")).len(), 4);
}
