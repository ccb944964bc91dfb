//! Tests of variables, actions and synthetic events. The counts must match the actions of the test
//! on all CPUs exactly.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::sync_channel;

use serde_json::Value;

use super::{Hist, close_none, refused, support};
use crate::support::affinity;

/// Descriptors that are not open.
const FIRST: i32 = 1 << 20;

/// Returns the row of a key.
fn row<'a>(answer: &'a Value, key: &str, value: i64) -> &'a Value {
    let mut rows = answer["rows"].as_array().expect("rows").iter();
    rows.find(|row| row[key] == value)
        .unwrap_or_else(|| panic!("{key}={value}: {answer}"))
}

/// Two threads on two CPUs make 300,000 calls each. Each call sets two variables at entry, and
/// generates a synthetic event at return.
#[test]
fn every_call_is_one_synthetic_event() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CALLS: u64 = 300_000;
    let own = support::of_threads("closer-");
    let enter = format!("keys=common_pid:at=common_timestamp,fd=fd if {own} && fd >= {FIRST}");
    let exit = format!(
        "keys=common_pid:lat=common_timestamp-$at:onmatch(syscalls.sys_enter_close)\
         .closed($lat,$fd,comm) if {own} && ret == -9"
    );
    let hist = Hist::start(
        "syscalls:sys_enter_close",
        &enter,
        &[
            "syscalls:sys_exit_close",
            &exit,
            "synthetic:closed",
            "keys=fd,name:vals=lat.min,lat,hitcount:sort=fd",
            "syscalls:sys_exit_close",
            &format!("keys=ret if {own}"),
            "--synth=closed u64 lat; int fd; char name[16]",
            "--json",
        ],
    );
    let call = |fd: i32| (0..CALLS).for_each(|_| close_none(fd));
    let pinned = support::thread("closer-first").spawn(move || {
        affinity::pin(None, affinity::last_cpu());
        call(FIRST);
    });
    let other = affinity::without_cpu(affinity::last_cpu(), || {
        support::thread("closer-second").spawn(move || call(FIRST + 1))
    });
    for caller in [pinned, other] {
        caller.expect("a thread").join().expect("it only calls");
    }
    let answers = hist.end_all();
    let [closed, counted] = answers.as_slice() else {
        panic!("the tables that only serve others are not shown: {answers:?}");
    };
    assert_eq!(closed["hits"], 2 * CALLS, "{closed}");
    assert_eq!(closed["entries"], 2, "{closed}");
    for (fd, name) in [(0, "closer-first"), (1, "closer-second")] {
        let row = row(closed, "fd", i64::from(FIRST) + fd);
        assert_eq!(row["hitcount"], CALLS, "{closed}");
        assert_eq!(row["name"], name, "{closed}");
        assert!(row["lat.min"].as_u64() > Some(0), "{closed}");
    }
    // The value of -EBADF.
    let fails = row(counted, "ret", -9);
    assert_eq!(fails["hitcount"], 2 * CALLS, "{counted}");
}

/// Another table can match on a table that sets no variables.
#[test]
fn a_table_without_variables_is_matched() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = support::of_this_thread();
    let enter = format!("keys=common_pid if {own} && fd >= {FIRST}");
    let exit = format!(
        "keys=common_pid:vals=hitcount:onmatch(syscalls.sys_enter_close).closed(ret) \
         if {own} && ret == -9"
    );
    let hist = Hist::start(
        "syscalls:sys_enter_close",
        &enter,
        &[
            "syscalls:sys_exit_close",
            &exit,
            "synthetic:closed",
            "keys=ret",
            "--synth=closed long ret",
            "--json",
        ],
    );
    (0..1000).for_each(|_| close_none(FIRST));
    let answers = hist.end_all();
    let hits: Vec<_> = answers.iter().map(|answer| &answer["hits"]).collect();
    assert_eq!(hits, [1000, 1000, 1000], "{answers:?}");
}

