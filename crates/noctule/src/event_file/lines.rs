//! Finds where the last complete line of a file ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The beginning of every event line. If the data after the last complete line starts differently,
/// the file is not an event file and must not be truncated.
const BEGIN: &[u8] = b"{\"time_unix_nano\":";
/// Number of bytes read in one step, starting from the end of the file.
const STEP: u64 = 64 * 1024;

/// Sizes of the complete lines and of the partial last line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Bytes up to the end of the last complete line.
    pub(super) whole: u64,
    /// Bytes of the partial line that follows the last complete line.
    pub(super) half: u64,
}

/// Finds where the last complete line ends. Returns an error if the remaining bytes are not a
/// partial event line.
pub(super) fn whole(file: &File) -> io::Result<Found> {
    let length = file.metadata()?.len();
    let whole = last_end(file, length)?;
    let half = length - whole;
    let mut begin = vec![0; half.min(BEGIN.len() as u64) as usize];
    file.read_exact_at(&mut begin, whole)?;
    // After a power failure, blocks that were never written contain zeros.
    let ours = begin.iter().zip(BEGIN).all(|(a, b)| a == b || *a == 0);
    if !ours {
        let error = "already exists and does not end like an events file: choose another name";
        return Err(io::Error::other(error));
    }
    Ok(Found { whole, half })
}

/// Returns the time of the last complete line; `None` if there is no line.
pub(super) fn last_unix_ns(file: &File, whole: u64) -> Option<u64> {
    // A 64-bit number has at most 20 digits.
    let mut begin = [0; BEGIN.len() + 21];
    let start = last_end(file, whole.checked_sub(1)?).ok()?;
    let length = begin.len().min((whole - start) as usize);
    file.read_exact_at(&mut begin[..length], start).ok()?;
    let digits = begin[..length].strip_prefix(BEGIN)?;
    let digits = digits.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the offset after the last newline, or 0 if there is none.
fn last_end(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let mut part = vec![0; (end - start) as usize];
        file.read_exact_at(&mut part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
