//! Simulated nodes with waits, and tests of the view of waits.

use noctule_model::{Batch, Cause, FeatureId, FeatureState, Level, VerdictKind};

use super::fixture::{Fake, app, feed, names, press};
use crate::state::App;
use crate::table::View;
use crate::table::columns::COLUMNS;
use crate::table::figures;

const MS: u64 = 1_000_000;

pub(super) const FRONT: &str = "/kubepods.slice/kubepods-pod1f3c.slice/cri-4e1d.scope";
pub(super) const BACK: &str = "/kubepods.slice/kubepods-pod1f3c.slice/cri-77aa.scope";
const NGINX: &str = "/system.slice/nginx.service";
const BATCH: &str = "/batch/job-17";
const BUILD: &str = "/user.slice/user-1000.slice/session-3.scope";

pub(super) fn node() -> Fake {
    Fake::new()
        .process(1, 0, "node", FRONT)
        .process(2, 0, "java", BACK)
        .process(3, 0, "nginx", NGINX)
        .process(4, 0, "sort", BATCH)
        .process(5, 0, "cc1plus", BUILD)
}

/// Advances by one second, in which each group waits in a different way. `much` is how often the
/// front end waits for the batch job.
pub(super) fn second(fake: &mut Fake, much: u64) -> Batch {
    fake.behind(FRONT, BATCH, much, 4 * MS);
    fake.behind(FRONT, BUILD, 12, MS);
    fake.waits(FRONT, Cause::Idle, 400, 9_000);
    fake.waits(FRONT, Cause::Own, 20, 300_000);
    fake.waits(BACK, Cause::Throttle, 9, 52 * MS);
    fake.waits(BACK, Cause::Unattributed, 3, 700_000);
    fake.waits(NGINX, Cause::Kernel, 30, 40_000);
    fake.waits(NGINX, Cause::Idle, 900, 2_500);
    fake.waits(BUILD, Cause::Own, 60, 11 * MS);
    fake.behind(BUILD, BATCH, 9, 3 * MS);
    fake.tick(&[(1, 40), (2, 50), (3, 2), (4, 100), (5, 150)])
}

/// Shows twelve quiet seconds and then eight seconds in which the front end waits.
pub(super) fn contended(app: App) -> App {
    let mut fake = node();
    let batches: Vec<Batch> = (0..20)
        .map(|i| second(&mut fake, if i < 12 { 1 } else { 70 }))
        .collect();
    press(feed(app, batches), "w")
}

/// Shows a web server with a thread that has waited for 18 seconds, among many that run.
pub(super) fn starved(app: App) -> App {
    let mut fake = node();
    let batches: Vec<Batch> = (0..7)
        .map(|i| {
            fake.behind(NGINX, BATCH, 1, 80 * MS);
            fake.waits_now(NGINX, 3, (12 + i) * 1000 * MS);
            fake.waits_now(BATCH, 1, 4 * MS);
            fake.tick(&[(1, 40), (3, 190), (4, 100)])
        })
        .collect();
    press(feed(app, batches), "w")
}

/// Like [`contended`], but in the last second no group waits.
pub(super) fn over(app: App) -> App {
    let mut fake = node();
    let mut batches: Vec<Batch> = (0..20).map(|_| second(&mut fake, 70)).collect();
    batches.push(fake.tick(&[(1, 40), (4, 100)]));
    press(feed(app, batches), "w")
}

/// Like [`contended`], but before the first verdict.
pub(super) fn young(app: App) -> App {
    let mut fake = node();
    let batches: Vec<Batch> = (0..3).map(|_| second(&mut fake, 70)).collect();
    press(feed(app, batches), "w")
}

/// Shows processes that run and never wait.
pub(super) fn processes_without_waits(app: App) -> App {
    let mut fake = node();
    let batches: Vec<Batch> = (0..3).map(|_| fake.tick(&[(1, 40)])).collect();
    press(feed(app, batches), "w")
}

pub(super) fn switched_off(app: App) -> App {
    let mut fake = node().off(FeatureId::CpuWaits, FeatureState::Off);
    let batches: Vec<Batch> = (0..3).map(|_| fake.tick(&[(1, 40)])).collect();
    press(feed(app, batches), "w")
}

