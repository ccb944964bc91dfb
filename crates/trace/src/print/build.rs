//! Builds the program: folds constants and resolves jumps.

use crate::format::{EventFormat, Field};

use super::program::{Cast, Op, Table};
use super::value::{Int, Kind, Unary};

/// A program while it is built.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) ops: Vec<Op>,
    /// String literals of the format.
    pub(super) texts: Vec<String>,
    /// Fields that the program reads.
    pub(super) fields: Vec<Field>,
    /// Tables of names.
    pub(super) tables: Vec<Table>,
    /// Names that the format does not resolve.
    pub(super) unresolved: Vec<String>,
    /// Variables of statement expressions; a later one shadows an earlier one with the same name.
    pub(super) variables: Vec<String>,
    /// A jump target: operations before it must not be folded.
    barrier: usize,
}

impl Builder {
    /// Appends an operation and folds it if all operands are constant.
    pub(super) fn push(&mut self, op: Op) {
        let constant = |op: Option<&Op>| match op {
            Some(Op::Int(int)) => Some(*int),
            _ => None,
        };
        let len = self.ops.len();
        let free = len - self.barrier.min(len);
        let last = constant(self.ops.last()).filter(|_| free >= 1);
        let before = constant(self.ops.iter().rev().nth(1)).filter(|_| free >= 2);
        let (popped, result) = match (&op, before, last) {
            (Op::Binary(binary), Some(a), Some(b)) => (2, a.binary(*binary, b)),
            (Op::Unary(unary), _, Some(int)) => (1, Some(int.unary(*unary))),
            (Op::Cast(Cast::Int(kind)), _, Some(int)) => (1, Some(Int::new(int.bits, *kind))),
            (Op::Cast(Cast::Pointer(_) | Cast::Opaque), _, Some(Int { bits: 0, .. })) => {
                (1, Some(Int::new(0, Kind::U64)))
            }
            _ => (0, None),
        };
        match result {
            Some(result) => {
                self.ops.truncate(len - popped);
                self.ops.push(Op::Int(result));
            }
            None => self.ops.push(op),
        }
    }

    /// Appends an operation that cannot be folded, and returns its index for [`Self::land`].
    pub(super) fn push_unfolded(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// Makes the jump at this index continue at the next operation.
    pub(super) fn land(&mut self, place: usize) {
        let here = self.ops.len();
        self.barrier = here;
        match self.ops.get_mut(place) {
            Some(Op::AndThen(to) | Op::OrElse(to) | Op::Jump(to)) => *to = here,
            Some(Op::Branch { end, .. }) => *end = here,
            _ => {}
        }
    }

    /// Makes the `otherwise` path of the branch at this index continue at the next operation.
    pub(super) fn set_otherwise_target(&mut self, place: usize) {
        let here = self.ops.len();
        self.barrier = here;
        if let Some(Op::Branch { otherwise, .. }) = self.ops.get_mut(place) {
            *otherwise = here;
        }
    }

    /// Removes operations that were appended since this length.
    pub(super) fn drop_to(&mut self, len: usize) {
        self.ops.truncate(len);
        self.barrier = self.barrier.min(len);
    }

    /// Removes the operations that were appended since this length. If they were a single constant,
    /// returns its value.
    pub(super) fn take_constant(&mut self, len: usize) -> Option<Int> {
        let found = match self.ops.get(len..) {
            Some([Op::Int(int)]) => Some(*int),
            _ => None,
        };
        self.drop_to(len);
        found
    }

    /// Appends a string literal.
    pub(super) fn text(&mut self, text: String) {
        self.texts.push(text);
        self.push(Op::Text(self.texts.len() - 1));
    }

    /// Appends a number.
    pub(super) fn number(&mut self, value: u64, kind: Kind) {
        self.push(Op::Int(Int::new(value, kind)));
    }

    /// Appends the placeholder of a name that the format does not resolve.
    pub(super) fn unknown(&mut self, name: &str) {
        let index = self.note(name);
        self.push(Op::Unknown(index));
    }

    /// Replaces the structure on top of the stack with the placeholder of one of its members.
    pub(super) fn member(&mut self, name: &str) {
        let index = self.note(name);
        self.push(Op::Member(index));
    }

    /// Records a name that the format does not resolve, and returns its index.
    pub(super) fn note(&mut self, name: &str) -> usize {
        recent(&self.unresolved, name).unwrap_or_else(|| {
            self.unresolved.push(name.to_owned());
            self.unresolved.len() - 1
        })
    }

    /// Returns the index of the variable with this name.
    pub(super) fn variable(&self, name: &str) -> Option<usize> {
        recent(&self.variables, name)
    }

    /// Returns the index of a field of the event.
    pub(super) fn field(&mut self, event: &EventFormat, name: &str) -> Option<usize> {
        if let Some(known) = self.fields.iter().position(|field| field.name == name) {
            return Some(known);
        }
        self.fields.push(event.field(name)?.clone());
        Some(self.fields.len() - 1)
    }

    /// Converts the top of the stack to 0 or 1.
    pub(super) fn truth(&mut self) {
        match self.ops.last() {
            Some(Op::Int(_)) if self.ops.len() > self.barrier => {
                self.push(Op::Unary(Unary::Not));
                self.push(Op::Unary(Unary::Not));
            }
            _ => self.push(Op::Truth),
        }
    }
}

/// Returns the last index of a name. Only the latest 100 names are compared, so that long formats
/// do not take quadratic time. On Linux 6.18 no format has more than 22 names.
fn recent(names: &[String], name: &str) -> Option<usize> {
    let mut latest = names.iter().enumerate().rev().take(100);
    latest
        .find(|(_, known)| *known == name)
        .map(|(index, _)| index)
}
