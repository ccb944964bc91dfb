//! The record of an event: what the fields of a program are read from.

use super::Emitter;
use crate::asm::Reg;
use crate::probe::Probe;

impl Emitter {
    /// R6: the record, from the program's context in R1. No field lies in its first eight bytes.
    pub(super) fn record(&mut self) {
        match self.probe {
            // The context is the record, behind a pointer to registers that programs cannot read.
            Probe::Tracepoint => self.asm.mov(Reg::R6, Reg::R1),
        }
    }

    /// The program's context, as functions of the kernel want it.
    pub(super) fn context_of_program(&mut self, dst: Reg) {
        match self.probe {
            Probe::Tracepoint => self.asm.mov(dst, Reg::R6),
        }
    }
}
