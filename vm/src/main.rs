//! The first process of a virtual machine. This process mounts what the tests need, runs them,
//! reports how they ended, and powers the machine off.
//!
//! A second process of the same program does the work, because the first process must reap every
//! orphan. Otherwise orphans would stay zombies, and the tests count zombies.

mod modules;
mod mounts;
mod port;
mod tests;

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use noctule_vm::{EXPECT, JOB, Job, Message};
use rustix::process::{WaitOptions, wait};
use rustix::system::{RebootCommand, reboot, uname};

use port::Port;

/// Path of the program after the disk has become the root.
const ITSELF: &str = "/proc/self/exe";

fn main() -> Result<()> {
    if std::process::id() != 1 {
        return work();
    }
    // An error here ends the first process. The kernel then panics, and the console shows why.
    let job = prepare()?;
    fs::write("/run/job.json", serde_json::to_string(&job)?).context("the job")?;
    let worker = Command::new(ITSELF).spawn().context("the worker")?;
    let worker = rustix::process::Pid::from_child(&worker);
    while wait(WaitOptions::empty())?.is_none_or(|(pid, _)| pid != worker) {}
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

/// Mounts file systems, loads kernel modules and sets up the network for the tests. Returns the job
/// to run.
fn prepare() -> Result<Job> {
    mounts::first()?;
    let job = fs::read(JOB).context(JOB)?;
    let job: Job = serde_json::from_slice(&job).context(JOB)?;
    modules::load(&job.modules)?;
    mounts::disk()?;
    mounts::rest()?;
    fs::write(EXPECT, &job.expect).context(EXPECT)?;
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    if !up.context("ip")?.success() {
        bail!("the loopback does not come up");
    }
    Ok(job)
}

fn work() -> Result<()> {
    let mut port = Port::open()?;
    let release = uname().release().to_string_lossy().into_owned();
    port.send(&Message::Booted(release))?;
    let done = fs::read("/run/job.json")
        .map_err(anyhow::Error::from)
        .and_then(|text| Ok(serde_json::from_slice::<Job>(&text)?))
        .and_then(|job| tests::run(&job, &mut port));
    match done {
        Ok(()) => port.send(&Message::Done),
        Err(error) => port.send(&Message::Broken(format!("{error:#}"))),
    }
}
