//! The user-space side of bench/bpf/kepler.bpf.c: opens the hardware counters and removes the rows.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore, MapFlags, Object};
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use super::object::Held;
use super::population::wait_for_end;
use crate::say;

/// Kepler's SAMPLE_PERIOD_SEC.
const PERIOD: Duration = Duration::from_secs(3);
/// Number of rows removed by one system call.
const BATCH: u32 = 1024;

const COUNTERS: [(&str, Hardware); 3] = [
    ("cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
    ("cache_misses", Hardware::CACHE_MISSES),
];

pub(super) fn run(path: &Path) -> Result<()> {
    let held = Held::load(path)?;
    let counters = open_counters(&held.object);
    if let Err(error) = &counters {
        // As in Kepler, the program still tries to read the counters at each switch.
        say(&format!("kepler has no hardware counters: {error:#}"));
    }
    let processes = map(&held.object, "processes")?;
    while !wait_for_end(PERIOD)? {
        for row in processes.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY)? {
            std::hint::black_box(row);
        }
    }
    Ok(())
}

/// Opens each counter on each CPU, without a group.
fn open_counters(object: &Object) -> Result<Vec<Counter>> {
    let cpus = libbpf_rs::num_possible_cpus().context("the number of CPUs")?;
    let mut counters = Vec::new();
    for (name, event) in COUNTERS {
        let map = map(object, name)?;
        for cpu in 0..cpus {
            let counter = Builder::new(event)
                .any_pid()
                .one_cpu(cpu)
                .include_kernel()
                .include_hv()
                .enabled(true)
                .build()
                .with_context(|| format!("{name} of CPU {cpu}"))?;
            let key = u32::try_from(cpu)?.to_ne_bytes();
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&counter).to_ne_bytes();
            map.update(&key, &descriptor, MapFlags::ANY)?;
            counters.push(counter);
        }
    }
    Ok(counters)
}

fn map<'a>(object: &'a Object, name: &str) -> Result<impl MapCore + use<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.with_context(|| format!("the object has no map {name}"))
}
