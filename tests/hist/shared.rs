//! Tests of several events in one command: tables that events share, pause and clear.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::of_this_thread as own;
use super::{Hist, getppid, refused, support};

/// Calls getuid `times` times, one system call each.
fn getuid(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getuid();
    }
}

/// Returns the hits of an event.
fn hits(answer: &Value, event: &str) -> u64 {
    let rows = answer["rows"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["event"]["name"] == event);
    found.and_then(|row| row["hitcount"].as_u64()).unwrap_or(0)
}

#[test]
fn events_of_one_name_count_into_one_table() {
    let _machine = support::shared();
    needs!("cpu_time");
    let trigger = format!("name=calls:keys=event,common_pid if {}", own());
    let more = ["syscalls:sys_enter_getuid", &trigger, "--json"];
    let hist = Hist::start("syscalls:sys_enter_getppid", &trigger, &more);
    getppid(300);
    getuid(200);
    let answer = hist.end_json();
    assert_eq!(hits(&answer, "sys_enter_getppid"), 300, "{answer}");
    assert_eq!(hits(&answer, "sys_enter_getuid"), 200, "{answer}");
    assert_eq!(
        (&answer["hits"], &answer["entries"]),
        (&500.into(), &2.into()),
        "{answer}"
    );
    // Unless the event is a key, hits of both events share a row, and the triggers of both are
    // printed.
    let trigger = format!("name=calls:keys=common_pid if {}", own());
    let other = format!("{trigger} && common_cpu >= 0");
    let hist = Hist::start(
        "syscalls:sys_enter_getppid",
        &trigger,
        &["syscalls:sys_enter_getuid", &other],
    );
    getppid(3);
    getuid(4);
    let text = hist.end();
    assert!(text.contains("hitcount:          7\n"), "{text}");
    assert_eq!(
        text.matches("# trigger info: hist:name=calls:").count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches("Totals:").count(), 1, "{text}");
    // Without a name, each event has its own table.
    let trigger = format!("keys=common_pid if {}", own());
    let hist = Hist::start(
        "syscalls:sys_enter_getppid",
        &trigger,
        &["syscalls:sys_enter_getuid", &trigger],
    );
    getppid(3);
    getuid(4);
    let text = hist.end();
    let (first, second) = text
        .split_once("\n\n\n# event histogram")
        .expect("two tables");
    assert!(first.contains("hitcount:          3\n"), "{text}");
    assert!(second.contains("hitcount:          4\n"), "{text}");
}

