//! Passes a byte to and fro between two processes on one CPU, which causes two context switches per
//! round trip and little else. This load shows the cost of a hook on each switch.

use std::io::{Read as _, Write as _, stdin};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::{Outcome, Part, command, last_cpu, own_cpu_ns, pin};
use crate::host;

pub(super) fn run(round_trips: u64) -> Result<Outcome> {
    let cpu = last_cpu()?;
    pin(cpu)?;
    let mut echo = command(Part::Echo, &cpu.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the other end")?;
    let mut there = echo.stdin.take().context("a pipe there")?;
    let mut back = echo.stdout.take().context("a pipe back")?;
    let mut byte = [0];
    let mut round_trip = || -> std::io::Result<()> {
        there.write_all(&byte)?;
        back.read_exact(&mut byte)
    };
    // The first reply arrives when the other process is ready.
    round_trip()?;
    let (me, other) = (std::process::id(), echo.id());
    let switches = || Ok::<_, anyhow::Error>(host::switches_of(me)? + host::switches_of(other)?);
    let cpu_ns = || Ok::<_, anyhow::Error>(own_cpu_ns() + host::cpu_ns(other)?);
    let (switches_before, cpu_before) = (switches()?, cpu_ns()?);
    let began = Instant::now();
    for _ in 0..round_trips {
        round_trip()?;
    }
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let outcome = Outcome {
        operations: round_trips,
        elapsed_ns,
        cpu_ns: cpu_ns()? - cpu_before,
        switches: Some(switches()? - switches_before),
        ..Outcome::default()
    };
    drop(there);
    echo.wait().context("the other end")?;
    Ok(outcome)
}

/// Runs the other process, which ends when its input closes.
pub(super) fn echo(cpu: usize) -> Result<()> {
    pin(cpu)?;
    let input = stdin().lock();
    let mut byte = [0];
    loop {
        // Unbuffered, because the standard library's streams would cost more than the switch.
        if rustix::io::read(&input, &mut byte)? == 0 {
            return Ok(());
        }
        rustix::io::write(std::io::stdout(), &byte)?;
    }
}
