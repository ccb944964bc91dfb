//! The record of an event: what the fields of a program are read from.

use super::{Emitter, Place, frame};
use crate::asm::{Label, Reg, Width};
use crate::classic::Classic;
use crate::probe::{PERF_FIELDS, Probe};

impl Emitter {
    /// R6: the record, from the program's context in R1. No field lies in its first eight bytes.
    /// A packet that does not pass the classic filter leads to the label.
    pub(super) fn record(&mut self, classic: Option<&Classic>, end: Label) {
        match self.probe {
            // The context is the record, behind a pointer to registers that programs cannot read.
            // At a function it is the registers.
            Probe::Tracepoint | Probe::Function | Probe::FileFunction => {
                self.asm.mov(Reg::R6, Reg::R1);
            }
            // The program that it is inside of has made the record.
            Probe::Synthetic => {}
            Probe::Packet(link) => {
                self.own_record();
                if let Some(filter) = classic {
                    self.classic(filter, end);
                }
                self.packet(link);
            }
            Probe::PerfEvent => {
                self.own_record();
                for (_, offset, from) in PERF_FIELDS {
                    self.asm.load(Width::B8, Reg::R1, Reg::R9, from);
                    self.asm.store(Width::B8, Reg::R6, offset, Reg::R1);
                }
            }
        }
    }

    /// R6: a record on the stack, which begins with the address of the context; R9: the context.
    fn own_record(&mut self) {
        self.asm.mov(Reg::R9, Reg::R1);
        self.address(Reg::R6, Place::stack(frame::RECORD));
        self.asm.store(Width::B8, Reg::R6, 0, Reg::R9);
    }

    /// The program's context, as functions of the kernel want it.
    pub(super) fn context_of_program(&mut self, dst: Reg) {
        match self.probe {
            Probe::Tracepoint | Probe::Function | Probe::FileFunction => {
                self.asm.mov(dst, Reg::R6);
            }
            Probe::Packet(_) | Probe::PerfEvent => self.asm.load(Width::B8, dst, Reg::R6, 0),
            Probe::Synthetic => self.outermost_context(dst),
        }
    }
}
