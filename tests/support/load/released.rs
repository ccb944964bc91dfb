//! Two loads: threads that block, and threads that end these blocks.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::thread::futex;

use super::body::{argument, read_command, send_reply};

/// How long the second load keeps the first load waiting.
const HELD: Duration = Duration::from_millis(50);
/// How long the second load leaves a lock to the first load.
const LEFT: Duration = Duration::from_millis(2);

pub(super) const LOADS: &[(&str, fn())] = &[("waits-for", waits_for), ("releases", releases)];

fn folder() -> PathBuf {
    argument(0).expect("the folder with the files of both loads")
}

fn file(name: &str) -> File {
    let all = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .clone();
    all.open(folder().join(name)).expect("our file")
}

fn each(calls: Vec<Box<dyn FnMut() + Send>>) {
    for mut call in calls {
        thread::spawn(move || {
            loop {
                call();
            }
        });
    }
}

/// A word in memory that both loads share.
fn shared_word() -> &'static AtomicU32 {
    let file = file("futex");
    file.set_len(4096).expect("room");
    #[allow(unsafe_code, reason = "memory of two processes")]
    // SAFETY: the file has that length, and the mapping is never removed.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (place, file) = (std::ptr::null_mut(), file.as_raw_fd());
        let word = libc::mmap(place, 4096, access, libc::MAP_SHARED, file, 0);
        assert_ne!(word, libc::MAP_FAILED, "memory");
        &*word.cast::<AtomicU32>()
    }
}

/// Adds to the System V semaphore, or waits until it can subtract.
#[allow(unsafe_code, reason = "there is no safe interface")]
fn semaphore(set: i32, change: i16) {
    let mut operation = libc::sembuf {
        sem_num: 0,
        sem_op: change,
        sem_flg: 0,
    };
    // SAFETY: the call gets one operation, which is on the stack.
    let done = unsafe { libc::semop(set, &raw mut operation, 1) };
    assert_eq!(done, 0, "the set exists");
}

/// Blocks one thread on each object that the other load releases, and one thread on children that
/// run in the group of the other load. The other load is ready.
fn waits_for() {
    let read = |name: &str| fs::read_to_string(folder().join(name)).expect("it was written");
    let [by_open, by_process, mut fifo] = ["flock", "fcntl", "fifo"].map(file);
    let mut unix = UnixStream::connect(folder().join("socket")).expect("it listens");
    let mut tcp = TcpStream::connect(read("address")).expect("it listens");
    let set: i32 = read("set").parse().expect("a number");
    let (word, enter) = (shared_word(), read("enter"));
    each(vec![
        Box::new(move || {
            flock(&by_open, FlockOperation::LockExclusive).expect("a lock");
            flock(&by_open, FlockOperation::Unlock).expect("it was locked");
            thread::sleep(LEFT);
        }),
        Box::new(move || {
            fcntl_lock(&by_process, FlockOperation::LockExclusive).expect("a lock");
            fcntl_lock(&by_process, FlockOperation::Unlock).expect("it was locked");
            thread::sleep(LEFT);
        }),
        Box::new(move || {
            let _ = futex::wait(word, futex::Flags::empty(), 0, None);
        }),
        Box::new(move || semaphore(set, -1)),
        Box::new(move || fifo.read_exact(&mut [0]).expect("a byte")),
        Box::new(move || unix.read_exact(&mut [0]).expect("a byte")),
        Box::new(move || tcp.read_exact(&mut [0]).expect("a byte")),
        Box::new(move || {
            let mut child = Command::new("/bin/sh");
            child.args(["-c", &enter, "/bin/sleep", "0.2"]);
            child.status().expect("a child");
        }),
    ]);
    send_reply("ready");
    read_command();
}

/// Repeatedly releases the objects that the other load waits for. One thread waits for a futex
/// until a timeout.
fn releases() {
    let write = |name: &str, text: String| fs::write(folder().join(name), text).expect("room");
    let [by_open, by_process, mut fifo] = ["flock", "fcntl", "fifo"].map(file);
    let unix = UnixListener::bind(folder().join("socket")).expect("our socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    write("address", tcp.local_addr().expect("bound").to_string());
    #[allow(unsafe_code, reason = "there is no safe interface")]
    // SAFETY: the function takes integers only.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    write("set", set.to_string());
    let word = shared_word();
    send_reply("ready");
    let (mut unix, mut tcp) = (
        unix.accept().expect("the other").0,
        tcp.accept().expect("the other").0,
    );
    each(vec![
        Box::new(move || {
            flock(&by_open, FlockOperation::LockExclusive).expect("a lock");
            thread::sleep(HELD);
            flock(&by_open, FlockOperation::Unlock).expect("it was locked");
            thread::sleep(LEFT);
        }),
        Box::new(move || {
            fcntl_lock(&by_process, FlockOperation::LockExclusive).expect("a lock");
            thread::sleep(HELD);
            fcntl_lock(&by_process, FlockOperation::Unlock).expect("it was locked");
            thread::sleep(LEFT);
        }),
        Box::new(move || {
            thread::sleep(HELD);
            futex::wake(word, futex::Flags::empty(), 1).expect("a word");
        }),
        Box::new(|| {
            let limit = HELD.try_into().expect("it is short");
            let _ = futex::wait(&AtomicU32::new(0), futex::Flags::PRIVATE, 0, Some(&limit));
        }),
        Box::new(move || {
            thread::sleep(HELD);
            semaphore(set, 1);
        }),
        Box::new(move || {
            thread::sleep(HELD);
            fifo.write_all(&[0]).expect("room");
        }),
        Box::new(move || {
            thread::sleep(HELD);
            unix.write_all(&[0]).expect("a reader");
        }),
        Box::new(move || {
            thread::sleep(HELD);
            tcp.write_all(&[0]).expect("a reader");
        }),
    ]);
    read_command();
    #[allow(unsafe_code, reason = "there is no safe interface")]
    // SAFETY: the function takes integers only.
    unsafe {
        libc::semctl(set, 0, libc::IPC_RMID);
    }
}
