//! Tests of `noctule trigger` against the kernel's event triggers, on the same work.

use std::thread;

use serde_json::Value;

use super::support::tracefs::{Instance, Tracefs};
use super::support::{self, affinity};
use super::trace::Trace;

/// Closes a descriptor that is not open, which causes an event that contains a number.
fn close_none(number: i32) {
    #[allow(unsafe_code, reason = "no safe call closes what is not open")]
    // SAFETY: this process has no descriptor with so high a number.
    unsafe {
        libc::close((1 << 20) + number);
    }
}

fn uid() {
    let _ = rustix::process::getuid();
}

fn gid() {
    let _ = rustix::process::getgid();
}

/// Returns the printed line of each `close` event.
fn closes(events: &[Value]) -> Vec<&str> {
    let texts = events
        .iter()
        .filter(|event| event["trigger"].is_null())
        .filter_map(|event| event["text"].as_str());
    texts.filter(|text| text.starts_with("sys_close")).collect()
}

fn done<'a>(events: &'a [Value], trigger: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["trigger"] == trigger)
        .collect()
}

/// Calls getuid and getgid, which switch tracing off and on, and closes descriptors between the
/// calls.
fn work() {
    let calls: [fn(); 9] = [uid, uid, gid, uid, gid, gid, uid, gid, uid];
    for (number, call) in (0..).zip(calls) {
        close_none(2 * number);
        close_none(2 * number + 1);
        call();
    }
    close_none(99);
}

/// Sets triggers on getuid and getgid, both in the kernel's own tracing and in noctule, while one
/// thread works. Asserts that both show the same `close` events.
fn compare_with_kernel(name: &str, triggers: [&str; 2]) -> Vec<Value> {
    let tracefs = Tracefs::mount();
    let (seen, expected) = thread::scope(|scope| {
        let both = scope.spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero();
            let filter = format!("common_pid == {tid}");
            let instance = Instance::make(&tracefs, name);
            instance.write("events/syscalls/sys_enter_close/filter", &filter);
            let [off, on] = triggers.map(|trigger| format!("{trigger} if {filter}"));
            let traced = format!("syscalls:sys_enter_close if {filter}");
            let args = [
                "syscalls:sys_enter_getuid",
                &off,
                "syscalls:sys_enter_getgid",
                &on,
                "--trace",
                &traced,
                "--json",
            ];
            let trace = Trace::start("trigger", &args);
            let theirs = |name: &str, trigger: &str| {
                instance.write(&format!("events/syscalls/{name}/trigger"), trigger);
            };
            theirs("sys_enter_getuid", &off);
            theirs("sys_enter_getgid", &on);
            instance.write("events/syscalls/sys_enter_close/enable", "1");
            work();
            let lines = instance.lines();
            (trace.end_json(), lines)
        });
        both.join().expect("the thread")
    });
    let expected: Vec<_> = expected
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("sys_close"))
        .collect();
    // Older kernels write numbers without 0x. The test also closes files of its own before and
    // after the work.
    let numbered = |texts: Vec<&str>| -> Vec<String> {
        let texts = texts.into_iter().map(|text| text.replace("0x", ""));
        texts.filter(|text| text.contains("fd: 1000")).collect()
    };
    let (ours, theirs) = (numbered(closes(&seen)), numbered(expected));
    assert_eq!(ours, theirs);
    assert!(ours.len() > 3 && ours.len() < 19, "{ours:?}");
    seen
}

#[test]
fn traceoff_and_traceon_match_the_kernel() {
    let _machine = support::shared();
    needs!("cpu_time");
    let seen = compare_with_kernel("noctule-traceoff", ["traceoff:2", "traceon"]);
    assert_eq!(
        done(&seen, "traceoff:2").len(),
        2,
        "used up only by changes"
    );
    assert_eq!(done(&seen, "traceon").len(), 2);
}

#[test]
fn enable_event_and_disable_event_match_the_kernel() {
    let _machine = support::shared();
    needs!("cpu_time");
    let target = "syscalls:sys_enter_close";
    let (disable, enable) = (
        format!("disable_event:{target}"),
        format!("enable_event:{target}:1"),
    );
    let seen = compare_with_kernel("noctule-disable", [&disable, &enable]);
    assert_eq!(done(&seen, &enable).len(), 1);
    assert_eq!(done(&seen, &disable).len(), 2);
}

/// The event that turns tracing on is shown. The kernel omits that event if the trigger has a
/// filter and the event itself has none.
#[test]
fn the_event_that_turns_tracing_on_is_shown() {
    let _machine = support::shared();
    needs!("cpu_time");
    let tracefs = Tracefs::mount();
    let shown = |texts: Vec<&str>| -> Vec<bool> {
        // The number is in hexadecimal, with or without 0x.
        let shown = |end| texts.iter().any(|text| text.ends_with(end));
        ["100000)", "100001)"].map(shown).to_vec()
    };
    let seen = thread::scope(|scope| {
        let both = scope.spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero();
            let filter = format!("common_pid == {tid} && fd >= 1048576");
            let on = format!("traceon if {filter}");
            [filter.as_str(), "0"].map(|filter| {
                let instance = Instance::make(&tracefs, "noctule-traceon");
                let event = "events/syscalls/sys_enter_close";
                instance.write("tracing_on", "0");
                instance.write(&format!("{event}/filter"), filter);
                let traced = match filter {
                    "0" => "syscalls:sys_enter_close".to_owned(),
                    filter => format!("syscalls:sys_enter_close if {filter}"),
                };
                let close = "syscalls:sys_enter_close";
                let trace = Trace::start(
                    "trigger",
                    &[close, &on, "--trace", &traced, "--off", "--json"],
                );
                instance.write(&format!("{event}/trigger"), &on);
                instance.write(&format!("{event}/enable"), "1");
                close_none(0);
                close_none(1);
                let lines = instance.lines();
                let theirs: Vec<_> = lines.iter().map(String::as_str).collect();
                (shown(closes(&trace.end_json())), shown(theirs))
            })
        });
        both.join().expect("the thread")
    });
    for ((ours, theirs), first) in seen.into_iter().zip([true, false]) {
        assert_eq!(ours, [true, true]);
        // In Linux 5.10, the trigger turns on a buffer other than the instance's.
        if theirs[1] || support::kernel() > (5, 10) {
            assert_eq!(theirs, [first, true], "the kernel's");
        }
    }
}

