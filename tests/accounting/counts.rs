//! Tests of softirqs and page-cache accesses.

use std::io::Write as _;
use std::path::Path;

use super::agent;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::record::Recorder;
use super::support::{self, assert_close, oracle};

const PAGE: usize = 4096;

#[test]
fn softirqs_match_the_kernel_by_vector() {
    let _machine = support::alone();
    needs!("cpu_time");
    let agent = agent(0.1);
    let recorder = Recorder::start(oracle::softirqs);
    let group = Group::new("softirqs");
    let load = Load::own(&group, "sleeper");
    let readings: Vec<Reading> = (0..40).map(|_| Reading::fresh(&agent)).collect();
    drop(load);
    let record = recorder.end();
    // A kernel can hide a process from tracing programs; on this kernel that can be process 1.
    // Softirqs that interrupt the hidden process are in no account.
    let last = readings.last().expect("there are some");
    let hidden = last.of_process("sched_switches_total", 1, &[]) == Some(0.0);
    let allowed = if hidden { 20.0 } else { 0.0 };
    let mut grown = 0.0;
    for vector in oracle::softirqs().keys() {
        let labels = [("vector", vector.as_str())];
        let ours = |reading: &Reading| {
            let value = reading.value("noctule_node_softirqs_total", &labels);
            value.unwrap_or_else(|| panic!("no vector {vector}"))
        };
        let theirs = |counts: &std::collections::BTreeMap<String, u64>| counts[vector] as f64;
        let stray = record.stray(&readings, ours, theirs);
        assert!(stray <= allowed, "{vector}: {stray}, not {allowed}");
        grown += record.growth(theirs);
    }
    assert!(grown > 1000.0, "only {grown} softirqs ran");
}

/// Returns the page-cache accesses of a process for reads and for writes.
fn pages(agent: &Agent, pid: u32) -> [f64; 2] {
    Reading::fresh_with(agent, "the process is listed", |reading| {
        let one = |op| reading.of_process("page_cache_accesses_total", pid, &[("op", op)]);
        Some([one("read")?, one("write")?])
    })
}

fn counted(agent: &Agent, load: &mut Load, command: &str) -> [f64; 2] {
    let before = pages(agent, load.pid());
    load.say(command);
    load.next_message();
    let after = pages(agent, load.pid());
    [after[0] - before[0], after[1] - before[1]]
}

/// Creates a directory on a disk, next to the test binary.
fn disk() -> tempfile::TempDir {
    let binary = std::env::current_exe().expect("the test binary has a path");
    let folder = binary.parent().map(Path::to_path_buf);
    tempfile::tempdir_in(folder.expect("it is in a folder")).expect("a folder of our own")
}

fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a folder of our own")
}

struct Read {
    name: &'static str,
    bytes: usize,
    /// Block size when writing, from which the kernel chooses the size of its folios.
    written: usize,
    /// Block size when reading.
    read: usize,
}

const READS: &[Read] = &[
    Read {
        name: "by pages",
        bytes: 16 << 20,
        written: 1 << 20,
        read: PAGE,
    },
    Read {
        name: "by 128 KiB, as cp and cat do",
        bytes: 16 << 20,
        written: 1 << 20,
        read: 128 << 10,
    },
    Read {
        name: "by 1 MiB, from folios of one page",
        bytes: 16 << 20,
        written: PAGE,
        read: 1 << 20,
    },
    Read {
        name: "into a buffer that is larger than the file",
        bytes: 16 << 20,
        written: 1 << 20,
        read: 32 << 20,
    },
    Read {
        name: "a small file into a big buffer",
        bytes: 100,
        written: 100,
        read: 1 << 20,
    },
    Read {
        name: "the last page is not full",
        bytes: (1 << 20) + 1,
        written: 1 << 20,
        read: 64 << 10,
    },
    Read {
        name: "by 1,000 bytes, of which some lie in two pages",
        bytes: 1 << 20,
        written: 1 << 20,
        read: 1000,
    },
    Read {
        name: "by 3,000 bytes",
        bytes: 1 << 20,
        written: 1 << 20,
        read: 3000,
    },
];

/// Returns the number of pages that the blocks touch, summed over the blocks.
fn pages_of(case: &Read) -> f64 {
    let pages = |begin: usize| {
        let end = (begin + case.read).min(case.bytes);
        end.div_ceil(PAGE) - begin / PAGE
    };
    let pages = (0..case.bytes).step_by(case.read).map(pages);
    pages.sum::<usize>() as f64
}

fn write(path: &Path, case: &Read) {
    let mut file = std::fs::File::create(path).expect("the file");
    for block in vec![b'x'; case.bytes].chunks(case.written) {
        file.write_all(block).expect("the file can be written");
    }
}

#[test]
fn pages_read_match_the_file() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs_all_of!("page_cache_reads");
    let agent = agent(0.1);
    let group = Group::new("pages").heavy();
    let mut load = Load::own(&group, "pages");
    let folder = disk();
    let mut wrong = Vec::new();
    for (i, case) in READS.iter().enumerate() {
        let path = folder.path().join(i.to_string());
        write(&path, case);
        let command = format!("read {} {}", path.display(), case.read);
        // The second read shows whether state of the previous read is left over.
        for _ in 0..2 {
            let [read, _] = counted(&agent, &mut load, &command);
            let expected = pages_of(case);
            if (read - expected).abs() > 0.01 * expected {
                wrong.push(format!("{}: {read} instead of {expected}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

/// The second call reads the second half of the file again. Unlike a call that continues a read,
/// the second call does not start at the file's first page.
#[test]
fn a_page_that_two_calls_read_counts_twice() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs_all_of!("page_cache_reads");
    let agent = agent(0.1);
    let group = Group::new("pages").heavy();
    let mut load = Load::own(&group, "pages");
    let folder = disk();
    let path = folder.path().join("file");
    std::fs::write(&path, [b'x'; 8 * PAGE]).expect("the file");
    let command = format!("ends {} {}", path.display(), 8 * PAGE);
    let [read, _] = counted(&agent, &mut load, &command);
    assert_eq!(read, 12.0);
}

#[test]
fn pages_written_match_the_dirtied_pages() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_time");
    let agent = agent(0.1);
    let group = Group::new("pages").heavy();
    let mut load = Load::own(&group, "pages");
    let (disk, memory) = (disk(), memory());
    // A file in memory is never written back, so the kernel does not count its pages as dirtied.
    for (folder, expected) in [(&disk, 4096.0), (&memory, 0.0)] {
        for block in [PAGE, 1 << 20] {
            let path = folder.path().join("written");
            let command = format!("write {} {block} {}", path.display(), (16 << 20) / block);
            let [_, written] = counted(&agent, &mut load, &command);
            assert_close(&command, written, expected, 0.01, 0.0);
        }
    }
}
