//! Tests of `noctule hist`, which counts by key on any tracepoint. The counts must match the
//! actions of the test exactly.

mod every;
mod kernel;
mod linked;
mod shared;
mod snapshot;
mod switched;

use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::cgroup::{Below, Group};
use super::support::container::hex_id;
use super::support::{self, NOCTULE, Part, affinity, bpf};

/// Calls getppid `times` times, one system call each.
fn getppid(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getppid();
    }
}

/// Closes a descriptor that is not open.
fn close_none(fd: i32) {
    #[allow(unsafe_code, reason = "no safe call closes what is not open")]
    // SAFETY: no descriptor of this process is so high.
    unsafe {
        libc::close(fd);
    }
}

/// A running histogram. Interrupting it makes it print its output.
pub(crate) struct Hist(Child);

impl Hist {
    pub(crate) fn start(event: &str, trigger: &str, more: &[&str]) -> Self {
        Self::of(&[&[event, trigger], more].concat())
    }

    fn of(args: &[&str]) -> Self {
        let mut command = Command::new(NOCTULE);
        command.arg("hist").args(args);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let mut this = Self(child);
        support::wait_until_attached(&mut this.0);
        this
    }

    pub(crate) fn end(mut self) -> String {
        let held = bpf::held_by(self.0.id());
        self.interrupt();
        let mut text = String::new();
        let out = self.0.stdout.as_mut().expect("piped");
        out.read_to_string(&mut text).expect("text");
        assert!(self.0.wait().expect("our child").success(), "{text}");
        bpf::wait_until_unloaded(&held);
        text
    }

    /// Returns the outputs of several tables.
    pub(crate) fn end_all(self) -> Vec<Value> {
        let text = self.end();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    pub(crate) fn end_json(self) -> Value {
        serde_json::from_str(&self.end()).expect("JSON")
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    }
}

/// Detaches everything if a test fails.
impl Drop for Hist {
    fn drop(&mut self) {
        if self.0.try_wait().ok().flatten().is_none() {
            self.interrupt();
            let _ = self.0.wait();
        }
    }
}

pub(crate) fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output: Output = support::noctule(&[&["hist"], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), errors)
}

/// Two threads, each on its own CPU if there are two, make two million calls each.
#[test]
fn four_million_hits_on_all_cpus_are_counted_exactly() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CALLS: u64 = 2_000_000;
    let own = support::of_threads("million");
    let number = libc::SYS_getppid as u64;
    let trigger = format!("keys=common_cpu:vals=id,id.max,id.p50 if id == {number} && {own}");
    let hist = Hist::start("raw_syscalls:sys_enter", &trigger, &["--json"]);
    let million = || support::thread("million");
    let pinned = million().spawn(|| {
        affinity::pin(None, affinity::last_cpu());
        getppid(CALLS);
    });
    let other = affinity::without_cpu(affinity::last_cpu(), || million().spawn(|| getppid(CALLS)));
    for caller in [pinned, other] {
        caller.expect("a thread").join().expect("it only calls");
    }
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 2 * CALLS, "{answer}");
    assert_eq!(answer["dropped"], 0, "{answer}");
    let rows = answer["rows"].as_array().expect("rows");
    let sum = |name: &str| {
        rows.iter()
            .filter_map(|row| row[name].as_u64())
            .sum::<u64>()
    };
    assert_eq!(sum("hitcount"), 2 * CALLS, "{answer}");
    assert_eq!(sum("id"), number * 2 * CALLS, "{answer}");
    for row in rows {
        assert_eq!(row["id.max"], number, "{answer}");
    }
}

#[test]
fn an_event_without_a_trigger_is_counted_by_command() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CALLS: u64 = 1000;
    let hist = Hist::of(&["syscalls:sys_enter_getppid", "--json"]);
    let caller = support::thread("by-command").spawn(|| getppid(CALLS));
    caller.expect("a thread").join().expect("it only calls");
    let answer = hist.end_json();
    let rows = answer["rows"].as_array().expect("rows");
    let comm = |row: &&Value| row["comm"] == "by-command";
    let row = rows.iter().find(comm).expect("its row");
    assert_eq!(row["hitcount"], CALLS, "{answer}");
}

