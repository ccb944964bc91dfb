//! Parses the expressions of a print format with C's precedence.

use crate::format::EventFormat;
use crate::source::Problem;

use super::Names;
use super::build::Builder;
use super::lex::{Token, TokenKind, tokens};
use super::program::Op;
use super::value::Binary;

/// Maximum nesting of expressions; parentheses count twice. Linux 6.18 has at most 13 nested
/// parentheses. At this depth, an unoptimized build uses half of a thread's 2 MiB stack.
const MAX_DEPTH: usize = 240;

/// A parser with a position in the format.
pub(super) struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The event whose fields the format refers to.
    pub(super) event: &'a EventFormat,
    /// Looks up constants.
    pub(super) names: Names<'a>,
    /// The program that is being built.
    pub(super) program: Builder,
}

impl<'a> Parser<'a> {
    /// Creates a parser at the start of the event's print format.
    pub(super) fn new(event: &'a EventFormat, names: Names<'a>) -> Result<Self, Problem> {
        Ok(Self {
            source: &event.print,
            tokens: tokens(&event.print)?,
            at: 0,
            depth: 0,
            event,
            names,
            program: Builder::default(),
        })
    }

    /// Returns the token `ahead` positions after the current one.
    pub(super) fn token(&self, ahead: usize) -> &Token {
        // The last token is `End`, which is never skipped.
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + ahead).min(last)]
    }

    /// Skips the current token.
    pub(super) fn advance(&mut self) {
        self.skip(1);
    }

    /// Returns the word at a token, if it is one.
    pub(super) fn word_at(&self, ahead: usize) -> Option<&'a str> {
        let token = self.token(ahead);
        let is_word = token.kind == TokenKind::Word;
        is_word.then(|| &self.source[token.span.range()])
    }

    /// Whether a token is this operator or bracket.
    pub(super) fn is_mark(&self, ahead: usize, mark: &str) -> bool {
        matches!(self.token(ahead).kind, TokenKind::Mark(found) if found == mark)
    }

    /// Whether all tokens were consumed.
    pub(super) fn is_at_end(&self) -> bool {
        self.token(0).kind == TokenKind::End
    }

    /// Consumes this operator or bracket, if it is the current token.
    pub(super) fn accept(&mut self, mark: &str) -> bool {
        let found = self.is_mark(0, mark);
        if found {
            self.advance();
        }
        found
    }

    /// Consumes this operator or bracket, or reports that it is missing.
    pub(super) fn expect(&mut self, mark: &str) -> Result<(), Problem> {
        if self.accept(mark) {
            return Ok(());
        }
        Err(self.wrong(format!("`{mark}` is missing here")))
    }

    /// Consumes a name, or reports that it is missing.
    pub(super) fn expect_word(&mut self) -> Result<&'a str, Problem> {
        let word = self.word_at(0);
        let word = word.ok_or_else(|| self.wrong("a name is missing here"))?;
        self.advance();
        Ok(word)
    }

    /// Creates a problem at the current token.
    pub(super) fn wrong(&self, text: impl Into<String>) -> Problem {
        Problem::new(self.token(0).span, text)
    }

    /// Consumes adjacent string literals and returns them concatenated.
    pub(super) fn text(&mut self) -> Option<String> {
        let mut joined: Option<String> = None;
        while let TokenKind::Text(part) = &self.token(0).kind {
            joined.get_or_insert_default().push_str(part);
            self.advance();
        }
        joined
    }

    /// Skips past the bracket that closes the one just consumed.
    pub(super) fn skip_to_close(&mut self) -> Result<(), Problem> {
        let mut open = 1_usize;
        while open > 0 {
            match self.token(0).kind {
                TokenKind::End => return Err(self.wrong("a bracket is not closed")),
                TokenKind::Mark("(" | "{" | "[") => open += 1,
                TokenKind::Mark(")" | "}" | "]") => open -= 1,
                _ => {}
            }
            self.advance();
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, tokens: usize) {
        self.at = (self.at + tokens).min(self.tokens.len() - 1);
    }

    /// Increments the nesting depth; [`Self::leave`] decrements it.
    pub(super) fn enter(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wrong("the expression is nested too deeply"));
        }
        Ok(())
    }

    /// Decrements the nesting depth.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Parses an expression without top-level commas.
    pub(super) fn expression(&mut self) -> Result<(), Problem> {
        self.enter()?;
        self.binary(0)?;
        if self.accept("?") {
            let branch = self.program.push_unfolded(Op::Branch {
                otherwise: 0,
                end: 0,
            });
            self.expression()?;
            let jump = self.program.push_unfolded(Op::Jump(0));
            self.program.set_otherwise_target(branch);
            self.expect(":")?;
            self.expression()?;
            self.program.land(jump);
            self.program.land(branch);
        }
        self.leave();
        Ok(())
    }

    /// Parses operands and binary operators that bind at least as tightly as `weakest`.
    fn binary(&mut self, weakest: u8) -> Result<(), Problem> {
        self.enter()?;
        self.operand()?;
        while let TokenKind::Mark(mark) = self.token(0).kind {
            let Some((strength, op)) = operator(mark).filter(|(found, _)| *found >= weakest) else {
                break;
            };
            self.advance();
            match op {
                Operator::Plain(op) => {
                    self.binary(strength + 1)?;
                    self.program.push(Op::Binary(op));
                }
                Operator::And | Operator::Or => self.logical(op, strength)?,
            }
        }
        self.leave();
        Ok(())
    }

    fn logical(&mut self, op: Operator, strength: u8) -> Result<(), Problem> {
        let jump = match op {
            Operator::And => Op::AndThen(0),
            _ => Op::OrElse(0),
        };
        let place = self.program.push_unfolded(jump);
        self.binary(strength + 1)?;
        self.program.truth();
        self.program.land(place);
        Ok(())
    }
}

/// Operators between two operands.
#[derive(Clone, Copy)]
enum Operator {
    Plain(Binary),
    And,
    Or,
}

/// Returns a binary operator and its precedence.
fn operator(mark: &str) -> Option<(u8, Operator)> {
    use Operator::Plain;
    Some(match mark {
        "||" => (1, Operator::Or),
        "&&" => (2, Operator::And),
        "|" => (3, Plain(Binary::Or)),
        "^" => (4, Plain(Binary::Xor)),
        "&" => (5, Plain(Binary::And)),
        "==" => (6, Plain(Binary::Equal)),
        "!=" => (6, Plain(Binary::NotEqual)),
        "<" => (7, Plain(Binary::Less)),
        "<=" => (7, Plain(Binary::LessOrEqual)),
        ">" => (7, Plain(Binary::Greater)),
        ">=" => (7, Plain(Binary::GreaterOrEqual)),
        "<<" => (8, Plain(Binary::ShiftLeft)),
        ">>" => (8, Plain(Binary::ShiftRight)),
        "+" => (9, Plain(Binary::Add)),
        "-" => (9, Plain(Binary::Subtract)),
        "*" => (10, Plain(Binary::Multiply)),
        "/" => (10, Plain(Binary::Divide)),
        "%" => (10, Plain(Binary::Remainder)),
        _ => return None,
    })
}
