//! Reads the ring buffer of plain programs.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::PlainMap;
use crate::error::{Context, Error, ErrorKind};

/// Maximum number of records per call. After that, the call returns, and the caller continues with
/// the remaining records.
const AT_ONCE: usize = 1 << 16;

/// The reader of a ring buffer.
pub struct PlainRing {
    ring: RingBuffer<'static>,
    taken: Rc<RefCell<Taken>>,
}

/// Records stored one after another, with their lengths.
#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl fmt::Debug for PlainRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainRing").finish_non_exhaustive()
    }
}

impl PlainRing {
    /// Creates a reader of this map, which must be a ring buffer.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not map the ring's memory.
    pub fn new(map: &PlainMap) -> Result<Self, Error> {
        let taken = Rc::new(RefCell::new(Taken::default()));
        let sink = taken.clone();
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            let mut taken = sink.borrow_mut();
            taken.bytes.extend_from_slice(bytes);
            taken.lengths.push(bytes.len());
            0
        };
        builder
            .add(&map.handle, take)
            .context("creating a reader of the ring buffer")?;
        let ring = builder
            .build()
            .context("creating a reader of the ring buffer")?;
        Ok(Self { ring, taken })
    }

    /// Returns a descriptor that becomes readable when a program wakes the reader.
    pub fn wakes(&self) -> BorrowedFd<'_> {
        #[allow(unsafe_code, reason = "libbpf-rs returns a plain number")]
        // SAFETY: the ring owns the descriptor, and stays borrowed while the descriptor is used.
        unsafe {
            BorrowedFd::borrow_raw(self.ring.epoll_fd())
        }
    }

    /// Reads the records in the ring buffer. Returns false if there may be more records, because
    /// programs filled the ring as fast as it was read.
    ///
    /// # Errors
    ///
    /// Fails if the ring buffer cannot be read.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, Error> {
        let count = self.ring.consume_raw_n(AT_ONCE);
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::new(ErrorKind::Kernel, "cannot read the ring buffer"));
        };
        let mut taken = self.taken.borrow_mut();
        let mut at = 0;
        for &length in &taken.lengths {
            take(&taken.bytes[at..at + length]);
            at += length;
        }
        taken.bytes.clear();
        taken.lengths.clear();
        Ok(count < AT_ONCE)
    }
}
