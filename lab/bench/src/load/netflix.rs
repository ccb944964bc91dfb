//! Reads the events of bench/bpf/netflix.bpf.c as an agent would: how long each cgroup waited, and
//! which cgroup preceded it on the CPU. Prints nothing, because only the cost of reading matters.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore as _, RingBufferBuilder};

use super::object::Held;
use super::population::wait_for_end;

/// Maximum delay until the thread notices that the input has closed.
const PATIENCE: Duration = Duration::from_millis(100);

/// The waits of a cgroup.
struct Waits {
    /// Number of events by the logarithm of the time.
    latencies: [u64; 64],
    after_itself: u64,
    after_another: u64,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            latencies: [0; 64],
            after_itself: 0,
            after_another: 0,
        }
    }
}

pub(super) fn run(path: &Path) -> Result<()> {
    let held = Held::load(path)?;
    let events = held.object.maps().find(|map| map.name() == "events");
    let events = events.context("the object has no ring")?;
    let mut groups = HashMap::new();
    let mut builder = RingBufferBuilder::new();
    let take = |bytes: &[u8]| {
        take(&mut groups, bytes);
        0
    };
    builder.add(&events, take)?;
    let ring = builder.build()?;
    // Another thread watches the input, so that the thread that reads the ring does nothing else.
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    thread::spawn(move || {
        while let Ok(false) = wait_for_end(Duration::from_secs(3600)) {}
        seen.store(true, Ordering::Relaxed);
    });
    while !ended.load(Ordering::Relaxed) {
        ring.poll(PATIENCE)?;
    }
    Ok(())
}

/// Reads an event: the cgroup that left the CPU, the cgroup that got the CPU, how long it waited,
/// and the time.
fn take(groups: &mut HashMap<u64, Waits>, bytes: &[u8]) {
    let number = |at: usize| {
        let bytes = bytes.get(at * 8..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    let (Some(before), Some(group), Some(waited)) = (number(0), number(1), number(2)) else {
        return;
    };
    let waits = groups.entry(group).or_default();
    if let Some(count) = waits.latencies.get_mut(waited.max(1).ilog2() as usize) {
        *count += 1;
    }
    if before == group {
        waits.after_itself += 1;
    } else {
        waits.after_another += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_counts_for_the_waiting_cgroup() {
        let mut groups = HashMap::new();
        for event in [[7_u64, 8, 1000, 1], [8, 8, 0, 2]] {
            take(&mut groups, &event.map(u64::to_ne_bytes).concat());
        }
        // This record is too short to be an event.
        take(&mut groups, &[0; 8]);
        assert_eq!(groups.len(), 1);
        let waits = &groups[&8];
        assert_eq!((waits.after_itself, waits.after_another), (1, 1));
        assert_eq!((waits.latencies[0], waits.latencies[9]), (1, 1));
    }
}
