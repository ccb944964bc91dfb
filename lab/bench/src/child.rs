//! A process started by the bench, with all its descendants.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use super::stop::Stop;

/// How long a process may take to end after a request to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Executes a program that gets SIGTERM when its parent ends, even by SIGKILL. The kernel keeps
/// this setting across the exec. Returns only on error.
pub(super) fn tied(command: &[OsString]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return anyhow::Error::new(error).context("ending with the parent");
    }
    let Some((program, arguments)) = command.split_first() else {
        return anyhow!("no program");
    };
    let error = Command::new(program).args(arguments).exec();
    anyhow::Error::new(error).context(program.display().to_string())
}

/// A child process that ends with its owner. The child first gets a request to end, and is killed
/// if it does not comply.
pub(super) struct Child {
    inner: process::Child,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Starts the command in its own process group. Ctrl-C on the terminal then reaches only the
    /// bench, and descendants can be found.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let inner = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self { inner, ended: None })
    }

    pub(super) fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// Returns the process with its pipes.
    pub(super) fn pipes(&mut self) -> &mut process::Child {
        &mut self.inner
    }

    /// Returns the exit status, if the process has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.inner.try_wait().context("waiting for a child")?;
        }
        Ok(self.ended)
    }

    /// Waits until the process ends. Fails after `limit`.
    pub(super) fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<ExitStatus> {
        match stop.until(limit, || self.ended())? {
            Some(status) => Ok(status),
            None => bail!("has not ended after {} s", limit.as_secs()),
        }
    }

    fn end(&mut self) -> Result<()> {
        let pid = Pid::from_child(&self.inner);
        // Programs of the bench end when their input closes. Other programs and their children get
        // SIGINT.
        if self.inner.stdin.take().is_none() && self.ended()?.is_none() {
            kill_process_group(pid, Signal::INT).context("ending a child")?;
        }
        let deadline = Instant::now() + PATIENCE;
        while self.ended()?.is_none() {
            if Instant::now() > deadline {
                kill_process_group(pid, Signal::KILL).context("killing a child")?;
                self.ended = Some(self.inner.wait().context("waiting for a child")?);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            super::say(&format!("{error:#}"));
        }
    }
}