/// There are 1,000 keys, but the table has room for 128.
#[test]
fn hits_without_room_are_counted_as_dropped() {
    let _machine = support::shared();
    needs!("cpu_time");
    const FIRST: i32 = 1 << 20;
    let own = support::of_this_thread();
    let trigger = format!("keys=fd:size=128 if fd >= {FIRST} && {own}");
    let hist = Hist::start("syscalls:sys_enter_close", &trigger, &["--json"]);
    for _ in 0..3 {
        (FIRST..FIRST + 1000).for_each(close_none);
    }
    let answer = hist.end_json();
    let number = |name: &str| answer[name].as_u64().expect("a number");
    assert_eq!(number("entries"), 128, "{answer}");
    assert_eq!(number("hits") + number("dropped"), 3000, "{answer}");
    assert_eq!(number("hits"), 3 * 128, "{answer}");
}

/// In a small table, many stacks would share a hash value, and the kernel would drop some.
#[test]
fn each_stack_has_a_row_of_its_own() {
    let _machine = support::shared();
    needs!("cpu_time");
    let trigger = "keys=stacktrace:size=128";
    let hist = Hist::start("sched:sched_switch", trigger, &["--json"]);
    for _ in 0..20 {
        support::noctule(&["--version"]);
        thread::sleep(Duration::from_millis(10));
    }
    let answer = hist.end_json();
    let rows = answer["rows"].as_array().expect("rows");
    assert!(rows.len() > 5, "{answer}");
    let stacks: std::collections::HashSet<_> = rows
        .iter()
        .map(|row| row["stacktrace"].to_string())
        .collect();
    assert_eq!(stacks.len(), rows.len(), "{answer}");
    assert!(!stacks.contains("null"), "{answer}");
}

