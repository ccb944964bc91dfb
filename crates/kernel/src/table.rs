//! Reads BPF maps in few system calls: all entries of a hash map, or the first entries of an array.
//!
//! The iterator of libbpf-rs assumes that a batch that is not full is the last one. However, the
//! kernel returns fewer entries than requested whenever the next bucket does not fit, so the rest
//! of a large table could be missing. Only ENOENT marks the last batch.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;

use libbpf_rs::{MapCore, libbpf_sys};
use rustix::io::Errno;

use crate::error::{Context as _, Error};

/// Number of entries that the first batch may return.
const BATCH: usize = 512;

/// Maximum number of retries of a call that was interrupted or found a bucket locked.
const TRIES: u32 = 1000;

/// Keys and values of the entries.
#[derive(Default)]
pub(crate) struct Entries {
    key_size: usize,
    value_size: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Entries {
    /// Returns the entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.keys.chunks_exact(self.key_size);
        keys.zip(self.values.chunks_exact(self.value_size))
    }

    /// Returns the value at this index; in an array, the index is the key.
    pub(crate) fn value(&self, at: usize) -> Option<&[u8]> {
        self.values.chunks_exact(self.value_size).nth(at)
    }

    fn resize(&mut self, entries: usize) {
        self.keys.resize(entries * self.key_size, 0);
        self.values.resize(entries * self.value_size, 0);
    }
}

/// Reads all entries of a map; `what` names it in errors.
pub(crate) fn entries(map: &impl MapCore, what: &str) -> Result<Entries, Error> {
    read(map, None, usize::MAX, what)
}

/// Reads the first `count` entries of an array, or all if it has fewer.
pub(crate) fn first(map: &impl MapCore, count: u32, what: &str) -> Result<Entries, Error> {
    read(map, None, count as usize, what)
}

/// Reads `count` entries of an array from the index `from` on, or fewer at its end.
pub(crate) fn portion(
    map: &impl MapCore,
    from: u32,
    count: u32,
    what: &str,
) -> Result<Entries, Error> {
    let before = from.checked_sub(1).map(u32::to_ne_bytes);
    read(map, before, count as usize, what)
}

/// Reads the entries behind the position `after`, which in an array is a key.
fn read(
    map: &impl MapCore,
    after: Option<[u8; 4]>,
    most: usize,
    what: &str,
) -> Result<Entries, Error> {
    let mut entries = Entries {
        key_size: map.key_size() as usize,
        value_size: map.value_size() as usize,
        ..Entries::default()
    };
    // The position at which the kernel continues to read.
    let mut place = after.unwrap_or_default();
    let (mut begun, mut read, mut room, mut tries) = (after.is_some(), 0, BATCH, 0);
    loop {
        let wanted = room.min(most - read);
        entries.resize(read + wanted);
        let mut count = wanted as u32;
        let from = match begun {
            true => place.as_mut_ptr().cast(),
            false => ptr::null_mut(),
        };
        #[allow(unsafe_code, reason = "libbpf-rs stops before the end of the table")]
        // SAFETY: the buffers have room for `count` keys and values after those already read.
        // `place` has room for the position in a hash map or the key of an array. The kernel reads
        // `from` before it writes there.
        let code = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from,
                place.as_mut_ptr().cast(),
                entries.keys[read * entries.key_size..].as_mut_ptr().cast(),
                entries.values[read * entries.value_size..]
                    .as_mut_ptr()
                    .cast(),
                &raw mut count,
                ptr::null(),
            )
        };
        let error = match code {
            0 => None,
            code => Some(Errno::from_raw_os_error(-code)),
        };
        match error {
            None | Some(Errno::NOENT) => {}
            // The batch is too small for a bucket of the hash map.
            Some(Errno::NOSPC) => room *= 2,
            Some(Errno::BUSY | Errno::DEADLK | Errno::TIMEDOUT) if tries < TRIES => tries += 1,
            // The call was interrupted before it had read anything.
            Some(Errno::INTR | Errno::AGAIN) if tries < TRIES => (tries, count) = (tries + 1, 0),
            Some(error) => return Err(io::Error::from(error)).context(what),
        }
        begun |= !matches!(error, Some(Errno::INTR | Errno::AGAIN));
        read += count as usize;
        if error == Some(Errno::NOENT) || read == most {
            entries.resize(read);
            return Ok(entries);
        }
    }
}
