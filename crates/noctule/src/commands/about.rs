//! Commands about noctule itself and the machine.

pub(crate) mod docs;
pub(crate) mod doctor;
