//! Golden screens. `NOCTULE_BLESS=1 cargo test -p noctule-tui` rewrites them; then review the diff.

use std::path::Path;
use std::sync::Arc;

use noctule_model::{Cause, FeatureId, FeatureState, Level, Loss};
use ratatui::style::Color;

use super::fixture::{Fake, WithColumns, app, colours, feed, press, screen, terminal};
use super::{energy, waits};
use crate::state::{About, App};

/// A screen: its name and size, the level, the node, and the keys pressed.
struct Case {
    name: &'static str,
    size: (u16, u16),
    level: Level,
    node: fn(App) -> App,
    keys: &'static str,
}

/// Returns the rows of a screen that are compared.
type Drawing = fn(&App, u16, u16) -> String;

const fn case(
    name: &'static str,
    size: (u16, u16),
    level: Level,
    node: fn(App) -> App,
    keys: &'static str,
) -> Case {
    Case {
        name,
        size,
        level,
        node,
        keys,
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("process-120x30", (120, 30), Level::Process, busy, ""),
    case("process-80x24", (80, 24), Level::Process, busy, "Down Down"),
    case("process-40x10", (40, 10), Level::Process, busy, "Down"),
    case("process-20x5", (20, 5), Level::Process, busy, "Down"),
    case("container-120x30", (120, 30), Level::Container, busy, ""),
    case("unit-80x24", (80, 24), Level::Unit, busy, ""),
    case("pod-80x24", (80, 24), Level::Pod, busy, ""),
    case("cgroup-80x24", (80, 24), Level::Cgroup, busy, ""),
    case("cgroup-tree-80x24", (80, 24), Level::Cgroup, busy, "t"),
    case("tree-80x24", (80, 24), Level::Process, busy, "t"),
    case("tree-collapsed-80x24", (80, 24), Level::Process, busy, "t Down Down Down Left"),
    case("tree-filter-80x24", (80, 24), Level::Process, busy, "t / c c"),
    case("no-tree-80x24", (80, 24), Level::Unit, busy, "t"),
    case("filter-typing-80x24", (80, 24), Level::Process, busy, "/ N g"),
    case("filter-kept-20x5", (20, 5), Level::Process, busy, "/ n g Enter"),
    case("filter-nothing-60x12", (60, 12), Level::Process, busy, "/ z z z Enter"),
    case("paused-60x12", (60, 12), Level::Process, busy, "Space"),
    case("paused-20x5", (20, 5), Level::Process, busy, "Space"),
    case("sort-name-60x12", (60, 12), Level::Process, busy, "< < r"),
    case("sort-minute-60x12", (60, 12), Level::Process, busy, "s"),
    case("detail-120x40", (120, 40), Level::Process, busy, "/ c r i Enter Down Enter"),
    case("detail-80x24", (80, 24), Level::Container, busy, "/ s h o p Enter Down Enter"),
    case("detail-40x10", (40, 10), Level::Process, busy, "Down Enter PgDn"),
    case("help-100x60", (100, 60), Level::Process, busy, "?"),
    case("help-20x5", (20, 5), Level::Process, busy, "? End"),
    case("hostile-80x14", (80, 14), Level::Process, hostile, ""),
    case("hostile-cgroup-60x14", (60, 14), Level::Cgroup, hostile, "Down Enter"),
    case("waiting-60x10", (60, 10), Level::Process, waiting, ""),
    case("nothing-ran-60x10", (60, 10), Level::Container, nothing_ran, ""),
    case("unmeasured-120x12", (120, 12), Level::Process, unmeasured, ""),
    case("waits-160x24", (160, 24), Level::Container, waits::contended, ""),
    case("waits-80x24", (80, 24), Level::Container, waits::contended, "Down"),
    case("waits-120x14", (120, 14), Level::Cgroup, waits::contended, "s s"),
    case("waits-process-80x24", (80, 24), Level::Process, waits::contended, ""),
    case("waits-40x10", (40, 10), Level::Unit, waits::contended, "Down"),
    case("waits-20x5", (20, 5), Level::Container, waits::contended, "Down"),
    case("waits-young-80x14", (80, 14), Level::Container, waits::young, ""),
    case("waits-nobody-80x12", (80, 12), Level::Container, waits::processes_without_waits, ""),
    case("waits-off-80x12", (80, 12), Level::Container, waits::switched_off, ""),
    case("waits-off-40x10", (40, 10), Level::Container, waits::switched_off, ""),
    case("waits-waiting-60x10", (60, 10), Level::Container, waiting, "w"),
    case("waits-filter-80x14", (80, 14), Level::Container, waits::contended, "/ n o i s y Enter"),
    case("waits-detail-120x50", (120, 50), Level::Container, waits::contended, "/ 4 e Enter Enter"),
    case("waits-detail-80x24", (80, 24), Level::Pod, waits::contended, "Enter"),
    case("waits-detail-40x14", (40, 14), Level::Container, waits::contended, "Enter PgDn"),
    case("waits-detail-young-80x24", (80, 24), Level::Container, waits::young, "Enter"),
    case("waits-hostile-100x14", (100, 14), Level::Cgroup, waits::hostile, ""),
    case("waits-hostile-detail-80x50", (80, 50), Level::Cgroup, waits::hostile, "Enter"),
    case("energy-120x20", (120, 20), Level::Process, energy::metered, ""),
    case("energy-80x24", (80, 24), Level::Container, energy::metered, "Down"),
    case("energy-40x10", (40, 10), Level::Cgroup, energy::metered, ""),
    case("energy-tree-80x24", (80, 24), Level::Cgroup, energy::metered, "t"),
    case("energy-detail-80x50", (80, 50), Level::Process, energy::metered, "Enter"),
    case("energy-off-80x12", (80, 12), Level::Process, energy::without_meter, ""),
    case("process-250x16", (250, 16), Level::Process, busy, ""),
    case("waits-250x16", (250, 16), Level::Container, waits::contended, ""),
    case("energy-250x16", (250, 16), Level::Process, energy::metered, ""),
    case("blame-40x14", (40, 14), Level::Container, waits::contended, "b"),
    case("blame-80x24", (80, 24), Level::Container, waits::contended, "b"),
    case("blame-120x24", (120, 24), Level::Cgroup, waits::contended, "b"),
    case("blame-process-80x24", (80, 24), Level::Process, waits::contended, "b"),
    case("blame-250x16", (250, 16), Level::Container, waits::contended, "b"),
    case("blame-off-80x12", (80, 12), Level::Container, waits::switched_off, "b"),
    case("blame-nobody-80x12", (80, 12), Level::Container, waits::processes_without_waits, "b"),
    case("cpus-40x14", (40, 14), Level::Container, cpus, "C"),
    case("cpus-80x24", (80, 24), Level::Container, cpus, "C"),
    case("cpus-120x24", (120, 24), Level::Unit, cpus, "C"),
    case("cpus-250x16", (250, 16), Level::Container, cpus, "C"),
    case("cpus-ascii-80x24", (80, 24), Level::Container, cpus_ascii, "C"),
    case("cpus-unknown-80x12", (80, 12), Level::Process, busy, "C"),
    case("cpus-waiting-60x10", (60, 10), Level::Process, waiting, "C"),
    case("columns-40x14", (40, 14), Level::Process, busy, "f Down Down Space End"),
    case("columns-80x24", (80, 24), Level::Process, busy, "f Down Space"),
    case("hidden-80x24", (80, 24), Level::Process, busy, "f Home Space End Enter"),
    case("help-80x24", (80, 24), Level::Process, busy, "?"),
    case("process-ascii-80x24", (80, 24), Level::Process, busy_ascii, "t"),
    case("waits-ascii-120x24", (120, 24), Level::Container, waits_ascii, ""),
    case("waits-detail-ascii-80x50", (80, 50), Level::Container, waits_ascii, "Enter"),
    case("hostile-ascii-80x14", (80, 14), Level::Process, hostile_ascii, ""),
    case("waits-starved-120x14", (120, 14), Level::Container, waits::starved, ""),
    case("waits-starved-detail-80x24", (80, 24), Level::Container, waits::starved, "/ n g i n x Enter Enter"),
    case("tree-40x14", (40, 14), Level::Process, busy, "t"),
    case("tree-120x24", (120, 24), Level::Process, busy, "t"),
    case("tree-250x16", (250, 16), Level::Process, busy, "t"),
    case("cgroup-tree-40x14", (40, 14), Level::Cgroup, busy, "t"),
    case("cgroup-tree-120x24", (120, 24), Level::Cgroup, busy, "t"),
    case("cgroup-tree-250x16", (250, 16), Level::Cgroup, busy, "t"),
    case("detail-250x40", (250, 40), Level::Process, busy, "Down Enter"),
    case("waits-detail-250x40", (250, 40), Level::Container, waits::contended, "Enter"),
    case("energy-detail-40x14", (40, 14), Level::Process, energy::metered, "Enter"),
    case("energy-detail-120x40", (120, 40), Level::Process, energy::metered, "Enter"),
    case("energy-detail-250x40", (250, 40), Level::Process, energy::metered, "Enter"),
    case("help-40x14", (40, 14), Level::Process, busy, "?"),
    case("help-120x40", (120, 40), Level::Process, busy, "?"),
    case("help-250x40", (250, 40), Level::Process, busy, "?"),
    case("columns-120x24", (120, 24), Level::Process, busy, "f Down Space"),
    case("columns-250x16", (250, 16), Level::Process, busy, "f Down Space"),
    case("blame-ascii-80x24", (80, 24), Level::Container, waits_ascii, "b"),
    case("energy-ascii-80x24", (80, 24), Level::Container, energy_ascii, "Down"),
    case("energy-detail-ascii-80x50", (80, 50), Level::Process, energy_ascii, "Enter"),
    case("detail-ascii-80x24", (80, 24), Level::Process, busy_ascii, "Down Enter"),
    case("help-ascii-80x24", (80, 24), Level::Process, busy_ascii, "?"),
    case("columns-ascii-80x24", (80, 24), Level::Process, busy_ascii, "f Down Space"),
    case("cgroup-tree-ascii-80x24", (80, 24), Level::Cgroup, busy_ascii, "t"),
    case("overview-200x45", (200, 45), Level::Container, waits::contended, "a Down Down"),
    case("overview-120x30", (120, 30), Level::Container, waits::contended, "a"),
    case("overview-80x24", (80, 24), Level::Container, waits::contended, "a Down"),
    case("overview-files-200x16", (200, 16), Level::Container, with_files, "a"),
    case("overview-files-120x16", (120, 16), Level::Container, with_files, "a"),
    case("overview-files-process-120x16", (120, 16), Level::Process, with_files, "a"),
    case("overview-energy-250x16", (250, 16), Level::Container, energy::metered, "a"),
    case("overview-40x10", (40, 10), Level::Container, waits::contended, "a"),
    case("overview-20x5", (20, 5), Level::Container, waits::contended, "a Space"),
    case("overview-process-120x24", (120, 24), Level::Process, busy, "a"),
    case("overview-tree-120x24", (120, 24), Level::Cgroup, waits::contended, "a t"),
    case("overview-quiet-160x16", (160, 16), Level::Container, busy, "a"),
    case("overview-over-120x14", (120, 14), Level::Container, waits::over, "a"),
    case("overview-young-80x14", (80, 14), Level::Container, waits::young, "a"),
    case("overview-off-80x14", (80, 14), Level::Container, waits::switched_off, "a"),
    case("overview-ascii-160x24", (160, 24), Level::Container, waits_ascii, "a"),
    case("overview-hostile-160x24", (160, 24), Level::Cgroup, waits::hostile, "a"),
    case("unmeasured-detail-80x30", (80, 30), Level::Process, unmeasured, "Enter"),
];

/// Golden colours of some screens, as letters. No cell has a background colour, so the screens look
/// the same on light and dark terminals. Tests of the palette check that each colour is readable on
/// both.
#[rustfmt::skip]
const COLOURS: &[Case] = &[
    case("process-colours-120x30", (120, 30), Level::Process, busy, "Down"),
    case("detail-colours-120x40", (120, 40), Level::Process, busy, "/ c r i Enter Down Enter"),
    case("waits-colours-120x24", (120, 24), Level::Container, waits::contended, "Down"),
    case("waits-detail-colours-120x50", (120, 50), Level::Container, waits::contended, "/ 4 e Enter Enter"),
    case("overview-colours-160x24", (160, 24), Level::Container, waits::contended, "a Down"),
    case("overview-over-colours-120x14", (120, 14), Level::Container, waits::over, "a"),
    case("cpus-colours-120x24", (120, 24), Level::Container, cpus, "C"),
    case("blame-colours-120x24", (120, 24), Level::Cgroup, waits::contended, "b"),
    case("energy-colours-120x20", (120, 20), Level::Process, energy::metered, ""),
    case("help-colours-80x24", (80, 24), Level::Process, busy, "?"),
    case("columns-colours-80x24", (80, 24), Level::Process, busy, "f Down Space"),
];

const FRONT: &str = "/kubepods.slice/kubepods-pod1f3c.slice/cri-4e1d.scope";
const BACK: &str = "/kubepods.slice/kubepods-pod1f3c.slice/cri-77aa.scope";

/// Shows four CPUs: one shared by neighbours, one with steal time, one idle, and one that goes
/// offline.
fn cpus(app: App) -> App {
    const MS: u64 = 1_000_000;
    let mut fake = waits::node();
    let second = |fake: &mut Fake, at: u64| {
        let batch = if (10..20).contains(&at) { 700 } else { 40 };
        fake.on_cpu(
            0,
            0,
            &[(waits::FRONT, 200 * MS), ("/batch/job-17", batch * MS)],
        );
        fake.on_cpu(1, 600 * MS, &[(waits::BACK, 300 * MS)]);
        fake.on_cpu(2, 0, &[("/system.slice/nginx.service", 8 * MS)]);
        if at < 24 {
            fake.on_cpu(5, 0, &[(waits::BACK, 900 * MS), (waits::FRONT, 90 * MS)]);
        } else {
            fake.batch.cpus.retain(|row| row.cpu != 5);
        }
        fake.tick(&[(1, 20), (2, 90), (3, 1), (4, 60)])
    };
    let batches: Vec<_> = (0..26).map(|at| second(&mut fake, at)).collect();
    feed(app, batches)
}

fn cpus_ascii(app: App) -> App {
    in_ascii(cpus(app))
}

/// Shows a minute and a half on an ordinary node, with a feature off and losses.
fn busy(app: App) -> App {
    let mut fake = Fake::new()
        .process(1, 0, "systemd", "/init.scope")
        .process(2, 0, "kthreadd", "/")
        .process(31, 2, "kworker/3:1-events", "/")
        .process(200, 1, "nginx", "/system.slice/nginx.service")
        .process(201, 200, "nginx", "/system.slice/nginx.service")
        .process(
            300,
            1,
            "postgres",
            "/system.slice/postgresql@16-main.service",
        )
        .process(400, 1, "sshd", "/system.slice/ssh.service")
        .process(
            401,
            400,
            "bash",
            "/user.slice/user-1000.slice/session-3.scope",
        )
        .process(
            402,
            401,
            "make",
            "/user.slice/user-1000.slice/session-3.scope",
        )
        .process(
            403,
            402,
            "cc1plus",
            "/user.slice/user-1000.slice/session-3.scope",
        )
        .process(
            404,
            402,
            "cc1plus",
            "/user.slice/user-1000.slice/session-3.scope",
        )
        .process(500, 1, "node", FRONT)
        .process(501, 1, "java", BACK)
        .off(FeatureId::Cycles, FeatureState::Off)
        .off(FeatureId::Softirqs, FeatureState::Degraded);
    let mut batches = Vec::new();
    for i in 0..90_u64 {
        let wave = if i / 15 % 2 == 0 { 5 } else { 60 };
        let mut used = vec![
            (31, 3),
            (201, wave),
            (300, 12),
            (403, i % 90),
            (404, 88),
            (500, 33),
        ];
        if i % 4 == 0 {
            used.push((501, 71));
        }
        if i < 60 {
            used.push((402, 2));
        }
        let mut batch = fake.tick(&used);
        batch.losses = vec![Loss {
            kind: "exit_record",
            place: "switch.exits",
            count: i / 40 * 6,
        }];
        if i == 89 {
            let mut child = batch.processes[11].clone();
            child.id.pid = 999;
            child.exited = true;
            child.counters = batch.processes[2].counters;
            batch.exited.push(child);
        }
        batches.push(batch);
    }
    feed(app, batches)
}

fn in_ascii(mut app: App) -> App {
    app.ascii = true;
    app
}

fn busy_ascii(app: App) -> App {
    in_ascii(busy(app))
}

fn energy_ascii(app: App) -> App {
    in_ascii(energy::metered(app))
}

fn with_files(mut app: App) -> App {
    app.about = About(Arc::new(WithColumns));
    waits::contended(app)
}

fn waits_ascii(app: App) -> App {
    in_ascii(waits::contended(app))
}

fn hostile_ascii(app: App) -> App {
    in_ascii(hostile(app))
}

fn hostile(app: App) -> App {
    let zalgo = format!("a{}", "\u{301}".repeat(7));
    let names = [
        "\x1b[31mred",
        "日本語サーバ",
        "a\nb\tc\\",
        "\u{202e}gpj.exe",
        "❤️👩‍💻",
        &zalgo,
        "",
    ];
    let fake = names
        .iter()
        .zip(10..)
        .fold(Fake::new(), |fake, (name, pid)| {
            let path = format!("/evil/{name}\x1b]0;title\x07/{}", "x".repeat(70));
            fake.process(pid, 1, name, &path)
        });
    let used: Vec<(u32, u64)> = (10..17).map(|pid| (pid, u64::from(30 - pid))).collect();
    two(fake, &used, app)
}

fn waiting(app: App) -> App {
    feed(app, [Fake::new().tick(&[])])
}

fn nothing_ran(app: App) -> App {
    two(Fake::new(), &[], app)
}

fn unmeasured(app: App) -> App {
    let fake = Fake::new()
        .unmeasured()
        .process(7, 1, "idle-not", "/a.service");
    two(fake, &[(7, 150)], app)
}

fn two(mut fake: Fake, used: &[(u32, u64)], app: App) -> App {
    let batches = [fake.tick(&[]), fake.tick(used)];
    feed(app, batches)
}

#[test]
fn screens_match_their_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/screens");
    let mut wrong = Vec::new();
    let drawn = CASES.iter().map(|case| (case, screen as Drawing));
    let painted = COLOURS.iter().map(|case| (case, colours as Drawing));
    for (case, drawing) in drawn.chain(painted) {
        let (width, height) = case.size;
        let app = press((case.node)(app(case.level, width, height)), case.keys);
        let now = drawing(&app, width, height);
        let path = folder.join(format!("{}.txt", case.name));
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(!app.ascii || now.is_ascii(), "{}", case.name);
        if golden != now {
            wrong.push(format!("--- {}\n{golden}+++ now\n{now}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_screen_has_its_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/screens");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = CASES
            .iter()
            .chain(COLOURS)
            .any(|case| format!("{}.txt", case.name) == name);
        assert!(known, "{name} belongs to no case");
    }
}

#[test]
fn no_size_panics_and_no_control_character_reaches_a_cell() {
    let nodes = [
        busy as fn(App) -> App,
        hostile,
        waiting,
        nothing_ran,
        unmeasured,
        waits::contended,
        waits::starved,
        waits::hostile,
        waits::switched_off,
        energy::metered,
        energy::without_meter,
    ];
    let keys = [
        "",
        "Down Enter",
        "?",
        "/ a b",
        "t End",
        "5 t Down Left End",
        "a 2 Down",
    ];
    for node in nodes {
        let start = node(app(Level::Process, 80, 24));
        for keys in keys {
            let app = press(start.clone(), keys);
            for width in [
                0, 1, 2, 3, 5, 9, 17, 20, 39, 60, 99, 119, 120, 131, 160, 250,
            ] {
                for height in [0, 1, 2, 3, 5, 7, 8, 9, 14, 20, 61] {
                    // The state may be one event behind the terminal.
                    let terminal = terminal(&app, width, height);
                    for cell in terminal.backend().buffer().content() {
                        assert!(!cell.symbol().contains(char::is_control));
                    }
                }
            }
        }
    }
}

#[test]
fn only_safe_colours_are_used_and_none_without_colour() {
    for (color, node) in [false, true]
        .into_iter()
        .flat_map(|color| [busy as fn(App) -> App, waits::contended].map(|node| (color, node)))
    {
        for keys in ["", "Down", "? ", "Enter", "/ a", "a"] {
            let mut app = node(app(Level::Process, 120, 30));
            app.color = color;
            let app = press(app, keys);
            let terminal = terminal(&app, 120, 30);
            for cell in terminal.backend().buffer().content() {
                assert_eq!(cell.bg, Color::Reset, "the background belongs to the user");
                let causes = Cause::ALL
                    .into_iter()
                    .filter_map(noctule_text::cause_colour);
                let safe = [
                    Color::Reset,
                    Color::Cyan,
                    Color::Green,
                    Color::Red,
                    Color::Magenta,
                ];
                let mut safe = safe.into_iter().chain(causes.map(Color::Indexed));
                let allowed = match color {
                    true => safe.any(|safe| safe == cell.fg),
                    false => cell.fg == Color::Reset,
                };
                assert!(allowed, "{:?}", cell.fg);
            }
        }
    }
}
