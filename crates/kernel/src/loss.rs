//! Losses in the BPF programs, by kind.

use noctule_model::Loss;

use crate::skel::switch::types::loss as abi;

/// Kind and location of each loss, in the order of `enum loss`.
pub(crate) const LOSSES: [(&str, &str); 15] = [
    ("thread_account", "tasks"),
    ("exit_record", "exits"),
    ("cgroup_row", "settled"),
    ("counter_read", "hardware"),
    ("cgroup_event", "cgroup_events"),
    ("process_row", "carried"),
    ("wait_row", "waits"),
    ("blame_row", "blames"),
    ("event_row", "process_rows, tcp_rows, file_rows"),
    ("followed_process", "followed"),
    ("oom_victim", "victims"),
    ("socket_account", "sockets"),
    ("destination_row", "destinations"),
    ("wait_start", "tasks"),
    ("release_row", "releases"),
];

const _: () = assert!(abi::LOSS_COUNT.0 as usize == LOSSES.len());

/// Number of kinds of loss.
pub(crate) const KINDS: usize = LOSSES.len();

/// Returns the sums over the objects, each with its kind and location.
pub(crate) fn named(objects: impl IntoIterator<Item = [u64; KINDS]>) -> Vec<Loss> {
    let mut counts = [0; KINDS];
    for losses in objects {
        counts.iter_mut().zip(losses).for_each(|(sum, n)| *sum += n);
    }
    let named = LOSSES.iter().zip(counts);
    named
        .map(|(&(kind, place), count)| Loss { kind, place, count })
        .collect()
}
