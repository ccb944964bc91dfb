//! Parses the string of a print format: plain text and `%` conversions.

/// A part of the string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Plain text.
    Text(String),
    /// A conversion.
    Spec(Spec),
}

/// A conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// `-`.
    pub(super) left: bool,
    /// `+`.
    pub(super) plus: bool,
    pub(super) space: bool,
    /// `#`.
    pub(super) alternative: bool,
    /// `0`.
    pub(super) zero: bool,
    /// Minimum number of characters.
    pub(super) width: Count,
    /// The number after the dot.
    pub(super) precision: Count,
    /// Size of the argument in bytes.
    pub(super) size: u8,
    pub(super) conversion: Conversion,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Absent.
    None,
    /// A literal number.
    Fixed(u32),
    /// `*`: the next argument is the count.
    Next,
}

/// The letter of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// `d`, `i`.
    Signed,
    /// `u`.
    Unsigned,
    /// `x`.
    LowerHex,
    /// `X`.
    UpperHex,
    /// `o`.
    Octal,
    /// `c`.
    Character,
    /// `s`.
    Text,
    /// `p` with up to six of the following letters, padded with NUL.
    Pointer([u8; 6]),
    /// A letter that the kernel does not support.
    Other,
}

impl Spec {
    /// Creates a conversion without flags.
    pub(super) fn plain(conversion: Conversion, size: u8) -> Self {
        Self {
            left: false,
            plus: false,
            space: false,
            alternative: false,
            zero: false,
            width: Count::None,
            precision: Count::None,
            size,
            conversion,
        }
    }
}

/// Larger widths and precisions are reduced to this value.
const MAX_COUNT: u32 = 1 << 20;

/// Splits a string into its pieces.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('%') {
            plain.push('%');
            rest = after;
            continue;
        }
        if !plain.is_empty() {
            all.push(Piece::Text(std::mem::take(&mut plain)));
        }
        let mut reader = Reader { rest: after };
        all.push(Piece::Spec(reader.spec()));
        rest = reader.rest;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        all.push(Piece::Text(plain));
    }
    all
}

/// Reads the text after a `%`.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let c = self.rest.chars().next().filter(|c| wanted(*c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn spec(&mut self) -> Spec {
        let mut spec = Spec::plain(Conversion::Other, 4);
        while let Some(flag) = self.take(|c| "-+ #0".contains(c)) {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternative = true,
                _ => spec.zero = true,
            }
        }
        spec.width = self.count();
        if self.take(|c| c == '.').is_some() {
            spec.precision = match self.count() {
                Count::None => Count::Fixed(0),
                given => given,
            };
        }
        spec.size = self.size();
        if let Some(letter) = self.take(|_| true) {
            spec.conversion = self.conversion(letter);
        }
        spec
    }

    fn count(&mut self) -> Count {
        if self.take(|c| c == '*').is_some() {
            return Count::Next;
        }
        let mut count = Count::None;
        while let Some(digit) = self.take(|c| c.is_ascii_digit()) {
            let before = if let Count::Fixed(before) = count {
                before
            } else {
                0
            };
            let digit = digit.to_digit(10).unwrap_or(0);
            count = Count::Fixed((before * 10 + digit).min(MAX_COUNT));
        }
        count
    }

    fn size(&mut self) -> u8 {
        let mut size = 4;
        while let Some(letter) = self.take(|c| "hlLztjZ".contains(c)) {
            size = match letter {
                'h' if size == 2 => 1,
                'h' => 2,
                _ => 8,
            };
        }
        size
    }

    fn conversion(&mut self, letter: char) -> Conversion {
        match letter {
            'd' | 'i' => Conversion::Signed,
            'u' => Conversion::Unsigned,
            'x' => Conversion::LowerHex,
            'X' => Conversion::UpperHex,
            'o' => Conversion::Octal,
            'c' => Conversion::Character,
            's' => Conversion::Text,
            'p' => Conversion::Pointer(self.suffix()),
            _ => Conversion::Other,
        }
    }

    /// As in the kernel, all letters and digits after `%p` belong to the conversion.
    fn suffix(&mut self) -> [u8; 6] {
        let mut letters = [0; 6];
        let mut at = 0;
        while let Some(c) = self.take(|c| c.is_ascii_alphanumeric()) {
            if let (Some(place), Ok(byte)) = (letters.get_mut(at), u8::try_from(c)) {
                *place = byte;
            }
            at += 1;
        }
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn splits_text_and_conversions() {
        let spec = |conversion, size| Spec::plain(conversion, size);
        let wide = Spec {
            alternative: true,
            zero: true,
            width: Count::Fixed(16),
            ..spec(Conversion::LowerHex, 8)
        };
        let counted = Spec {
            left: true,
            width: Count::Next,
            precision: Count::Next,
            ..spec(Conversion::Text, 4)
        };
        let pointer = spec(Conversion::Pointer(*b"ISpc\0\0"), 4);
        let expected = [
            text("100% a="),
            Piece::Spec(wide),
            text(" "),
            Piece::Spec(counted),
            Piece::Spec(pointer),
            text("\n"),
            Piece::Spec(spec(Conversion::Signed, 1)),
            Piece::Spec(spec(Conversion::Signed, 2)),
            Piece::Spec(spec(Conversion::Unsigned, 8)),
            text("!"),
        ];
        assert_eq!(
            pieces("100%% a=%#016lx %-*.*s%pISpc\n%hhd%hd%Lu!"),
            expected
        );
    }

    #[test]
    fn invalid_conversions_are_marked() {
        assert_eq!(pieces(""), []);
        assert_eq!(
            pieces("%"),
            [Piece::Spec(Spec::plain(Conversion::Other, 4))]
        );
        let Piece::Spec(spec) = pieces("%99999999999d")[0] else {
            panic!("a conversion");
        };
        assert_eq!(spec.width, Count::Fixed(MAX_COUNT));
    }
}
