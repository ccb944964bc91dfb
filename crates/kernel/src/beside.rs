//! Two things at the same time.

use std::thread;

/// Does both, with a thread for the first where there is room for one: verifying takes most of the
/// time of the start, and most machines have more than one CPU.
pub fn beside<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|threads| {
        let started = thread::Builder::new().spawn_scoped(threads, &first);
        let second = second();
        let first = match started {
            Ok(thread) => thread.join().expect("loading does not panic"),
            Err(_) => first(),
        };
        (first, second)
    })
}
