//! Loads that use memory until they are killed.

use std::thread;

use super::body::{read_command, send_reply};

pub(super) const LOADS: &[(&str, fn())] = &[
    ("eater", eater),
    ("eater-without-leader", eater_without_leader),
    ("eater-in-shared-memory", eater_in_shared_memory),
    ("holder", holder),
];

/// Waits for a request, and then uses more and more memory.
fn eater() {
    send_reply("ready");
    read_command();
    eat();
}

/// Like [`eater`], in a thread other than the first one, which has ended.
fn eater_without_leader() {
    let eater = thread::spawn(|| {
        read_command();
        eat();
    });
    send_reply("ready");
    // SAFETY: the call ends this thread without affecting other threads. Only the handle is on its
    // stack, and no thread joins through that handle.
    #[allow(unsafe_code, reason = "no safe way to end the first thread alone")]
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    drop(eater);
}

/// Like [`eater`], in a child that shares the memory of its parent, as between vfork(2) and exec.
fn eater_in_shared_memory() {
    send_reply("ready");
    read_command();
    // SAFETY: as with vfork(2), only the child uses the stack until the child ends. The parent is
    // killed together with the child, or ends immediately afterwards.
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

/// Allocates the requested number of MiB and keeps them until the test sends a line.
fn holder() {
    send_reply("ready");
    let count: usize = read_command().parse().expect("a number");
    let held = vec![1u8; count << 20];
    send_reply("held");
    read_command();
    drop(held);
}
