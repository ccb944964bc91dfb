//! Tests of `noctule top` on a real terminal, provided by tmux.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::support::burner::Burner;
use super::support::cgroup::Group;
use super::support::hostile::Hostile;
use super::support::tmux::{PROMPT, Terminal};
use super::support::{self, NOCTULE, affinity, bpf, wait_until};

const SIZES: [(u16, u16); 4] = [(120, 30), (80, 24), (40, 10), (20, 5)];

/// Short enough for the narrowest screen.
const NAME: &str = "burn-me";

/// A terminal in which `top` runs, and the terminal's earlier settings.
struct Top {
    terminal: Terminal,
    settings: String,
}

impl Top {
    fn start(width: u16, height: u16) -> Self {
        Self::with("--cpu", "CPU%", width, height)
    }

    /// Starts `top` with additional arguments. `title` is a heading of its first table.
    fn with(arguments: &str, title: &str, width: u16, height: u16) -> Self {
        let terminal = Terminal::new(width, height);
        let settings = terminal.output_of("stty -g");
        terminal.line(&format!("{NOCTULE} top --interval 500ms {arguments}"));
        terminal.wait_for("table", |screen| {
            screen.contains(title) && screen.contains("q quit")
        });
        Self { terminal, settings }
    }

    /// Asserts that the shell has its terminal back, with the same settings as before.
    fn assert_restored(&self) {
        self.terminal.wait_for_prompt();
        // The status is checked first, because any other command would replace it.
        assert_eq!(self.terminal.output_of("echo $?"), "0\n");
        assert_eq!(self.terminal.output_of("stty -g"), self.settings);
        assert_eq!(self.terminal.variable("alternate_on"), "0");
        assert_eq!(self.terminal.variable("cursor_flag"), "1");
        assert_eq!(self.terminal.variable("mouse_any_flag"), "0");
        assert_eq!(self.terminal.output_of("echo $((6*7))"), "42\n");
    }

    /// Returns the ids of the BPF programs that belong to the process `noctule top`.
    fn programs(&self) -> std::collections::BTreeSet<u32> {
        let ids = bpf::held_by(self.terminal.child());
        assert!(ids.len() >= 8, "{ids:?}");
        ids
    }
}

/// Returns whether the screen has the line of the busy process, with figures.
fn shows_burner(screen: &str) -> bool {
    let line = screen.lines().find(|line| line.contains(NAME));
    line.is_some_and(|line| line.contains(|c: char| ('1'..='9').contains(&c)))
}

/// Asserts that every key does what the help says, at any size.
fn press_keys(terminal: &Terminal) {
    terminal.keys(&["?"]);
    terminal.wait_for("help", |screen| {
        screen.contains("Keys") && !screen.contains("by CPU%")
    });
    terminal.keys(&["?"]);
    terminal.wait_for("table again", shows_burner);
    for (key, heading) in [("b", "Victims (rows)"), ("f", "Columns of this")] {
        terminal.keys(&[key]);
        terminal.wait_for(heading, |screen| screen.contains(heading));
        terminal.keys(&[key]);
        terminal.wait_for("table again", shows_burner);
    }
    terminal.keys(&["t"]);
    terminal.wait_for("tree", |screen| screen.contains("─"));
    terminal.keys(&["t"]);
    terminal.wait_for("list again", |screen| {
        shows_burner(screen) && !screen.contains("└─")
    });
    terminal.keys(&["2"]);
    terminal.wait_for("containers", |screen| {
        screen.contains("CPU%") && !screen.contains(NAME)
    });
    terminal.keys(&["1", "/"]);
    terminal.text("no such name");
    terminal.keys(&["Enter"]);
    terminal.wait_for("empty list", |screen| !screen.contains(NAME));
    terminal.keys(&["/", "C-u"]);
    terminal.text("urn-m");
    terminal.keys(&["Enter"]);
    terminal.wait_for("filtered list", |screen| {
        // Other tests have processes of the same name. The last line lists the keys.
        let rows = screen.lines().skip_while(|line| !line.contains("NAME"));
        let rows = rows.skip(1).filter(|line| !line.trim().is_empty());
        let others = rows.filter(|line| !line.contains(NAME));
        shows_burner(screen) && others.count() == 1
    });
    terminal.keys(&["Escape"]);
    // Small screens show the name without quotes. The test sends the next key once top has read
    // this one.
    terminal.wait_for("whole list", |screen| {
        shows_burner(screen) && !screen.contains("urn-m\"") && !screen.contains("/ urn-m")
    });
}

