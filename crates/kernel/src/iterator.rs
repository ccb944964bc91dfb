//! Reads the output of BPF iterators.

use std::io::{ErrorKind, Read as _};

use libbpf_rs::{Iter, Link};

use crate::error::{Context as _, Error};

/// Reads an iterator to its end. The buffer is cleared first; `what` names the iterator in errors.
pub(crate) fn read(link: &Link, what: &str, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let mut iter = Iter::new(link).context(what)?;
    buffer.clear();
    loop {
        match iter.read_to_end(buffer) {
            // The iterator visited a million objects (MAX_ITER_OBJECTS) without output, so the read
            // must be repeated.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read.map(drop).context(what),
        }
    }
}

/// Reads until the iterator writes one byte. Returns `false` when the iteration has ended.
pub(crate) fn step(iter: &mut Iter, what: &str) -> Result<bool, Error> {
    match iter.read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        read => Ok(read.context(what)? > 0),
    }
}
