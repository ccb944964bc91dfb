//! Bytes of strangers as text.

use std::fmt::Write as _;

use noctule_model::escape_terminal;

/// For JSON, which escapes control characters by itself.
pub(super) fn for_json(bytes: &[u8]) -> String {
    lossless(bytes, |valid| valid.replace('\\', "\\\\"))
}

/// For a terminal: nothing that it obeys is left.
pub(super) fn for_terminal(bytes: &[u8]) -> String {
    // It doubles backslashes too.
    lossless(bytes, escape_terminal)
}

/// Every byte can be told from the result, as long as `valid` doubles backslashes.
fn lossless(bytes: &[u8], valid: impl Fn(&str) -> String) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf8_cannot_be_taken_for_text_that_looks_like_it() {
        let cases: [(&[u8], &str); 6] = [
            (b"/usr/bin/true", "/usr/bin/true"),
            ("größe".as_bytes(), "größe"),
            (b"a\xff\xfeb", r"a\xff\xfeb"),
            (br"a\xff", r"a\\xff"),
            // A character that is cut off at the end.
            (b"\xe2\x82", r"\xe2\x82"),
            (b"", ""),
        ];
        for (bytes, text) in cases {
            assert_eq!(for_json(bytes), text);
            assert_eq!(for_terminal(bytes), text);
        }
        assert_eq!(for_json(b"\x1b\n"), "\x1b\n");
        assert_eq!(for_terminal(b"\x1b\n"), r"\u{1b}\n");
    }
}