#[test]
fn it_shows_a_busy_process_and_its_keys_work() {
    let _machine = support::shared();
    let _burner = Burner::named(NAME.as_bytes()).first();
    for (width, height) in SIZES {
        let top = Top::start(width, height);
        let screen = top.terminal.wait_for("who burns", shows_burner);
        let lines = screen.trim_end_matches('\n').lines();
        assert!(lines.count() <= usize::from(height), "{screen}");
        press_keys(&top.terminal);
        let ids = top.programs();
        top.terminal.keys(&["q"]);
        top.assert_restored();
        bpf::wait_until_unloaded(&ids);
    }
}

#[test]
fn it_adapts_to_the_size_of_the_terminal() {
    let _machine = support::shared();
    let _burner = Burner::named(NAME.as_bytes()).first();
    let top = Top::start(120, 30);
    for (width, height) in SIZES.into_iter().rev() {
        top.terminal.resize(width, height);
        top.terminal.wait_for("row and footer", |screen| {
            let last = screen.trim_end_matches('\n').lines().last();
            shows_burner(screen) && last.is_some_and(|line| line.contains("q quit"))
        });
    }
    top.terminal.keys(&["C-c"]);
    top.assert_restored();
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    let _machine = support::shared();
    for (signal, (width, height)) in [Signal::TERM, Signal::INT].into_iter().zip(SIZES) {
        let top = Top::start(width, height);
        let ids = top.programs();
        let pid = Pid::from_raw(top.terminal.child() as i32).expect("not 0");
        kill_process(pid, signal).expect("our shell's child");
        top.assert_restored();
        bpf::wait_until_unloaded(&ids);
    }
}

#[test]
fn it_ends_after_the_for_duration() {
    let _machine = support::shared();
    let terminal = Terminal::new(80, 24);
    let said = terminal.output_of(&format!("{NOCTULE} top --for 1s >/dev/tty; echo $?"));
    assert_eq!(said, "0\n");
    assert_eq!(terminal.variable("alternate_on"), "0");
}

