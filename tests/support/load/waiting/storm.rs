//! Wake-ups of threads that are running or already queued.
//!
//! Each thread constantly reads its own account. A single wait cannot have been longer than the
//! growth between two readings.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::super::body::{argument, burn, read_command, send_reply};
use super::{note, report, waited};
use crate::support::affinity::{last_cpu, pin};

/// Maximum growth of a thread's account between two of its readings, in nanoseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// Whether the storm is over.
static END: AtomicBool = AtomicBool::new(false);
/// Whether the victim sleeps and must not be woken.
static PAUSE: AtomicBool = AtomicBool::new(false);
/// The futex of the victim.
static WORD: AtomicU32 = AtomicU32::new(0);
static VICTIM: AtomicI32 = AtomicI32::new(0);

struct Rounds(u64);

impl Rounds {
    fn new() -> Self {
        let first = waited();
        LONGEST.fetch_max(first, Ordering::Relaxed);
        Self(first)
    }

    fn next(&mut self) {
        let now = waited();
        LONGEST.fetch_max(now - self.0, Ordering::Relaxed);
        self.0 = now;
    }
}

fn on() -> bool {
    !END.load(Ordering::Relaxed)
}

/// Waits until the test sends a line, or for the given time.
fn wait_for_end() {
    match argument(0) {
        Some(seconds) => thread::sleep(Duration::from_secs_f64(seconds)),
        None => drop(read_command()),
    }
    END.store(true, Ordering::Relaxed);
}

fn finish() {
    send_reply(&format!("longest {}", LONGEST.load(Ordering::Relaxed)));
    report();
}

/// `[SECONDS]`: a victim and a rival on one CPU, and two wakers on another, which constantly wake
/// the victim. The wakers pause only during the victim's long sleeps. A wait counted from an
/// earlier false wake-up would be as long as such a sleep.
#[allow(unsafe_code, reason = "the standard library sets no signal handlers")]
pub(super) fn storm() {
    // SAFETY: the handler does nothing.
    unsafe {
        libc::signal(libc::SIGUSR1, nothing as *const () as usize);
    }
    let event = eventfd(0, EventfdFlags::empty()).expect("an event");
    send_reply("ready");
    thread::scope(|scope| {
        scope.spawn(|| victim(&event));
        scope.spawn(rival);
        for _ in 0..2 {
            scope.spawn(|| waker(&event));
        }
        wait_for_end();
        // The victim may wait for another event.
        let _ = rustix::io::write(&event, &1u64.to_ne_bytes());
    });
    finish();
}

extern "C" fn nothing(_: libc::c_int) {}

fn victim(event: &OwnedFd) {
    pin(None, last_cpu());
    VICTIM.store(
        rustix::thread::gettid().as_raw_nonzero().get(),
        Ordering::Relaxed,
    );
    let mut rounds = Rounds::new();
    while on() {
        let end = Instant::now() + Duration::from_millis(10);
        while Instant::now() < end {
            WORD.store(0, Ordering::Relaxed);
            futex(libc::FUTEX_WAIT);
        }
        rounds.next();
        burn(0.003);
        rounds.next();
        for _ in 0..50 {
            if !on() {
                break;
            }
            // A signal may interrupt the read.
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
        rounds.next();
        PAUSE.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(60));
        PAUSE.store(false, Ordering::Relaxed);
        rounds.next();
    }
    note();
}

fn rival() {
    pin(None, last_cpu());
    let mut rounds = Rounds::new();
    while on() {
        burn(0.0005);
        rounds.next();
    }
    note();
}

fn waker(event: &OwnedFd) {
    pin(None, 0);
    let mut rounds = Rounds::new();
    while on() {
        for _ in 0..100 {
            if PAUSE.load(Ordering::Relaxed) {
                burn(0.00001);
                continue;
            }
            WORD.store(1, Ordering::Relaxed);
            futex(libc::FUTEX_WAKE);
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
            signal_victim();
        }
        rounds.next();
    }
    note();
}

/// Waits at most 1 ms while the word is 0, or wakes a waiting thread.
#[allow(unsafe_code, reason = "the standard library has no futex")]
fn futex(operation: libc::c_int) {
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let value = u32::from(operation == libc::FUTEX_WAKE);
    // SAFETY: the word is static, and the time lives until the call returns.
    unsafe {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(
            libc::SYS_futex,
            WORD.as_ptr(),
            operation,
            value,
            &raw const limit,
        );
    }
}

#[allow(unsafe_code, reason = "the standard library sends no signals")]
fn signal_victim() {
    let victim = VICTIM.load(Ordering::Relaxed);
    if victim != 0 {
        // SAFETY: the call sends a signal to a thread of this process, or fails.
        unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), victim, libc::SIGUSR1);
        }
    }
}

/// `[SECONDS]`: ten threads that are almost idle.
pub(super) fn quiet() {
    send_reply("ready");
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut rounds = Rounds::new();
                while on() {
                    thread::sleep(Duration::from_millis(10));
                    rounds.next();
                }
                note();
            });
        }
        wait_for_end();
    });
    finish();
}
