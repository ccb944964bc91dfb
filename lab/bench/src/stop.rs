//! Handles Ctrl-C. Every wait checks for Ctrl-C, so that the owners of started processes clean up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Time between two checks during a wait.
const STEP: Duration = Duration::from_millis(20);

/// Whether the user asked the bench to stop.
pub(super) struct Stop(Arc<AtomicBool>);

#[derive(Debug)]
pub(super) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Stop {
    /// Starts to catch SIGINT and SIGTERM.
    pub(super) fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone()).context("catching signals")?;
        }
        Ok(Self(flag))
    }

    /// Fails with [`Interrupted`] after a signal.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        Ok(())
    }

    /// Sleeps until the time is up or a signal arrives.
    pub(super) fn sleep(&self, time: Duration) -> Result<()> {
        self.until(time, || Ok(None::<()>)).map(|_| ())
    }

    /// Calls `ask` until it returns a value or the time is up.
    pub(super) fn until<T>(
        &self,
        time: Duration,
        mut ask: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + time;
        loop {
            self.check()?;
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(left.min(STEP));
        }
    }
}
