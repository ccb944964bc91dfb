//! Loads that wait for a CPU. A load that ends by itself reports how long each of its processes
//! waited according to the kernel, as `waited PID NANOSECONDS`. The source is field 2 of schedstat.
//! Each thread reads its own file before it ends, because the file is not readable afterwards.

use std::fs;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, setpriority_process};
use rustix::thread::gettid;

use super::body::{argument, burn, burn_on, read_command, send_reply};
use super::{VARIABLE, binary};
use crate::support::affinity::{last_cpu, pin};

mod storm;

/// All loads by name.
pub(super) const LOADS: &[(&str, fn())] = &[
    ("spin", spin),
    ("late-spin", late_spin),
    ("asleep", asleep),
    ("realtime-spin", realtime_spin),
    ("bursts", bursts),
    ("worker", worker),
    ("pair", pair),
    ("ping-pong", ping_pong),
    ("sleepers", sleepers),
    ("moved", moved),
    ("movers", movers),
    ("moved-asleep", move_sleepers),
    ("storm", storm::storm),
    ("quiet", storm::quiet),
    ("mergeable", mergeable),
];

/// How long the ended threads of this process waited, in nanoseconds.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Returns how long the calling thread has waited so far, in nanoseconds.
fn waited() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let field = text.split_whitespace().nth(1).expect("a second field");
    field.parse().expect("a number")
}

/// Keeps the calling thread from waiting by making it a real-time thread. The thread is about to
/// end, and no figure would contain a wait after the thread has read its account. If the group does
/// not allow real-time threads, a short wait remains possible.
#[allow(unsafe_code, reason = "rustix has no sched_setscheduler")]
fn become_real_time() {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the struct lives until the call returns.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
}

/// Records how long the calling thread waited, just before the thread ends. Threads do this one
/// after another. If many ended together, they would wait for each other after they have read their
/// accounts.
fn note() {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    become_real_time();
    WAITED.fetch_add(waited(), Ordering::Relaxed);
}

/// Reports the waits. Called by the last thread of the process.
fn report() {
    become_real_time();
    let total = WAITED.load(Ordering::Relaxed) + waited();
    send_reply(&format!("waited {} {total}", std::process::id()));
}

/// How long the load rests, which is longer than the period of a quota.
const REST: Duration = Duration::from_millis(150);

fn micros(at: usize) -> Option<Duration> {
    argument(at).map(Duration::from_micros)
}

/// `THREADS`: uses the last CPU with this many threads.
fn spin() {
    pin(None, last_cpu());
    send_reply("ready");
    for _ in 1..argument(0).unwrap_or(1) {
        thread::spawn(|| burn_on());
    }
    burn_on();
}

/// Sleeps on the last CPU until the test sends a line, and then uses it.
fn late_spin() {
    pin(None, last_cpu());
    send_reply("ready");
    read_command();
    burn_on();
}

/// `THREADS`: this many threads that sleep forever.
fn asleep() {
    for _ in 0..argument(0).expect("THREADS") {
        let small = thread::Builder::new().stack_size(16 << 10);
        let sleeps = small.spawn(|| {
            loop {
                thread::park();
            }
        });
        sleeps.expect("room for a thread");
    }
    send_reply("ready");
    thread::park();
}

/// Uses the last CPU with a real-time priority.
fn realtime_spin() {
    pin(None, last_cpu());
    become_real_time();
    send_reply("ready");
    burn_on();
}

/// `BURST PAUSE`, in microseconds: works and sleeps in turn on the last CPU.
fn bursts() {
    pin(None, last_cpu());
    send_reply("ready");
    let (burst, pause) = (micros(0).expect("BURST"), micros(1).expect("PAUSE"));
    loop {
        burn(burst.as_secs_f64());
        thread::sleep(pause);
    }
}

/// `CPUS SECONDS [BURST PAUSE]`: runs a thread on each of the last CPUs for this long, with
/// optional pauses (microseconds). The load ends in a quota period in which it was idle. If its
/// last thread ended with an exhausted quota, the group could stay throttled without any waiting
/// thread.
fn worker() {
    send_reply("ready");
    let last = last_cpu();
    let count: usize = argument(0).expect("CPUS");
    let seconds: f64 = argument(1).expect("SECONDS");
    let work = move || match (micros(2), micros(3)) {
        (Some(burst), Some(pause)) => {
            let burst = burst.as_secs_f64();
            for _ in 0..(seconds / burst) as u32 {
                burn(burst);
                thread::sleep(pause);
            }
        }
        _ => burn(seconds),
    };
    thread::scope(|scope| {
        for cpu in (0..=last).rev().take(count) {
            scope.spawn(move || {
                pin(None, cpu);
                work();
                thread::sleep(REST);
                note();
            });
        }
    });
    report();
}

/// `SECONDS`: starts two processes on the last CPU, each of which uses this much CPU time.
fn pair() {
    send_reply("ready");
    let load = format!("worker 1 {}", argument::<f64>(0).expect("SECONDS"));
    let start = || Command::new(binary()).env(VARIABLE, &load).spawn();
    let children: Vec<Child> = (0..2)
        .map(|_| start().expect("it can be started"))
        .collect();
    for mut child in children {
        assert!(child.wait().expect("our child").success());
    }
    report();
}

/// `ROUNDS`: two threads on one CPU that wake each other.
fn ping_pong() {
    send_reply("ready");
    pin(None, last_cpu());
    let rounds: u32 = argument(0).expect("ROUNDS");
    let (there, back) = (pipe(), pipe());
    let [(from_first, to_second), (from_second, to_first)] = [&there, &back];
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                get(from_first);
                put(to_first);
            }
            note();
        });
        for _ in 0..rounds {
            put(to_second);
            get(from_second);
        }
    });
    report();
}

