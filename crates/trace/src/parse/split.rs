//! Splits a command: the filter after `if`, and the parts between colons.

use crate::lex::is_space;
use crate::source::Span;

/// Iterates over the characters outside of quotes, with their positions. An unmatched quote is an
/// ordinary character.
struct OutsideQuotes<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> OutsideQuotes<'a> {
    fn new(text: &'a str, span: Span) -> Self {
        Self {
            text: text.get(..span.end).unwrap_or(text),
            at: span.start,
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

impl Iterator for OutsideQuotes<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let c = self.rest().chars().next()?;
            self.at += c.len_utf8();
            if !matches!(c, '"' | '\'') {
                return Some((at, c));
            }
            // After a failed search, this kind of quote is not searched again, because a later
            // quote would have closed it. The running time therefore stays linear.
            match self.rest().find(c) {
                Some(length) => self.at += length + c.len_utf8(),
                None => return Some((at, c)),
            }
        }
    }
}

/// Splits the text at the first word `if`.
pub(super) fn split_filter(text: &str, span: Span) -> (Span, Option<Span>) {
    let mut before = ' ';
    for (at, c) in OutsideQuotes::new(text, span) {
        let after = text
            .get(at..span.end)
            .and_then(|rest| rest.strip_prefix("if"));
        let ends = |rest: &str| rest.chars().next().is_none_or(is_space);
        if is_space(before) && after.is_some_and(ends) {
            let filter = Span::new(at + "if".len(), span.end);
            return (Span::new(span.start, at), Some(filter));
        }
        before = c;
    }
    (span, None)
}

/// Splits at colons outside of quotes, parentheses and braces.
pub(super) fn split_colons(text: &str, span: Span) -> Vec<Span> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (span.start, 0_usize);
    for (at, c) in OutsideQuotes::new(text, span) {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => {
                parts.push(Span::new(start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(Span::new(start, span.end));
    parts
}

pub(super) fn text_at(text: &str, span: Span) -> &str {
    text.get(span.range()).unwrap_or_default()
}

/// Removes whitespace from both ends of the span.
pub(super) fn trim(text: &str, span: Span) -> Span {
    let inside = text_at(text, span);
    let start = span.start + (inside.len() - inside.trim_start_matches(is_space).len());
    let end = span.end - (inside.len() - inside.trim_end_matches(is_space).len());
    Span::new(start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Span {
        Span::new(0, text.len())
    }

    #[test]
    fn the_filter_follows_the_first_if() {
        let cases = [
            ("keys=a if b > 1 if c", "keys=a ", Some(" b > 1 if c")),
            ("keys=if", "keys=if", None),
            ("keys=a iff", "keys=a iff", None),
            ("keys=a if", "keys=a ", Some("")),
            ("if a", "", Some(" a")),
            (
                "keys=(c == \" if \")\tif\nb",
                "keys=(c == \" if \")\t",
                Some("\nb"),
            ),
            ("keys=' if b", "keys=' ", Some(" b")),
        ];
        for (text, front, after) in cases {
            let (command, filter) = split_filter(text, whole(text));
            assert_eq!(text_at(text, command), front);
            assert_eq!(filter.map(|span| text_at(text, span)), after, "{text}");
        }
    }

    #[test]
    fn nested_colons_do_not_split() {
        let cases: &[(&str, &[&str])] = &[
            ("keys=a:vals=b", &["keys=a", "vals=b"]),
            (
                "a=':':b=CPUS{0:1}:(c:d)",
                &["a=':'", "b=CPUS{0:1}", "(c:d)"],
            ),
            ("a):':b", &["a)", "'", "b"]),
            ("(a:b", &["(a:b"]),
            (":", &["", ""]),
            ("", &[""]),
        ];
        for (text, expected) in cases {
            let parts = split_colons(text, whole(text));
            let parts: Vec<&str> = parts.into_iter().map(|span| text_at(text, span)).collect();
            assert_eq!(parts, *expected, "{text}");
        }
    }

    #[test]
    fn trim_removes_outer_whitespace() {
        for (text, start, end) in [(" a b\t", 1, 4), ("  ", 2, 2), ("", 0, 0)] {
            assert_eq!(trim(text, whole(text)), Span::new(start, end));
        }
    }
}
