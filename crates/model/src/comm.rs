//! Names that strangers choose.

use std::fmt;

/// The command name of a process as the kernel holds it: at most 15 bytes, any bytes but NUL.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// Takes the bytes up to the first NUL.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        let len = bytes
            .iter()
            .position(|&b| b == 0)
            .unwrap_or(bytes.len())
            .min(15);
        comm[..len].copy_from_slice(&bytes[..len]);
        Self(comm)
    }

    /// The name as text; bytes that are not UTF-8 become U+FFFD. Control characters are kept:
    /// every sink escapes them in the way of its format.
    pub fn text(&self) -> String {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..len]).into_owned()
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// Makes text from strangers safe to print on a terminal: control characters, bidirectional
/// overrides and invisible format characters become visible escapes (`\n`, `\u{1b}`).
pub fn escape_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' | '\r' | '\t' => out.extend(c.escape_default()),
            c if c.is_control() || is_invisible_format(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Characters that change how the rest of a line is drawn, or are not drawn at all.
fn is_invisible_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comm_ends_at_nul_and_survives_invalid_utf8() {
        assert_eq!(Comm::new(b"sleep\0junk").text(), "sleep");
        assert_eq!(
            Comm::new(b"a-name-longer-than-fifteen").text(),
            "a-name-longer-t"
        );
        assert_eq!(Comm::new(&[b'a', 0xff, b'b']).text(), "a\u{fffd}b");
    }

    #[test]
    fn terminal_escapes_leave_no_control_character() {
        let hostile = "a\n\x1b[31mred\u{202e}\u{9b}\\";
        let safe = escape_terminal(hostile);
        assert_eq!(safe, "a\\n\\u{1b}[31mred\\u{202e}\\u{9b}\\\\");
        assert!(!safe.chars().any(char::is_control));
    }
}
