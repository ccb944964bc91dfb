//! Writes to readers that may have stopped reading: a full pipe must not delay the agent or its
//! exit.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Number of bytes that a pipe with room accepts without blocking.
const PART: usize = rustix::pipe::PIPE_BUF;

/// Maximum time to wait for a full pipe.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Interval between checks whether the command must end, and the time for which a stalled reader is
/// tolerated after that.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const GIVEN_UP: Duration = Duration::from_millis(500);

/// Writes while there is room, and returns whether everything was written.
pub(crate) fn offer(to: impl AsFd, bytes: &[u8]) -> bool {
    offer_within(to, bytes, PATIENCE)
}

fn offer_within(to: impl AsFd, mut bytes: &[u8], patience: Timespec) -> bool {
    while !bytes.is_empty() {
        let mut room = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut room, Some(&patience)) {
            Ok(1..) => {}
            Err(Errno::INTR) => continue,
            _ => return false,
        }
        match rustix::io::write(&to, &bytes[..bytes.len().min(PART)]) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Writes everything, however slow the reader is. Once the user has asked the command to end
/// (`ending`), gives up on a reader that stalls for a while.
pub(crate) fn deliver(
    to: impl AsFd,
    mut bytes: &[u8],
    ending: impl Fn() -> bool,
) -> io::Result<()> {
    let mut moved = Instant::now();
    while !bytes.is_empty() {
        let mut room = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut room, Some(&LOOK)) {
            Ok(1..) => {}
            Ok(0) | Err(Errno::INTR) if ending() && moved.elapsed() >= GIVEN_UP => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no process read the output before the command had to end: the output is \
                     incomplete",
                ));
            }
            Ok(0) | Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match rustix::io::write(&to, &bytes[..bytes.len().min(PART)]) {
            Ok(taken) => {
                bytes = &bytes[taken..];
                moved = Instant::now();
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Standard error, for the log. After a write timed out, later writes do not wait until a write
/// succeeds again.
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
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn unread_pipe_is_given_up() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let text = vec![b'x'; 1 << 20];
        assert!(offer_within(&writer, &text[..PART], PATIENCE));
        assert!(!offer_within(&writer, &text, Timespec::default()));
        drop(reader);
        assert!(!offer_within(&writer, &text, PATIENCE));
    }

    #[test]
    fn stalled_reader_is_given_up_only_at_the_end() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let text = vec![b'x'; 1 << 20];
        let asked = Arc::new(AtomicBool::new(false));
        let (to, all, ending) = (writer.try_clone(), text.clone(), asked.clone());
        let to = to.expect("a descriptor");
        let delivered =
            thread::spawn(move || deliver(&to, &all, || ending.load(Ordering::Relaxed)));
        thread::sleep(GIVEN_UP);
        assert!(!delivered.is_finished());
        asked.store(true, Ordering::Relaxed);
        let error = delivered.join().expect("no panic").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let reading = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        deliver(&writer, &text, || true).expect("it is read");
        drop(writer);
        assert!(reading.join().expect("no panic").is_ok());
    }
}
