//! Tests of `enable_hist` and `disable_hist`. A table counts between the event that enables it and
//! the event that disables it.

use std::sync::Barrier;
use std::thread;

use super::{Hist, close_none, refused, support};
use crate::support::affinity;

/// A descriptor that is not open.
const NONE: i32 = 1 << 20;

const TABLE: &str = "syscalls:sys_enter_close";
const ON: &str = "syscalls:sys_enter_getuid";
const OFF: &str = "syscalls:sys_enter_getgid";

fn on() {
    let _ = rustix::process::getuid();
}

fn off() {
    let _ = rustix::process::getgid();
}

fn close(times: u32) {
    (0..times).for_each(|_| close_none(NONE));
}

#[test]
fn a_table_counts_between_two_events() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = support::of_threads("switched-");
    let trigger = format!("keys=fd:pause if {own} && fd == {NONE}");
    let always = format!("keys=fd if {own} && fd == {NONE}");
    let (enable, disable) = (
        format!("enable_hist:{TABLE} if {own} && comm ~ \"*-calls\""),
        format!("disable_hist:{TABLE}:2 if {own}"),
    );
    let more = [
        ON,
        &enable,
        OFF,
        &disable,
        // This table belongs to another event and continues to count.
        "syscalls:sys_exit_close",
        &always
            .replace("fd == 1048576", "ret == -9")
            .replace("keys=fd", "keys=ret"),
        "--json",
    ];
    let hist = Hist::start(TABLE, &trigger, &more);
    let calls = || {
        close(3);
        on();
        close(5);
        off();
        close(7);
        on();
        close(11);
        off();
        close(13);
        on();
        close(17);
        // The trigger has run as often as its count allows.
        off();
        close(19);
    };
    let called = support::thread("switched-calls").spawn(calls);
    called.expect("a thread").join().expect("it only calls");
    // The thread's name does not pass the filter of the enabling trigger.
    let called = support::thread("switched-other").spawn(on);
    called.expect("a thread").join().expect("it only calls");
    let answers = hist.end_all();
    let [table, exits] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert_eq!(table["hits"], 5 + 11 + 17 + 19, "{table}");
    assert!(table.get("paused").is_none(), "{table}");
    assert_eq!(exits["hits"], 3 + 5 + 7 + 11 + 13 + 17 + 19, "{exits}");
}

/// Once one CPU has disabled the table, hits on other CPUs are not counted.
#[test]
fn switch_applies_to_all_cpus_immediately() {
    let _machine = support::shared();
    needs!("cpu_time");
    const TURNS: u64 = 2_000;
    let own = support::of_threads("turn-");
    let trigger = format!("keys=fd:pause if {own} && fd == {NONE}");
    let (enable, disable) = (
        format!("enable_hist:{TABLE} if {own}"),
        format!("disable_hist:{TABLE} if {own}"),
    );
    let hist = Hist::start(TABLE, &trigger, &[ON, &enable, OFF, &disable]);
    let turn = Barrier::new(2);
    thread::scope(|scope| {
        let switcher = || {
            affinity::pin(None, affinity::last_cpu());
            for _ in 0..TURNS {
                on();
                turn.wait();
                turn.wait();
                off();
                turn.wait();
                turn.wait();
            }
        };
        let switched = support::thread("turn-switcher").spawn_scoped(scope, switcher);
        switched.expect("a thread");
        let closer = || {
            for _ in 0..TURNS {
                turn.wait();
                close(3);
                turn.wait();
                turn.wait();
                close(2);
                turn.wait();
            }
        };
        affinity::without_cpu(affinity::last_cpu(), || {
            let closed = support::thread("turn-closer").spawn_scoped(scope, closer);
            closed.expect("a thread");
        });
    });
    let text = hist.end();
    assert!(text.contains("[paused]"), "{text}");
    assert!(text.contains(&format!("Hits: {}\n", 3 * TURNS)), "{text}");
}

#[test]
fn a_switch_without_a_table_is_refused() {
    let _machine = support::shared();
    needs!("cpu_time");
    for (args, words) in [
        (
            &[TABLE, "keys=fd", ON, "enable_hist:sched:sched_switch"][..],
            "this command has no table for sched:sched_switch: add sched:sched_switch 'keys=...'",
        ),
        (
            &[TABLE, "keys=fd", ON, "disable_hist:syscalls"],
            "disable_hist:syscalls",
        ),
        (
            &[
                TABLE,
                "keys=fd",
                ON,
                "disable_hist:syscalls:sys_enter_close if nothing == 1",
            ],
            "nothing",
        ),
    ] {
        let (code, errors) = refused(args);
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}
