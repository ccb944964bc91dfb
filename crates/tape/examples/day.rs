//! Measures the size of a long recording and the time to read it. For the population of
//! docs/tape.md:
//!
//! ```text
//! cargo lab-bench load population tape      # 1,000 processes in 200 cgroups, until its input ends
//! noctule record -o source --for 310s
//! cargo run --release -p noctule-tape --example day write source day 24
//! cargo run --release -p noctule-tape --example day read day
//! ```
//!
//! `write` repeats the recorded batches through the real writer, with counters that keep growing.
//! `write` prints how fast each table grows. `read` measures what
//! `noctule waits --at -12h --for 5m` reads, and what `top` reads for one moment. `read` prints the
//! minimum of five rounds of each.
#![allow(clippy::print_stdout, reason = "an example prints to its user")]

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, Instant};

use noctule_analysis::{ReportBuilder, Thresholds};
use noctule_model::{
    Batch, Blame, CgroupId, Counters, Cumulative, Group, Histogram, Level, ProcessId,
};
use noctule_tape::{Limits, Meta, Options, Recorder, Segment, Tape};

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", source, folder, hours] => {
            let hours = hours.parse().expect("a number of hours");
            write(Path::new(source), Path::new(folder), hours);
            print_sizes(Path::new(folder), hours);
        }
        ["read", folder] => read(Path::new(folder)),
        _ => println!("write SOURCE FOLDER HOURS, or read FOLDER"),
    }
}

fn write(source: &Path, folder: &Path, hours: u64) {
    let tape = Tape::open(source).expect("a recording");
    let span = tape.spans()[0];
    let batches: Vec<Batch> = tape.batches(&span, 0).collect();
    let recorder = Recorder::open(Options {
        folder: folder.to_owned(),
        segment_ns: 5 * MINUTE_NS,
        limits: Limits::default(),
        meta: Meta {
            run: "repeated".into(),
            ..Meta::default()
        },
        on_thread: || {},
    });
    let recorder = recorder.expect("a folder");
    let mut growth = Growth::default();
    for number in 0..hours * 3600 {
        let place = number as usize % batches.len();
        if place == 0 && number > 0 {
            growth.add(&batches);
        }
        while !recorder.has_room() {
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.batch(&growth.of(&batches[place], number));
    }
    let written = recorder.close(Duration::from_secs(60));
    assert!(written && recorder.trouble().is_none(), "the disk");
}

fn print_sizes(folder: &Path, hours: u64) {
    let tape = Tape::open(folder).expect("it was written");
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (table, bytes) in tape.segments().iter().flat_map(Segment::tables) {
        *sizes.entry(table.to_string()).or_default() += bytes;
    }
    let print = |name: &str, bytes: u64| {
        println!("{name:14} {:7.2} MB/h", bytes as f64 / 1e6 / hours as f64);
    };
    sizes.iter().for_each(|(table, bytes)| print(table, *bytes));
    print("all", sizes.values().sum());
}

/// The difference between the counters of a repetition and the recorded counters.
#[derive(Default)]
struct Growth {
    processes: HashMap<ProcessId, Counters>,
    groups: HashMap<CgroupId, Counters>,
    waits: HashMap<Group, Histogram>,
    all_waits: Histogram,
    pairs: HashMap<(Group, Group), Blame>,
}

impl Growth {
    fn add(&mut self, batches: &[Batch]) {
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
            return;
        };
        let processes = |batch: &Batch| each(&batch.processes, |row| (row.id, row.counters));
        grow(&mut self.processes, &processes(first), &processes(last));
        let groups = |batch: &Batch| each(&batch.cgroups, |row| (row.id, row.counters));
        grow(&mut self.groups, &groups(first), &groups(last));
        let waits = |batch: &Batch| each(&batch.waits, |row| (row.group, row.histogram.clone()));
        grow(&mut self.waits, &waits(first), &waits(last));
        self.all_waits += &last.all_waits.since(&first.all_waits);
        let pairs =
            |batch: &Batch| each(&batch.blames, |row| ((row.victim, row.culprit), row.blame));
        grow(&mut self.pairs, &pairs(first), &pairs(last));
    }

    /// Returns a batch of the current repetition, one second after the previous one.
    fn of(&self, batch: &Batch, number: u64) -> Batch {
        let mut batch = batch.clone();
        batch.sequence = number + 1;
        batch.taken_ns = (number + 1) * SECOND_NS;
        batch.time_unix_ns = batch.boot_unix_ns + batch.taken_ns;
        for row in &mut batch.processes {
            add(&mut row.counters, self.processes.get(&row.id));
        }
        for row in &mut batch.cgroups {
            add(&mut row.counters, self.groups.get(&row.id));
        }
        for row in &mut batch.waits {
            add(&mut row.histogram, self.waits.get(&row.group));
        }
        batch.all_waits += &self.all_waits;
        for row in &mut batch.blames {
            add(&mut row.blame, self.pairs.get(&(row.victim, row.culprit)));
        }
        batch
    }
}

fn add<V: for<'a> AddAssign<&'a V>>(sum: &mut V, more: Option<&V>) {
    if let Some(more) = more {
        *sum += more;
    }
}

fn each<R, K: Eq + Hash, V>(rows: &[R], key_and_value: impl Fn(&R) -> (K, V)) -> HashMap<K, V> {
    rows.iter().map(key_and_value).collect()
}

/// Adds the growth from the first to the last batch.
fn grow<K, V>(sums: &mut HashMap<K, V>, first: &HashMap<K, V>, last: &HashMap<K, V>)
where
    K: Copy + Eq + Hash,
    V: Cumulative + Default + for<'a> AddAssign<&'a V>,
{
    for (key, value) in last {
        if let Some(earlier) = first.get(key) {
            *sums.entry(*key).or_default() += &value.since(earlier);
        }
    }
}

fn read(folder: &Path) {
    let tape = Tape::open(folder).expect("a tape");
    let middle = &tape.segments()[tape.segments().len() / 2];
    let (begin_ns, _) = middle.span().expect("batches");
    // Segments start with all rows, so the example measures a moment near the start of a segment
    // and one near its end.
    for (place, offset_ns) in [("begin", 20 * SECOND_NS), ("end", 280 * SECOND_NS)] {
        let at = begin_ns + offset_ns;
        print_least(&format!("waits of 5 minutes, {place} of a segment"), || {
            window(folder, at);
        });
        print_least(&format!("one moment, {place} of a segment"), || {
            moment(folder, at);
        });
    }
}

fn print_least(what: &str, mut task: impl FnMut()) {
    let rounds = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        task();
        begun.elapsed()
    });
    let least = rounds.min().unwrap_or_default();
    println!("{what:40} {:6.1} ms", least.as_secs_f64() * 1e3);
}

fn window(folder: &Path, from_unix_ns: u64) {
    let tape = Tape::open(folder).expect("a tape");
    let part = tape.part(&tape.spans()[0], from_unix_ns, 5 * MINUTE_NS);
    let mut batches = part.batches_of_groups(&tape);
    let mut builder = ReportBuilder::new(batches.next().expect("a batch"));
    while let Some(batch) = batches.next_for_report() {
        builder.add(batch);
    }
    let report = builder.waits(Level::Container, false, &Thresholds::default());
    assert!(!report.rows.is_empty(), "somebody waited");
}

fn moment(folder: &Path, at_unix_ns: u64) {
    let tape = Tape::open(folder).expect("a tape");
    let batch = tape.batches(&tape.spans()[0], at_unix_ns).next();
    assert!(batch.is_some(), "a batch");
}
