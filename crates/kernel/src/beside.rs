//! Runs two functions in parallel.

use std::thread;

/// Runs both functions, the first one on its own thread if possible. Verification takes most of the
/// startup time, and most machines have more than one CPU.
pub fn run_both<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|threads| {
        let started = thread::Builder::new().spawn_scoped(threads, &first);
        let second = second();
        let first = match started {
            Ok(thread) => thread.join().expect("the loading thread does not panic"),
            Err(_) => first(),
        };
        (first, second)
    })
}
