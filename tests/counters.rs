//! The reading path of hardware counters, with software events in their place: they exist on every
//! machine, go the same way (one group per CPU, read at each switch, charged to who leaves), and
//! `perf stat` counts the same events for one process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use noctule_collect::{CpuSource, Grace};
use noctule_kernel::{Accounting, CounterSpec, Facts, PerfEvent, Plan, Wanted};
use noctule_model::{Batch, Counter, FeatureState, ProcessRow};

use super::support::{self, assert_close};

/// Which software event stands in for which counter, and its name for perf.
const STAND_INS: [(Counter, PerfEvent, &str); 3] = [
    (Counter::Cycles, PerfEvent::CPU_CLOCK, "cpu-clock"),
    (Counter::Instructions, PerfEvent::PAGE_FAULTS, "page-faults"),
    (
        Counter::CacheMisses,
        PerfEvent::MINOR_FAULTS,
        "minor-faults",
    ),
];

/// Those that count events. A clock is not compared with perf's: the clock of a CPU also runs while
/// the kernel switches, which nobody's own clock does.
const COUNTED: &[(Counter, PerfEvent, &str)] = STAND_INS.split_at(1).1;

fn source() -> CpuSource {
    let facts = Facts::probe(Path::new("/"));
    let spec = |&(counter, event, _): &(Counter, PerfEvent, &str)| CounterSpec { counter, event };
    let wanted = Wanted {
        counters: STAND_INS.iter().map(spec).collect(),
        page_cache: false,
        softirqs: false,
        ..Wanted::default()
    };
    let plan = Plan::new(&facts, &wanted).expect("root may do it");
    let kernel = Accounting::load(&facts, &plan, &wanted).expect("it loads");
    for name in ["cycles", "instructions", "cache_misses"] {
        let feature = kernel.features().iter().find(|f| f.name == name);
        assert_eq!(
            feature.expect("a verdict").state,
            FeatureState::On,
            "{feature:?}"
        );
    }
    CpuSource::new(kernel, Grace::default(), None, Vec::new(), &[])
}

/// What `perf stat` counts for the command: one value for each stand-in.
fn perf_stat(command: &[&str]) -> Vec<f64> {
    let names: Vec<&str> = COUNTED.iter().map(|(_, _, name)| *name).collect();
    let events = names.join(",");
    let output = Command::new("perf")
        .args(["stat", "-x,", "-e", &events, "--"])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("perf is installed (Debian: linux-perf)");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split(',').any(|field| field == name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in: {text}"));
        let count = line.split(',').next().unwrap_or_default();
        count.parse().unwrap_or_else(|e| panic!("{line}: {e}"))
    };
    COUNTED.iter().map(|(_, _, name)| value(name)).collect()
}

fn named<'a>(rows: &'a [ProcessRow], comm: &str) -> Vec<&'a ProcessRow> {
    rows.iter().filter(|row| row.comm.text() == comm).collect()
}

#[test]
fn counters_of_a_process_equal_what_perf_stat_prints() {
    let _machine = support::shared();
    let mut source = source();
    source.collect(&[], &[]).expect("a batch");
    // Touches 64 MiB page by page: 16,384 faults. The some 60 between fork and exec, which perf
    // leaves out, are small against that.
    let expected = perf_stat(&[
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=64M",
        "count=40",
        "status=none",
    ]);
    let mut ended = Vec::new();
    for _ in 0..50 {
        ended.extend(source.collect(&[], &[]).expect("a batch").exited);
        if !named(&ended, "dd").is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let rows = named(&ended, "dd");
    assert_eq!(rows.len(), 1, "one dd ran: {rows:?}");
    for ((counter, _, name), expected) in COUNTED.iter().zip(expected) {
        assert!(
            expected > 1000.0,
            "perf stat counted {expected} {name}: too little to compare"
        );
        assert_close(name, rows[0].counters[*counter] as f64, expected, 0.01, 0.0);
    }
}

/// A child that ends with the test, also when that fails.
struct Hog(Child);

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nanoseconds of the CPU clock and of the scheduler that the process used until now.
fn clocks(batch: &Batch, pid: u32) -> (f64, f64) {
    let row = batch
        .processes
        .iter()
        .find(|row| row.id.pid == pid)
        .expect("a row");
    (
        row.counters[Counter::Cycles] as f64,
        row.counters[Counter::CpuTime] as f64,
    )
}

#[test]
fn counters_of_a_thread_that_stays_on_its_cpu_are_not_late() {
    let _machine = support::shared();
    let mut source = source();
    let child = Hog(Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("sh"));
    thread::sleep(Duration::from_millis(300));
    let mut before = clocks(&source.collect(&[], &[]).expect("a batch"), child.0.id());
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(200));
        let now = clocks(&source.collect(&[], &[]).expect("a batch"), child.0.id());
        // Both clocks run while the thread does, whether or not it was switched out in between.
        // They are read some 100 us apart. The clock also runs while the hypervisor has the CPU, of
        // which the kernel tells once it is a tick of 10 ms.
        let slack = 13e6 + support::stolen() * 1e9;
        assert_close("cpu-clock", now.0 - before.0, now.1 - before.1, 0.01, slack);
        before = now;
    }
}
