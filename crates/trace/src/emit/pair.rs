//! Pairs of events, for the latency between them.

use super::{EmitError, Emitter, MapUse, Place, frame};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Width};
use crate::program::Part;

/// `BPF_ANY`.
const ANY: i32 = 0;

impl Emitter {
    /// Stores the time of the first event by key. This program does nothing else.
    pub(super) fn store_first(&mut self, key: &[Part], end: Label) -> Result<(), EmitError> {
        let place = Place::stack(frame::PAIR);
        let latency = Place::stack(frame::LATENCY);
        self.key_at(key, place)?;
        self.asm.call(Helper::KtimeGetNs);
        self.asm
            .store(Width::B8, latency.base, latency.offset, Reg::R0);
        self.map(Reg::R1, MapUse::Firsts);
        self.address(Reg::R2, place);
        self.address(Reg::R3, latency);
        self.asm.mov(Reg::R4, ANY);
        self.asm.call(Helper::MapUpdate);
        self.asm.jump(Jump::Eq, Reg::R0, 0, end);
        self.lookup_first(MapUse::Unkept);
        self.unless_found(end);
        self.add(Reg::R0, 0, 1);
        self.asm.bind(end);
        self.asm.mov(Reg::R0, 0);
        self.asm.exit();
        Ok(())
    }

    /// Reads the time that was stored for the key, and removes the entry. If several CPUs find the
    /// entry at the same time, only the CPU that removes it continues.
    pub(super) fn take_first(&mut self, key: &[Part], end: Label) -> Result<(), EmitError> {
        let place = Place::stack(frame::PAIR);
        let latency = Place::stack(frame::LATENCY);
        self.key_at(key, place)?;
        self.lookup(MapUse::Firsts, place);
        self.unless_found(end);
        self.asm.load(Width::B8, Reg::R7, Reg::R0, 0);
        self.asm.call(Helper::KtimeGetNs);
        self.asm.alu(Alu::Sub, Reg::R0, Reg::R7);
        self.asm
            .store(Width::B8, latency.base, latency.offset, Reg::R0);
        self.map(Reg::R1, MapUse::Firsts);
        self.address(Reg::R2, place);
        self.asm.call(Helper::MapDelete);
        self.asm.jump(Jump::Ne, Reg::R0, 0, end);
        Ok(())
    }
}
