//! Events that pause or resume other tables.

use super::{EmitError, Emitter, Label, MapUse, Reg, Width, first_map};
use crate::asm::{Alu, Jump};
use crate::program::{Program, Switch};

impl Emitter {
    /// Compiles the whole program. Expects the scratch memory in R9, if the program uses it.
    pub(super) fn switch(
        &mut self,
        program: &Program,
        switch: &Switch,
        end: Label,
    ) -> Result<(), EmitError> {
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.set_origin(None);
        if switch.count.is_some() {
            // The event's own entry holds the number of times it may still act.
            self.lookup_first(MapUse::Paused);
            self.unless_found(end);
            self.asm.load(Width::B8, Reg::R1, Reg::R0, 0);
            self.asm.jump(Jump::Eq, Reg::R1, 0, end);
            // If several CPUs execute this at the same time, the event can act more often than
            // `count`, as in the kernel.
            self.asm.alu(Alu::Sub, Reg::R1, 1);
            self.asm.store(Width::B8, Reg::R0, 0, Reg::R1);
        }
        let own = self.first_map;
        for table in &switch.tables {
            self.first_map = first_map(*table);
            self.lookup_first(MapUse::Paused);
            self.unless_found(end);
            self.asm.store(Width::B8, Reg::R0, 0, i32::from(!switch.on));
        }
        self.first_map = own;
        Ok(())
    }
}
