//! The parser state: the current token and the problems so far.

use super::{MAX_NESTING, MAX_OPERATORS};
use crate::lex::{Lexer, Token};
use crate::source::{Problem, Span};
use crate::tree::{BinaryOp, Expr, ExprKind};

/// The position of an expression. The kernel has a different error message for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// After `if`.
    Filter,
    /// A key, a value, a variable, or a parameter of an action.
    Value,
    /// In `sort`.
    Sort,
}

impl Context {
    /// Returns the error message for a missing expression.
    pub(super) const fn nothing(self) -> &'static str {
        match self {
            Self::Filter => "No filter found",
            Self::Value => "Couldn't find field",
            Self::Sort => "Empty sort field",
        }
    }

    /// Returns the error text for a token that does not start an expression.
    pub(super) const fn no_field(self) -> &'static str {
        match self {
            Self::Filter => "Field not found",
            Self::Value | Self::Sort => "Couldn't find field",
        }
    }

    pub(super) const fn bad_number(self) -> &'static str {
        match self {
            Self::Filter => "Illegal integer value",
            Self::Value | Self::Sort => "Expecting numeric literal",
        }
    }

    pub(super) const fn bad_modifier(self) -> &'static str {
        match self {
            Self::Filter | Self::Value => "Invalid field modifier",
            Self::Sort => "Invalid sort modifier",
        }
    }
}

/// Parses one expression, or a list of them, from a part of a text.
pub(super) struct Parser<'a, 'p> {
    pub(super) lexer: Lexer<'a>,
    /// The current token, not consumed yet.
    pub(super) token: Token<'a>,
    pub(super) span: Span,
    /// The previous token; `End` at the start.
    pub(super) last: Token<'a>,
    pub(super) context: Context,
    nesting: usize,
    operators: usize,
    /// Whether [`Parser::give_up`] was called, so that later problems would only be consequences of
    /// the first.
    gave_up: bool,
    problems: &'p mut Vec<Problem>,
}

impl<'a, 'p> Parser<'a, 'p> {
    pub(super) fn new(
        text: &'a str,
        span: Span,
        context: Context,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        let mut lexer = Lexer::new(text, span);
        let (token, span) = lexer.next();
        Self {
            lexer,
            token,
            span,
            last: Token::End,
            context,
            nesting: 0,
            operators: 0,
            gave_up: false,
            problems,
        }
    }

    /// Consumes the current token.
    pub(super) fn advance(&mut self) -> Span {
        let consumed = self.span;
        self.last = self.token;
        (self.token, self.span) = self.lexer.next();
        consumed
    }

    /// Consumes the current token if it is this one.
    pub(super) fn accept(&mut self, token: Token<'_>) -> Option<Span> {
        (self.token == token).then(|| self.advance())
    }

    /// Reads characters instead of tokens, starting at the current token.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&mut Lexer<'a>) -> T) -> (T, Span) {
        let start = self.span.start;
        self.lexer.go_to(start);
        let read = read(&mut self.lexer);
        let span = Span::new(start, self.lexer.position());
        self.last = self.token;
        (self.token, self.span) = self.lexer.next();
        (read, span)
    }

    pub(super) fn report(&mut self, problem: Problem) {
        if !self.gave_up {
            self.problems.push(problem);
        }
    }

    /// Returns the number of problems, so that callers can detect newly reported ones.
    pub(super) fn reported(&self) -> usize {
        self.problems.len()
    }

    /// Reports a problem at the current token.
    pub(super) fn report_here(&mut self, text: &str) {
        self.report(Problem::new(self.span, text));
    }

    /// Skips the remaining tokens and suppresses further problems.
    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
        self.read(|lexer| lexer.take_while(|_| true).len());
    }

    /// Skips tokens up to the next position where an expression may end or continue.
    pub(super) fn recover(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.token {
                Token::End => return,
                Token::Open | Token::OpenBrace => depth += 1,
                Token::Close | Token::CloseBrace if depth == 0 => return,
                Token::Close | Token::CloseBrace => depth -= 1,
                Token::Comma | Token::Operator(BinaryOp::And | BinaryOp::Or) if depth == 0 => {
                    return;
                }
                _ => {}
            }
            self.advance();
        }
    }

    /// Skips tokens up to this one, outside of parentheses and braces.
    pub(super) fn skip_to(&mut self, close: Token<'_>) {
        loop {
            self.recover();
            if self.token == close || self.token == Token::End {
                return;
            }
            self.advance();
        }
    }

    /// Parses an expression one level deeper, unless that exceeds [`MAX_NESTING`].
    pub(super) fn nested(&mut self, outer: Span, read: impl FnOnce(&mut Self) -> Expr) -> Expr {
        if self.nesting == MAX_NESTING {
            let text = format!("More than {MAX_NESTING} nested levels");
            self.report(Problem::new(outer, text));
            self.give_up();
            return wrong(outer);
        }
        self.nesting += 1;
        let expr = read(self);
        self.nesting -= 1;
        expr
    }

    /// Creates an expression and counts its operator towards [`MAX_OPERATORS`].
    pub(super) fn node(&mut self, kind: ExprKind, span: Span) -> Expr {
        self.operators += 1;
        if self.operators == MAX_OPERATORS + 1 {
            let text = "Too many terms in predicate expression";
            let help = "use `x in {1, 2, 3}`, which has no limit";
            self.report(Problem::new(span, text).with_help(help));
            self.give_up();
        }
        Expr { kind, span }
    }

    /// Resets the operator count: each expression of a list has its own limit.
    pub(super) fn restart_limit(&mut self) {
        self.operators = 0;
    }
}

/// Returns the tree of an invalid part whose problem was reported.
pub(super) const fn wrong(span: Span) -> Expr {
    Expr {
        kind: ExprKind::Wrong,
        span,
    }
}
