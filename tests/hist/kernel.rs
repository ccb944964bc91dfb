//! Tests against the kernel's own histograms on the same events: the tables are identical.
//!
//! Only virtual machines have a kernel with `CONFIG_HIST_TRIGGERS`. All triggers of a batch run
//! together while one thread does the same work for all of them. The thread waits until the tables
//! are read, because its name would otherwise no longer exist.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::{Hist, close_none};
use crate::support;
use crate::support::expect::skip_because;
use crate::support::tracefs::Tracefs;

/// Groups of triggers that refer to each other.
const LINKED: &str = include_str!("linked.txt");
/// One trigger per line.
const TRIGGERS: &str = include_str!("triggers.txt");
/// Number of triggers that run together.
const BATCH: usize = 22;
/// Number of attempts. The kernel skips a hit in an interrupt that arrives while another program
/// runs (docs/trace.md). If tables differ, the test retries their triggers together.
const ROUNDS: usize = 4;

/// A trigger, as given to noctule and to the kernel.
struct Trigger {
    event: String,
    text: String,
    /// The first kernel version that must accept the trigger.
    since: (u32, u32),
}

impl Trigger {
    fn parse(line: &str, thread: i32, program: &Path) -> Self {
        let (event, rest) = line.split_once(' ').expect("an event");
        let (rest, since) = match rest.rsplit_once(" 6.") {
            Some((rest, minor)) => (rest, (6, minor.parse().expect("a release"))),
            None => (rest, (0, 0)),
        };
        let text = match rest.split_once(" if ") {
            // The event that generates the synthetic event is already restricted to the thread.
            _ if event.starts_with("synthetic:") => rest.to_owned(),
            Some((_, filter)) if filter.contains("$PROGRAM") => {
                rest.replace("$PROGRAM", program.to_str().expect("text"))
            }
            Some((hist, filter)) => format!("{hist} if ({filter}) && common_pid == {thread}"),
            None => format!("{rest} if common_pid == {thread}"),
        };
        Self {
            event: event.to_owned(),
            text,
            since,
        }
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.event.replace(':', "/"))
    }
}

/// A thread that does the work to be counted, on request.
struct Load {
    ask: Sender<()>,
    done: Receiver<()>,
    thread: i32,
}

impl Load {
    fn start(program: PathBuf) -> Self {
        let (ask, asked) = channel();
        let (tell, done) = channel();
        let (say, said) = channel();
        let work = move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get())
                .expect("the test hears it");
            while asked.recv().is_ok() {
                work(&program);
                tell.send(()).expect("the test hears it");
            }
        };
        let name = "noctule-load".to_owned();
        thread::Builder::new()
            .name(name)
            .spawn(work)
            .expect("a thread");
        Self {
            ask,
            done,
            thread: said.recv().expect("its number"),
        }
    }

    fn run(&self) {
        self.ask.send(()).expect("it waits");
        self.done.recv().expect("it has done it");
        // Waits until the thread sleeps.
        thread::sleep(Duration::from_millis(200));
    }
}

/// Uses files, allocations of many sizes, failing calls, processes, packets and signals.
fn work(program: &Path) {
    let file = program.with_file_name("data");
    for size in [1, 7, 64, 100, 1000, 5000] {
        fs::File::create(&file)
            .and_then(|mut file| file.write_all(&vec![b'x'; size]))
            .expect("a file");
        let mut text = Vec::new();
        fs::File::open(&file)
            .and_then(|mut file| file.read_to_end(&mut text))
            .expect("the file");
        close_none(1 << 20);
        close_none(100_000 + i32::try_from(size).expect("small"));
        let _ = fs::read("/proc/self/status").expect("a status");
        let _ = fs::metadata(program.with_file_name("missing"));
    }
    for _ in 0..3 {
        let status = Command::new(program).status().expect("a program");
        assert!(status.success());
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let own = socket.local_addr().expect("an address");
    for size in [1, 50, 900] {
        socket.send_to(&vec![0; size], own).expect("it is sent");
    }
    let own = rustix::process::getpid();
    for signal in [
        rustix::process::Signal::CONT,
        rustix::process::Signal::WINCH,
    ] {
        // Both signals are ignored.
        rustix::process::kill_process(own, signal).expect("our own process");
    }
}

/// A trace instance of the kernel with its own triggers, which are removed with it.
struct Instance<'a>(&'a Tracefs);

