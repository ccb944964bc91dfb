//! What noctule says of itself and of the machine.

pub(crate) mod docs;
pub(crate) mod doctor;
