//! The loads. If a test starts the test binary as a load, the binary runs only that load.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Write as _, stdin, stdout};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::{MARK, VARIABLE, blocks, disk, memory, metered, released, sockets, waiting};
use crate::support::affinity::{last_cpu, pin};

/// All loads by name.
const LOADS: &[(&str, fn())] = &[
    ("sampler", sampler),
    ("realtime-sampler", realtime_sampler),
    ("sleeper", sleeper),
    ("threads", threads),
    ("leader-ends", leader_ends),
    ("exec-from-thread", exec_from_thread),
    ("exec-at", exec_at),
    ("sibling", sibling),
    ("timer", timer),
    ("lookup", lookup),
    ("named-thread", named_thread),
    ("crowd", crowd),
    ("one-of-crowd", one_of_crowd),
    ("pages", pages),
    ("throng", throng),
];

/// Runs before `main` on the first thread. The test harness would use another thread, and some
/// loads depend on the first one.
#[used]
#[allow(unsafe_code, reason = "the section is what makes it run before main")]
// SAFETY: the section is a list of such functions, and the C library is initialized when it calls
// them.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = load;

/// Runs a load if the variable names one, and otherwise does nothing.
extern "C" fn load() {
    let Ok(text) = std::env::var(VARIABLE) else {
        return;
    };
    let name = text.split(' ').next().expect("one part at least");
    let all = [
        LOADS,
        waiting::LOADS,
        blocks::LOADS,
        disk::LOADS,
        memory::LOADS,
        metered::LOADS,
        released::LOADS,
        sockets::LOADS,
    ];
    let mut all = all.into_iter().flatten();
    let found = all.find(|(known, _)| *known == name);
    let (_, body) = found.unwrap_or_else(|| panic!("no load is called {name}"));
    body();
    #[allow(clippy::exit, reason = "main must not run after a load")]
    std::process::exit(0);
}

/// Parses an argument that follows the name of the load.
pub(super) fn argument<T: FromStr>(at: usize) -> Option<T> {
    let text = std::env::var(VARIABLE).expect("this is a load");
    text.split(' ').nth(at + 1)?.parse().ok()
}

pub(super) fn send_reply(text: &str) {
    let mut out = stdout().lock();
    writeln!(out, "{MARK}{text}").expect("the test listens");
    out.flush().expect("the test listens");
}

pub(super) fn read_command() -> String {
    let mut line = String::new();
    let length = stdin().read_line(&mut line).expect("text");
    assert!(length > 0, "the test has gone");
    line.trim_end().to_owned()
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Uses the CPU until the thread has used this much additional CPU time.
pub(super) fn burn(more: f64) {
    let end = seconds(ClockId::ThreadCPUTime) + more;
    while seconds(ClockId::ThreadCPUTime) < end {}
}

pub(super) fn burn_on() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

/// Runs without a pause until the test sends a line. Records each jump of the clock, which is an
/// interval in which the load did not run. Occasionally records its own CPU clock, but rarely,
/// because a read of that clock updates the scheduler's account. Finally reports everything in
/// nanoseconds: `BEFORE USED AFTER` for the CPU clock, `FROM TO` for a jump.
fn sampler() {
    const JUMP: i64 = 10_000;
    const EVERY: i64 = 50_000_000;
    let nanoseconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let mut notes = String::with_capacity(1 << 24);
    send_reply("ready");
    let mut last = nanoseconds(ClockId::Monotonic);
    let mut next = last;
    loop {
        let now = nanoseconds(ClockId::Monotonic);
        if now - last > JUMP {
            let _ = write!(notes, "{last} {now};");
        }
        last = now;
        if now < next {
            continue;
        }
        let used = nanoseconds(ClockId::ThreadCPUTime);
        last = nanoseconds(ClockId::Monotonic);
        if last - now > JUMP {
            let _ = write!(notes, "{now} {last};");
        }
        let _ = write!(notes, "{now} {used} {last};");
        next = last + EVERY;
        if has_input() {
            break;
        }
    }
    send_reply(&notes);
}

pub(super) fn has_input() -> bool {
    let input = stdin();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&now));
    ready.expect("standard input can be polled") > 0
}