const INSTANCE: &str = "instances/noctule-test";

impl<'a> Instance<'a> {
    fn new(tracefs: &'a Tracefs) -> Self {
        fs::create_dir(tracefs.path(INSTANCE)).expect("an instance");
        Self(tracefs)
    }

    fn path(file: &str) -> String {
        format!("{INSTANCE}/events/{file}")
    }

    /// Adds the trigger and returns whether the kernel accepts it.
    fn add(&self, trigger: &Trigger) -> bool {
        let path = self.0.path(&Self::path(&trigger.file("trigger")));
        let file = fs::OpenOptions::new().append(true).open(path);
        let line = format!("hist:{}\n", trigger.text);
        file.expect("a file of triggers")
            .write_all(line.as_bytes())
            .is_ok()
    }

    fn remove(&self, trigger: &Trigger) {
        let path = Self::path(&trigger.file("trigger"));
        self.0.append(&path, &format!("!hist:{}", trigger.text));
    }

    /// Returns the table of this trigger. The heading of noctule's table identifies it.
    fn table(&self, trigger: &Trigger, head: &str) -> String {
        let all = self.0.read(&Self::path(&trigger.file("hist")));
        let tables = all.split("# event histogram\n").skip(1);
        let mut tables = tables.map(|table| format!("# event histogram\n{}\n", table.trim_end()));
        let found = tables.find(|table| table.starts_with(head));
        let heads = || {
            all.lines()
                .filter(|line| line.starts_with("# trigger info"))
        };
        found.unwrap_or_else(|| heads().collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.path(INSTANCE));
    }
}