/// The example in the kernel's documentation, between two threads on two CPUs that wake each other.
/// The time between two events counts the same wake-ups.
#[test]
fn wakeups_on_all_cpus_match_the_pair() {
    let _machine = support::shared();
    needs!("cpu_time");
    const TURNS: u64 = 20_000;
    let waking = "keys=pid:ts0=common_timestamp.usecs if comm ~ \"noctule-pi*\"";
    let switch = "keys=next_pid:wakeup_lat=common_timestamp.usecs-$ts0:\
                  onmatch(sched.sched_waking).wakeup_latency($wakeup_lat,next_pid,next_prio) \
                  if next_comm ~ \"noctule-pi*\"";
    let pair = "on=pid==next_pid:keys=next_pid if next_comm ~ \"noctule-pi*\"";
    let hist = Hist::start(
        "sched:sched_waking",
        waking,
        &[
            "sched:sched_switch",
            switch,
            "synthetic:wakeup_latency",
            "keys=pid,prio:vals=lat,lat.p99:sort=pid",
            "sched:sched_waking..sched:sched_switch",
            pair,
            "--synth=wakeup_latency u64 lat; pid_t pid; int prio",
            "--json",
        ],
    );
    let (say, hear) = sync_channel::<u64>(0);
    let (answer, heard) = sync_channel::<u64>(0);
    let name = || support::thread("noctule-ping");
    let pinned = name().spawn(move || {
        affinity::pin(None, affinity::last_cpu());
        while let Ok(turn) = hear.recv() {
            answer.send(turn).expect("the other waits");
        }
    });
    let other = affinity::without_cpu(affinity::last_cpu(), || {
        name().spawn(move || {
            for turn in 0..TURNS {
                say.send(turn).expect("the other waits");
                heard.recv().expect("an answer");
            }
        })
    });
    for thread in [pinned, other] {
        thread.expect("a thread").join().expect("it only waits");
    }
    let answers = hist.end_all();
    let [wakeups, pairs] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert_eq!(wakeups["entries"], 2, "{wakeups}");
    // Not every turn has a wake-up: a thread does not sleep if the reply is already there.
    assert!(wakeups["hits"].as_u64() > Some(TURNS / 4), "{wakeups}");
    for row in wakeups["rows"].as_array().expect("rows") {
        let pid = row["pid"].as_u64().expect("a number");
        let same = self::row(pairs, "next_pid", pid.cast_signed());
        assert_eq!(row["hitcount"], same["hitcount"], "{wakeups} {pairs}");
    }
}

/// Two threads on two CPUs write with sizes whose maximum is known.
#[test]
fn maximum_is_saved_with_its_fields() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = support::of_threads("writer-");
    let trigger =
        format!("keys=common_tgid:c=count:onmax($c).save(fd,comm):onmax($c).largest($c) if {own}");
    let hist = Hist::start(
        "syscalls:sys_enter_write",
        &trigger,
        &[
            "synthetic:largest",
            "keys=size:sort=size.descending",
            "--synth=largest u64 size",
            "--json",
        ],
    );
    let writer = |name: &str, sizes: std::ops::Range<usize>| {
        support::thread(name).spawn(move || {
            let mut file = File::create("/dev/null").expect("it is there");
            let bytes = vec![0; sizes.end];
            for _ in 0..50 {
                for size in sizes.clone() {
                    file.write_all(&bytes[..size]).expect("it takes all");
                }
            }
            std::os::fd::AsRawFd::as_raw_fd(&file)
        })
    };
    let pinned = writer("writer-small", 1..1000).expect("a thread");
    let other = writer("writer-great", 500_000..500_777).expect("a thread");
    pinned.join().expect("it only writes");
    let fd = other.join().expect("it only writes");
    let answers = hist.end_all();
    let [kept, largest] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    let max = &kept["rows"][0]["max($c)"];
    assert_eq!(max["value"], 500_776, "{kept}");
    assert_eq!(
        (&max["saved"]["fd"], &max["saved"]["comm"]),
        (&fd.into(), &"writer-great".into()),
        "{kept}"
    );
    // Each size is a new maximum at most once.
    assert_eq!(largest["rows"][0]["size"], 500_776, "{largest}");
    let rows = largest["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["hitcount"] == 1), "{largest}");
    assert!(rows.len() >= 777, "{largest}");
}

