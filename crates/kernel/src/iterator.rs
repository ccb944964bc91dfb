//! What iterators of the kernel side write.

use std::io::{ErrorKind, Read as _};

use libbpf_rs::{Iter, Link};

use crate::error::{Context as _, Error};

/// Reads one to its end, into a buffer that is emptied before; `what` names it in an error.
pub(crate) fn read(link: &Link, what: &str, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let mut iter = Iter::new(link).context(what)?;
    buffer.clear();
    loop {
        match iter.read_to_end(buffer) {
            // It has looked at a million objects (MAX_ITER_OBJECTS) and found nothing to write: it is
            // to be read on.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read.map(drop).context(what),
        }
    }
}

/// Reads on until one byte was written; `false` at the end.
pub(crate) fn step(iter: &mut Iter, what: &str) -> Result<bool, Error> {
    match iter.read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        read => Ok(read.context(what)? > 0),
    }
}
