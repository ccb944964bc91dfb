//! The ring buffer of ended processes.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{RingBuffer, RingBufferBuilder};

use crate::abi::{self, LateSettle, TaskSample, sample_flag};
use crate::error::{Context as _, Error};
use crate::skel::switch::SwitchSkel;

/// Records of ended processes that were read from the ring buffer.
#[derive(Default)]
pub(super) struct Exits {
    pub(super) ended: Vec<TaskSample>,
    pub(super) late: Vec<LateSettle>,
}

impl Exits {
    /// Adds a record. A record shorter than a sample is only sent to wake the reader.
    fn take(&mut self, record: &[u8]) {
        let Some(sample) = abi::plain::<TaskSample>(record) else {
            return;
        };
        if sample.is(sample_flag::LATE) {
            self.late.extend(abi::plain::<LateSettle>(record));
        } else {
            self.ended.push(sample);
        }
    }
}

/// Reads all records of the ring buffer. A snapshot does so several times, because threads that end
/// while it is taken send records, and it takes long on a busy machine.
pub(super) fn empty(ring: &RingBuffer<'static>) -> Result<(), Error> {
    ring.consume()
        .context("reading the ring buffer of ended processes")
}

pub(super) fn exit_ring(
    switch: &SwitchSkel<'static>,
    exits: Rc<RefCell<Exits>>,
) -> Result<RingBuffer<'static>, Error> {
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        exits.borrow_mut().take(record);
        0
    };
    builder
        .add(&switch.maps.exits, take)
        .context("creating the ring buffer of ended processes")?;
    builder
        .build()
        .context("creating the ring buffer of ended processes")
}
