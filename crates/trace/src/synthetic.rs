//! Synthetic events, whose records other events generate.

use crate::format::{EventFormat, Field, FieldKind};
use crate::lex::is_word;
use crate::program::TEXT_ROOM;
use crate::source::{Problem, Span};

/// The definition of a synthetic event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Name and fields.
    pub format: EventFormat,
    /// Size of the event's record in bytes, a multiple of eight.
    pub size: usize,
}

/// Maximum number of fields, as in the kernel.
const MAX_FIELDS: usize = 64;
/// The kernel's types and their sizes in bytes. `gfp_t` and the types that begin with `u` are
/// unsigned.
const TYPES: [(&str, u32); 17] = [
    ("s64", 8),
    ("u64", 8),
    ("s32", 4),
    ("u32", 4),
    ("s16", 2),
    ("u16", 2),
    ("s8", 1),
    ("u8", 1),
    ("char", 1),
    ("unsigned char", 1),
    ("int", 4),
    ("unsigned int", 4),
    ("long", 8),
    ("unsigned long", 8),
    ("bool", 1),
    ("pid_t", 4),
    ("gfp_t", 4),
];
/// Offset of the first field. Earlier bytes of a record hold no fields.
const FIRST_OFFSET: u32 = 8;

impl Synthetic {
    /// Parses a definition in the syntax of the kernel's `synthetic_events`, with optional
    /// semicolons between fields: `wakeup_latency u64 lat; pid_t pid; char comm[16]`. Also accepts
    /// the syntax of `dynamic_events`, with the prefix `s:` or `s:synthetic/`. `number` must be
    /// unique among the synthetic events of the command.
    ///
    /// # Errors
    ///
    /// Returns a problem with the kernel's text.
    pub fn parse(text: &str, number: u64) -> Result<Self, Problem> {
        let all = words(text, 0);
        let whole = Span::new(0, text.trim_end().len());
        let form = |help: &str| {
            let words = "Command must be of the form: <name> field[;field] ...";
            Problem::new(whole, words).with_help(help)
        };
        let example = "such as `wakeup_latency u64 lat; pid_t pid`";
        let [first, _, ..] = all.as_slice() else {
            return Err(form(example));
        };
        let name = match first.text.strip_prefix("s:") {
            None => first.text,
            Some(name) => match name.split_once('/') {
                None => name,
                Some(("synthetic", name)) => name,
                Some(_) => return Err(form("the group of a synthetic event must be `synthetic`")),
            },
        };
        if !is_name(name) {
            return Err(Problem::new(first.span(), "Illegal name"));
        }
        let mut synthetic = Self {
            format: EventFormat {
                name: name.to_owned(),
                id: number,
                ..EventFormat::default()
            },
            size: FIRST_OFFSET as usize,
        };
        let mut at = first.span().end;
        for part in text[at..].split(';') {
            let all = words(part, at);
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                rest = synthetic.add(rest)?;
            }
            at += part.len() + 1;
        }
        match synthetic.format.fields.len() {
            0 => Err(form(example)),
            1..=MAX_FIELDS => Ok(synthetic),
            _ => Err(Problem::new(whole, "Too many fields")),
        }
    }

    /// Adds the field at the start of the words, and returns the remaining words.
    fn add<'a, 'b>(&mut self, words: &'b [Word<'a>]) -> Result<&'b [Word<'a>], Problem> {
        let has_prefix = words[0].text == "unsigned";
        let count = if has_prefix { 3 } else { 2 };
        let Some((field, rest)) = words.split_at_checked(count) else {
            let why = match has_prefix {
                true => "Incomplete type",
                false => "Invalid field",
            };
            return Err(Problem::new(words[0].span(), why));
        };
        let [.., kind, last] = field else {
            return Ok(rest);
        };
        let span = Span::new(field[0].at, last.span().end);
        let name_ends = last.text.find('[').unwrap_or(last.text.len());
        let (name, array) = last.text.split_at(name_ends);
        if !is_name(name) {
            return Err(Problem::new(span, "Illegal name"));
        }
        if self.format.field(name).is_some() {
            return Err(Problem::new(span, "Invalid field"));
        }
        let prefix = if has_prefix { "unsigned " } else { "" };
        let kind = format!("{prefix}{}{array}", kind.text);
        let (size, declared, is_text) = layout(&kind).map_err(|help| {
            let why = match array {
                "" => "Invalid type",
                _ => "Invalid array specification",
            };
            Problem::new(span, why).with_help(help)
        })?;
        let (align, room) = match is_text {
            true => (8, size.next_multiple_of(8)),
            false => (size, size),
        };
        let before = self.format.fields.last();
        let offset = before
            .map_or(FIRST_OFFSET, |field| field.offset + field.size)
            .next_multiple_of(align);
        self.format.fields.push(Field {
            name: name.to_owned(),
            signed: !is_text && !declared.starts_with('u') && declared != "gfp_t",
            declared,
            offset,
            size: room,
            kind: if is_text {
                FieldKind::Text
            } else {
                FieldKind::Number
            },
        });
        self.size = ((offset + room) as usize).next_multiple_of(8);
        Ok(rest)
    }
}