/// Removes what only noctule prints, the number of hits for which the kernel did not run the
/// program.
fn without_skipped(table: &str) -> String {
    let lines = table
        .lines()
        .filter(|line| !line.starts_with("    Skipped: "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the lines in alphabetical order.
fn in_order(table: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = table.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns the lines that only one of the tables has.
fn differences(event: &str, ours: &str, kernels: &str) -> String {
    let only = |one: &str, other: &str| {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|there| there == *line));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (ours, kernels) = (only(ours, kernels), only(kernels, ours));
    format!("{event}\nonly ours:\n{ours}\nonly the kernel's:\n{kernels}\n")
}

/// Returns the kernel's own histograms, and a load for both. Returns `None` if the kernel has none.
fn kernels_own(folder: &Path) -> Option<(Tracefs, Load, PathBuf)> {
    let tracefs = Tracefs::mount();
    if !tracefs.path("events/sched/sched_switch/hist").exists() {
        skip_because("the kernel is built without CONFIG_HIST_TRIGGERS");
        return None;
    }
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\n").expect("a program");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, mode).expect("it can be executed");
    let load = Load::start(program.clone());
    Some((tracefs, load, program))
}

#[test]
fn single_event_tables_equal_the_kernels() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    let folder = tempfile::tempdir().expect("a folder");
    let Some((tracefs, load, program)) = kernels_own(folder.path()) else {
        return;
    };
    let lines = TRIGGERS.lines().filter(|line| !line.starts_with('#'));
    let triggers: Vec<_> = lines
        .map(|line| Trigger::parse(line, load.thread, &program))
        .collect();
    let mut left: Vec<&Trigger> = triggers.iter().collect();
    let mut wrong = Vec::new();
    let mut equal = 0;
    for _ in 0..ROUNDS {
        wrong.clear();
        let mut again = Vec::new();
        for batch in left.chunks(BATCH) {
            for (trigger, difference) in compare(&tracefs, batch, &load) {
                match difference {
                    None => equal += 1,
                    Some(difference) => {
                        wrong.push(difference);
                        again.push(trigger);
                    }
                }
            }
        }
        left = again;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal >= 60, "{equal}");
}

/// Runs a batch together with the kernel's own triggers. Returns each trigger that the kernel
/// accepts, with the difference between the tables.
fn compare<'a>(
    tracefs: &Tracefs,
    batch: &[&'a Trigger],
    load: &Load,
) -> Vec<(&'a Trigger, Option<String>)> {
    let instance = Instance::new(tracefs);
    let (taken, refused): (Vec<&Trigger>, Vec<_>) =
        batch.iter().partition(|trigger| instance.add(trigger));
    for trigger in refused {
        assert!(
            support::kernel() < trigger.since,
            "the kernel refuses {}",
            trigger.text
        );
    }
    let ours: Vec<_> = taken
        .iter()
        .map(|trigger| Hist::start(&trigger.event, &trigger.text, &[]))
        .collect();
    load.run();
    let mut compared = Vec::new();
    for (trigger, ours) in taken.into_iter().zip(ours) {
        let ours = without_skipped(&ours.end());
        let head: String = ours
            .lines()
            .take(3)
            .map(|line| format!("{line}\n"))
            .collect();
        let kernels = instance.table(trigger, &head);
        // The kernel does not define the order of equal rows.
        let sorted = trigger.text.contains(":sort=") && !trigger.text.contains("sort=hitcount");
        let same = if sorted {
            ours == kernels
        } else {
            in_order(&ours) == in_order(&kernels)
        };
        let difference = (!same).then(|| differences(&trigger.event, &ours, &kernels));
        compared.push((trigger, difference));
    }
    compared
}

/// A synthetic event of the kernel, removed when dropped.
struct Made<'a>(&'a Tracefs, String);

impl<'a> Made<'a> {
    fn new(tracefs: &'a Tracefs, definition: &str) -> Self {
        tracefs.append("synthetic_events", definition);
        let name = definition.split_whitespace().next().expect("a name");
        Self(tracefs, name.to_owned())
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.0.append("synthetic_events", &format!("!{}", self.1));
    }
}

#[test]
fn multi_event_tables_equal_the_kernels() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    let folder = tempfile::tempdir().expect("a folder");
    let Some((tracefs, load, program)) = kernels_own(folder.path()) else {
        return;
    };
    if !tracefs.path("synthetic_events").exists() {
        return skip_because("the kernel is built without CONFIG_SYNTH_EVENTS");
    }
    let text: Vec<_> = LINKED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let groups = text
        .split(|line| line.is_empty())
        .filter(|group| !group.is_empty());
    let mut wrong = Vec::new();
    for group in groups {
        // The kernel can skip a hit in an interrupt: see docs/trace.md.
        let tried = (0..ROUNDS).map(|_| compare_group(&tracefs, group, &load, &program));
        let mut differences = Vec::new();
        for one in tried {
            differences = one;
            if differences.is_empty() {
                break;
            }
        }
        wrong.extend(differences);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the differences between the kernel's tables of a group and noctule's.
fn compare_group(tracefs: &Tracefs, group: &[&str], load: &Load, program: &Path) -> Vec<String> {
    let (synthetic, triggers): (Vec<&str>, Vec<&str>) =
        group.iter().partition(|line| line.starts_with('+'));
    let synthetic: Vec<_> = synthetic.iter().map(|line| line[1..].trim()).collect();
    let triggers: Vec<_> = triggers
        .iter()
        .map(|line| Trigger::parse(line, load.thread, program))
        .collect();
    let _made: Vec<_> = synthetic
        .iter()
        .map(|text| Made::new(tracefs, text))
        .collect();
    let instance = Instance::new(tracefs);
    for trigger in &triggers {
        assert!(
            instance.add(trigger),
            "{}",
            tracefs.read(&format!("{INSTANCE}/error_log"))
        );
    }
    let (first, rest) = triggers.split_first().expect("a trigger");
    let mut more = Vec::new();
    for trigger in rest {
        more.extend([trigger.event.as_str(), &trigger.text]);
    }
    for text in &synthetic {
        more.extend(["--synth", text]);
    }
    let ours = Hist::start(&first.event, &first.text, &more);
    load.run();
    let ours = without_skipped(&ours.end());
    let ours = ours.split("# event histogram\n").skip(1);
    let ours: Vec<_> = ours
        .map(|table| format!("# event histogram\n{}\n", table.trim_end()))
        .collect();
    assert_eq!(ours.len(), triggers.len(), "{ours:?}");
    let mut wrong = Vec::new();
    for (trigger, ours) in triggers.iter().zip(ours) {
        let head: String = ours
            .lines()
            .take(3)
            .map(|line| format!("{line}\n"))
            .collect();
        let kernels = instance.table(trigger, &head);
        if in_order(&ours) != in_order(&kernels) {
            wrong.push(differences(&trigger.event, &ours, &kernels));
        }
    }
    // Triggers use each other's variables, so the test removes the later triggers first.
    for trigger in triggers.iter().rev() {
        instance.remove(trigger);
    }
    wrong
}
