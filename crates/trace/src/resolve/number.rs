//! Resolves numbers: constants, fields and arithmetic.

use super::Resolver;
use super::field::{Meaning, Typed};
use super::hist::{is_time, microseconds};
use crate::program::{Number, Operator};
use crate::source::Span;
use crate::tree::{BinaryOp, Expr, ExprKind, Modifier, UnaryOp};

impl Resolver<'_> {
    /// Resolves an expression to a number.
    pub(super) fn number(&mut self, expr: &Expr) -> Option<Typed> {
        match &expr.kind {
            ExprKind::Number(value) => self.constant(*value, expr.span),
            ExprKind::Name(name) => match self.name(name, expr.span)? {
                Meaning::Number(typed) => Some(typed),
                Meaning::Text(_)
                | Meaning::Owner(..)
                | Meaning::Address { .. }
                | Meaning::CpuMask { .. } => self.wrong(expr.span, "Expecting numeric field"),
            },
            ExprKind::Unary(UnaryOp::Minus, inner) => {
                let inner = self.operand_number(inner)?;
                let zero = Number::Constant(0);
                Some(Typed::wide(fold(Operator::Minus, zero, inner.number), true))
            }
            ExprKind::Unary(UnaryOp::Complement, inner) => {
                let inner = self.operand_number(inner)?;
                let ones = Number::Constant(u64::MAX);
                let number = fold(Operator::Xor, inner.number, ones);
                Some(Typed::wide(number, inner.signed))
            }
            ExprKind::Binary(op, left, right) => {
                let Some(operator) = operator(op.node) else {
                    return self.wrong(op.span, "Invalid operator");
                };
                let (left, divisor) = (self.operand_number(left), right.span);
                let (left, right) = (left?, self.operand_number(right)?);
                let divides = matches!(operator, Operator::Divided | Operator::Remainder);
                if divides && right.number == Number::Constant(0) {
                    return self.wrong(divisor, "Division by zero");
                }
                let signed = left.signed || right.signed;
                let (operator, signed) = match operator {
                    _ if !self.in_filter => (operator, signed),
                    Operator::Minus => (operator, true),
                    Operator::Divided if signed => (Operator::SignedDivided, true),
                    Operator::Remainder if signed => (Operator::SignedRemainder, true),
                    Operator::ShiftRight if left.signed => (Operator::SignedShiftRight, true),
                    _ => (operator, signed),
                };
                Some(Typed::wide(
                    fold(operator, left.number, right.number),
                    signed,
                ))
            }
            ExprKind::Text(_) => self.wrong(expr.span, "Expecting numeric field"),
            ExprKind::Variable(name) => self.variable(name, expr.span, false),
            ExprKind::Modified(inner, modifier)
                if modifier.node == Modifier::Microseconds && is_time(inner) =>
            {
                let typed = self.number(inner)?;
                Some(Typed::wide(microseconds(typed.number), false))
            }
            ExprKind::Modified(_, modifier) => {
                self.wrong(modifier.span, "Illegal operation for field type")
            }
            ExprKind::Unary(UnaryOp::Not, _) | ExprKind::Cpus(_) | ExprKind::In(..) => {
                self.wrong(expr.span, "Illegal integer value")
            }
            // The parser has already reported a problem in this part.
            ExprKind::Wrong => None,
        }
    }

    /// Resolves an operand of an operator. As an operand, a variable can be read only once.
    fn operand_number(&mut self, expr: &Expr) -> Option<Typed> {
        match &expr.kind {
            ExprKind::Variable(name) => self.variable(name, expr.span, true),
            _ => self.number(expr),
        }
    }

    /// Resolves a constant. Negative numbers are in two's complement.
    fn constant(&mut self, value: i128, span: Span) -> Option<Typed> {
        let unsigned = u64::try_from(value);
        let number = unsigned.or_else(|_| i64::try_from(value).map(i64::cast_unsigned));
        match number {
            Ok(number) => Some(Typed::wide(Number::Constant(number), value < 0)),
            Err(_) => self.wrong(span, "Illegal integer value"),
        }
    }
}

const fn operator(op: BinaryOp) -> Option<Operator> {
    Some(match op {
        BinaryOp::Plus => Operator::Plus,
        BinaryOp::Minus => Operator::Minus,
        BinaryOp::Times => Operator::Times,
        BinaryOp::Divided => Operator::Divided,
        BinaryOp::Remainder => Operator::Remainder,
        BinaryOp::BitAnd => Operator::And,
        BinaryOp::BitOr => Operator::Or,
        BinaryOp::BitXor => Operator::Xor,
        BinaryOp::ShiftLeft => Operator::ShiftLeft,
        BinaryOp::ShiftRight => Operator::ShiftRight,
        _ => return None,
    })
}

/// Applies an operator, at compile time if both operands are constant.
pub(super) fn fold(operator: Operator, left: Number, right: Number) -> Number {
    let (Number::Constant(a), Number::Constant(b)) = (&left, &right) else {
        return Number::Binary(operator, Box::new(left), Box::new(right));
    };
    let (a, b) = (*a, *b);
    Number::Constant(match operator {
        Operator::Plus => a.wrapping_add(b),
        Operator::Minus => a.wrapping_sub(b),
        Operator::Times => a.wrapping_mul(b),
        Operator::Divided => a.checked_div(b).unwrap_or(u64::MAX),
        Operator::Remainder => a.checked_rem(b).unwrap_or(u64::MAX),
        Operator::And => a & b,
        Operator::Or => a | b,
        Operator::Xor => a ^ b,
        // Only the low six bits count, as at run time.
        Operator::ShiftLeft => a << (b & 63),
        Operator::ShiftRight => a >> (b & 63),
        Operator::SignedDivided | Operator::SignedRemainder if b == 0 => u64::MAX,
        Operator::SignedDivided => a
            .cast_signed()
            .wrapping_div(b.cast_signed())
            .cast_unsigned(),
        Operator::SignedRemainder => a
            .cast_signed()
            .wrapping_rem(b.cast_signed())
            .cast_unsigned(),
        Operator::SignedShiftRight => (a.cast_signed() >> (b & 63)).cast_unsigned(),
    })
}