/// A word with its position.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    at: usize,
}

impl Word<'_> {
    fn span(&self) -> Span {
        Span::new(self.at, self.at + self.text.len())
    }
}

/// Splits a text that begins at this position into words.
fn words(text: &str, at: usize) -> Vec<Word<'_>> {
    let place = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    text.split_whitespace()
        .map(|word| Word {
            text: word,
            at: at + place(word),
        })
        .collect()
}

/// Returns size and name of a type, and whether it is text. On failure returns a help text.
fn layout(kind: &str) -> Result<(u32, String, bool), String> {
    if kind.contains("long[") {
        return Err(
            "a stack can only be a key: `keys=stacktrace` in the trigger of an event".to_owned(),
        );
    }
    if let Some((known, size)) = TYPES.iter().find(|(known, _)| *known == kind) {
        return Ok((*size, (*known).to_owned(), false));
    }
    let Some((_, length)) = kind.split_once("char[") else {
        return Err(match kind.contains('[') {
            true => "only a string can be an array: `char NAME[SIZE]`".to_owned(),
            false => {
                let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
                format!("use {}, or char NAME[SIZE]", names.join(", "))
            }
        });
    };
    match length
        .strip_suffix(']')
        .map(|length| (length, length.parse()))
    {
        Some(("", _)) => Ok((TEXT_ROOM as u32, "char[]".to_owned(), true)),
        Some((_, Ok(size @ 1..=256))) => Ok((size, format!("char[{size}]"), true)),
        _ => Err("`char NAME[SIZE]` can have 1 to 256 bytes".to_owned()),
    }
}

/// Follows the kernel's rule for names (`is_good_name`), plus `-` and `+`, which the kernel's own
/// tests use.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| is_word(c) || c == '-' || c == '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned() {
        let text = " wakeup_latency u64 lat; pid_t pid;unsigned  char c ; char comm[16]; u16 x;";
        let synthetic = Synthetic::parse(text, 9).unwrap();
        let fields: Vec<_> = synthetic
            .format
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.offset, field.size, field.signed))
            .collect();
        let expected = [
            ("lat", 8, 8, false),
            ("pid", 16, 4, true),
            ("c", 20, 1, false),
            ("comm", 24, 16, false),
            ("x", 40, 2, false),
        ];
        assert_eq!(fields, expected);
        assert_eq!((synthetic.size, synthetic.format.id), (48, 9));
        assert_eq!(synthetic.format.name, "wakeup_latency");
    }

    #[test]
    fn accepts_every_syntax_of_the_kernel() {
        let expected = Synthetic::parse("made u64 lat; pid_t pid; char comm[16]", 0).unwrap();
        for text in [
            "made u64 lat pid_t pid char comm[16]",
            "made u64 lat; pid_t pid char[16] comm",
            "s:made u64 lat; pid_t pid; char comm[16];",
            " s:synthetic/made u64 lat;pid_t pid;char comm[16]",
        ] {
            assert_eq!(Synthetic::parse(text, 0), Ok(expected.clone()), "{text}");
        }
        let field = |text| Synthetic::parse(text, 0).unwrap().format.fields.remove(0);
        assert_eq!(field("made char[] comm"), field("made char comm[]"));
        assert_eq!(field("made unsigned int fd").declared, "unsigned int");
    }

    #[test]
    fn errors_have_the_kernels_texts() {
        let form = "Command must be of the form: <name> field[;field] ...";
        let cases = [
            ("", form, 0),
            ("name", form, 0),
            ("name ;", form, 0),
            ("s:other/name u64 a", form, 0),
            ("na.me u64 a", "Illegal name", 0),
            ("name u64", "Invalid field", 5),
            ("name u64 a pid_t", "Invalid field", 11),
            ("name unsigned int", "Incomplete type", 5),
            ("name u64 a; u65 b", "Invalid type", 12),
            ("name u64 a; u64 a", "Invalid field", 12),
            ("name char a[x]", "Invalid array specification", 5),
            ("name char a[257]", "Invalid array specification", 5),
            ("name char a[16", "Invalid array specification", 5),
            ("name u64 a[3]", "Invalid array specification", 5),
            ("name char[x] a", "Invalid type", 5),
            (
                "name unsigned long stack[]",
                "Invalid array specification",
                5,
            ),
            ("name u64 a; unsigned long[] stack", "Invalid type", 12),
            ("name u64 1a", "Illegal name", 5),
        ];
        for (text, words, at) in cases {
            let problem = Synthetic::parse(text, 0).unwrap_err();
            assert_eq!(
                (problem.text.as_str(), problem.span.start),
                (words, at),
                "{text}"
            );
        }
    }
}