/// Like [`sampler`], with a real-time priority and pinned to the last CPU, so that only urgent work
/// interrupts it.
fn realtime_sampler() {
    pin(None, last_cpu());
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the struct lives until the call returns.
    #[allow(unsafe_code, reason = "rustix has no sched_setscheduler")]
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    sampler();
}

/// Sleeps and wakes constantly.
fn sleeper() {
    send_reply("ready");
    loop {
        thread::sleep(Duration::from_micros(500));
        burn(0.0002);
    }
}

/// Runs eight threads while the leader waits. Four of the threads end after some time and report
/// how much CPU time they used.
fn threads() {
    send_reply("ready");
    burn(0.1);
    for _ in 0..4 {
        thread::spawn(|| burn_on());
    }
    let ending = [0.05, 0.1, 0.15, 0.2].map(|time| {
        thread::spawn(move || {
            burn(time);
            seconds(ClockId::ThreadCPUTime)
        })
    });
    let used: f64 = ending
        .map(|thread| thread.join().expect("it ends"))
        .iter()
        .sum();
    send_reply(&used.to_string());
    loop {
        thread::park();
    }
}

/// The leader uses the CPU and ends, while another thread continues.
fn leader_ends() {
    thread::spawn(|| burn_on());
    burn(0.1);
    send_reply("ready");
    // SAFETY: the call ends this thread without affecting other threads, because they use nothing
    // on its stack.
    #[allow(unsafe_code, reason = "no safe way to end the first thread alone")]
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
}

/// The leader and two more threads use the CPU until the test sends a line. Afterwards a thread
/// other than the leader executes a shell that continues to use the CPU.
fn exec_from_thread() {
    send_reply("ready");
    for _ in 0..2 {
        thread::spawn(|| burn_on());
    }
    thread::spawn(|| {
        read_command();
        burn(0.1);
        let script = format!("echo '{MARK}shell'; while :; do :; done");
        let error = Command::new("/bin/sh").args(["-c", &script]).exec();
        panic!("/bin/sh: {error}");
    });
    burn_on();
}

/// A thread fails to execute a name relative to a descriptor, and then fails to execute the
/// descriptor of a directory. The load then reports the descriptor, and ends on request.
fn exec_at() {
    let folder = std::fs::File::open("/").expect("a root");
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&folder);
    let tries = thread::Builder::new().name("worker".into()).spawn(move || {
        let none: [*const libc::c_char; 1] = [std::ptr::null()];
        for (name, flags) in [(c"no-such-name", 0), (c"", libc::AT_EMPTY_PATH)] {
            let (name, none) = (name.as_ptr(), none.as_ptr());
            // SAFETY: the lists and names live until the calls return, and end with a null.
            #[allow(unsafe_code, reason = "the standard library has no such call")]
            let done =
                unsafe { libc::syscall(libc::SYS_execveat, descriptor, name, none, none, flags) };
            assert_eq!(done, -1);
        }
    });
    let tries = tries.expect("a thread");
    tries.join().expect("it ends");
    send_reply("ready");
    send_reply(&descriptor.to_string());
    read_command();
}

/// Resolves each name that it receives with the C library.
fn lookup() {
    send_reply("ready");
    loop {
        let found = (read_command().as_str(), 80).to_socket_addrs();
        let found = found.ok().and_then(|mut all| all.next());
        send_reply(&found.map_or_else(|| "none".to_owned(), |end| end.ip().to_string()));
    }
}

/// Starts a process as a child of the load's parent (CLONE_PARENT), as container runtimes do, and
/// reports the new pid.
fn sibling() {
    send_reply("ready");
    // SAFETY: as with fork(2), the child has its own copy of the memory, and ends immediately.
    #[allow(unsafe_code, reason = "the standard library starts children only")]
    let id = unsafe {
        let id = libc::syscall(libc::SYS_clone, libc::CLONE_PARENT, 0, 0, 0, 0);
        if id == 0 {
            libc::_exit(0);
        }
        id
    };
    send_reply(&id.to_string());
    read_command();
}

