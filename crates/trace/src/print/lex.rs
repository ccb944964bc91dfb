//! Tokenizes a print format, which is preprocessed C.

use crate::source::{Problem, Span};

use super::value::{Int, Kind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A number or a character constant.
    Number(Int),
    /// A string literal with its escapes resolved.
    Text(String),
    /// An operator or a bracket.
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// Operators and brackets, longest first.
const MARKS: [&str; 34] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", "?",
    ":", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";", "=", "#",
];

/// Returns all tokens, followed by [`TokenKind::End`].
///
/// # Errors
///
/// Returns an error for an unterminated string or character, an invalid number, or a character that
/// C does not have.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at).copied() {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (kind, end) = token(text, at, byte)?;
        let span = Span::new(at, end);
        all.push(Token { kind, span });
        at = end;
    }
    let span = Span::new(at, at);
    let kind = TokenKind::End;
    all.push(Token { kind, span });
    Ok(all)
}

/// Reads the token at this position, and returns the position after it.
fn token(text: &str, at: usize, byte: u8) -> Result<(TokenKind, usize), Problem> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let word_end = || {
        let rest = &text.as_bytes()[at..];
        at + rest.iter().take_while(|byte| is_word(**byte)).count()
    };
    if byte.is_ascii_digit() {
        let end = word_end();
        let number = number(&text[at..end]);
        let wrong = || Problem::new(Span::new(at, end), "this number cannot be read");
        return Ok((TokenKind::Number(number.ok_or_else(wrong)?), end));
    }
    if is_word(byte) {
        return Ok((TokenKind::Word, word_end()));
    }
    if byte == b'"' {
        let (content, end) = quoted(text, at, '"')?;
        return Ok((TokenKind::Text(content), end));
    }
    if byte == b'\'' {
        let (content, end) = quoted(text, at, '\'')?;
        let mut chars = content.chars();
        let wrong = || Problem::new(Span::new(at, end), "this is not one character");
        let (Some(c), None) = (chars.next(), chars.next()) else {
            return Err(wrong());
        };
        return Ok((
            TokenKind::Number(Int::new(u64::from(u32::from(c)), Kind::I32)),
            end,
        ));
    }
    let mark = MARKS.iter().find(|mark| text[at..].starts_with(**mark));
    let Some(mark) = mark else {
        let width = text[at..].chars().next().map_or(1, char::len_utf8);
        return Err(Problem::new(
            Span::new(at, at + width),
            "this character is not valid in C",
        ));
    };
    Ok((TokenKind::Mark(mark), at + mark.len()))
}

/// Parses a C number, including its type.
fn number(text: &str) -> Option<Int> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => match lower.strip_prefix("0b") {
            Some(digits) => (digits, 2),
            None if lower.starts_with('0') => (lower.as_str(), 8),
            None => (lower.as_str(), 10),
        },
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let value = u64::from_str_radix(digits, radix).ok()?;
    let unsigned = suffix.contains('u');
    let long = match suffix.replace('u', "").as_str() {
        "" => false,
        "l" | "ll" | "z" => true,
        _ => return None,
    };
    let any_sign = !unsigned && radix != 10;
    let kind = if !long && !unsigned && i32::try_from(value).is_ok() {
        Kind::I32
    } else if !long && (unsigned || any_sign) && u32::try_from(value).is_ok() {
        Kind::U32
    } else if !unsigned && i64::try_from(value).is_ok() {
        Kind::I64
    } else {
        Kind::U64
    };
    Some(Int::new(value, kind))
}

/// Reads the quoted text at this position, and returns the position after it.
fn quoted(text: &str, at: usize, quote: char) -> Result<(String, usize), Problem> {
    let mut content = String::new();
    let mut chars = text[at + 1..].char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        if c == quote {
            return Ok((content, at + 1 + offset + c.len_utf8()));
        }
        if c != '\\' {
            content.push(c);
            continue;
        }
        let Some((_, escaped)) = chars.next() else {
            break;
        };
        let (radix, longest, first) = match escaped {
            'x' => (16, 2, None),
            '0'..='7' => (8, 2, escaped.to_digit(8)),
            _ => {
                content.push(escape(escaped));
                continue;
            }
        };
        let mut code = first.unwrap_or(0);
        for _ in 0..longest {
            let Some(digit) = chars.peek().and_then(|(_, c)| c.to_digit(radix)) else {
                break;
            };
            code = code * radix + digit;
            chars.next();
        }
        content.extend(char::from_u32(code));
    }
    Err(Problem::new(
        Span::new(at, text.len()),
        "the closing quote is missing",
    ))
}

/// Resolves an escape. Unknown escapes yield the character itself.
fn escape(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'e' => '\u{1b}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let all = tokens(text).unwrap();
        all.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_have_their_c_types() {
        let cases = [
            ("0", 0, Kind::I32),
            ("4294967295", 0xffff_ffff, Kind::I64),
            ("0xffffffff", 0xffff_ffff, Kind::U32),
            ("0x7fffffffffffffff", i64::MAX as u64, Kind::I64),
            ("0xffffffffffffffff", u64::MAX, Kind::U64),
            ("1u", 1, Kind::U32),
            ("1UL", 1, Kind::U64),
            ("1ll", 1, Kind::I64),
            ("017", 15, Kind::I32),
            ("0b101U", 5, Kind::U32),
            ("'a'", 97, Kind::I32),
            ("'\\n'", 10, Kind::I32),
            ("'\\0'", 0, Kind::I32),
        ];
        for (text, bits, kind) in cases {
            assert_eq!(
                kinds(text)[0],
                TokenKind::Number(Int::new(bits, kind)),
                "{text}"
            );
        }
    }

    #[test]
    fn parses_escapes_and_operators() {
        let text = TokenKind::Text("a\"\n\tA\u{1}%\\".to_owned());
        assert_eq!(kinds(r#""a\"\n\tA\x01%\\""#), [text, TokenKind::End]);
        let marks = ["->", ">>", "=="].map(TokenKind::Mark);
        assert_eq!(kinds("->>>==")[..3], marks);
    }

    #[test]
    fn errors_have_their_position() {
        let cases = [
            ("a \"x", 2, "the closing quote is missing"),
            ("\"x\\", 0, "the closing quote is missing"),
            ("1x", 0, "this number cannot be read"),
            ("99999999999999999999", 0, "this number cannot be read"),
            ("a'ab'", 1, "this is not one character"),
            ("\u{e9}", 0, "this character is not valid in C"),
        ];
        for (text, at, problem) in cases {
            let found = tokens(text).unwrap_err();
            assert_eq!(
                (found.span.start, found.text.as_str()),
                (at, problem),
                "{text}"
            );
        }
    }
}
