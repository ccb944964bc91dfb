//! Signals that end a command, and waiting until one comes.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

/// A pipe that becomes readable when a signal arrives.
pub(crate) struct Signals {
    ends: UnixStream,
    children: UnixStream,
}

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time has come.
    Time,
    /// SIGINT or SIGTERM.
    End,
    /// A child changed its state.
    Child,
    /// One of the other descriptors is readable.
    Data,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGCHLD from now on.
    pub(crate) fn catch() -> Result<Self> {
        let pipe = |signals: &[i32]| -> std::io::Result<UnixStream> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
            }
            Ok(reader)
        };
        let ends = pipe(&[SIGINT, SIGTERM]).context("catching signals")?;
        Ok(Self {
            ends,
            children: pipe(&[SIGCHLD]).context("catching signals")?,
        })
    }

    /// Waits until `deadline`, a signal, or data on one of `others`.
    pub(crate) fn wait(&self, deadline: Instant, others: &[BorrowedFd<'_>]) -> Result<Woken> {
        let mut fds = vec![
            PollFd::new(&self.ends, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
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
                    let mut bytes = [0; 64];
                    while (&self.children).read(&mut bytes).is_ok_and(|n| n > 0) {}
                    return Ok(Woken::Child);
                }
                Ok(_) => return Ok(Woken::Data),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting"),
            }
        }
    }

    /// Forgets the signals that came so far.
    pub(crate) fn clear_ends(&self) {
        let mut bytes = [0; 64];
        while (&self.ends).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
