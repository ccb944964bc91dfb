//! Loads that use memory until they are killed.

use std::thread;

use super::body::{hear, tell};

pub(super) const LOADS: &[(&str, fn())] = &[
    ("eater", eater),
    ("eater-without-leader", eater_without_leader),
    ("eater-in-shared-memory", eater_in_shared_memory),
    ("holder", holder),
];

/// Uses more and more memory as soon as it is told to.
fn eater() {
    tell("ready");
    hear();
    eat();
}

/// The same in a thread other than the first, which has ended.
fn eater_without_leader() {
    let eater = thread::spawn(|| {
        hear();
        eat();
    });
    tell("ready");
    // SAFETY: ends this thread without touching what others use; nothing of it is on its stack but
    // the handle, which nobody waits for.
    #[allow(unsafe_code, reason = "no safe way to end the first thread alone")]
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    drop(eater);
}

/// The same in a child that has the memory of its parent, as between vfork(2) and exec.
fn eater_in_shared_memory() {
    tell("ready");
    hear();
    // SAFETY: as vfork(2): the child has the stack to itself until it ends, and then the parent is
    // killed with it, or ends at once.
    #[allow(unsafe_code, reason = "the standard library has no such call")]
    let child = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0)
    };
    assert_eq!(child, 0, "both are killed");
    eat();
}

fn eat() {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(vec![1; 1 << 20]);
    }
}

/// Holds as many MiB as it is told, until it is told to end.
fn holder() {
    tell("ready");
    let count: usize = hear().parse().expect("a number");
    let held = vec![1u8; count << 20];
    tell("held");
    hear();
    drop(held);
}
