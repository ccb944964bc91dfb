//! Splits source text into tokens.
//!
//! Some parts do not consist of tokens: the list in `CPUS{0-3}`, the name of a function, an
//! unquoted glob. The parser reads these with [`Lexer::take_while`] and [`Lexer::take_until`].

use crate::source::Span;
use crate::tree::BinaryOp;

/// A token of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Letters, digits and `_`, not starting with a digit.
    Word(&'a str),
    /// Letters, digits and `_`, starting with a digit: a number or a mistake.
    Digits(&'a str),
    /// The name after `$`; may be empty.
    Variable(&'a str),
    /// The text between two quotes of the same kind. As in the kernel, there are no escapes.
    Text(&'a str),
    /// An opening quote without a closing one, and all text after it.
    Unclosed,
    /// An operator. `~` is always read as `Matches` and `-` always as `Minus`; the parser resolves
    /// the ambiguity by position.
    Operator(BinaryOp),
    /// `!`.
    Not,
    /// `=`, which is not a comparison.
    Assign,
    /// `=~` or `!~`: operators of other languages that do not exist in filters.
    Foreign,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `{`.
    OpenBrace,
    /// `}`.
    CloseBrace,
    /// `,`.
    Comma,
    /// `.`.
    Dot,
    /// Any other character.
    Other,
    /// The end of the text.
    End,
}

/// Operators and punctuation, longest first.
const SYMBOLS: &[(&str, Token<'static>)] = &[
    ("&&", Token::Operator(BinaryOp::And)),
    ("||", Token::Operator(BinaryOp::Or)),
    ("==", Token::Operator(BinaryOp::Equal)),
    ("!=", Token::Operator(BinaryOp::NotEqual)),
    ("<=", Token::Operator(BinaryOp::LessOrEqual)),
    (">=", Token::Operator(BinaryOp::GreaterOrEqual)),
    ("<<", Token::Operator(BinaryOp::ShiftLeft)),
    (">>", Token::Operator(BinaryOp::ShiftRight)),
    ("=~", Token::Foreign),
    ("!~", Token::Foreign),
    ("<", Token::Operator(BinaryOp::Less)),
    (">", Token::Operator(BinaryOp::Greater)),
    ("~", Token::Operator(BinaryOp::Matches)),
    ("&", Token::Operator(BinaryOp::BitAnd)),
    ("|", Token::Operator(BinaryOp::BitOr)),
    ("^", Token::Operator(BinaryOp::BitXor)),
    ("+", Token::Operator(BinaryOp::Plus)),
    ("-", Token::Operator(BinaryOp::Minus)),
    ("*", Token::Operator(BinaryOp::Times)),
    ("/", Token::Operator(BinaryOp::Divided)),
    ("%", Token::Operator(BinaryOp::Remainder)),
    ("!", Token::Not),
    ("=", Token::Assign),
    ("(", Token::Open),
    (")", Token::Close),
    ("{", Token::OpenBrace),
    ("}", Token::CloseBrace),
    (",", Token::Comma),
    (".", Token::Dot),
];

/// Reads tokens from a part of a text. Spans refer to the whole text.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    /// The source, truncated at the end of the part.
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer for the part at `span`. A start after the end of the text, or an end inside
    /// a character, counts as the end of the text.
    pub(crate) fn new(text: &'a str, span: Span) -> Self {
        let text = text.get(..span.end).unwrap_or(text);
        Self {
            text,
            at: span.start.min(text.len()),
        }
    }

    /// Returns the unread text.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the position of the next character.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Moves to another position.
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at.min(self.text.len());
    }

    /// Returns the next token and its span. At the end, returns `End` repeatedly.
    pub(crate) fn next(&mut self) -> (Token<'a>, Span) {
        self.take_while(is_space);
        let start = self.at;
        let token = self.token();
        (token, Span::new(start, self.at))
    }

    /// Reads characters while they are of this kind.
    pub(crate) fn take_while(&mut self, of_kind: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !of_kind(c)).unwrap_or(rest.len());
        self.take(length)
    }

    /// Reads up to this character and also consumes it. If there is no such character, reads
    /// nothing.
    pub(crate) fn take_until(&mut self, end: char) -> Option<&'a str> {
        let length = self.rest().find(end)?;
        let inside = self.take(length);
        self.at += end.len_utf8();
        Some(inside)
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = self.rest().get(..length).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    fn token(&mut self) -> Token<'a> {
        let Some(first) = self.rest().chars().next() else {
            return Token::End;
        };
        if first.is_ascii_digit() {
            return Token::Digits(self.take_while(is_word));
        }
        if is_word(first) {
            return Token::Word(self.take_while(is_word));
        }
        let symbol = SYMBOLS
            .iter()
            .find(|(text, _)| self.rest().starts_with(text));
        if let Some((text, token)) = symbol {
            self.take(text.len());
            return *token;
        }
        self.take(first.len_utf8());
        match first {
            '$' => Token::Variable(self.take_while(is_word)),
            '"' | '\'' => self.take_until(first).map_or_else(
                || {
                    self.at = self.text.len();
                    Token::Unclosed
                },
                Token::Text,
            ),
            _ => Token::Other,
        }
    }
}

/// Whether the character separates tokens, like the kernel's `isspace`.
pub(crate) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// Whether the character can be part of the name of a field, an event or a variable.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Token<'_>, usize, usize)> {
        let mut lexer = Lexer::new(text, Span::new(0, text.len()));
        let mut all = Vec::new();
        loop {
            let (token, span) = lexer.next();
            if token == Token::End {
                return all;
            }
            all.push((token, span.start, span.end));
        }
    }

    #[test]
    fn the_longest_symbol_wins() {
        for (index, (text, token)) in SYMBOLS.iter().enumerate() {
            assert_eq!(tokens(text), [(*token, 0, text.len())]);
            let earlier = &SYMBOLS[..index];
            assert!(!earlier.iter().any(|(short, _)| text.starts_with(short)));
        }
    }

    #[test]
    fn tokens_have_their_spans() {
        use Token::*;
        let two = [(Word("a_1"), 0, 3), (Digits("0x1f"), 4, 8)];
        assert_eq!(tokens("a_1 0x1f"), two);
        let two = [(Digits("1ms"), 0, 3), (Variable("t0"), 4, 7)];
        assert_eq!(tokens("1ms\u{b}$t0"), two);
        assert_eq!(tokens("$ \u{e9}"), [(Variable(""), 0, 1), (Other, 2, 4)]);
        let two = [(Text("a\"b"), 0, 5), (Unclosed, 5, 7)];
        assert_eq!(tokens("'a\"b'\"c"), two);
        assert_eq!(tokens("\0"), [(Other, 0, 1)]);
        assert_eq!(tokens(""), []);
    }

    #[test]
    fn lexing_stops_at_the_end_of_the_part() {
        let mut lexer = Lexer::new("a:b:c", Span::new(2, 3));
        assert_eq!(lexer.next(), (Token::Word("b"), Span::new(2, 3)));
        assert_eq!(lexer.next(), (Token::End, Span::new(3, 3)));
        assert_eq!(Lexer::new("\u{e9}", Span::new(9, 1)).next().0, Token::End);
    }
}