#[test]
fn it_ends_with_its_terminal() {
    let _machine = support::shared();
    let top = Top::start(80, 24);
    let (ids, pid) = (top.programs(), top.terminal.child());
    drop(top);
    // A zombie may be left until its parent reaps it.
    wait_until("the process has ended", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
    bpf::wait_until_unloaded(&ids);
}

#[test]
fn without_a_terminal_it_fails_and_leaves_nothing() {
    let _machine = support::shared();
    let output = support::noctule(&["top"]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("not a terminal: use noctule stat or noctule waits"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
    bpf::assert_no_orphans();
}

#[test]
fn it_draws_hostile_names_without_obeying_escapes() {
    let _machine = support::shared();
    let _hostile = Hostile::start();
    // The screen has room for everything that concurrent tests run, because these processes have
    // the least weight.
    let top = Top::start(120, 400);
    let shown = [
        "quo\"te ",
        "back\\\\slash\\\\n",
        "line\\nfeed ",
        "tab\\tcr\\r ",
        "\\u{1b}[31mred ",
        "\\\\u{1b}[31mred ",
        "{a=\"b\"} 1 ",
        "# EOF ",
        "bell\\u{7}del\\u{7f} ",
        "csi\\u{9b}31m ",
        "bidi\\u{202e}override ",
        "line\\u{2028}sep ",
        "not\u{fffd}utf8 ",
    ];
    for name in shown {
        top.terminal.wait_for(name, |screen| screen.contains(name));
    }
    top.terminal.keys(&["q"]);
    top.assert_restored();
}

/// Confines both processes to the first CPU that the test may use, with priority over everything
/// else.
fn confine_to_one_cpu(burners: &[Burner]) {
    let allowed = sched_getaffinity(None).expect("our own");
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    for burner in burners {
        let pid = Pid::from_raw(burner.pid() as i32);
        affinity::pin(pid, first.expect("this runs on one"));
    }
}

#[test]
fn it_shows_waiting_groups_with_a_verdict() {
    let _machine = support::shared();
    let group = Group::new("spin");
    let burners = [Burner::within(&group), Burner::within(&group)].map(Burner::first);
    confine_to_one_cpu(&burners);
    let top = Top::with("--waits", "WAIT/s", 160, 30);
    let path = group.path();
    // Which verdict the group gets depends on other loads on the CPU. The group always gets a
    // verdict, because its two processes compete for one CPU.
    let verdicts = ["too_many_threads", "hurt_by_neighbour", "hurt_by_kernel"];
    top.terminal.wait_for("group with a verdict", |screen| {
        let line = screen.lines().find(|line| line.contains(&path));
        line.is_some_and(|line| verdicts.iter().any(|verdict| line.contains(verdict)))
    });
    top.terminal.keys(&["/"]);
    top.terminal.text(&path);
    top.terminal.keys(&["Enter", "Enter"]);
    top.terminal.wait_for("why", |screen| {
        screen.contains("because") && screen.contains("of the time that it wanted the CPU")
    });
    // Escape must not be followed by another key. Otherwise the terminal would read Alt and that
    // key.
    top.terminal.keys(&["Escape"]);
    top.terminal
        .wait_for("table again", |screen| screen.contains("WAIT/s"));
    top.terminal.keys(&["w"]);
    top.terminal.wait_for("overview", |screen| {
        let verdict = screen.lines().find(|line| !line.trim().is_empty());
        let is_hurt = verdict.is_some_and(|line| line.contains(": "));
        is_hurt && screen.contains("BLOCK%") && screen.contains(&path)
    });
    top.terminal.keys(&["U"]);
    top.terminal.wait_for("CPU use", |screen| {
        screen.contains("CPU%") && screen.contains(&path) && !screen.contains("BLOCK%")
    });
    top.terminal.keys(&["q"]);
    top.assert_restored();
}

/// Returns the moment that the screen of a recording shows.
fn moment(screen: &str) -> Option<String> {
    let first = screen.lines().next()?;
    let (before, _) = first.split_once(" (recorded)")?;
    let (_, moment) = before.rsplit_once(" · ")?;
    Some(moment.to_owned())
}

/// Returns the time of day of a live screen, or `None` before the first figures.
fn time_of_day(screen: &str) -> Option<String> {
    let (first, _) = screen.split_once('\n')?;
    let (_, window) = first.split_once(" · window ")?;
    let (_, time) = window.split_once(" · ")?;
    time.split_whitespace().next().map(str::to_owned)
}

/// Returns the lines of a screen except the first, which has the moment, and the last, which lists
/// the keys.
fn figures(screen: &str) -> Vec<&str> {
    let lines: Vec<&str> = screen.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Returns the complete screens of a running `top`, by their time of day, until `top` ends. A
/// screen that `top` is drawing is incomplete, so a screen counts only if it is the same in two
/// successive looks.
fn screens_until_the_end(terminal: &Terminal) -> BTreeMap<String, String> {
    let (mut screens, mut before) = (BTreeMap::new(), String::new());
    loop {
        let screen = terminal.screen();
        if screen.contains(PROMPT) {
            return screens;
        }
        if let Some(time) = time_of_day(&screen).filter(|_| screen == before) {
            screens.insert(time, screen.clone());
        }
        before = screen;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Returns when each batch of a recording was read.
fn times(tape: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    let output = support::noctule(&["tape", "export", tape, "--to", "csv", "-o", folder]);
    assert!(output.status.success(), "{output:?}");
    let node = format!("{folder}/node/part-0.csv");
    let node = fs::read_to_string(node).expect("a table");
    let mut lines = node.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let titles = lines.next().expect("titles");
    let time = titles.iter().position(|title| *title == "time");
    let time = time.expect("a column of times");
    // An export has microseconds, but the time of a batch has nanoseconds.
    let end_of_microsecond = |time: &str| time.replace('Z', "999Z");
    lines.map(|line| end_of_microsecond(line[time])).collect()
}

#[test]
fn a_recording_shows_the_screens_seen_live() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    for view in ["--cpu", "--waits"] {
        let tape = format!("{folder}/tape{view}");
        let terminal = Terminal::new(150, 40);
        terminal.line("clear");
        terminal.wait_for_prompt();
        let _burner = Burner::named(NAME.as_bytes());
        terminal.line(&format!(
            "{NOCTULE} top {view} --tape {tape} --interval 2s --for 13s"
        ));
        terminal.wait_for("the screen", |screen| time_of_day(screen).is_some());
        let live = screens_until_the_end(&terminal);
        // top is still closing its recording, and would read the next line.
        terminal.wait_for_prompt();
        assert!(live.len() >= 2, "{live:?}");
        terminal.line(&format!("{NOCTULE} top {view} --from {tape}"));
        terminal.wait_for("the recording", |screen| moment(screen).is_some());
        let mut compared = 0;
        // The first batch has no window.
        for time in &times(&tape)[1..] {
            terminal.keys(&["g"]);
            terminal.text(time);
            terminal.keys(&["Enter"]);
            let there = terminal.wait_for("that moment", |screen| {
                moment(screen).is_some_and(|it| it.ends_with(&time[14..19]))
            });
            let there = moment(&there).expect("a moment");
            let (_, there) = there.rsplit_once(' ').expect("a date and a time");
            if let Some(then) = live.get(there) {
                // The graphs of the last minute appear after the first drawing.
                terminal.wait_for(then, |screen| figures(screen) == figures(then));
                compared += 1;
            }
        }
        assert_eq!(compared, live.len(), "{:?}", live.keys());
        terminal.keys(&["q"]);
        terminal.wait_for_prompt();
    }
}

#[test]
fn a_recording_is_shown_at_any_place() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    let tape = tape.to_str().expect("text");
    let burner = Burner::named(NAME.as_bytes()).first();
    let output = support::noctule(&["record", "-o", tape, "--for", "6s"]);
    assert!(output.status.success(), "{output:?}");
    drop(burner);
    let terminal = Terminal::new(120, 30);
    let settings = terminal.output_of("stty -g");
    terminal.line(&format!("{NOCTULE} top --cpu --from {tape}"));
    let screen = terminal.wait_for("who burned", shows_burner);
    let end = moment(&screen).expect("a time");
    let later = |than: &str| {
        let than = than.to_owned();
        move |screen: &str| moment(screen).is_some_and(|it| it > than)
    };
    let earlier = |than: &str| {
        let than = than.to_owned();
        move |screen: &str| moment(screen).is_some_and(|it| it < than)
    };
    terminal.keys(&["Left"]);
    let before = terminal.wait_for("the batch before", earlier(&end));
    terminal.keys(&["Right"]);
    terminal.wait_for(
        "the batch behind it",
        later(&moment(&before).expect("a time")),
    );
    terminal.keys(&["g"]);
    terminal.text("soon");
    terminal.keys(&["Enter"]);
    terminal.wait_for("why it is no time", |screen| {
        screen.contains("must be a time of day")
    });
    terminal.keys(&["C-u"]);
    terminal.text("-2s");
    terminal.keys(&["Enter"]);
    let there = terminal.wait_for("two seconds earlier", earlier(&end));
    terminal.keys(&["p"]);
    terminal.wait_for("the end again", later(&moment(&there).expect("a time")));
    terminal.keys(&["["]);
    terminal.wait_for("the begin", earlier(&moment(&there).expect("a time")));
    terminal.keys(&["q"]);
    terminal.wait_for_prompt();
    assert_eq!(terminal.output_of("stty -g"), settings);
}
