//! Scans a line from left to right.

use crate::source::{Problem, Span};

/// A position in a line.
#[derive(Clone, Debug)]
pub(super) struct Scan<'a> {
    line: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, Problem>;

impl<'a> Scan<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    /// Skips whitespace and returns the position of the next character.
    pub(super) fn skip_spaces(&mut self) -> usize {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    pub(super) fn wrong<T>(&mut self, text: impl Into<String>) -> Parsed<T> {
        let at = self.skip_spaces();
        Err(Problem::new(Span::new(at, at), text))
    }

    pub(super) fn is_over(&mut self) -> bool {
        self.skip_spaces() == self.line.len()
    }

    /// Consumes the text, if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        self.skip_spaces();
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    pub(super) fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) {
            return Ok(());
        }
        self.wrong(format!("expected `{text}`"))
    }

    /// Consumes matching characters, possibly none.
    pub(super) fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Consumes letters, digits and `_`. Returns them with their span.
    pub(super) fn word(&mut self) -> (&'a str, Span) {
        let start = self.skip_spaces();
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        (word, Span::new(start, self.at))
    }

    /// Parses an optionally signed number, decimal or hexadecimal. Returns `None` if no number
    /// follows.
    pub(super) fn number(&mut self) -> Option<i128> {
        let before = self.at;
        self.skip_spaces();
        let below = match self.rest().as_bytes().first() {
            Some(b'-') => {
                self.at += 1;
                true
            }
            Some(b'+') => {
                self.at += 1;
                false
            }
            _ => false,
        };
        let (word, _) = self.word();
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse::<u64>().ok(),
        };
        let Some(number) = number else {
            self.at = before;
            return None;
        };
        let number = i128::from(number);
        Some(if below { -number } else { number })
    }

    /// Parses a register: `r0` to `r10`, or `w0` to `w10` for its lower half. Returns the letter
    /// and the number.
    pub(super) fn register(&mut self) -> Option<(char, u8)> {
        let before = self.at;
        let (word, _) = self.word();
        let found = word.split_at_checked(1).and_then(|(letter, number)| {
            let letter = letter.chars().next().filter(|c| "rw".contains(*c))?;
            let plain = number.len() == 1 || number == "10";
            let number = number.parse().ok().filter(|n| plain && *n <= 10)?;
            Some((letter, number))
        });
        if found.is_none() {
            self.at = before;
        }
        found
    }

    /// Consumes the longest matching operator.
    pub(super) fn sign<T: Copy>(&mut self, all: &[(&str, T)]) -> Option<T> {
        self.skip_spaces();
        let fitting = all.iter().filter(|(sign, _)| self.rest().starts_with(sign));
        let (sign, what) = fitting.max_by_key(|(sign, _)| sign.len())?;
        self.at += sign.len();
        Some(*what)
    }
}
