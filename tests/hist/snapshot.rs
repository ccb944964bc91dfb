//! Tests of `snapshot()`, which records only the events before a new maximum or a change.

use serde_json::Value;

use super::{Hist, close_none, refused, support};
use crate::support::affinity;

/// Descriptors that are not open.
const FIRST: i32 = 1 << 20;
/// Number of calls before and after the relevant calls. The number exceeds the capacity of the
/// buffer and of one read.
const MANY: i32 = 30_000;

fn descriptors(snapshot: &Value) -> Vec<i64> {
    let events = snapshot["events"].as_array().expect("events").iter();
    let fd = |event: &Value| event["fields"]["fd"].as_i64();
    events
        .map(|event| fd(event).expect("fd") - i64::from(FIRST))
        .collect()
}

/// Two threads close descriptors, each on its own CPU. One of them closes the highest descriptor
/// once.
#[test]
fn snapshot_has_the_events_before_the_greatest_value() {
    let _machine = support::shared();
    needs!("cpu_time");
    let filter = format!("{} && fd >= {FIRST}", support::of_threads("snapshot-"));
    let trigger = format!("keys=comm:f=fd:onmax($f).snapshot() if {filter}");
    let traced = format!("syscalls:sys_enter_close if comm == \"snapshot-great\" && {filter}");
    let traced = format!("--trace={traced}");
    let more = [&*traced, "--keep=3", "--json"];
    let hist = Hist::start("syscalls:sys_enter_close", &trigger, &more);
    let pinned = support::thread("snapshot-great").spawn(|| {
        affinity::pin(None, affinity::last_cpu());
        (0..MANY).for_each(|_| close_none(FIRST));
        for number in [1, 2, 900, 3, 4] {
            close_none(FIRST + number);
        }
        (0..MANY).for_each(|_| close_none(FIRST + 5));
    });
    let other = affinity::without_cpu(affinity::last_cpu(), || {
        support::thread("snapshot-small")
            .spawn(|| (0..2 * MANY).for_each(|n| close_none(FIRST + n % 800)))
    });
    for closer in [pinned, other] {
        closer.expect("a thread").join().expect("it only closes");
    }
    let answers = hist.end_all();
    let [answer] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    let snapshot = &answer["snapshot"];
    assert_eq!(snapshot["handler"], "onmax", "{snapshot}");
    assert_eq!(snapshot["variable"], "f", "{snapshot}");
    assert_eq!(snapshot["value"], FIRST + 900, "{snapshot}");
    assert_eq!(snapshot["key"]["comm"], "snapshot-great", "{snapshot}");
    assert_eq!(descriptors(snapshot), [1, 2, 900], "{snapshot}");
    // The snapshot is not a column of the rows.
    let row = answer["rows"][0].as_object().expect("a row");
    assert_eq!(row.len(), 2, "{answer}");
}

#[test]
fn snapshot_is_printed_above_its_table() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = rustix::thread::gettid().as_raw_nonzero();
    let filter = format!("common_pid == {own} && fd > {FIRST}");
    let trigger = format!("keys=common_pid:f=fd:onchange($f).snapshot() if {filter}");
    let traced = format!("--trace=syscalls:sys_enter_close if {filter}");
    let more = [&*traced, "--keep=2"];
    let hist = Hist::start("syscalls:sys_enter_close", &trigger, &more);
    for number in [1, 1, 2, 2, 3, 1, 1] {
        close_none(FIRST + number);
    }
    let text = hist.end();
    let (events, table) = text.split_once("\n\n").expect("both");
    let shown: Vec<_> = events.lines().collect();
    let calls = [FIRST + 3, FIRST + 1].map(|fd| format!("sys_close(fd: {fd:#x})"));
    assert_eq!(shown.len(), 3, "{text}");
    for (line, call) in shown[1..].iter().zip(calls) {
        assert!(line.contains(&call), "{text}");
    }
    let expected = format!(
        "{{ common_pid: {own:10} }} hitcount:          7\n\
         \nSnapshot taken (see above).  Details:\n\
         \ttriggering value {{ onchange($f) }}: {:10}\ttriggered by event with key: {{ common_pid: {own:10} }}\n\
         \nTotals:\n    Hits: 7\n",
        FIRST + 1
    );
    assert!(table.contains(&expected), "{text}");
}

#[test]
fn missing_parts_are_named() {
    let _machine = support::shared();
    needs!("cpu_time");
    let event = "syscalls:sys_enter_close";
    let trigger = "keys=common_pid:f=fd:onmax($f).snapshot()";
    for (args, words) in [
        (&[event, trigger][..], "add --trace EVENT"),
        (
            &[event, "keys=common_pid", "--trace", event],
            "add :onmax($VARIABLE).snapshot() to a trigger",
        ),
        (
            &[event, trigger, event, trigger, "--trace", event],
            "a command can have only one snapshot()",
        ),
    ] {
        let (code, errors) = refused(args);
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}