/// The kernel takes up to about 70 ms to attach or detach one event.
#[test]
fn many_events_are_counted_in_one_window() {
    let _machine = support::shared();
    needs!("cpu_time");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let asks = || {
            while !ended.load(Ordering::Relaxed) {
                getppid(1);
                thread::sleep(Duration::from_micros(100));
            }
        };
        let asking = support::thread("one-window").spawn_scoped(scope, asks);
        asking.expect("a thread");
        let trigger = format!("keys=event if {}", support::of_threads("one-window"));
        let all = "name=all:".to_owned() + &trigger;
        let between = "syscalls:sys_enter_get*";
        for (trigger, tables) in [(&all, 1), (&trigger, 3)] {
            let last = "syscalls:sys_exit_getppid";
            let more = [between, trigger, last, trigger, "--json"];
            let hist = Hist::start("syscalls:sys_enter_getppid", trigger, &more);
            thread::sleep(Duration::from_millis(300));
            let answers = hist.end_all();
            assert_eq!(answers.len(), tables);
            let (first, last) = (&answers[0], &answers[tables - 1]);
            let began = hits(first, "sys_enter_getppid");
            // The single table contains each event twice.
            let began = if tables == 1 { began / 2 } else { began };
            let ended = hits(last, "sys_exit_getppid");
            assert!(began > 100, "{answers:?}");
            // The counts may differ by a few. One call is in progress when the window opens, and
            // one when it closes. Also, the kernel does not run a program inside another.
            assert!(began.abs_diff(ended) < 10, "{began} began, {ended} ended");
            let windows = answers.iter().map(|answer| &answer["window_seconds"]);
            assert!(windows.clone().all(|it| it == &first["window_seconds"]));
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_pattern_of_events_has_one_table() {
    let _machine = support::shared();
    needs!("cpu_time");
    let trigger = format!("keys=event if {}", own());
    let hist = Hist::start("syscalls:sys_enter_get?id", &trigger, &["--json"]);
    getppid(300);
    getuid(200);
    let answer = hist.end_json();
    assert_eq!(hits(&answer, "sys_enter_getuid"), 200, "{answer}");
    assert_eq!(hits(&answer, "sys_enter_getppid"), 0, "{answer}");
    let cases = [
        (
            "syscalls:sys_enter_getp*",
            "keys=who",
            "sys_enter_getpeername: error: Field not found",
        ),
        (
            "sched:sched_process_*",
            "keys=old_pid",
            "sched_process_exit: error: Field not found",
        ),
        (
            "nothing:*",
            "keys=comm",
            "this kernel has no event nothing:*",
        ),
    ];
    for (events, trigger, words) in cases {
        let (code, errors) = refused(&[events, trigger]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

#[test]
fn tables_that_cannot_be_shared_are_refused() {
    let _machine = support::shared();
    let first = ["sched:sched_switch", "name=a:keys=prev_comm:vals=prev_prio"];
    let cases = [
        (
            "sched:sched_switch",
            "name=a:keys=prev_comm",
            "the values differ",
        ),
        (
            "sched:sched_switch",
            "name=a:keys=prev_pid:vals=prev_prio",
            "the size of a key differs",
        ),
        (
            "sched:sched_switch",
            "name=a:keys=next_comm:vals=prev_prio",
            "the names of the keys differ",
        ),
    ];
    for (event, trigger, why) in cases {
        let (code, errors) = refused(&[&first[..], &[event, trigger]].concat());
        assert_eq!(code, Some(2), "{errors}");
        let words = format!(
            "sched:sched_switch: error: Named hist trigger doesn't match existing named hist \
                             trigger (includes variables)\n  {trigger}\n       ^\nhelp: {why}"
        );
        assert!(errors.contains(&words), "{errors}");
    }
    let trigger = "name=a:keys=prev_comm:vals=prev_prio:size=256";
    let more = ["sched:sched_switch", trigger];
    let (code, errors) = refused(&[&first[..], &more].concat());
    assert_eq!(code, Some(2), "{errors}");
    let words = format!(
        "  {trigger}\n{}^\nhelp: the sizes differ\nthe first trigger with this name belongs to \
         sched:sched_switch:\n  {}\n       ^\n",
        " ".repeat(trigger.find("256").expect("it is there") + 2),
        first[1]
    );
    assert!(errors.contains(&words), "{errors}");
    let (code, errors) = refused(&["sched:sched_switch", "keys=prev_pid:clear"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("Can't clear or continue a nonexistent hist trigger"),
        "{errors}"
    );
    let (code, errors) = refused(&["sched:sched_switch", "keys=prev_pid", "sched:sched_waking"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("each EVENT needs its TRIGGER"), "{errors}");
}

#[test]
fn a_table_is_paused_continued_and_cleared() {
    let _machine = support::shared();
    needs!("cpu_time");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo is there").success());
    let shown = path.to_str().expect("UTF-8");
    let trigger = format!(
        "name=mine:keys=common_cpu:vals=common_pid.min:pause if {}",
        own()
    );
    let more = ["--json", "--control", shown];
    let mut hist = Hist::start("syscalls:sys_enter_getppid", &trigger, &more);
    let mut orders = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("a FIFO");
    let mut order = |line: &str| {
        writeln!(orders, "{line}").expect("written");
        support::wait_until("the order is read", || {
            rustix::io::ioctl_fionread(&orders).expect("a FIFO") == 0
        });
        support::wait_until_attached(&mut hist.0);
    };
    getppid(11);
    order("cont");
    getppid(13);
    order("clear mine");
    getppid(17);
    order("pause other");
    getppid(19);
    order("pause mine");
    getppid(23);
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 17 + 19, "{answer}");
    assert_eq!(answer["paused"], true, "{answer}");
    let (code, errors) = refused(&[
        "sched:sched_switch",
        "keys=prev_pid",
        "--control",
        "/etc/passwd",
    ]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("mkfifo"), "{errors}");
}