#[test]
fn each_change_is_one_event() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = rustix::thread::gettid().as_raw_nonzero();
    let trigger = format!(
        "keys=common_pid:f=fd:vals=hitcount:onchange($f).save(fd,common_pid):onchange($f).trace(changed,$f) \
         if common_pid == {own} && fd > {FIRST}"
    );
    let more = [
        "synthetic:changed",
        "keys=fd:sort=fd",
        "--synth=changed int fd",
    ];
    let hist = Hist::start("syscalls:sys_enter_close", &trigger, &more);
    for number in [1, 1, 2, 2, 3, 1, 1] {
        close_none(FIRST + number);
    }
    let text = hist.end();
    let expected = format!(
        "# event histogram\n#\n# trigger info: hist:keys=common_pid:vals=hitcount:f=fd:sort=hitcount:size=2048:\
         onchange($f).save(fd,common_pid):onchange($f).trace(changed,$f) if common_pid == {own} && \
         fd > {FIRST} [active]\n#\n\n\
         {{ common_pid: {own:>10} }} hitcount:          7\n\
         \tchanged: {last:10}  fd: {last:10}  common_pid: {own:>10}\n\
         \tchanged: {last:10}\n\n\
         Totals:\n    Hits: 7\n    Entries: 1\n    Dropped: 0\n\n\n\
         # event histogram\n#\n# trigger info: hist:keys=fd:vals=hitcount:sort=fd:size=2048 [active]\n#\n\n\
         {{ fd: {last:>10} }} hitcount:          2\n\
         {{ fd: {second:>10} }} hitcount:          1\n\
         {{ fd: {third:>10} }} hitcount:          1\n\n\
         Totals:\n    Hits: 4\n    Entries: 3\n    Dropped: 0\n",
        last = FIRST + 1,
        second = FIRST + 2,
        third = FIRST + 3,
    );
    assert_eq!(text, expected);
}

#[test]
fn errors_of_several_triggers_have_a_caret() {
    let _machine = support::shared();
    let enter = ["syscalls:sys_enter_close", "keys=common_pid:f=fd"];
    let made = "--synth=made int fd";
    let exit = "syscalls:sys_exit_close";
    let cases: [(&[&str], &str); 12] = [
        (
            &[exit, "keys=common_pid:x=$y"],
            "error: Couldn't find variable\n  keys=common_pid:x=$y\n                    ^",
        ),
        (
            &[exit, "keys=common_pid:x=ret,x=ret"],
            "Variable already defined",
        ),
        (&[exit, "keys=ret:x=$f"], "Couldn't find variable"),
        (
            &[exit, "keys=common_pid,comm:x=$f"],
            "`syscalls.sys_enter_close` has different keys",
        ),
        (
            &[exit, "keys=$f"],
            "Using variable references in keys not supported",
        ),
        (
            &[
                exit,
                "keys=common_pid:onmatch(syscalls.sys_enter_open).made(ret)",
                made,
            ],
            "Matching event histogram not found",
        ),
        (
            &[
                exit,
                "keys=common_pid:onmatch(syscalls.sys_enter_close).mad(ret)",
                made,
            ],
            "Couldn't find synthetic event",
        ),
        (
            &[
                exit,
                "keys=common_pid:onmatch(syscalls.sys_enter_close).made($f,ret)",
                made,
            ],
            "Param count doesn't match synthetic event field count",
        ),
        (
            &[
                exit,
                "keys=common_pid:onmatch(syscalls.sys_enter_close).made(comm)",
                made,
            ],
            "Param type doesn't match synthetic event field type",
        ),
        (
            &[exit, "keys=common_pid:x=ret:onmax($y).save(ret)"],
            "Couldn't find onmax or onchange variable",
        ),
        (
            &["synthetic:none", "keys=fd", made],
            "synthetic:none: not defined: --synth defines made",
        ),
        (
            &[exit, "keys=ret", "--synth=made intt fd"],
            "error: Invalid type\n  made intt fd\n       ^",
        ),
    ];
    for (at, (args, words)) in cases.iter().enumerate() {
        // The third case has no trigger that sets its variable.
        let before = if at == 2 || args[0].starts_with("synthetic") {
            &[][..]
        } else {
            &enter[..]
        };
        let (code, errors) = refused(&[before, args].concat());
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}
