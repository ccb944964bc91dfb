//! A load whose threads block, each in a different call.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, FlockOperation, fadvise, flock};

use super::body::{read_command, send_reply};

type Call = Box<dyn FnOnce() + Send>;

pub(super) const LOADS: &[(&str, fn())] =
    &[("blocks", blocks), ("rereads", rereads), ("thrash", thrash)];

/// Blocks a thread in each of these calls until the test sends a line. Two more tasks block in
/// `read` of a pipe: the first thread, and a child process. Afterwards the load reports how many
/// seconds each thread spent in its call.
fn blocks() {
    let ended = Arc::new(AtomicBool::new(false));
    let (pipe, pipe_end) = std::io::pipe().expect("a pipe");
    let (mut unix, unix_end) = UnixStream::pair().expect("a pair of sockets");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut tcp = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (tcp_end, _) = listener.accept().expect("it has connected");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let udp_address = udp.local_addr().expect("bound");
    let (sender, receiver) = mpsc::channel::<()>();
    let path = std::env::temp_dir().join(format!("noctule-blocks-{}", std::process::id()));
    let [lock, locked] = [(); 2].map(|()| File::create(&path).expect("a file"));
    flock(&locked, FlockOperation::LockExclusive).expect("nobody else has it");
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read line"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell can be started");
    let child_end = child.stdin.take();
    let polled = pipe.try_clone().expect("a descriptor");
    let sleeps = Arc::clone(&ended);
    let calls: Vec<(&str, Call)> = vec![
        ("pipe", Box::new(move || drop((&pipe).read(&mut [0])))),
        ("unix", Box::new(move || drop(unix.read(&mut [0])))),
        ("loopback", Box::new(move || drop(tcp.read(&mut [0])))),
        ("network", Box::new(move || drop(udp.recv(&mut [0])))),
        (
            "lock",
            Box::new(move || {
                flock(lock.as_fd(), FlockOperation::LockExclusive).expect("it is released");
            }),
        ),
        ("lock", Box::new(move || assert!(receiver.recv().is_err()))),
        (
            "poll",
            Box::new(move || {
                let _ = poll(&mut [PollFd::new(&polled, PollFlags::IN)], None);
            }),
        ),
        ("child", Box::new(move || drop(child.wait()))),
        (
            "timer",
            Box::new(move || {
                while !sleeps.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(20));
                }
            }),
        ),
    ];
    let begin = Arc::new(Barrier::new(calls.len() + 1));
    let start = |(class, call): (&'static str, Call)| {
        let begin = Arc::clone(&begin);
        thread::spawn(move || {
            begin.wait();
            let began = Instant::now();
            call();
            (class, began.elapsed().as_secs_f64())
        })
    };
    let threads: Vec<_> = calls.into_iter().map(start).collect();
    begin.wait();
    send_reply("ready");
    read_command();
    ended.store(true, Ordering::Relaxed);
    drop((unix_end, tcp_end, sender, locked, child_end, pipe_end));
    let wake = UdpSocket::bind("127.0.0.1:0").expect("a port");
    wake.send_to(&[0], udp_address).expect("it is bound");
    for thread in threads {
        let (class, seconds) = thread.join().expect("it ends");
        send_reply(&format!("{class} {seconds}"));
    }
    send_reply("ended");
    std::fs::remove_file(&path).expect("our file");
}

/// Dirties some pages, and afterwards reads a file from its disk for half a second. Reports how
/// many bytes came from a disk.
fn rereads() {
    const BYTES: usize = 1 << 20;
    send_reply("ready");
    let [mut read, mut written] =
        [(); 2].map(|()| tempfile::tempfile_in(".").expect("a file of our own"));
    read.write_all(&vec![1; BYTES]).expect("room");
    read.sync_all().expect("the file is on its disk");
    written.write_all(&vec![1; BYTES]).expect("room");
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        fadvise(&read, 0, None, Advice::DontNeed).expect("a file can be dropped");
        for at in (0..BYTES).step_by(4096) {
            read.read_at(&mut [0; 4096], at as u64).expect("our file");
        }
    }
    send_reply(&bytes_from_disk().to_string());
}

/// Reads pages of a file that is larger than the memory limit of the load's group, until the test
/// sends a line. Reports how many bytes came from a disk.
fn thrash() {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 6 << 10;
    let file = tempfile::tempfile_in(".").expect("a file of our own");
    for at in (0..PAGES * PAGE).step_by(1 << 20) {
        file.write_all_at(&[1; 1 << 20], at).expect("room");
        file.sync_all().expect("the file is on its disk");
    }
    fadvise(&file, 0, None, Advice::Random).expect("a file can be read in no order");
    send_reply("ready");
    let before = bytes_from_disk();
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    thread::spawn(move || {
        read_command();
        ends.store(true, Ordering::Relaxed);
    });
    let mut page = 0;
    while !ended.load(Ordering::Relaxed) {
        // These steps visit all pages, each far from the one before.
        page = (page * 13 + 5) % PAGES;
        file.read_at(&mut [0; PAGE as usize], page * PAGE)
            .expect("our file");
    }
    send_reply(&(bytes_from_disk() - before).to_string());
}

/// Returns how many bytes this process has read from disks.
fn bytes_from_disk() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("procfs");
    let bytes = io
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    bytes
        .and_then(|bytes| bytes.parse().ok())
        .expect("it is counted")
}
