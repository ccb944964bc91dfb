//! An event that turns tables of others on or off.

use super::{EmitError, Emitter, Label, MapUse, Reg, Width, first_map};
use crate::asm::{Alu, Jump};
use crate::program::{Program, Switch};

impl Emitter {
    /// All of the program. R9: the memory, if it is used.
    pub(super) fn switch(
        &mut self,
        program: &Program,
        switch: &Switch,
        end: Label,
    ) -> Result<(), EmitError> {
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.at(None);
        if switch.count.is_some() {
            // Its own state is how often it may do so.
            self.lookup_first(MapUse::Paused);
            self.unless_found(end);
            self.asm.load(Width::B8, Reg::R1, Reg::R0, 0);
            self.asm.jump(Jump::Eq, Reg::R1, 0, end);
            // On several CPUs at once it can be used more often, as the kernel's.
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
