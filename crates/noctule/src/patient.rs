//! Messages to readers that may not read them: a pipe that is full must not hold up the agent, nor its end.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe that has room takes without waiting.
const PART: usize = rustix::pipe::PIPE_BUF;

/// How long a reader may leave it full.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Writes as long as there is room; whether all of it was taken.
pub(crate) fn offer(to: impl AsFd, bytes: &[u8]) -> bool {
    offer_within(to, bytes, PATIENCE)
}

fn offer_within(to: impl AsFd, mut bytes: &[u8], patience: Timespec) -> bool {
    while !bytes.is_empty() {
        let mut room = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut room, Some(&patience)) {
            Ok(1..) => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return false,
        }
        match rustix::io::write(&to, &bytes[..bytes.len().min(PART)]) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Standard error for the log. Once a line was given up, nothing waits until there is room again.
pub(crate) struct Log;

static STUCK: AtomicBool = AtomicBool::new(false);

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let patience = match STUCK.load(Ordering::Relaxed) {
            true => Timespec::default(),
            false => PATIENCE,
        };
        let taken = offer_within(io::stderr(), line, patience);
        STUCK.store(!taken, Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let text = vec![b'x'; 1 << 20];
        assert!(offer_within(&writer, &text[..PART], PATIENCE));
        assert!(!offer_within(&writer, &text, Timespec::default()));
        drop(reader);
        assert!(!offer_within(&writer, &text, PATIENCE));
    }
}
