//! Spellings and precedence of operators.
//!
//! From the lowest precedence to the highest:
//!
//! | operators | |
//! |---|---|
//! | `\|\|` | |
//! | `&&` | |
//! | `!` | in front of a condition |
//! | `== != < <= > >= ~ in` | one of them, not in a row |
//! | `\|` | |
//! | `^` | |
//! | `&` | |
//! | `<< >>` | |
//! | `+ -` | |
//! | `* / %` | |
//! | `- ~` | in front of an operand |
//! | `.modifier` | |
//!
//! Every filter that the kernel accepts keeps its meaning. In the kernel, a predicate is `FIELD OP
//! VALUE`, and `&` is one of the operators. So `prev_state & 3 && prev_pid > 1` has two predicates.
//! `!` negates the following predicate or parenthesis: `!prev_pid > 3` is `!(prev_pid > 3)`. `&&`
//! binds tighter than `||`. The other operators do not exist in the kernel's filters. These
//! operators have the same precedence as in Rust: `a & b == c` is `(a & b) == c`. In values the
//! kernel has `+ - * /`, with the same precedence.

use std::fmt;

use crate::tree::BinaryOp;

/// Operator precedence: an operator with a higher level binds more tightly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Or,
    And,
    Not,
    Compare,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Prefix,
    Operand,
}

impl Level {
    /// Returns the next higher level.
    pub(crate) const fn tighter(self) -> Self {
        match self {
            Self::Or => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Compare,
            Self::Compare => Self::BitOr,
            Self::BitOr => Self::BitXor,
            Self::BitXor => Self::BitAnd,
            Self::BitAnd => Self::Shift,
            Self::Shift => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product => Self::Prefix,
            Self::Prefix | Self::Operand => Self::Operand,
        }
    }
}

impl BinaryOp {
    /// Returns the text of the operator.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Matches => "~",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::BitAnd => "&",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divided => "/",
            Self::Remainder => "%",
        }
    }

    /// Returns the precedence.
    pub(crate) const fn level(self) -> Level {
        match self {
            Self::Or => Level::Or,
            Self::And => Level::And,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::Matches => Level::Compare,
            Self::BitOr => Level::BitOr,
            Self::BitXor => Level::BitXor,
            Self::BitAnd => Level::BitAnd,
            Self::ShiftLeft | Self::ShiftRight => Level::Shift,
            Self::Plus | Self::Minus => Level::Sum,
            Self::Times | Self::Divided | Self::Remainder => Level::Product,
        }
    }

    /// Whether the operator is `&&` or `||`, whose operands are conditions.
    pub(crate) fn is_logical(self) -> bool {
        self.level() < Level::Not
    }

    /// Whether the operator compares two values.
    pub(crate) fn is_comparison(self) -> bool {
        self.level() == Level::Compare
    }
}

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}
