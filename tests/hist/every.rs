//! Tests of every tracepoint of this kernel.

#[path = "../../crates/trace/tests/uses/mod.rs"]
mod uses;

use std::thread;

use noctule_trace::format::EventFormat;

use crate::support;
use crate::support::tracefs::Tracefs;

/// Number of events for which the test starts the binary.
const SAMPLE: usize = 200;

/// Returns system and event of all tracepoints that programs can use. Events of ftrace itself are
/// not tracepoints, and probes of other users may disappear during the test.
fn events(tracefs: &Tracefs) -> Vec<(String, EventFormat)> {
    let all = tracefs.read("available_events");
    let mut events = Vec::new();
    for line in all.lines() {
        let (system, event) = line.split_once(':').expect("SYSTEM:EVENT");
        if matches!(system, "ftrace" | "kprobes" | "uprobes" | "synthetic") {
            continue;
        }
        let text = tracefs.read(&format!("events/{system}/{event}/format"));
        let format = EventFormat::parse(&text).unwrap_or_else(|e| panic!("{line}: {e}"));
        events.push((line.to_owned(), format));
    }
    events
}

#[test]
fn every_tracepoint_field_is_usable_or_refused() {
    let _machine = support::shared();
    let events = events(&Tracefs::mount());
    let (mut compiled, mut refused) = (0, 0);
    for (_, format) in &events {
        let counts = uses::check(format);
        compiled += counts.0;
        refused += counts.1;
    }
    assert!(events.len() > 500, "{}", events.len());
    assert!(compiled > 10 * refused, "{compiled} {refused}");
}

/// Checks that the verifier accepts a program that uses all fields of an event.
#[test]
fn programs_for_a_sample_of_tracepoints_are_accepted() {
    let _machine = support::shared();
    needs!("cpu_time");
    let events = events(&Tracefs::mount());
    let step = (events.len() / SAMPLE).max(1);
    let sample: Vec<_> = events.iter().step_by(step).collect();
    // Detaching waits for the kernel, so several run in parallel.
    let parts: Vec<_> = sample.chunks(sample.len().div_ceil(4)).collect();
    thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || {
                for (name, format) in part {
                    let trigger = uses::trigger(format);
                    let answer = support::json(&["hist", name, &trigger, "--for=1ms", "--json"]);
                    assert_eq!(answer["event"], **name, "{answer}");
                }
            });
        }
    });
    assert!(sample.len() >= SAMPLE.min(events.len()), "{}", sample.len());
}
