//! Loads pinned to a CPU, for an energy meter whose true values follow from the busy time of each
//! CPU.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::body::{argument, burn, has_input, read_command, send_reply};
use super::{VARIABLE, binary};
use crate::support::affinity::pin;

/// All loads by name.
pub(super) const LOADS: &[(&str, fn())] = &[("duty", duty), ("brood", brood), ("brief", brief)];

/// Length of a cycle of [`duty`], in milliseconds.
const CYCLE: u64 = 100;
/// CPU time of a process of [`brood`], in seconds.
const BRIEF: f64 = 0.002;

/// `duty CPU PERCENT`: uses the CPU for this share of the time, from the first line until the
/// second. If a line is a number, the load moves to that CPU. Any other line ends the load, which
/// then reports how long it ran as `CPU NANOSECONDS` for each CPU.
fn duty() {
    let mut cpu: usize = argument(0).expect("a CPU");
    let percent: u64 = argument(1).expect("percent");
    pin(None, cpu);
    send_reply("ready");
    read_command();
    let mut used = Vec::new();
    let mut from = own_cpu_ns();
    loop {
        burn((percent * CYCLE) as f64 / 100e3);
        thread::sleep(Duration::from_millis((100 - percent) * CYCLE / 100));
        if !has_input() {
            continue;
        }
        let word = read_command();
        used.push(format!("{cpu} {}", own_cpu_ns() - from));
        from = own_cpu_ns();
        match word.parse() {
            Ok(next) => cpu = next,
            Err(_) => break,
        }
        pin(None, cpu);
    }
    send_reply(&used.join(";"));
}

/// `brood CPU COUNT MILLISECONDS`: on request, runs COUNT processes one after another. Each uses 2
/// ms of CPU time and is followed by a pause of MILLISECONDS.
fn brood() {
    pin(None, argument(0).expect("a CPU"));
    let count: u32 = argument(1).expect("a number");
    let apart = Duration::from_millis(argument(2).expect("a time"));
    send_reply("ready");
    read_command();
    for _ in 0..count {
        let mut command = Command::new(binary());
        command.env(VARIABLE, "brief").stdin(Stdio::null());
        let mut child = command.spawn().expect("it can be started");
        assert!(child.wait().expect("our own child").success());
        thread::sleep(apart);
    }
    send_reply("done");
    read_command();
}

fn brief() {
    burn(BRIEF);
}

fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
