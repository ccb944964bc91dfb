//! Source positions and the problems at them.

use std::fmt::Write as _;
use std::ops::Range;

/// A range of bytes in the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    /// Position after the last byte.
    pub end: usize,
}

impl Span {
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Returns the shortest span that covers both spans.
    pub fn to(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Shows the source with a caret below the start of the span. Each control character is shown
    /// as `?`, so that the caret is aligned.
    pub fn show(self, source: &str) -> String {
        let clean = |c: char| if c.is_control() { '?' } else { c };
        let line: String = source.chars().map(clean).collect();
        let before = source.get(..self.start.min(source.len()));
        let column = before.map_or(0, |text| text.chars().count());
        // The width in a format string is limited, but the length of a repeated string is not.
        let blanks = " ".repeat(column);
        format!("  {line}\n  {blanks}^\n")
    }

    /// Returns the span as a range for indexing.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A node with its span in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub node: T,
    pub span: Span,
}

impl<T> Spanned<T> {
    pub const fn new(node: T, span: Span) -> Self {
        Self { node, span }
    }
}

/// A problem in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Position of the problem. The caret is shown below the first character.
    pub span: Span,
    /// Description: the kernel's own text, if the kernel has one.
    pub text: String,
    /// A suggestion, if there is a likely one.
    pub help: Option<String>,
}

impl Problem {
    /// Creates a problem without a suggestion.
    pub fn new(span: Span, text: impl Into<String>) -> Self {
        Self {
            span,
            text: text.into(),
            help: None,
        }
    }

    /// Adds a suggestion.
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// Formats the problem like the kernel's `error_log`: the text, the source, and a caret below
    /// the position.
    pub fn show(&self, source: &str) -> String {
        let mut shown = format!("error: {}\n{}", self.text, self.span.show(source));
        if let Some(help) = &self.help {
            // Writing to a `String` cannot fail.
            let _ = writeln!(shown, "help: {help}");
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_character() {
        let problem =
            Problem::new(Span::new(7, 9), "Field not found").with_help("did you mean `pid`?");
        let expected =
            "error: Field not found\n  keys=\u{e9}pdi\n        ^\nhelp: did you mean `pid`?\n";
        assert_eq!(problem.show("keys=\u{e9}pdi"), expected);
    }

    #[test]
    fn positions_outside_the_source_do_not_panic() {
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
