//! A trace is the work in each second, and the machine.

use std::f64::consts::TAU;

use crate::machine::{Fault, Physics, Random, Work};

#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub name: &'static str,
    pub physics: Physics,
    /// Returns the work in a second.
    pub work: fn(u32, &mut Random) -> Vec<Work>,
    /// Returns the fault of the meter in a second.
    pub fault: fn(u32) -> Fault,
}

const PLAIN: Physics = Physics {
    cpus: 8,
    sockets: &[1.0],
    idle_watts: 20.0,
    work_watts: 3.0,
    exponent: 1.0,
    shared_cost: 1.0,
    noise: 0.01,
    cycles: true,
    siblings: true,
};

/// All traces.
pub const TRACES: &[Trace] = &[
    Trace {
        name: "steps",
        physics: PLAIN,
        work: steps,
        fault: |_| Fault::None,
    },
    Trace {
        name: "sinusoids",
        physics: PLAIN,
        work: sinusoids,
        fault: |_| Fault::None,
    },
    Trace {
        name: "dvfs",
        physics: Physics {
            exponent: 2.3,
            work_watts: 0.6,
            ..PLAIN
        },
        work: dvfs,
        fault: |_| Fault::None,
    },
    Trace {
        name: "smt",
        physics: Physics {
            shared_cost: 0.62,
            ..PLAIN
        },
        work: smt,
        fault: |_| Fault::None,
    },
    Trace {
        name: "two sockets",
        physics: Physics {
            sockets: &[1.0, 1.8],
            ..PLAIN
        },
        work: two_sockets,
        fault: |_| Fault::None,
    },
    Trace {
        name: "duty cycles",
        physics: Physics {
            cpus: 1,
            sockets: &[1.0, 1.5],
            idle_watts: 4.5,
            work_watts: 20.0 / 3.0,
            cycles: false,
            siblings: false,
            ..PLAIN
        },
        work: duty_cycles,
        fault: |_| Fault::None,
    },
    Trace {
        name: "short-lived",
        physics: PLAIN,
        work: short_lived,
        fault: |_| Fault::None,
    },
    Trace {
        name: "no cycles",
        physics: Physics {
            cycles: false,
            siblings: false,
            ..PLAIN
        },
        work: sinusoids,
        fault: |_| Fault::None,
    },
    Trace {
        name: "stalls",
        physics: PLAIN,
        work: sinusoids,
        fault: |second| match second % 17 {
            5..8 => Fault::Stall,
            _ => Fault::None,
        },
    },
    Trace {
        name: "resets",
        physics: PLAIN,
        work: sinusoids,
        fault: |second| match second % 100 {
            40 => Fault::Reset,
            70 => Fault::Back,
            _ => Fault::None,
        },
    },
];

fn work(pid: u32, seconds: f64, gigahertz: f64) -> Work {
    Work {
        pid,
        seconds,
        shared: 0.0,
        socket: 0,
        gigahertz,
        ends: false,
        cost: 1.0,
    }
}

/// Three processes that switch on and off, each with its own period.
fn steps(second: u32, _: &mut Random) -> Vec<Work> {
    let on = |pid: u32, period: u32| (second / period) % 2 == pid % 2;
    let busy = [(1, 7, 1.0), (2, 11, 2.0), (3, 17, 0.5)];
    let busy = busy
        .into_iter()
        .filter(|(pid, period, _)| on(*pid, *period));
    busy.map(|(pid, _, seconds)| work(pid, seconds, 3.0))
        .collect()
}

fn wave(second: u32, period: f64, shift: f64) -> f64 {
    0.5 + 0.5 * (TAU * (f64::from(second) / period + shift)).sin()
}

/// Five processes whose loads are waves. The machine is never idle.
fn sinusoids(second: u32, _: &mut Random) -> Vec<Work> {
    let periods = [13.0, 29.0, 47.0, 61.0, 7.0];
    let waves = (1..).zip(periods);
    waves
        .map(|(pid, period)| {
            let load = 0.1 + wave(second, period, f64::from(pid) / 5.0);
            work(pid, load, 3.0)
        })
        .collect()
}

/// Half of the processes run fast and half slow, as with per-core frequency governors.
fn dvfs(second: u32, random: &mut Random) -> Vec<Work> {
    (1..=6)
        .map(|pid| {
            let load = 0.9 * wave(second, 9.0 + 5.0 * f64::from(pid), f64::from(pid) / 6.0);
            let base = if pid % 2 == 0 { 3.6 } else { 1.4 };
            work(pid, load, base + 0.3 * random.number())
        })
        .collect()
}

/// Some processes have whole cores, and others share cores.
fn smt(second: u32, random: &mut Random) -> Vec<Work> {
    (1..=6)
        .map(|pid| {
            let load = 0.9 * wave(second, 8.0 + 3.0 * f64::from(pid), f64::from(pid) / 6.0);
            let shared = if pid % 2 == 0 { 0.85 } else { 0.1 };
            Work {
                shared: shared + 0.1 * random.number(),
                ..work(pid, load, 3.0)
            }
        })
        .collect()
}

/// Each process stays on its socket. Work on the second socket costs more.
fn two_sockets(second: u32, random: &mut Random) -> Vec<Work> {
    let work = sinusoids(second, random).into_iter();
    work.map(|work| Work {
        socket: work.pid as usize % 2,
        ..work
    })
    .collect()
}

/// Five processes, each with a duty cycle, on two packages with one CPU each, with some idle
/// seconds. This is also the load of the virtual machines (`tests/joules/truth.rs`).
fn duty_cycles(second: u32, _: &mut Random) -> Vec<Work> {
    let duties = [
        (1, 0, 0.1),
        (2, 0, 0.3),
        (3, 1, 0.2),
        (4, 1, 0.4),
        (5, 0, 0.25),
    ];
    // In every second window, process 1 runs on the other package.
    let moved = (second / 36) % 2 == 1;
    let idle = second % 36 < 6;
    let running = duties.into_iter().filter(|_| !idle);
    running
        .map(|(pid, socket, seconds)| Work {
            socket: if pid == 1 && moved { 1 } else { socket },
            ..work(pid, seconds, 3.0)
        })
        .collect()
}

/// A steady process, together with a hundred processes per second that live for 2 ms.
fn short_lived(second: u32, random: &mut Random) -> Vec<Work> {
    let steady = work(1, 0.4 + 0.6 * wave(second, 23.0, 0.0), 3.0);
    let brief = (0..100).map(|n| Work {
        ends: true,
        ..work(
            1000 + second * 100 + n,
            0.001 + 0.002 * random.number(),
            3.0,
        )
    });
    std::iter::once(steady).chain(brief).collect()
}
