//! Escapes untrusted text.

use std::fmt::Write as _;

/// Makes untrusted text safe to print on a terminal. Control characters, bidirectional overrides
/// and invisible format characters become visible escapes (`\n`, `\u{1b}`), and a backslash is
/// doubled.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' | '\r' | '\t' => out.extend(c.escape_default()),
            c if is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Formats bytes as text that is safe to print on a terminal, without loss. This function combines
/// [`escape`] and [`lossless`].
pub fn escape_bytes(bytes: &[u8]) -> String {
    joined(bytes, escape)
}

/// Formats bytes as text from which every byte can be recovered. Invalid UTF-8 becomes `\xHH`, and
/// a backslash is doubled. Control characters are kept, for formats that have their own escapes.
pub fn lossless(bytes: &[u8]) -> String {
    joined(bytes, |valid| valid.replace('\\', "\\\\"))
}

/// Escapes invalid UTF-8. Every byte can be recovered as long as `valid` doubles backslashes.
fn joined(bytes: &[u8], valid: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&valid(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Returns whether a terminal interprets the character, or draws nothing for it. These are control
/// characters and characters that affect how the rest of a line is drawn.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_leave_no_control_character() {
        let hostile = "a\n\x1b[31mred\u{202e}\u{9b}\\";
        let safe = escape(hostile);
        assert_eq!(safe, "a\\n\\u{1b}[31mred\\u{202e}\\u{9b}\\\\");
        assert!(!safe.contains(is_unseen));
    }

    #[test]
    fn invalid_utf8_differs_from_text_that_looks_like_its_escape() {
        let cases: [(&[u8], &str); 6] = [
            (b"/usr/bin/true", "/usr/bin/true"),
            ("größe".as_bytes(), "größe"),
            (b"a\xff\xfeb", r"a\xff\xfeb"),
            (br"a\xff", r"a\\xff"),
            // A character that is truncated.
            (b"\xe2\x82", r"\xe2\x82"),
            (b"", ""),
        ];
        for (bytes, text) in cases {
            assert_eq!(lossless(bytes), text);
            assert_eq!(escape_bytes(bytes), text);
        }
        assert_eq!(lossless(b"\x1b\n"), "\x1b\n");
        assert_eq!(escape_bytes(b"\x1b\n"), r"\u{1b}\n");
    }
}
