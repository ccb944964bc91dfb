//! The parts of a command: the filter after `if`, and the parts between colons.

use crate::lex::is_space;
use crate::source::Span;

/// The characters outside of quotes, with their places. A quote without a closing quote is an ordinary
/// character.
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
            // A search that fails is the last one for this kind of quote: later ones would be its
            // closing quote. So the time stays linear.
            match self.rest().find(c) {
                Some(length) => self.at += length + c.len_utf8(),
                None => return Some((at, c)),
            }
        }
    }
}

/// The text before the first word `if`, and the text after it.
pub(super) fn split_filter(text: &str, span: Span) -> (Span, Option<Span>) {
    let mut before = ' ';
    for (at, c) in OutsideQuotes::new(text, span) {
        let behind = text
            .get(at..span.end)
            .and_then(|rest| rest.strip_prefix("if"));
        let ends = |rest: &str| rest.chars().next().is_none_or(is_space);
        if is_space(before) && behind.is_some_and(ends) {
            let filter = Span::new(at + "if".len(), span.end);
            return (Span::new(span.start, at), Some(filter));
        }
        before = c;
    }
    (span, None)
}

/// The parts between the colons that are not inside of quotes, parentheses or braces.
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

/// The text at this place.
pub(super) fn at(text: &str, span: Span) -> &str {
    text.get(span.range()).unwrap_or_default()
}

/// The place without the blanks at both ends.
pub(super) fn trim(text: &str, span: Span) -> Span {
    let inside = at(text, span);
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
    fn the_filter_is_behind_the_first_word_if() {
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
        for (text, front, behind) in cases {
            let (command, filter) = split_filter(text, whole(text));
            assert_eq!(at(text, command), front);
            assert_eq!(filter.map(|span| at(text, span)), behind, "{text}");
        }
    }

    #[test]
    fn colons_inside_of_something_are_part_of_it() {
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
            let parts: Vec<&str> = parts.into_iter().map(|span| at(text, span)).collect();
            assert_eq!(parts, *expected, "{text}");
        }
    }

    #[test]
    fn blanks_at_the_ends_are_no_part() {
        for (text, start, end) in [(" a b\t", 1, 4), ("  ", 2, 2), ("", 0, 0)] {
            assert_eq!(trim(text, whole(text)), Span::new(start, end));
        }
    }
}
