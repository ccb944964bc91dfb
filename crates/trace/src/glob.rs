//! Compiles glob patterns of the kernel's filters (`*`, `?`, `[a-z]`, `[!a-z]`, `\` to escape) to a
//! bit-parallel automaton. A program needs three operations per character.
//!
//! Bit i of the state means that the first i elements of the pattern can match the text so far. A
//! character keeps the bits in front of a `*`, and advances the bits whose element matches it.

/// Maximum number of elements in a pattern, not counting `*`. The state has 64 bits.
pub const MAX_ELEMENTS: usize = 63;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// For each byte, a bit mask of the elements that match it.
    pub fits: Box<[u64; 256]>,
    /// Bit mask of the positions of `*`.
    pub stars: u64,
    /// The bit that is set if the whole pattern has matched.
    pub accepts: u64,
}

/// An error: the pattern has more than [`MAX_ELEMENTS`] elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Glob {
    /// Parses a pattern. An unclosed bracket matches itself, as in the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern has more than [`MAX_ELEMENTS`] elements.
    pub fn parse(pattern: &[u8]) -> Result<Self, TooLong> {
        let mut glob = Self {
            fits: Box::new([0; 256]),
            stars: 0,
            accepts: 1,
        };
        let mut rest = pattern;
        while let [first, tail @ ..] = rest {
            rest = tail;
            match first {
                b'*' => glob.stars |= glob.accepts,
                b'?' => glob.push(|_| true)?,
                b'[' => match class(rest) {
                    Some((class, tail)) => {
                        rest = tail;
                        glob.push(|byte| class.has(byte))?;
                    }
                    None => glob.push(|byte| byte == b'[')?,
                },
                b'\\' if !rest.is_empty() => {
                    let literal = rest[0];
                    rest = &rest[1..];
                    glob.push(|byte| byte == literal)?;
                }
                &literal => glob.push(|byte| byte == literal)?,
            }
        }
        Ok(glob)
    }

    fn push(&mut self, fits: impl Fn(u8) -> bool) -> Result<(), TooLong> {
        if self.accepts == 1 << MAX_ELEMENTS {
            return Err(TooLong);
        }
        for (byte, bits) in (0..=255).zip(self.fits.iter_mut()) {
            if fits(byte) {
                *bits |= self.accepts;
            }
        }
        self.accepts <<= 1;
        Ok(())
    }

    /// Whether the text matches, up to its first NUL.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut state = 1;
        for &byte in text.iter().take_while(|byte| **byte != 0) {
            state = ((state & self.fits[usize::from(byte)]) << 1) | (state & self.stars);
        }
        state & self.accepts != 0
    }
}

/// A character class.
struct Class<'a> {
    ranges: &'a [u8],
    inverted: bool,
}

/// Parses a character class after its opening bracket. Returns the class and the rest of the
/// pattern.
fn class(text: &[u8]) -> Option<(Class<'_>, &[u8])> {
    let (inverted, text) = match text {
        [b'!', rest @ ..] => (true, rest),
        text => (false, text),
    };
    // A closing bracket in first position is a literal character.
    let end = 1 + text.get(1..)?.iter().position(|byte| *byte == b']')?;
    let ranges = &text[..end];
    Some((Class { ranges, inverted }, &text[end + 1..]))
}

impl Class<'_> {
    fn has(&self, byte: u8) -> bool {
        let mut rest = self.ranges;
        let mut found = false;
        while let [first, tail @ ..] = rest {
            rest = tail;
            let mut last = *first;
            if let [b'-', end, tail @ ..] = tail {
                last = *end;
                rest = tail;
            }
            found |= (*first..=last).contains(&byte);
        }
        found != self.inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_kernel() {
        let cases: [(&str, &[&str], &[&str]); 13] = [
            ("bash", &["bash"], &["bas", "bashx", "xbash", ""]),
            ("ba*", &["ba", "bash"], &["b", "xba"]),
            ("*sh", &["sh", "bash", "shsh"], &["shx", ""]),
            ("*as*", &["as", "bash", "xasx"], &["sa", ""]),
            ("*", &["", "a"], &[]),
            ("", &[""], &["a"]),
            ("b[a-c]sh?", &["bashx", "bcsh1"], &["bdshx", "bash"]),
            ("[!a-c]*", &["d", "dx"], &["a", "", "cx"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["ab", "acb"]),
            ("x[", &["x["], &["x", "xa"]),
            ("[]a]", &["]", "a"], &["b", "]a"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("a-[x-]", &["a-x", "a--"], &["a-y"]),
        ];
        for (pattern, yes, no) in cases {
            let glob = Glob::parse(pattern.as_bytes()).unwrap();
            for text in yes {
                assert!(glob.matches(text.as_bytes()), "{pattern} {text}");
            }
            for text in no {
                assert!(!glob.matches(text.as_bytes()), "{pattern} {text}");
            }
        }
        assert!(Glob::parse(b"a*").unwrap().matches(b"a\0b"));
    }

    #[test]
    fn a_pattern_can_have_63_elements() {
        let longest = "?".repeat(MAX_ELEMENTS);
        let glob = Glob::parse(longest.as_bytes()).unwrap();
        assert!(glob.matches(longest.as_bytes()) && !glob.matches(&longest.as_bytes()[1..]));
        assert_eq!(Glob::parse(format!("{longest}?").as_bytes()), Err(TooLong));
    }
}