/// Two CPUs turn tracing off and on at the same time. Only changes use up a trigger's count.
#[test]
fn counts_are_exact_on_all_cpus() {
    const COUNT: usize = 500;
    let _machine = support::shared();
    needs!("cpu_time");
    let own = support::of_threads("hammer");
    let off = format!("traceoff:{COUNT} if {own}");
    let on = format!("traceon if {own}");
    let stack = format!("stacktrace:5000 if {own}");
    let args = [
        "syscalls:sys_enter_getuid",
        &off,
        "syscalls:sys_enter_getgid",
        &on,
        "syscalls:sys_exit_getgid",
        &stack,
        "--json",
    ];
    let trace = Trace::start("trigger", &args);
    let hammer = || {
        for _ in 0..50_000 {
            uid();
            gid();
        }
    };
    let thread = || support::thread("hammer");
    let pinned = thread().spawn(move || {
        affinity::pin(None, affinity::last_cpu());
        hammer();
    });
    let other = affinity::without_cpu(affinity::last_cpu(), || thread().spawn(hammer));
    for one in [pinned, other] {
        one.expect("a thread").join().expect("it only calls");
    }
    let seen = trace.end_json();
    assert_eq!(done(&seen, &format!("traceoff:{COUNT}")).len(), COUNT);
    assert_eq!(done(&seen, "traceon").len(), COUNT);
    // The stack trigger also uses up its count while tracing is off and no event is shown.
    let stacks = done(&seen, "stacktrace:5000");
    assert!(!stacks.is_empty() && stacks.len() <= 5000, "{stacks:?}");
    for event in stacks {
        if support::kernel() < (5, 11) {
            // In a system call's own events the program has no stack, and no helper that returns
            // the thread's stack.
            assert!(event["stack"].is_null(), "{event}");
            continue;
        }
        let frames = event["stack"].as_array();
        let frames = frames.unwrap_or_else(|| panic!("no stack: {event}"));
        let names = frames.iter().filter_map(|frame| frame["symbol"].as_str());
        let is_call = |name: &str| name.contains("syscall") || name.contains("el0");
        assert!({ names }.any(is_call), "{event}");
    }
}

/// A snapshot shows the last events before the trigger, once, and no events before the first
/// trigger. If an event is given twice, the snapshot shows the events that match either filter.
#[test]
fn a_snapshot_shows_the_last_events() {
    let _machine = support::shared();
    needs!("cpu_time");
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let filter = format!("common_pid == {tid}");
    let traced = ["fd >= 1048576 && fd < 1048582", "fd >= 1048582"];
    let traced = traced.map(|fd| format!("syscalls:sys_enter_close if {filter} && {fd}"));
    let snapshot = format!("snapshot:1 if {filter}");
    let args = [
        "syscalls:sys_enter_getuid",
        &snapshot,
        "--trace",
        &traced[0],
        "--trace",
        &traced[1],
        "--keep",
        "3",
    ];
    let trace = Trace::start("trigger", &args);
    (0..8).for_each(close_none);
    uid();
    (8..12).for_each(close_none);
    uid();
    let lines = trace.end();
    let texts: Vec<_> = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split("sys_enter_").nth(1))
        .map(|line| {
            line.split_once("  ")
                .map_or(line, |(_, text)| text.trim_start())
        })
        .collect();
    let expected = [
        "sys_close(fd: 0x100005)",
        "sys_close(fd: 0x100006)",
        "sys_close(fd: 0x100007)",
        "snapshot:1: sys_getuid()",
    ];
    assert_eq!(texts, expected, "{lines:#?}");
}

#[test]
fn a_trigger_without_effect_is_an_error() {
    const SWITCH: &str = "sched:sched_switch";
    let _machine = support::shared();
    let cases: [(&[&str], &str); 8] = [
        (&[SWITCH, "traceon"], "tracing is on from the start"),
        (
            &[SWITCH, "traceoff", "--off"],
            "no trigger turns tracing on",
        ),
        (&[SWITCH, "snapshot"], "add --trace EVENT"),
        (
            &[SWITCH, "disable_event:irq:softirq_raise"],
            "add --trace irq:softirq_raise",
        ),
        (
            &[SWITCH, "stacktrace", SWITCH, "stacktrace:3"],
            "File exists: sched:sched_switch has a trigger stacktrace:3 already",
        ),
        (
            &[SWITCH, "stacktrce"],
            "error: Unknown trigger\n  stacktrce\n  ^\nhelp: did you mean `stacktrace`?",
        ),
        (
            &[SWITCH, "stacktrace if prev_pdi == 1"],
            "sched:sched_switch: error: Field not found",
        ),
        (
            &[SWITCH, "stacktrace", SWITCH],
            "each EVENT needs its ACTION",
        ),
    ];
    for (args, words) in cases {
        let output = support::noctule(&[&["trigger"], args].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}
