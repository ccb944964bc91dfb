//! Tests of each process's wait, compared with field 2 of `/proc/PID/schedstat`.

use serde_json::Value;

use super::support::cgroup::Group;
use super::support::scheduler::ExactNotes;
use super::support::{self, load};
use super::{answer_file, answer_in, around, assert_close, number, parse_waits, path};

struct Case {
    name: &'static str,
    load: &'static str,
    /// Number of processes that print their wait.
    processes: usize,
    /// Minimum wait, below which the case proves nothing.
    least: f64,
}

const CASES: [Case; 6] = [
    Case {
        name: "two that use one CPU",
        load: "pair 0.7",
        processes: 3,
        least: 0.6,
    },
    Case {
        name: "two threads that wake each other",
        load: "ping-pong 40000",
        processes: 1,
        least: 0.005,
    },
    Case {
        name: "fifty threads that mostly sleep",
        load: "sleepers 50 1.5",
        processes: 1,
        least: 0.5,
    },
    Case {
        name: "threads that are moved while they wait",
        load: "moved 5 1.5",
        processes: 1,
        least: 0.5,
    },
    Case {
        name: "threads that change their own affinity",
        load: "movers 4 1",
        processes: 1,
        least: 0.5,
    },
    Case {
        name: "wake-ups of threads that run",
        load: "storm 1.5",
        processes: 1,
        least: 0.5,
    },
];

/// The kernel reports the end of a multi-threaded process about 100 ms late.
const THEN_SLEEP: &str = "\"$0\" \"$@\"; exec sleep 0.5";

/// The tolerance is 1 %. After a process has printed its wait, it can wait for some more
/// microseconds.
const SHARE: f64 = 0.01;
const SLACK: f64 = 0.000_3;

fn row_of(answer: &Value, pid: u32) -> &Value {
    let rows = support::rows(answer, |row| row["process.pid"] == pid);
    assert_eq!(rows.len(), 1, "process {pid}: {answer}");
    rows[0]
}

/// Since 6.12 a sleeping thread stays in its queue for a while. If it is migrated during that time,
/// the kernel counts its sleep as waiting, but noctule does not. After such a migration schedstat
/// reports more, and the load runs again.
const TRIES: u32 = 4;

/// Returns pid, noctule's seconds and the kernel's seconds for each process.
fn compared(case: &Case) -> Vec<(u32, f64, f64)> {
    let group = Group::new("exact");
    let file = answer_file();
    let args = ["stat", "--json", "--by", "process", "-o", path(&file)];
    let command = [
        vec!["/bin/sh".into(), "-c".into(), THEN_SLEEP.into()],
        load::command(case.load),
    ]
    .concat();
    let output = around(&args, &group, &command);
    assert!(output.status.success(), "{}: {output:?}", case.name);
    let told = parse_waits(&output);
    assert_eq!(told.len(), case.processes, "{}: {output:?}", case.name);
    let all: f64 = told.iter().map(|(_, seconds)| seconds).sum();
    assert!(all > case.least, "{}: {all} s", case.name);
    let answer = answer_in(&file);
    let one = |(pid, seconds)| {
        let row = row_of(&answer, pid);
        let ours = number(&row["wait.seconds"]);
        println!("{}: {ours} of {seconds}", case.name);
        assert_eq!(row["switches.throttled"], 0, "{}: {row}", case.name);
        (pid, ours, seconds)
    };
    told.into_iter().map(one).collect()
}

#[test]
fn process_waits_match_the_kernels_figures() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let _notes = ExactNotes::new();
    for case in &CASES {
        for left in (0..TRIES).rev() {
            let waits = compared(case);
            let below =
                |(_, ours, kernel): &(u32, f64, f64)| *ours < kernel * (1.0 - SHARE) - SLACK;
            if left > 0 && waits.iter().any(below) {
                println!("{}: once more", case.name);
                continue;
            }
            for (pid, ours, kernel) in waits {
                let what = format!("{}, process {pid}", case.name);
                assert_close(&what, ours, kernel, SHARE, SLACK);
            }
            break;
        }
    }
}
