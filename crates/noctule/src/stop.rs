//! Signals that end a command, and waiting for them.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Converts SIGXFSZ, which would end the program, into an error of the write. Commands that
/// noctule starts have the default action.
pub(crate) fn survive_limits() {
    let flag = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, flag) {
        tracing::debug!(%error, "SIGXFSZ ends the program");
    }
}

/// Returns whether the program was started with SIGHUP ignored (`nohup`), in which case SIGHUP must
/// remain ignored.
fn hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// Returns a flag that is set by ending signals, for code that waits for something else.
pub(crate) fn end_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let hangup = (!hangup_ignored()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register(signal, flag.clone())
            .with_context(|| format!("catching signal {signal}, which ends the command"))?;
    }
    Ok(flag)
}

/// Set by ending signals.
static ENDING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns whether an ending signal has arrived since signals are caught.
pub(crate) fn is_asked() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Pipes that become readable when a signal arrives.
pub(crate) struct Signals {
    ends: UnixStream,
    children: UnixStream,
    /// `None` if SIGHUP ends the command or is ignored, because a pipe without a writer would
    /// always be readable.
    reloads: Option<UnixStream>,
    /// `None` if no other thread ends waits.
    wakes: Option<UnixStream>,
}

/// Ends waits of another thread.
pub(crate) struct Waker(UnixStream);

impl Waker {
    /// Ends the current or next wait. A full pipe does so already.
    pub(crate) fn wake(&self) {
        let _ = (&self.0).write_all(&[0]);
    }
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The deadline was reached.
    Time,
    /// SIGINT or SIGTERM arrived, or SIGHUP in commands other than the agent.
    End,
    /// The agent received SIGHUP.
    Reload,
    /// A child changed its state.
    Child,
    /// Another thread ended the wait with a [`Waker`].
    Waker,
    /// One of the other descriptors is readable.
    Data,
}

impl Signals {
    /// Catches SIGINT, SIGTERM, SIGHUP and SIGCHLD. SIGHUP means that the terminal was closed, and
    /// ends the command.
    pub(crate) fn catch() -> Result<Self> {
        match hangup_ignored() {
            true => Self::catch_signals(&[SIGINT, SIGTERM], &[]),
            false => Self::catch_signals(&[SIGINT, SIGTERM, SIGHUP], &[]),
        }
    }

    /// Like [`Self::catch`], but for the agent, which reopens its file on SIGHUP. The waker ends
    /// waits for signals.
    pub(crate) fn catch_as_agent() -> Result<(Self, Waker)> {
        let (reader, writer) = UnixStream::pair().context("creating a pipe between threads")?;
        for end in [&reader, &writer] {
            end.set_nonblocking(true)?;
        }
        let signals = Self {
            wakes: Some(reader),
            ..Self::catch_signals(&[SIGINT, SIGTERM], &[SIGHUP])?
        };
        Ok((signals, Waker(writer)))
    }

    fn catch_signals(ends: &[i32], reloads: &[i32]) -> Result<Self> {
        let pipe = |signals: &[i32]| -> std::io::Result<UnixStream> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
            }
            Ok(reader)
        };
        for &signal in ends {
            signal_hook::flag::register(signal, ENDING.clone())
                .context("catching the signals that end the command")?;
        }
        Ok(Self {
            ends: pipe(ends).context("catching the signals that end the command")?,
            children: pipe(&[SIGCHLD]).context("catching SIGCHLD")?,
            reloads: match reloads {
                [] => None,
                reloads => Some(pipe(reloads).context("catching SIGHUP")?),
            },
            wakes: None,
        })
    }

    /// Waits until `deadline`, a signal, or data on one of `others`.
    pub(crate) fn wait(&self, deadline: Instant, others: &[BorrowedFd<'_>]) -> Result<Woken> {
        let mut fds = vec![
            PollFd::new(&self.ends, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        let (reloads, wakes) = (self.reloads.as_ref(), self.wakes.as_ref());
        let pipes = reloads.into_iter().chain(wakes);
        fds.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(
            others
                .iter()
                .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)),
        );
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = timespec(left);
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(Woken::Time),
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Woken::End),
                Ok(_) if !fds[1].revents().is_empty() => {
                    empty(&self.children);
                    return Ok(Woken::Child);
                }
                Ok(_) if reloads.is_some_and(empty) => return Ok(Woken::Reload),
                Ok(_) if wakes.is_some_and(empty) => return Ok(Woken::Waker),
                Ok(_) => return Ok(Woken::Data),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for a signal or for data (poll)"),
            }
        }
    }

    /// Discards ending signals that have already arrived.
    pub(crate) fn clear_ends(&self) {
        empty(&self.ends);
    }
}

/// Drains the pipe, and returns whether it contained anything.
fn empty(mut pipe: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while pipe.read(&mut bytes).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