/// Shows groups with hostile names that wait for each other.
pub(super) fn hostile(app: App) -> App {
    let names = [
        "\x1b[31mred",
        "日本語サーバ",
        "a\nb\tc\\",
        "\u{202e}gpj.exe",
        "❤️👩‍💻",
    ];
    let paths = names.map(|name| format!("/evil/{name}\x1b]0;title\x07/{}", "x".repeat(40)));
    let mut fake = paths
        .iter()
        .zip(10..)
        .fold(Fake::new(), |fake, (path, pid)| {
            fake.process(pid, 1, "evil", path)
        });
    let batches: Vec<Batch> = (0..7)
        .map(|_| {
            for (i, path) in paths.iter().enumerate() {
                fake.behind(path, &paths[(i + 1) % paths.len()], 50 + i as u64, 5 * MS);
            }
            fake.tick(&[(10, 50), (11, 20)])
        })
        .collect();
    press(feed(app, batches), "w")
}

fn verdicts(app: &App) -> Vec<(String, Option<VerdictKind>)> {
    let kind = |line: &crate::table::lines::Line| (line.name.clone(), figures::verdict(&line.item));
    app.lines.iter().map(kind).collect()
}

fn verdict(app: &App, name: &str) -> Option<VerdictKind> {
    let found = verdicts(app).into_iter().find(|(of, _)| of == name);
    found.expect("it has a row").1
}

#[test]
fn most_waited_comes_first_and_each_has_its_verdict() {
    let app = contended(app(Level::Container, 160, 30));
    let expected = [
        ("session-3.scope", Some(VerdictKind::TooManyThreads)),
        ("web/shop-7d9f/shop-77aa", Some(VerdictKind::HeldByQuota)),
        (
            "web/shop-7d9f/shop-4e1d",
            Some(VerdictKind::HurtByNeighbour),
        ),
        ("nginx.service", Some(VerdictKind::Quiet)),
    ];
    let expected = expected.map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(verdicts(&app), expected);
}

