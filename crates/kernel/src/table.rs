//! Tables of the kernel side, read by few calls: all entries of a hash table, the first of an array.
//!
//! libbpf-rs' iterator takes a batch that is not full for the last one. But the kernel gives less
//! than it was asked for whenever the next bucket does not fit: then the rest of the table, however
//! large, would be missing. Only ENOENT says that it was the last.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;

use libbpf_rs::{MapCore, libbpf_sys};
use rustix::io::Errno;

use crate::error::{Context as _, Error};

/// Entries that one call of the kernel gives at most, to begin with.
const BATCH: usize = 512;

/// How often a call is made again that was interrupted, or found a bucket locked.
const TRIES: u32 = 1000;

/// Keys and values.
#[derive(Default)]
pub(crate) struct Entries {
    key_size: usize,
    value_size: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Entries {
    /// One by one, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.keys.chunks_exact(self.key_size);
        keys.zip(self.values.chunks_exact(self.value_size))
    }

    /// The value of the entry at this place: of an array, that of the key.
    pub(crate) fn value(&self, at: usize) -> Option<&[u8]> {
        self.values.chunks_exact(self.value_size).nth(at)
    }

    fn resize(&mut self, entries: usize) {
        self.keys.resize(entries * self.key_size, 0);
        self.values.resize(entries * self.value_size, 0);
    }
}

/// Every entry that is there while the table is read; `what` names it in an error.
pub(crate) fn entries(map: &impl MapCore, what: &str) -> Result<Entries, Error> {
    read(map, usize::MAX, what)
}

/// The first `count` entries of an array, or all that it has.
pub(crate) fn first(map: &impl MapCore, count: u32, what: &str) -> Result<Entries, Error> {
    read(map, count as usize, what)
}

fn read(map: &impl MapCore, most: usize, what: &str) -> Result<Entries, Error> {
    let mut entries = Entries {
        key_size: map.key_size() as usize,
        value_size: map.value_size() as usize,
        ..Entries::default()
    };
    // Where the kernel goes on: the number of a bucket.
    let mut place = [0_u8; 4];
    let (mut begun, mut read, mut room, mut tries) = (false, 0, BATCH, 0);
    loop {
        let wanted = room.min(most - read);
        entries.resize(read + wanted);
        let mut count = wanted as u32;
        let from = match begun {
            true => place.as_mut_ptr().cast(),
            false => ptr::null_mut(),
        };
        #[allow(unsafe_code, reason = "libbpf-rs ends before the table does")]
        // SAFETY: there is room for `count` keys and values behind those that were read, and for a
        // place in a hash table or the key of an array; the kernel has read `from` when it writes there.
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
            // Not even one bucket fits.
            Some(Errno::NOSPC) => room *= 2,
            Some(Errno::BUSY | Errno::DEADLK | Errno::TIMEDOUT) if tries < TRIES => tries += 1,
            // Before anything was read.
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
