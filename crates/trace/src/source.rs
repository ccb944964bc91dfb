//! Places in what the user typed, and what is wrong there.

use std::fmt::Write as _;
use std::ops::Range;

/// Bytes of the source text, as offsets from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
}

impl Span {
    /// From the first byte to before `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The shortest span that has both.
    pub fn to(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// The source, and below it a caret under the place. Control characters of the source are shown as one
    /// `?` each, so that the caret stands where it should.
    pub fn show(self, source: &str) -> String {
        let clean = |c: char| if c.is_control() { '?' } else { c };
        let line: String = source.chars().map(clean).collect();
        let before = source.get(..self.start.min(source.len()));
        let column = before.map_or(0, |text| text.chars().count());
        // A width in the format string would have a limit.
        let blanks = " ".repeat(column);
        format!("  {line}\n  {blanks}^\n")
    }

    /// As the standard library indexes text.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Something with its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// What stands there.
    pub node: T,
    /// Where.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Puts both together.
    pub const fn new(node: T, span: Span) -> Self {
        Self { node, span }
    }
}

/// What is wrong at a place of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place; a caret stands under its first character.
    pub span: Span,
    /// What is wrong: the kernel's own text where the kernel has one.
    pub text: String,
    /// What to try, if anything is near enough to be meant.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without a suggestion.
    pub fn new(span: Span, text: impl Into<String>) -> Self {
        Self {
            span,
            text: text.into(),
            help: None,
        }
    }

    /// The problem with a suggestion.
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// As the kernel's `error_log` shows it: the text, the source, and a caret under the place.
    pub fn show(&self, source: &str) -> String {
        let mut shown = format!("error: {}\n{}", self.text, self.span.show(source));
        if let Some(help) = &self.help {
            // Writing to a string does not fail.
            let _ = writeln!(shown, "help: {help}");
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_character() {
        let problem =
            Problem::new(Span::new(7, 9), "Field not found").with_help("did you mean `pid`?");
        let expected =
            "error: Field not found\n  keys=\u{e9}pdi\n        ^\nhelp: did you mean `pid`?\n";
        assert_eq!(problem.show("keys=\u{e9}pdi"), expected);
    }

    #[test]
    fn a_place_outside_or_between_bytes_is_no_panic() {
        let shown = Problem::new(Span::new(6, 99), "x").show("keys=\u{e9}\n");
        assert_eq!(shown, "error: x\n  keys=\u{e9}?\n  ^\n");
        assert!(
            Problem::new(Span::new(99, 99), "x")
                .show("a")
                .contains("  a\n   ^")
        );
        let long = "x".repeat(100_000);
        assert!(
            Problem::new(Span::new(100_000, 100_000), "x")
                .show(&long)
                .ends_with(" ^\n")
        );
    }
}