#[test]
fn the_answer_has_the_kernels_format() {
    let _machine = support::shared();
    needs!("cpu_time");
    let own = support::of_this_thread();
    let trigger = format!("keys=common_pid:vals=fd if fd == 1048576 && {own}");
    let hist = Hist::start("syscalls:sys_enter_close", &trigger, &[]);
    let tid = rustix::thread::gettid().as_raw_nonzero();
    close_none(1 << 20);
    close_none(1 << 20);
    let text = hist.end();
    let expected = format!(
        "# event histogram\n#\n# trigger info: hist:keys=common_pid:vals=hitcount,fd:sort=hitcount:\
         size=2048 if fd == 1048576 && {own} [active]\n#\n\n\
         {{ common_pid: {tid:>10} }} hitcount:          2  fd:    2097152\n\n\
         Totals:\n    Hits: 2\n    Entries: 1\n    Dropped: 0\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn errors_have_a_caret_below_the_place() {
    let _machine = support::shared();
    let cases: [(&[&str], &str); 5] = [
        (
            &["sched:sched_switch", "keys=prev_pdi"],
            "error: Field not found\n  keys=prev_pdi\n       ^\nhelp: did you mean `prev_pid`?",
        ),
        (
            &["sched:sched_switch", "keys=prev_pid:sort=nothing"],
            "Sort field must be a key or a val",
        ),
        (
            &["sched:sched_switch", "keys=prev_pid if prev_comm == bash"],
            "Invalid value (did you forget quotes)?",
        ),
        (
            &["sched:sched_swich", "keys=prev_pid"],
            "this kernel has no event sched:sched_swich; did you mean sched:sched_switch?",
        ),
        (
            &["sched_switch", "keys=prev_pid"],
            "an event is SYSTEM:EVENT",
        ),
    ];
    for (args, words) in cases {
        let (code, errors) = refused(args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// Changes its directory this many times, one system call each.
fn change_directory(group: &Group, times: u64) {
    let script = "cd /;".repeat(usize::try_from(times).expect("few"));
    let mut command = group.command("/bin/sh");
    let status = command.args(["-c", &script]).status();
    assert!(status.expect("a shell").success());
}

/// A container with two cgroups, and another cgroup that belongs to no container.
#[test]
fn the_cgroups_of_a_container_are_one_row() {
    let _machine = support::shared_but(&[Part::Groups]);
    needs!("cpu_time");
    let id = hex_id();
    let part = |name: &str| Below::new(&format!("docker/{id}/{name}"));
    let (first, second) = (part("first"), part("second"));
    let other = Group::new("other");
    let filter = format!("container == \"{id}\" || cgroup == \"{}\"", other.path());
    let by_container = format!("keys=container:vals=common_tgid.max:sort=hitcount if {filter}");
    let containers = Hist::start("syscalls:sys_enter_chdir", &by_container, &["--json"]);
    let by_cgroup = format!("keys=cgroup:sort=hitcount.descending if {filter}");
    let cgroups = Hist::start("syscalls:sys_enter_chdir", &by_cgroup, &["--json"]);
    // This cgroup did not exist at the start.
    let late = part("late");
    for (group, times) in [
        (&first.group, 3),
        (&second.group, 4),
        (&other, 5),
        (&late.group, 6),
    ] {
        change_directory(group, times);
    }
    let rows = |answer: &Value, key: &str| -> Vec<(String, u64)> {
        let rows = answer["rows"].as_array().expect("rows").iter();
        let row = |row: &Value| {
            let name = row[key]["name"].as_str().expect("a name");
            (name.to_owned(), row["hitcount"].as_u64().expect("a number"))
        };
        rows.map(row).collect()
    };
    let answer = containers.end_json();
    let expected = [(other.path(), 5), (id[..12].to_owned(), 7)];
    assert_eq!(rows(&answer, "container"), expected, "{answer}");
    let answer = cgroups.end_json();
    let expected = [
        (other.path(), 5),
        (second.group.path(), 4),
        (first.group.path(), 3),
    ];
    assert_eq!(rows(&answer, "cgroup"), expected, "{answer}");
    let (code, errors) = refused(&["sched:sched_switch", "keys=pod if pod == \"none\""]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("No pod has this name"), "{errors}");
}

/// The events are sleeps of this process, so the time between events has known limits.
#[test]
fn time_between_events_matches_the_sleeps() {
    let _machine = support::shared();
    needs!("cpu_time");
    const SLEEPS: u64 = 20;
    const SHORTEST: Duration = Duration::from_millis(5);
    let (say, said) = channel();
    let (go, gone) = channel::<()>();
    let sleeper = thread::spawn(move || {
        let own = rustix::thread::gettid().as_raw_nonzero();
        say.send(own).expect("the test hears it");
        gone.recv().expect("the test goes on");
        let began = Instant::now();
        (0..SLEEPS).for_each(|_| thread::sleep(SHORTEST));
        began.elapsed()
    });
    let sleeper_id = said.recv().expect("a thread");
    let pair = "syscalls:sys_enter_clock_nanosleep..syscalls:sys_exit_clock_nanosleep";
    let values = "latency,latency.min,latency.usecs";
    let trigger = format!("on=common_pid:keys=comm:vals={values} if common_pid == {sleeper_id}");
    let hist = Hist::start(pair, &trigger, &["--json"]);
    go.send(()).expect("it waits");
    let slept = sleeper.join().expect("it only sleeps").as_nanos();
    let answer = hist.end_json();
    let number = |name: &str| u128::from(answer["rows"][0][name].as_u64().expect("a number"));
    assert_eq!(number("hitcount"), u128::from(SLEEPS), "{answer}");
    assert!(number("latency") <= slept, "{answer}: {slept}");
    assert!(number("latency.min") >= SHORTEST.as_nanos(), "{answer}");
    assert_eq!(answer["dropped"], 0, "{answer}");
    let (code, errors) = refused(&[pair, "keys=common_pid"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("Missing `on=`"), "{errors}");
}

/// Generates more unmatched first events than the kernel-side table has room for. Requests for a
/// process group that does not exist have no second event.
#[test]
fn unmatched_first_events_make_room() {
    let _machine = support::shared();
    needs!("cpu_time");
    const NOBODY: i32 = 1 << 22;
    // Makes the process the leader of its own process group, if it is not one already.
    let _ = rustix::process::setpgid(None, None);
    let group = rustix::process::getpgrp();
    let own = support::of_this_thread();
    let trigger = format!("on=pid==ret:keys=common_tgid if {own}");
    let pair = "syscalls:sys_enter_getpgid..syscalls:sys_exit_getpgid";
    let hist = Hist::start(pair, &trigger, &["--json"]);
    for number in 1..70_000 {
        let nobody = rustix::process::Pid::from_raw(NOBODY + number);
        assert!(rustix::process::getpgid(nobody).is_err());
    }
    for _ in 0..100 {
        let found = rustix::process::getpgid(Some(group));
        assert_eq!(found, Ok(group));
    }
    let answer = hist.end_json();
    assert_eq!(answer["rows"][0]["hitcount"], 100, "{answer}");
    assert_eq!(answer["dropped"], 0, "{answer}");
}