/// Uses the CPU until the load's timer sends SIGALRM, which interrupts and ends the load.
fn timer() {
    send_reply("ready");
    read_command();
    let mut timer = std::ptr::null_mut();
    let soon = libc::timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let once = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: soon,
    };
    // SAFETY: the timer and its time live until the calls return. Without a sigevent, the timer
    // sends SIGALRM.
    #[allow(unsafe_code, reason = "the standard library has no timers")]
    let set = unsafe {
        let none = std::ptr::null_mut();
        libc::timer_create(libc::CLOCK_MONOTONIC, none, &raw mut timer)
            | libc::timer_settime(timer, 0, &raw const once, std::ptr::null_mut())
    };
    assert_eq!(set, 0);
    burn_on();
}

/// A thread with its own name opens a file in this directory for writing, and connects to a
/// listener.
fn named_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    send_reply("ready");
    let path = read_command();
    let worker = thread::Builder::new().name("worker".into()).spawn(move || {
        std::fs::write(path, "x").expect("a file");
        drop(TcpStream::connect(address).expect("a connection"));
    });
    let worker = worker.expect("a thread").join();
    worker.expect("it has done all that");
    send_reply("done");
    read_command();
}

/// Starts 200 processes with several threads, one after another, and waits for each.
fn crowd() {
    send_reply("ready");
    let binary = std::env::current_exe().expect("the test binary has a path");
    for _ in 0..200 {
        let status = Command::new(&binary).env(VARIABLE, "one-of-crowd").status();
        assert!(status.expect("it can be started").success());
    }
}

/// Runs four threads that end at the same moment, as at the end of a process.
fn one_of_crowd() {
    let there = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                burn(0.0005);
                there.fetch_add(1, Ordering::Relaxed);
                while there.load(Ordering::Relaxed) < 4 {
                    thread::yield_now();
                }
            });
        }
    });
}

/// Keeps 1,000 sleeping processes. Until the test sends a line, repeatedly kills the oldest process
/// and starts a new one. Afterwards reports each killed process as `PID MOMENT`. The moment is in
/// seconds, just before the kill.
fn throng() {
    const ALIVE: usize = 1000;
    let start = || {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").stdin(Stdio::null());
        command.spawn().expect("sleep is installed")
    };
    let mut notes = String::new();
    let mut end = |mut child: Child| {
        let _ = write!(notes, "{} {};", child.id(), seconds(ClockId::Monotonic));
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    };
    let mut alive: VecDeque<Child> = (0..ALIVE).map(|_| start()).collect();
    send_reply("ready");
    while !has_input() {
        alive.push_back(start());
        end(alive.pop_front().expect("1,000 others"));
    }
    read_command();
    alive.into_iter().for_each(&mut end);
    send_reply(&notes);
}

/// Reads or writes files on request. `read PATH BLOCK` reads a file. `ends PATH BYTES` reads this
/// many bytes, and afterwards their second half again. `write PATH BLOCK COUNT` writes. Each reply
/// is the number of bytes.
fn pages() {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::fs::FileExt as _;
    send_reply("ready");
    loop {
        let line = read_command();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        let mut block = vec![b'x'; number(2)];
        let mut bytes = 0;
        if words[0] == "read" {
            let mut file = File::open(words[1]).expect("the file");
            loop {
                match file.read(&mut block).expect("the file can be read") {
                    0 => break,
                    length => bytes += length,
                }
            }
        } else if words[0] == "ends" {
            let file = File::open(words[1]).expect("the file");
            for begin in [0, block.len() / 2] {
                let part = &mut block[begin..];
                file.read_exact_at(part, begin as u64).expect("so long");
                bytes += part.len();
            }
        } else {
            let mut file = File::create(words[1]).expect("the file");
            for _ in 0..number(3) {
                file.write_all(&block).expect("the file can be written");
                bytes += block.len();
            }
        }
        send_reply(&bytes.to_string());
    }
}
