//! Tests of the read path of hardware counters, with software events as stand-ins. Software events
//! exist on every machine and use the same path: noctule opens one group per CPU, reads the group
//! at each switch, and charges the difference to the previous thread. `perf stat` counts the same
//! events for one process.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use noctule_collect::{CpuSource, Grace};
use noctule_kernel::{
    Accounting, CounterSpec, CpuSlots, Facts, HostRoots, PerfEvent, Plan, Wanted,
};
use noctule_model::{Counter, FeatureState, ProcessRow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::{self, assert_close};

/// The software event that stands in for each counter, and its name in perf.
const STAND_INS: [(Counter, PerfEvent, &str); 3] = [
    (Counter::Cycles, PerfEvent::CPU_CLOCK, "cpu-clock"),
    (Counter::Instructions, PerfEvent::PAGE_FAULTS, "page-faults"),
    (
        Counter::CacheMisses,
        PerfEvent::MINOR_FAULTS,
        "minor-faults",
    ),
];

/// The stand-ins that are compared with `perf stat`. The clock is left out: here it belongs to a
/// CPU and also runs while the kernel switches tasks, but perf's belongs to the process.
const COUNTED: &[(Counter, PerfEvent, &str)] = STAND_INS.split_at(1).1;

fn source() -> CpuSource {
    let facts = Facts::probe(&HostRoots::default());
    let kernel = accounting(&facts);
    for name in NAMES {
        assert_eq!(state(&kernel, name), FeatureState::On, "{name}");
    }
    CpuSource::new(kernel, &facts, Grace::default(), Vec::new(), &[], None)
}

/// Names of the features whose counters are replaced by stand-ins.
const NAMES: [&str; 3] = ["cycles", "instructions", "cache_misses"];

fn state(kernel: &Accounting, name: &str) -> FeatureState {
    let feature = kernel.features().iter().find(|f| f.id.name() == name);
    feature.expect("a verdict").state
}

fn accounting(facts: &Facts) -> Accounting {
    let spec = |&(counter, event, _): &(Counter, PerfEvent, &str)| CounterSpec { counter, event };
    let wanted = Wanted {
        counters: STAND_INS.iter().map(spec).collect(),
        page_cache: false,
        softirqs: false,
        ..Wanted::default()
    };
    let plan = Plan::new(facts, &wanted).expect("root may do it");
    let cpus = CpuSlots::new(facts).expect("a map");
    Accounting::load(facts, &plan, &wanted, &cpus).expect("it loads")
}

/// Returns what `perf stat` counts for the command, one value per stand-in.
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
fn process_counters_match_perf_stat() {
    let _machine = support::shared();
    let mut source = source();
    source.collect(&[], &[]).expect("a batch");
    // Touches 64 MiB page by page, which is 16,384 faults. perf does not count about 60 faults
    // between fork and exec, which is negligible.
    let folder = tempfile::tempdir().expect("a folder");
    // Other users may also run a `dd`.
    let name = format!("dd-{}", std::process::id());
    let program = folder.path().join(&name);
    fs::copy("/bin/dd", &program).expect("a copy");
    let expected = perf_stat(&[
        program.to_str().expect("in UTF-8"),
        "if=/dev/zero",
        "of=/dev/null",
        "bs=64M",
        "count=40",
        "status=none",
    ]);
    let mut ended = Vec::new();
    for _ in 0..50 {
        ended.extend(source.collect(&[], &[]).expect("a batch").exited);
        if !named(&ended, &name).is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let rows = named(&ended, &name);
    assert_eq!(rows.len(), 1, "one dd ran: {rows:?}");
    for ((counter, _, name), expected) in COUNTED.iter().zip(expected) {
        assert!(
            expected > 1000.0,
            "perf stat counted {expected} {name}: too little to compare"
        );
        assert_close(name, rows[0].counters[*counter] as f64, expected, 0.01, 0.0);
    }
}

/// A child that is killed at the end of the test, even if the test fails.
struct Hog(Child);

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How much a process used up to a batch, in nanoseconds.
struct Clocks {
    /// Time according to the CPU clock.
    counted: f64,
    /// Time according to the scheduler.
    used: f64,
    /// Time needed to take the batch. Both values were read within that time.
    unsure: f64,
}

impl Clocks {
    fn of(source: &mut CpuSource, pid: u32) -> Self {
        let began = Instant::now();
        let batch = source.collect(&[], &[]).expect("a batch");
        let unsure = began.elapsed().as_nanos() as f64;
        let row = batch.processes.iter().find(|row| row.id.pid == pid);
        let counters = &row.expect("a row").counters;
        Self {
            counted: counters[Counter::Cycles] as f64,
            used: counters[Counter::CpuTime] as f64,
            unsure,
        }
    }
}

/// Maximum duration of a batch that is compared, in nanoseconds. A slower batch probably lost the
/// CPU, so its figures prove nothing.
const QUICK: f64 = 20e6;

/// Maximum number of attempts to get a quick batch, because on a busy machine many are slow.
const TRIES: usize = 200;

#[test]
fn counters_of_a_thread_that_stays_on_its_cpu_are_not_late() {
    let _machine = support::shared();
    let mut source = source();
    let child = Hog(Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("sh"));
    thread::sleep(Duration::from_millis(300));
    let mut before = Clocks::of(&mut source, child.0.id());
    let mut compared = 0;
    for _ in 0..TRIES {
        thread::sleep(Duration::from_millis(200));
        let now = Clocks::of(&mut source, child.0.id());
        let unsure = before.unsure + now.unsure;
        if unsure <= QUICK {
            // Both clocks run only while the thread runs, so a preemption between the readings
            // affects neither. The CPU clock also runs during steal time, which the kernel reports
            // only once it amounts to a tick of 10 ms.
            let (counted, used) = (now.counted - before.counted, now.used - before.used);
            let slack = 10e6 + unsure + support::stolen() * 1e9;
            assert_close("cpu-clock", counted, used, 0.01, slack);
            compared += 1;
            if compared == 5 {
                return;
            }
        }
        before = now;
    }
    panic!("only {compared} of {TRIES} batches were quick");
}

/// Returns the open files of this process.
fn open_files() -> Vec<String> {
    let open = fs::read_dir("/proc/self/fd").expect("a list").flatten();
    let targets = open.filter_map(|file| fs::read_link(file.path()).ok());
    targets.map(|to| to.display().to_string()).collect()
}

fn open_events() -> usize {
    let open = open_files();
    open.iter().filter(|to| to.contains("[perf_event]")).count()
}

/// Restores the limit of open files when dropped.
struct Limit(Rlimit);

impl Limit {
    fn set(current: u64) -> Self {
        let before = getrlimit(Resource::Nofile);
        let maximum = before.maximum;
        let current = Some(current);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("the limit can be set");
        Self(before)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}

#[test]
fn counters_leave_descriptors_for_everything_else() {
    let _machine = support::shared();
    let before = open_events();
    // The limit is high enough for everything else, but far too low for the counters.
    let low = Limit::set(open_files().len() as u64 + 256);
    let mut kernel = accounting(&Facts::probe(&HostRoots::default()));
    for name in NAMES {
        assert_eq!(state(&kernel, name), FeatureState::Degraded, "{name}");
    }
    assert_eq!(open_events(), before);
    kernel.snapshot().expect("a snapshot without counters");
    drop(low);
    // Refused counters are retried at growing intervals.
    let all = STAND_INS.len() * thread::available_parallelism().expect("CPUs").get();
    for _ in 0..4 {
        kernel.snapshot().expect("a snapshot");
    }
    assert!(open_events() >= before + all, "{} of {all}", open_events());
}
