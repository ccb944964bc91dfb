//! The record of an event, from which a program reads its fields.

use super::{Emitter, Place, frame};
use crate::asm::{Label, Reg, Width};
use crate::classic::Classic;
use crate::probe::{PERF_FIELDS, Probe};

impl Emitter {
    /// Leaves the record in R6; expects the program's context in R1. The first eight bytes of a
    /// record have no fields. Jumps to `end` if the packet does not pass the classic filter.
    pub(super) fn record(&mut self, classic: Option<&Classic>, end: Label) {
        match self.probe {
            // At a tracepoint the context is the record, which begins with a pointer to registers
            // that programs cannot read. At a function, the context contains the registers.
            Probe::Tracepoint | Probe::Function | Probe::FileFunction => {
                self.asm.mov(Reg::R6, Reg::R1);
            }
            // The enclosing program has built the record.
            Probe::Synthetic => {}
            Probe::Packet(link) => {
                self.start_own_record();
                if let Some(filter) = classic {
                    self.classic(filter, end);
                }
                self.packet(link);
            }
            Probe::PerfEvent => {
                self.start_own_record();
                for (_, offset, from) in PERF_FIELDS {
                    self.asm.load(Width::B8, Reg::R1, Reg::R9, from);
                    self.asm.store(Width::B8, Reg::R6, offset, Reg::R1);
                }
            }
        }
    }

    /// Starts a record on the stack, beginning with the address of the context. Leaves the record
    /// in R6 and the context in R9.
    fn start_own_record(&mut self) {
        self.asm.mov(Reg::R9, Reg::R1);
        self.address(Reg::R6, Place::stack(frame::RECORD));
        self.asm.store(Width::B8, Reg::R6, 0, Reg::R9);
    }

    /// Loads the program's context as kernel helpers expect it.
    pub(super) fn load_context(&mut self, dst: Reg) {
        match self.probe {
            Probe::Tracepoint | Probe::Function | Probe::FileFunction => {
                self.asm.mov(dst, Reg::R6);
            }
            Probe::Packet(_) | Probe::PerfEvent => self.asm.load(Width::B8, dst, Reg::R6, 0),
            Probe::Synthetic => self.outermost_context(dst),
        }
    }
}
