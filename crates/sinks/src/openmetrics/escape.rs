//! Escapes text from untrusted sources for label values.

use std::fmt::Write as _;

/// Appends `text` as the inside of a quoted label value. Both text formats use the same escapes.
///
/// Backslash, quote and line feed are escaped as the format defines, so the scraper stores the
/// original characters.
///
/// Other control characters and the two Unicode line breaks are legal in a label value. However,
/// some parsers split lines at these characters, and terminals interpret them, so they are replaced
/// by visible text such as `\u{1b}`.
///
/// A backslash before `u{` in the original becomes `\u{5c}`, so the replacement is reversible.
/// Different names therefore never have the same label value, and no name can invalidate a scrape
/// by causing a duplicate series.
pub(super) fn push_label_value(out: &mut String, text: &str) {
    let plain = |b: u8| (0x20..0x7f).contains(&b) && b != b'\\' && b != b'"';
    if text.bytes().all(plain) {
        out.push_str(text);
        return;
    }
    for (at, c) in text.char_indices() {
        match c {
            '\n' => out.push_str("\\n"),
            '"' => out.push_str("\\\""),
            '\\' if text[at + 1..].starts_with("u{") => out.push_str("\\\\u{5c}"),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// Appends a help text. The classic format does not escape quotes.
pub(super) fn push_help(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        push_label_value(&mut out, text);
        out
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
        assert_eq!(escaped(r"dev-disk\x2dby.swap"), r"dev-disk\\x2dby.swap");
        assert_eq!(escaped("größe"), "größe");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escaped("\r\x1b[0m"), r"\\u{d}\\u{1b}[0m");
        assert_eq!(escaped("\u{85}\u{2028}\u{7f}"), r"\\u{85}\\u{2028}\\u{7f}");
    }

    #[test]
    fn different_names_stay_different() {
        let names = [
            "\x1b",
            "\\u{1b}",
            "\\\x1b",
            "\\\\u{1b}",
            "\\u{5c}",
            "\\u{5c}u{1b}",
        ];
        let values: std::collections::HashSet<_> = names.iter().map(|n| escaped(n)).collect();
        assert_eq!(values.len(), names.len(), "{values:?}");
    }

    #[test]
    fn help_stays_on_one_line() {
        let mut out = String::new();
        push_help(&mut out, "a\n\\\"", false);
        push_help(&mut out, "\"", true);
        assert_eq!(out, "a\\n\\\\\"\\\"");
    }
}
