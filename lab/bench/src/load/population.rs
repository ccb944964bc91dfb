//! Many processes in many cgroups, each almost idle, which an agent has to visit at each tick. All
//! processes end when the input closes, whatever the reason.

use std::fs;
use std::io::{Write as _, stdin, stdout};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Part, command};
use crate::cgroups::Cgroups;

const PODS: usize = 100;
const CONTAINERS_PER_POD: usize = 2;
const PROCESSES_PER_CONTAINER: usize = 5;
const PERIOD: Duration = Duration::from_millis(500);
const BURN: Duration = Duration::from_micros(50);

/// Starts everything, reports that it runs, and waits until the input closes.
pub(super) fn run(name: &str) -> Result<()> {
    let cgroups = Cgroups::new("cpu", name)?;
    let mut processes = Vec::new();
    let result = populate(&cgroups, &mut processes).and_then(|()| {
        writeln!(stdout(), "ready").context("saying so")?;
        while !wait_for_end(Duration::from_secs(3600))? {}
        Ok(())
    });
    // Unless something failed here, the input of the processes has closed, too, so they end by
    // themselves.
    for process in &mut processes {
        if result.is_err() {
            let _ = process.kill();
        }
        let _ = process.wait();
    }
    result
}

fn populate(cgroups: &Cgroups, processes: &mut Vec<Child>) -> Result<()> {
    for pod in 0..PODS {
        for container in 0..CONTAINERS_PER_POD {
            let number = pod * CONTAINERS_PER_POD + container;
            // The names follow the kubelet with cgroupfs: both components are hexadecimal.
            let path = format!(
                "kubepods/burstable/pod{pod:08x}-0000-4000-8000-000000000000/{number:064x}"
            );
            let group = cgroups.add(&path)?;
            // Children start in the group, which is cheaper than moving each one.
            fs::write(group.join("cgroup.procs"), "0").context("entering a cgroup")?;
            for _ in 0..PROCESSES_PER_CONTAINER {
                let number = processes.len().to_string();
                let child = command(Part::Sleeper, &number)
                    .stdout(Stdio::null())
                    .spawn();
                processes.push(child.context("starting a process of the population")?);
            }
        }
    }
    cgroups.leave()
}

/// Runs one process, which wakes twice a second at its own offset and burns a little CPU time.
pub(super) fn sleeper(number: u64) -> Result<()> {
    let total = (PODS * CONTAINERS_PER_POD * PROCESSES_PER_CONTAINER) as u64;
    let offset = PERIOD.mul_f64(number as f64 / total as f64);
    let mut next = Instant::now() + offset;
    while !wait_for_end(next.saturating_duration_since(Instant::now()))? {
        let until = Instant::now() + BURN;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        next += PERIOD;
    }
    Ok(())
}

/// Waits, and returns whether the input closed first.
pub(super) fn wait_for_end(time: Duration) -> Result<bool> {
    let input = stdin();
    let timeout = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    let mut files = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut files, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("waiting for the end of the input"),
    }
}