type Pipe = (std::io::PipeReader, std::io::PipeWriter);

fn pipe() -> Pipe {
    std::io::pipe().expect("a pipe")
}

fn put(mut to: &std::io::PipeWriter) {
    std::io::Write::write_all(&mut to, b"x").expect("the other end is there");
}

fn get(mut from: &std::io::PipeReader) {
    std::io::Read::read_exact(&mut from, &mut [0]).expect("the other end is there");
}

/// `THREADS SECONDS`: threads on any CPU that mostly sleep.
fn sleepers() {
    send_reply("ready");
    let end = Instant::now() + Duration::from_secs_f64(argument(1).expect("SECONDS"));
    thread::scope(|scope| {
        for _ in 0..argument(0).expect("THREADS") {
            scope.spawn(|| {
                while Instant::now() < end {
                    thread::sleep(Duration::from_millis(1));
                    burn(0.0002);
                }
                note();
            });
        }
    });
    report();
}

/// `THREADS SECONDS`: threads that use the CPU, and one that constantly moves them to another CPU,
/// mostly while they wait.
fn moved() {
    send_reply("ready");
    let end = Instant::now() + Duration::from_secs_f64(argument(1).expect("SECONDS"));
    let cpus = last_cpu() + 1;
    thread::scope(|scope| {
        let (sender, threads) = std::sync::mpsc::channel();
        for _ in 0..argument(0).expect("THREADS") {
            let sender = sender.clone();
            scope.spawn(move || {
                sender.send(gettid()).expect("somebody listens");
                while Instant::now() < end {
                    burn(0.0005);
                }
                // The thread is no longer moved. Otherwise it could wait after it has reported its
                // waits.
                thread::sleep(Duration::from_millis(50));
                note();
            });
        }
        drop(sender);
        let threads: Vec<Pid> = threads.iter().collect();
        let mut turn = 0;
        while Instant::now() < end {
            for thread in &threads {
                turn += 1;
                pin(Some(*thread), (turn / threads.len() + turn) % cpus);
            }
            thread::sleep(Duration::from_micros(700));
        }
    });
    report();
}

/// `THREADS SECONDS`: threads that use the CPU and constantly move themselves to another CPU.
fn movers() {
    send_reply("ready");
    let end = Instant::now() + Duration::from_secs_f64(argument(1).expect("SECONDS"));
    thread::scope(|scope| {
        for first in 0..argument(0).expect("THREADS") {
            scope.spawn(move || {
                let cpus = [0, last_cpu()];
                for turn in first.. {
                    pin(None, cpus[turn % cpus.len()]);
                    burn(0.002);
                    if Instant::now() > end {
                        break;
                    }
                }
                note();
            });
        }
    });
    report();
}

/// `THREADS`: after the command `sleep`, this many threads fall asleep on the last CPU one after
/// another. Each is moved to the first CPU immediately. Another thread keeps the last CPU busy.
/// After the command `wake`, the sleeping threads wake up and end. The reply is how long each
/// thread has waited since it fell asleep, according to the kernel.
fn move_sleepers() {
    send_reply("ready");
    loop {
        read_command();
        let busy = AtomicBool::new(true);
        let sleepers: Vec<JoinHandle<u64>> = thread::scope(|scope| {
            scope.spawn(|| {
                pin(None, last_cpu());
                while busy.load(Ordering::Relaxed) {
                    burn(0.001);
                }
            });
            let threads = 0..argument(0).expect("THREADS");
            let sleepers = threads.map(|_| fall_asleep()).collect();
            busy.store(false, Ordering::Relaxed);
            sleepers
        });
        send_reply("asleep");
        read_command();
        let waited = sleepers.into_iter().map(|sleeper| {
            sleeper.thread().unpark();
            sleeper.join().expect("it says how long").to_string()
        });
        send_reply(&waited.collect::<Vec<_>>().join(" "));
    }
}

fn fall_asleep() -> JoinHandle<u64> {
    let (sender, begun) = std::sync::mpsc::channel();
    let sleeper = thread::spawn(move || {
        pin(None, last_cpu());
        sender.send(gettid()).expect("somebody listens");
        // With a low weight, the thread far exceeds its share of the CPU, so the scheduler does not
        // pick it for a while.
        setpriority_process(None, 19).expect("less is allowed");
        burn(0.001);
        let before = waited();
        thread::park();
        waited() - before
    });
    let thread = begun.recv().expect("it begins");
    let status = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let sleeps = || {
        let text = fs::read_to_string(&status).expect("it is there");
        text.rsplit(") ").next().expect("fields").starts_with('S')
    };
    // Polls without a pause, because the thread must not sleep for long.
    while !sleeps() {}
    pin(Some(thread), 0);
    sleeper
}

/// `MEGABYTES`: allocates memory that the kernel may scan for identical pages.
#[allow(unsafe_code, reason = "the standard library has no madvise")]
fn mergeable() {
    let length = argument::<usize>(0).expect("MEGABYTES") << 20;
    let mut memory: Vec<u64> = (0..length as u64 / 8).collect();
    // Starts at the first whole page.
    let start = memory.as_mut_ptr() as usize;
    let from = start.next_multiple_of(4096);
    let rest = length - (from - start);
    // SAFETY: the range is within the vector, and its contents do not change.
    let advised = unsafe { libc::madvise(from as *mut _, rest, libc::MADV_MERGEABLE) };
    assert_eq!(advised, 0, "{}", std::io::Error::last_os_error());
    send_reply("ready");
    loop {
        thread::park();
    }
}
