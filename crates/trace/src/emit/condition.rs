//! Compiles conditions to jumps. The caller chooses whether a jump is taken when the condition is
//! true or when it is false.

use super::{EmitError, Emitter};
use crate::asm::{Alu, Jump, Label, Reg};
use crate::program::{Comparison, Condition, ConditionKind, Number};

impl Emitter {
    /// Jumps to the label if the condition evaluates to `when`; otherwise falls through.
    pub(super) fn branch(
        &mut self,
        condition: &Condition,
        when: bool,
        to: Label,
    ) -> Result<(), EmitError> {
        self.asm.set_origin(Some(condition.span));
        match &condition.kind {
            ConditionKind::Compare {
                how,
                signed,
                left,
                right,
            } => {
                let how = if when { *how } else { inverse(*how) };
                self.compare(jump_of(how, *signed), left, right, to)
            }
            ConditionKind::AnyBit(left, right) => {
                self.pair(left, right)?;
                self.asm.alu(Alu::And, Reg::R7, Reg::R8);
                let jump = if when { Jump::Ne } else { Jump::Eq };
                self.asm.jump(jump, Reg::R7, 0, to);
                Ok(())
            }
            ConditionKind::OneOf(number, all) => self.one_of(number, all, when, to),
            ConditionKind::Equals(text, value) => self.equals(text, value, when, to),
            ConditionKind::Matches(text, glob) => self.matches(text, glob, when, to),
            ConditionKind::Not(inner) => self.branch(inner, !when, to),
            ConditionKind::All(all) => self.several(all, when, false, to),
            ConditionKind::Any(all) => self.several(all, when, true, to),
        }
    }

    /// Combines conditions: the first one that evaluates to `decides` determines the result.
    fn several(
        &mut self,
        all: &[Condition],
        when: bool,
        decides: bool,
        to: Label,
    ) -> Result<(), EmitError> {
        if when == decides {
            return all.iter().try_for_each(|one| self.branch(one, when, to));
        }
        // If no earlier condition determined the result, the last condition does.
        let after = self.asm.label();
        if let Some((last, before)) = all.split_last() {
            for one in before {
                self.branch(one, decides, after)?;
            }
            self.branch(last, when, to)?;
        } else {
            self.always(to);
        }
        self.asm.bind(after);
        Ok(())
    }

    fn one_of(
        &mut self,
        number: &Number,
        all: &[u64],
        when: bool,
        to: Label,
    ) -> Result<(), EmitError> {
        let reg = self.number(number)?;
        let after = self.asm.label();
        for value in all {
            self.asm.constant(Reg::R1, *value);
            let found = if when { to } else { after };
            self.asm.jump(Jump::Eq, reg, Reg::R1, found);
        }
        if !when {
            self.always(to);
        }
        self.asm.bind(after);
        Ok(())
    }

    fn compare(
        &mut self,
        jump: Jump,
        left: &Number,
        right: &Number,
        to: Label,
    ) -> Result<(), EmitError> {
        if let Number::Constant(value) = right
            && let Ok(small) = i32::try_from(value.cast_signed())
        {
            let left = self.number(left)?;
            self.asm.jump(jump, left, small, to);
            return Ok(());
        }
        self.pair(left, right)?;
        self.asm.jump(jump, Reg::R7, Reg::R8, to);
        Ok(())
    }
}

const fn inverse(how: Comparison) -> Comparison {
    match how {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

const fn jump_of(how: Comparison, signed: bool) -> Jump {
    match (how, signed) {
        (Comparison::Equal, _) => Jump::Eq,
        (Comparison::NotEqual, _) => Jump::Ne,
        (Comparison::Less, true) => Jump::Slt,
        (Comparison::Less, false) => Jump::Lt,
        (Comparison::LessOrEqual, true) => Jump::Sle,
        (Comparison::LessOrEqual, false) => Jump::Le,
        (Comparison::Greater, true) => Jump::Sgt,
        (Comparison::Greater, false) => Jump::Gt,
        (Comparison::GreaterOrEqual, true) => Jump::Sge,
        (Comparison::GreaterOrEqual, false) => Jump::Ge,
    }
}
