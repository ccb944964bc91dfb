//! Ctrl-C: noted here, asked for in every wait, so that the owners of what was started clean up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// How long a wait goes on before it looks whether it should end.
const STEP: Duration = Duration::from_millis(20);

/// Whether the user wants the bench to end.
pub(super) struct Stop(Arc<AtomicBool>);

/// The user wanted the bench to end.
#[derive(Debug)]
pub(super) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Stop {
    /// Catches SIGINT and SIGTERM from now on.
    pub(super) fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone()).context("catching signals")?;
        }
        Ok(Self(flag))
    }

    /// Fails with [`Interrupted`] once a signal came.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        Ok(())
    }

    /// Sleeps, but not beyond a signal.
    pub(super) fn sleep(&self, time: Duration) -> Result<()> {
        self.until(time, || Ok(None::<()>)).map(|_| ())
    }

    /// Asks until there is an answer or the time is over.
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
