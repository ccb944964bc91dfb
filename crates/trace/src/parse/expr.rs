//! Parses expressions: operators and their operands.

use super::number;
use super::parser::{Parser, wrong};
use crate::lex::Token;
use crate::operator::Level;
use crate::source::{Problem, Span, Spanned};
use crate::tree::{BinaryOp, Expr, ExprKind, Modifier, UnaryOp};

/// The kernel's error text for an invalid operand.
pub(super) const INVALID_VALUE: &str = "Invalid value (did you forget quotes)?";
pub(super) const INVALID_OPERATOR: &str = "Invalid operator";
pub(super) const TOO_MANY_TERMS: &str = "Too many terms in predicate expression";

/// An operator between two operands.
#[derive(Clone, Copy)]
enum Infix {
    Operator(BinaryOp),
    In,
}

impl Infix {
    fn level(self) -> Level {
        match self {
            Self::Operator(op) => op.level(),
            Self::In => Level::Compare,
        }
    }
}

impl Parser<'_, '_> {
    /// Parses a whole filter: an expression that is true or false.
    pub(super) fn condition(&mut self) -> Expr {
        let before = self.reported();
        let expr = self.expression();
        self.require_condition(&expr, before);
        expr
    }

    /// Parses any expression.
    pub(super) fn expression(&mut self) -> Expr {
        self.binary(Level::Or)
    }

    /// Reports text that remains after a complete expression.
    pub(super) fn finish(&mut self) {
        match self.token {
            Token::End => {}
            Token::Close => self.report_here("Too few '('"),
            Token::CloseBrace => self.report_here("Missing '{'"),
            _ => {
                let problem = Problem::new(self.span, TOO_MANY_TERMS);
                self.report(problem.with_help("join conditions with `&&`"));
            }
        }
    }

    /// Parses an expression whose operators bind at least as tightly as `least`.
    pub(super) fn binary(&mut self, least: Level) -> Expr {
        let before = self.reported();
        let mut left = if least <= Level::Not && self.at_negation() {
            self.negation()
        } else {
            self.prefix()
        };
        let mut compared = false;
        while let Some(infix) = self.infix(&left, least) {
            let comparison = infix.level() == Level::Compare;
            if compared && comparison {
                let problem = Problem::new(self.span, TOO_MANY_TERMS);
                self.report(problem.with_help("use `a < b && b < c`"));
            }
            compared = comparison;
            left = match infix {
                Infix::Operator(op) => {
                    if op.is_logical() {
                        self.require_condition(&left, before);
                    }
                    self.with_right_side(left, op)
                }
                Infix::In => self.in_list(left),
            };
        }
        left
    }

    /// Returns the operator at the current token, if it binds at least as tightly as `least`.
    /// Reports and skips tokens that are not operators.
    fn infix(&mut self, left: &Expr, least: Level) -> Option<Infix> {
        loop {
            let (infix, help) = match self.token {
                Token::Operator(op) => (Infix::Operator(op), None),
                Token::Word("in") => (Infix::In, None),
                Token::Assign => (
                    Infix::Operator(BinaryOp::Equal),
                    Some("use `==` to compare"),
                ),
                Token::Foreign => {
                    let help = "use `x ~ \"glob*\"` or `!(x ~ \"glob*\")`";
                    (Infix::Operator(BinaryOp::Matches), Some(help))
                }
                Token::Word("and" | "AND") => (Infix::Operator(BinaryOp::And), Some("use `&&`")),
                Token::Word("or" | "OR") => (Infix::Operator(BinaryOp::Or), Some("use `||`")),
                Token::End | Token::Comma | Token::Close | Token::CloseBrace => return None,
                _ if least > Level::Not => return None,
                _ => {
                    self.report_here(not_an_operator(left));
                    self.recover();
                    continue;
                }
            };
            if infix.level() < least {
                return None;
            }
            if let Some(help) = help {
                let problem = Problem::new(self.span, not_an_operator(left));
                self.report(problem.with_help(help));
            }
            return Some(infix);
        }
    }

    /// Parses the rest of a binary operation. The current token is the operator.
    fn with_right_side(&mut self, left: Expr, op: BinaryOp) -> Expr {
        let op = Spanned::new(op, self.advance());
        let before = self.reported();
        let right = match op.node {
            BinaryOp::Matches => self.pattern(),
            BinaryOp::Equal | BinaryOp::NotEqual if is_function(&left) => self.function_name(),
            other => self.binary(other.level().tighter()),
        };
        if op.node.is_logical() {
            self.require_condition(&right, before);
        }
        let span = left.span.to(right.span);
        self.node(ExprKind::Binary(op, left.into(), right.into()), span)
    }

