//! Parses operands of a print format: fields, constants, calls and parentheses, with their prefixes
//! and casts.

use crate::source::Problem;

use super::lex::TokenKind;
use super::parse::Parser;
use super::program::{Cast, Op};
use super::types;
use super::value::{Int, Kind, Unary};

/// A prefix operator.
enum Prefix {
    Unary(Unary),
    Cast(Cast),
    Dereference,
    Address,
}

impl<'a> Parser<'a> {
    /// Parses prefix operators and casts, their operand, and postfix operators.
    pub(super) fn operand(&mut self) -> Result<(), Problem> {
        let mut prefixes = Vec::new();
        while let Some(prefix) = self.prefix()? {
            prefixes.push(prefix);
        }
        self.primary()?;
        self.postfix()?;
        for prefix in prefixes.into_iter().rev() {
            match prefix {
                Prefix::Unary(op) => self.program.push(Op::Unary(op)),
                Prefix::Cast(cast) => self.program.push(Op::Cast(cast)),
                // Taking the address changes nothing, because an array already decays to its
                // address.
                Prefix::Address => {}
                Prefix::Dereference => {
                    self.program.number(0, Kind::I32);
                    self.program.push(Op::Index);
                }
            }
        }
        Ok(())
    }

    fn prefix(&mut self) -> Result<Option<Prefix>, Problem> {
        let TokenKind::Mark(mark) = self.token(0).kind else {
            return Ok(None);
        };
        let prefix = match mark {
            "!" => Prefix::Unary(Unary::Not),
            "~" => Prefix::Unary(Unary::Complement),
            "-" => Prefix::Unary(Unary::Minus),
            "+" => Prefix::Unary(Unary::Plus),
            "*" => Prefix::Dereference,
            "&" => Prefix::Address,
            "(" => return Ok(self.cast()?.map(Prefix::Cast)),
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(prefix))
    }

    /// Parses the words and stars of a type in parentheses. Returns them with the number of tokens.
    /// The current token is the opening parenthesis.
    fn type_name(&self) -> Option<(Vec<&'a str>, usize, usize)> {
        let mut ahead = 1;
        let mut words = Vec::new();
        while let Some(word) = self.word_at(ahead) {
            words.push(word);
            ahead += 1;
        }
        let mut stars = 0;
        while self.is_mark(ahead, "*") || (stars > 0 && self.word_at(ahead) == Some("const")) {
            stars += usize::from(self.is_mark(ahead, "*"));
            ahead += 1;
        }
        let is_type = !words.is_empty() && words[0] != "REC" && self.is_mark(ahead, ")");
        is_type.then_some((words, stars, ahead + 1))
    }

    /// Parses a cast, if there is one. `(NAME)` is a cast if the next token can start an operand
    /// but cannot follow a value.
    fn cast(&mut self) -> Result<Option<Cast>, Problem> {
        let Some((words, stars, length)) = self.type_name() else {
            return Ok(None);
        };
        let operand_follows = match &self.token(length).kind {
            TokenKind::Word | TokenKind::Number(_) | TokenKind::Text(_) => true,
            TokenKind::Mark(mark) => matches!(*mark, "(" | "!" | "~"),
            TokenKind::End => false,
        };
        if stars == 0 && !types::is_known(&words) && !operand_follows {
            return Ok(None);
        }
        let unknown = Cast::Int(Kind::U64);
        let is_struct = matches!(words[0], "struct" | "union");
        let found = types::cast(&words, stars, self.event);
        let cast = match found {
            None if is_struct => return Err(self.wrong("casts to a structure are not supported")),
            found => found.unwrap_or(unknown),
        };
        self.skip(length);
        Ok(Some(cast))
    }