#[test]
fn verdict_comes_after_a_second_and_stays() {
    let mut fake = node();
    let mut app = press(app(Level::Container, 160, 30), "w");
    let mut seen = Vec::new();
    for i in 0..16 {
        let much = if i < 6 { 1 } else { 70 };
        app = feed(app, [second(&mut fake, much)]);
        if i > 0 {
            seen.push(verdict(&app, "web/shop-7d9f/shop-4e1d"));
        }
    }
    let kinds = [
        (9, Some(VerdictKind::Quiet)),
        (6, Some(VerdictKind::HurtByNeighbour)),
    ];
    let expected: Vec<_> = kinds
        .into_iter()
        .flat_map(|(times, kind)| std::iter::repeat_n(kind, times))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn group_without_waits_stays_until_next_verdict() {
    let mut fake = node();
    let mut app = press(app(Level::Container, 160, 30), "w");
    for _ in 0..6 {
        app = feed(app, [second(&mut fake, 70)]);
    }
    let mut rows = Vec::new();
    for _ in 0..10 {
        app = feed(app, [fake.tick(&[(1, 40)])]);
        rows.push(app.lines.len());
        let zero = |line: &crate::table::lines::Line| {
            figures::wait_rate(&app.facts(), &line.item) == Some(0.0)
        };
        assert!(app.lines.iter().all(zero));
    }
    assert_eq!(rows, [4, 4, 4, 4, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn containers_replace_processes_in_the_waits_view() {
    let app = contended(app(Level::Process, 160, 30));
    assert_eq!((app.level(), app.falls_back()), (Level::Container, true));
    assert_eq!(press(app.clone(), "Tab").level(), Level::Unit);
    assert_eq!(press(app.clone(), "Tab BackTab").level(), Level::Container);
    let back = press(app, "w");
    assert_eq!((back.level(), back.falls_back()), (Level::Process, false));
}

#[test]
fn each_level_has_its_rows() {
    let app = contended(app(Level::Container, 160, 30));
    for (key, first, rows) in [
        ("2", "session-3.scope", 4),
        ("3", "session-3.scope", 4),
        ("4", "web/shop-7d9f", 3),
        ("5", BUILD, 4),
    ] {
        let app = press(app.clone(), key);
        assert_eq!((names(&app)[0].as_str(), app.lines.len()), (first, rows));
    }
}

#[test]
fn each_view_has_its_own_sort_order() {
    let sorted = |app: &App| (COLUMNS[app.sort()].title, app.descending);
    let app = contended(app(Level::Container, 160, 30));
    assert_eq!(sorted(&app), ("WAIT/s", true));
    let app = press(app, "s s s s s s r");
    assert_eq!(sorted(&app), ("MAX", false));
    let app = press(app, "s");
    assert_eq!(sorted(&app).0, "CULPRIT", "pictures are no order");
    let app = press(app, "w");
    assert_eq!(sorted(&app), ("VERDICT", true));
    assert_eq!(sorted(&press(app.clone(), "U")), ("CPU%", true));
    assert_eq!(sorted(&press(app, "w")).0, "CULPRIT");
}

#[test]
fn waits_sort_by_verdict_and_culprit() {
    let app = contended(app(Level::Container, 160, 30));
    let worst = press(app.clone(), "< <");
    assert_eq!(COLUMNS[worst.sort()].title, "VERDICT");
    assert_eq!(names(&worst)[0], "web/shop-7d9f/shop-4e1d");
    assert_eq!(names(&worst)[3], "nginx.service");
}

/// Returns the culprit shown for a container that waits for these groups each second, and the
/// culprit's share.
fn culprit_of(behind: &[(&str, u64)], kernel_ms: u64) -> (String, f64) {
    const VICTIM: &str = "/web.slice/shop";
    let mut fake = Fake::new().process(1, 0, "shop", VICTIM);
    let batches = (0..8).map(|_| {
        for (path, ms) in behind {
            fake.behind(VICTIM, path, *ms, MS);
        }
        fake.waits(VICTIM, Cause::Kernel, kernel_ms, MS);
        fake.tick(&[(1, 40)])
    });
    let batches: Vec<Batch> = batches.collect();
    let app = press(feed(app(Level::Cgroup, 160, 30), batches), "w");
    let mut lines = app.lines.iter();
    let line = lines.find(|line| line.name == VICTIM).expect("it waits");
    let facts = app.facts();
    let percent = figures::culprit_percent(&facts, &line.item).expect("a share");
    (figures::culprit(Level::Cgroup, &line.item), percent)
}

#[test]
fn the_share_belongs_to_the_named_culprit() {
    let jobs: Vec<String> = (0..20).map(|job| format!("/ci.slice/{job}")).collect();
    let jobs: Vec<(&str, u64)> = jobs.iter().map(|job| (job.as_str(), 40)).collect();
    let many = culprit_of(&[jobs, vec![("/other", 200)]].concat(), 0);
    assert_eq!(many, ("ci.slice/*: 20 jobs".to_owned(), 80.0));
    let below_kernel = culprit_of(&[("/a", 360), ("/b", 140)], 400);
    assert_eq!(below_kernel, ("/a".to_owned(), 40.0));
}

#[test]
fn the_filter_finds_victims_by_culprit_and_by_verdict_too() {
    let app = contended(app(Level::Container, 160, 30));
    for (keys, found) in [
        // A group that is hurt by its own threads has no culprit.
        ("/ j o b - 1 7", vec!["web/shop-7d9f/shop-4e1d"]),
        ("/ h u r t", vec!["web/shop-7d9f/shop-4e1d"]),
        ("/ N G I", vec!["nginx.service"]),
        ("/ z z", vec![]),
    ] {
        assert_eq!(names(&press(app.clone(), keys)), found, "{keys}");
    }
}

#[test]
fn a_selected_group_stays_selected_in_the_other_view() {
    let app = press(contended(app(Level::Container, 160, 30)), "Down Down");
    assert_eq!(
        names(&app)[app.selected().unwrap()],
        "web/shop-7d9f/shop-77aa"
    );
    let app = press(app, "w");
    assert_eq!(
        names(&app)[app.selected().unwrap()],
        "web/shop-7d9f/shop-77aa"
    );
    let app = press(app, "1");
    assert_eq!(press(app, "Down w").selected(), None, "no process waits");
}

#[test]
fn pause_freezes_verdicts_without_missing_any() {
    let mut fake = node();
    let mut app = press(app(Level::Container, 160, 30), "w");
    for _ in 0..3 {
        app = feed(app, [second(&mut fake, 70)]);
    }
    let paused = press(app, "Space");
    let later = feed(
        paused,
        (0..3).map(|_| second(&mut fake, 70)).collect::<Vec<_>>(),
    );
    assert!(verdict(&later, "web/shop-7d9f/shop-4e1d").is_some());
    let on = press(later, "Space");
    assert_eq!(
        verdict(&on, "web/shop-7d9f/shop-4e1d"),
        Some(VerdictKind::HurtByNeighbour)
    );
}

#[test]
fn the_detail_pane_follows_its_group() {
    let mut fake = node();
    let mut app = press(app(Level::Container, 160, 30), "w");
    for _ in 0..6 {
        app = feed(app, [second(&mut fake, 70)]);
    }
    let app = press(app, "Enter");
    let name = |app: &App| app.detail.as_ref().unwrap().line.name.clone();
    assert_eq!(name(&app), "session-3.scope");
    let app = feed(
        app,
        (0..6).map(|_| fake.tick(&[(1, 1)])).collect::<Vec<_>>(),
    );
    assert_eq!(name(&app), "session-3.scope");
    assert!(app.detail.as_ref().unwrap().gone);
}

/// Returns the headline on a wide screen.
fn headline(app: &App) -> String {
    let lines = app
        .headline(ratatui::layout::Size::new(400, 30))
        .into_iter();
    lines.map(|(line, _)| line).collect::<Vec<_>>().join(" / ")
}

#[test]
fn the_overview_opens_on_the_worst_verdict() {
    let app = press(contended(app(Level::Container, 160, 30)), "a");
    let expected = "web/shop-7d9f/shop-4e1d: hurt by /batch/job-17: runnable but not running 37.6% \
                    of its CPU demand, 34.8% behind that one, p99 4.06ms. 2 other groups are \
                    hurt. / Try: raise its CPU weight, or move it";
    assert_eq!(headline(&app), expected);
    let order = [
        // Groups hurt by another group come first, then groups hurt by their own threads. Both are
        // sorted by lost time, and the remaining groups by CPU time.
        "web/shop-7d9f/shop-4e1d",
        "session-3.scope",
        "web/shop-7d9f/shop-77aa",
        "/batch/job-17",
        "nginx.service",
    ];
    assert_eq!(names(&app), order);
    let blamed = |line: &crate::table::lines::Line| figures::blamed(app.level(), &line.item);
    let blamed: Vec<String> = app.lines.iter().map(blamed).collect();
    let expected = ["/batch/job-17 +1", "its own threads", "a CPU limit", "", ""];
    assert_eq!(blamed, expected);
}

#[test]
fn a_row_without_waits_in_the_window_is_not_hurt() {
    let app = press(over(app(Level::Container, 160, 30)), "a");
    assert_eq!(headline(&app), "No group is hurt.");
    let is_hurt = |line: &crate::table::lines::Line| figures::is_hurt(&line.item);
    assert!(!app.lines.iter().any(is_hurt));
    let kind = verdict(&app, "web/shop-7d9f/shop-4e1d");
    assert_eq!(kind, Some(VerdictKind::HurtByNeighbour), "it is only faint");
}

#[test]
fn keys_of_views_and_levels_work_in_panes() {
    use crate::state::keys::Mode;
    let start = press(contended(app(Level::Container, 200, 40)), "a");
    for pane in ["Enter", "b", "C"] {
        let open = press(start.clone(), pane);
        for (key, view) in [
            ("U", View::Use),
            ("w", View::Waits),
            ("e", View::Energy),
            ("a", View::Overview),
        ] {
            let turned = press(open.clone(), key);
            assert_eq!(
                (turned.view, turned.mode),
                (view, Mode::Table),
                "{pane} {key}"
            );
        }
        for key in ["3", "Tab"] {
            let there = press(open.clone(), key);
            assert_eq!(there.level(), Level::Unit, "{pane} {key}");
            assert_eq!(there.mode == Mode::Table, pane == "Enter", "{pane} {key}");
        }
        let other = if pane == "b" { "C" } else { "b" };
        assert_ne!(press(open, other).mode, Mode::Table, "{pane} {other}");
    }
}

#[test]
fn wide_overview_shows_details_next_to_the_table() {
    let beside = |app: &App| app.beside.as_ref().map(|detail| detail.line.name.clone());
    let wide = press(contended(app(Level::Container, 160, 30)), "a");
    assert_eq!(beside(&wide).as_deref(), Some("web/shop-7d9f/shop-4e1d"));
    let wide = press(wide, "Down Down");
    assert_eq!(beside(&wide).as_deref(), Some("session-3.scope"));
    assert_eq!(beside(&press(wide.clone(), "w")), None);
    assert_eq!(beside(&press(wide, "b")), None, "the pane needs the width");
    let narrow = press(contended(app(Level::Container, 159, 30)), "a");
    assert_eq!(beside(&narrow), None);
}
