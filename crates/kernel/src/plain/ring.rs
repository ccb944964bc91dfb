//! The ring of such programs, read in user space.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::PlainMap;
use crate::error::{Context, Error, ErrorKind};

/// Records that are taken at once: more come only after the reader had its turn.
const AT_ONCE: usize = 1 << 16;

/// The reader of a ring.
pub struct PlainRing {
    ring: RingBuffer<'static>,
    taken: Rc<RefCell<Taken>>,
}

/// Records behind each other, with the length of each.
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
    /// Reads this map, which is a ring.
    ///
    /// # Errors
    ///
    /// The kernel refuses to map its memory.
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
        builder.add(&map.handle, take).context("reading a ring")?;
        let ring = builder.build().context("reading a ring")?;
        Ok(Self { ring, taken })
    }

    /// Becomes readable when a program wakes the reader.
    pub fn wakes(&self) -> BorrowedFd<'_> {
        #[allow(unsafe_code, reason = "libbpf-rs gives a plain number")]
        // SAFETY: the descriptor is the ring's, which is there as long as this is borrowed.
        unsafe {
            BorrowedFd::borrow_raw(self.ring.epoll_fd())
        }
    }

    /// Takes what is in the ring. False: there may be more, as it was filled as fast as it was read.
    ///
    /// # Errors
    ///
    /// The ring cannot be read.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, Error> {
        let count = self.ring.consume_raw_n(AT_ONCE);
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::new(ErrorKind::Kernel, "a ring cannot be read"));
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