    fn primary(&mut self) -> Result<(), Problem> {
        if let Some(text) = self.text() {
            self.program.text(text);
            return Ok(());
        }
        if let TokenKind::Number(number) = self.token(0).kind {
            self.advance();
            self.program.push(Op::Int(number));
            return Ok(());
        }
        if self.is_mark(0, "(") && self.word_at(1) == Some("REC") && self.is_mark(2, ")") {
            self.skip(3);
            self.expect("->")?;
            return self.field();
        }
        if self.accept("(") {
            let inside = if self.accept("{") {
                Self::statements
            } else {
                Self::expression
            };
            inside(self)?;
            return self.expect(")");
        }
        let Some(word) = self.word_at(0) else {
            return Err(self.wrong("a value is missing here"));
        };
        self.advance();
        match word {
            "REC" if self.accept("->") => self.field(),
            "sizeof" => self.size_of(),
            _ if self.accept("(") => self.call(word),
            _ => {
                self.constant(word);
                Ok(())
            }
        }
    }

    fn field(&mut self) -> Result<(), Problem> {
        let name = self.expect_word()?;
        match self.program.field(self.event, name) {
            Some(index) => self.program.push(Op::Field(index)),
            None => self.program.unknown(name),
        }
        Ok(())
    }

    fn constant(&mut self, name: &str) {
        if let Some(slot) = self.program.variable(name) {
            return self.program.push(Op::Load(slot));
        }
        let value = match name {
            "NULL" | "false" => Some(0),
            "true" => Some(1),
            _ => (self.names)(name),
        };
        match value {
            Some(value) => self.program.push(Op::Int(Int::constant(value))),
            None => self.program.unknown(name),
        }
    }

    fn size_of(&mut self) -> Result<(), Problem> {
        let found = self.is_mark(0, "(").then(|| self.type_name()).flatten();
        let (words, stars, length) = found.ok_or_else(|| self.wrong("a type is missing here"))?;
        let size = match types::cast(&words, stars, self.event) {
            Some(Cast::Int(kind)) => Some(kind.size),
            Some(Cast::Bool) => Some(1),
            Some(Cast::Pointer(_) | Cast::Opaque) => Some(8),
            None => None,
        };
        self.skip(length);
        match size {
            Some(size) => self.program.number(u64::from(size), Kind::U64),
            None => self
                .program
                .unknown(&format!("sizeof({})", words.join(" "))),
        }
        Ok(())
    }

    /// Parses a statement expression, the expansion of macros like `min()`: `({ int x = 1; int y =
    /// 2; x < y ? x : y; })`. Starts after the opening parenthesis and brace, and stops before the
    /// closing parenthesis.
    fn statements(&mut self) -> Result<(), Problem> {
        self.enter()?;
        while let Some((name, cast)) = self.declaration() {
            self.expression()?;
            self.expect(";")?;
            if let Some(cast) = cast {
                self.program.push(Op::Cast(cast));
            }
            self.program.variables.push(name.to_owned());
            let slot = self.program.variables.len() - 1;
            self.program.push(Op::Store(slot));
        }
        self.expression()?;
        self.expect(";")?;
        self.leave();
        self.expect("}")
    }

    /// Parses `TYPE NAME =`. Returns the name and the type that the value is converted to.
    fn declaration(&mut self) -> Option<(&'a str, Option<Cast>)> {
        let words: Vec<&str> = (0..).map_while(|ahead| self.word_at(ahead)).collect();
        let (name, declared) = words.split_last()?;
        if declared.is_empty() || !self.is_mark(words.len(), "=") {
            return None;
        }
        self.skip(words.len() + 1);
        Some((name, types::cast(declared, 0, self.event)))
    }

    /// Parses subscripts and member accesses. Members of anything but the record are unknown.
    fn postfix(&mut self) -> Result<(), Problem> {
        loop {
            if self.accept("[") {
                self.expression()?;
                self.expect("]")?;
                self.program.push(Op::Index);
            } else if self.is_mark(0, "->") || self.is_mark(0, ".") {
                self.advance();
                let member = self.expect_word()?;
                self.program.member(member);
            } else {
                return Ok(());
            }
        }
    }
}
