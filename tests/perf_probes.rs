//! Tests of `noctule hist` on perf events: page faults made by the test, counted exactly, and
//! samples.

use std::num::NonZeroUsize;
use std::path::Path;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use serde_json::Value;

use super::hist::{Hist, refused};
use super::support;

const PAGE: usize = 4096;

/// Maps untouched memory of this many pages. The mapping stays until the process ends.
fn untouched(pages: NonZeroUsize) -> *mut u8 {
    #[allow(unsafe_code, reason = "no safe call maps memory of no file")]
    // SAFETY: the memory is new, and no other code has its address.
    unsafe {
        let size = pages.get() * PAGE;
        let memory = libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, size, libc::MADV_NOHUGEPAGE);
        memory.cast()
    }
}

fn touch(memory: *mut u8, pages: usize) {
    for page in 0..pages {
        #[allow(unsafe_code, reason = "each page is to be written once")]
        // SAFETY: inside the mapped memory.
        unsafe {
            memory.add(page * PAGE).write_volatile(1);
        }
    }
}

#[test]
fn page_faults_are_counted_exactly_with_their_addresses() {
    let _machine = support::shared();
    needs!("cpu_time");
    const PAGES: usize = 3000;
    let memory = untouched(NonZeroUsize::new(PAGES).expect("not 0"));
    let start = memory as usize;
    let end = start + PAGES * PAGE;
    let trigger =
        format!("keys=common_pid,comm:vals=sample_period if addr >= {start} && addr < {end}");
    let hist = Hist::start("software:page-faults", &trigger, &["--json"]);
    let mut counter = Builder::new(Software::PAGE_FAULTS)
        .build()
        .expect("software events are always there");
    counter.enable().expect("it was opened");
    touch(memory, PAGES);
    counter.disable().expect("it was opened");
    let answer = hist.end_json();
    let faults = counter.read().expect("it was opened");
    assert_eq!(answer["hits"], PAGES, "{answer}");
    assert!(faults >= PAGES as u64, "the kernel's own counter: {faults}");
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{answer}");
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    assert_eq!(rows[0]["common_pid"], tid, "{answer}");
    assert_eq!(rows[0]["sample_period"], PAGES, "{answer}");
}

/// The number of samples depends on the machine, but there must be some.
#[test]
fn samples_come_from_all_cpus_and_intervals_from_one() {
    let _machine = support::shared();
    needs!("cpu_time");
    let rows = |probe: &str| {
        let args = ["hist", probe, "keys=common_cpu", "--for", "2s", "--json"];
        let output = support::noctule(&args);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["rows"].as_array().expect("rows").len()
    };
    let online = std::fs::read_to_string("/proc/stat").expect("it is there");
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    assert_eq!(rows("profile:199"), online.lines().filter(is_cpu).count());
    assert_eq!(rows("interval:50ms"), 1);
}

/// The number of events exceeds the number of counters of any processor.
#[test]
fn multiplexed_counter_is_reported() {
    let _machine = support::alone();
    needs!("cpu_time", "cycles");
    const MANY: usize = 40;
    let open = |cpu: usize| -> std::io::Result<Counter> {
        let mut counter = Builder::new(Hardware::CPU_CYCLES)
            .any_pid()
            .one_cpu(cpu)
            .include_kernel()
            .build()?;
        counter.enable()?;
        Ok(counter)
    };
    // Most virtual machines have no PMU.
    if let Err(error) = open(0) {
        support::expect::skip_because(&format!("no counter of cycles: {error}"));
        return;
    }
    let all = ["hist", "hardware:cycles", "keys=common_cpu", "--for", "2s"];
    let json = [all.as_slice(), &["--json"]].concat();
    let part = || {
        let output = support::noctule(&json);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["counted_part"].as_f64()
    };
    let alone = part();
    let cpus = (0..=support::affinity::last_cpu()).flat_map(|cpu| [cpu; MANY]);
    let others: Vec<_> = cpus.filter_map(|cpu| open(cpu).ok()).collect();
    let among = part().expect("it takes turns");
    assert!(among > 0.0 && among < 0.9, "{among}");
    assert!(alone.is_none_or(|alone| alone > among), "{alone:?}");
    let output = support::noctule(&all);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("too few counters"), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("    Counted: "), "{text}");
    drop(others);
}

#[test]
fn unknown_perf_event_is_reported() {
    let _machine = support::shared();
    let cases = [
        (
            "profile:0",
            "expected the samples per second, such as profile:99",
        ),
        (
            "profile:",
            "expected the samples per second, such as profile:99",
        ),
        ("interval:1ns", "expected a time of at least 10us"),
        (
            "software:faults",
            "there is no software event faults; there are page-faults",
        ),
        (
            "software:page-faults:0",
            "the period must be a number of events, at least 1",
        ),
        (
            "hardware:cycle",
            "there is no hardware event cycle; there are cycles",
        ),
    ];
    for (probe, words) in cases {
        let (code, errors) = refused(&[probe, "keys=comm"]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
    let (code, errors) = refused(&["profile:100000000", "keys=comm"]);
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("perf_event_max_sample_rate"), "{errors}");
    if !Path::new("/sys/bus/event_source/devices/cpu").exists() && cfg!(target_arch = "x86_64") {
        let (code, errors) = refused(&["hardware:cycles", "keys=comm"]);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("no hardware counter"), "{errors}");
    }
}