    /// Parses `in {a, b}`. The current token is `in`.
    fn in_list(&mut self, left: Expr) -> Expr {
        self.advance();
        let open = self.accept(Token::OpenBrace);
        if open.is_none() {
            let problem = Problem::new(self.span, "Missing '{'");
            self.report(problem.with_help("use `x in {1, 2}`"));
            if matches!(self.token, Token::End | Token::Close | Token::Comma) {
                return wrong(left.span);
            }
        }
        let of_functions = is_function(&left);
        let mut elements = Vec::new();
        let mut span = left.span;
        loop {
            let before = self.reported();
            let element = match of_functions {
                true => self.function_name(),
                false => self.binary(Level::BitOr),
            };
            span = span.to(element.span);
            elements.push(element);
            if self.accept(Token::Comma).is_some() {
                continue;
            }
            if let Some(open) = open.filter(|_| self.token != Token::CloseBrace) {
                self.unclosed_list(open, before);
            }
            if let Some(close) = self.accept(Token::CloseBrace) {
                span = span.to(close);
            }
            break;
        }
        self.node(ExprKind::In(left.into(), elements), span)
    }

    /// Reports a list element that is not followed by `,` or `}`, unless another problem in it was
    /// reported.
    fn unclosed_list(&mut self, open: Span, before: usize) {
        if self.reported() > before {
            self.skip_to(Token::CloseBrace);
        } else if matches!(self.token, Token::End | Token::Close) {
            self.report(Problem::new(open, "Missing '}'"));
        } else {
            let problem = Problem::new(self.span, INVALID_VALUE);
            self.report(problem.with_help("separate values with `,`"));
            self.skip_to(Token::CloseBrace);
        }
    }

    /// Whether the current token is `!`, or `not` in front of an operand.
    fn at_negation(&mut self) -> bool {
        let means_not = self.token == Token::Word("not")
            && match self.lexer.clone().next().0 {
                Token::Word(word) => !["in", "and", "or", "AND", "OR"].contains(&word),
                Token::Open => true,
                _ => false,
            };
        if means_not {
            let problem = Problem::new(self.span, INVALID_OPERATOR);
            self.report(problem.with_help("use `!`"));
        }
        means_not || self.token == Token::Not
    }

    /// Parses `!` and its operand, which is the whole comparison, as in the kernel.
    fn negation(&mut self) -> Expr {
        let not = self.advance();
        let before = self.reported();
        let condition = self.nested(not, |parser| parser.binary(Level::Not));
        self.require_condition(&condition, before);
        let span = not.to(condition.span);
        self.node(ExprKind::Unary(UnaryOp::Not, condition.into()), span)
    }

    /// Parses `-x`, `~x`, `x`, or the number `-1`.
    fn prefix(&mut self) -> Expr {
        let op = match self.token {
            Token::Operator(BinaryOp::Minus) => {
                if self.lexer.rest().starts_with(|c: char| c.is_ascii_digit()) {
                    return self.negative_number();
                }
                UnaryOp::Minus
            }
            Token::Operator(BinaryOp::Matches) => UnaryOp::Complement,
            Token::Not => {
                let problem = Problem::new(self.span, INVALID_VALUE);
                self.report(problem.with_help("use `!(a == b)`, or `~a` for bits"));
                UnaryOp::Not
            }
            _ => {
                let operand = self.operand();
                return self.modified(operand);
            }
        };
        let place = self.advance();
        let operand = self.nested(place, Self::prefix);
        let span = place.to(operand.span);
        self.node(ExprKind::Unary(op, operand.into()), span)
    }

    /// Parses a negative number. The current token is the minus.
    fn negative_number(&mut self) -> Expr {
        let minus = self.advance();
        let Token::Digits(digits) = self.token else {
            return wrong(minus);
        };
        let span = minus.to(self.advance());
        let number = match number::negative(digits) {
            Some(number) => Expr {
                kind: ExprKind::Number(number),
                span,
            },
            None => {
                self.report(Problem::new(span, self.context.bad_number()));
                wrong(span)
            }
        };
        self.modified(number)
    }

    /// Reports an expression that is not a condition, unless another problem in it was reported. As
    /// in the kernel, a field alone is not a condition, but `a & b` is.
    fn require_condition(&mut self, expr: &Expr, before: usize) {
        let is_condition = match &expr.kind {
            ExprKind::Binary(op, ..) => {
                op.node.is_logical() || op.node.is_comparison() || op.node == BinaryOp::BitAnd
            }
            ExprKind::In(..) | ExprKind::Unary(UnaryOp::Not, _) | ExprKind::Wrong => true,
            _ => false,
        };
        if !is_condition && self.reported() == before {
            let behind = Span::new(expr.span.end, expr.span.end);
            let problem = Problem::new(behind, INVALID_OPERATOR);
            self.report(problem.with_help("compare with a value, as in `pid != 0`"));
        }
    }
}

/// Returns the kernel's error text for a wrong token after an operand. The kernel expects an
/// operator after a field, and no further text after a comparison.
fn not_an_operator(left: &Expr) -> &'static str {
    match left.kind {
        ExprKind::Binary(..) | ExprKind::In(..) | ExprKind::Unary(..) => TOO_MANY_TERMS,
        _ => INVALID_OPERATOR,
    }
}

/// Whether the expression is `x.function`. If so, the right side is a function name.
fn is_function(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Modified(_, modifier) if modifier.node == Modifier::Function)
}
