//! Synthetic events: records that other events make.

use crate::format::{EventFormat, Field, FieldKind};
use crate::lex::is_word;
use crate::program::TEXT_ROOM;
use crate::source::{Problem, Span};

/// A synthetic event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Its name and fields.
    pub format: EventFormat,
    /// Bytes of its record; a multiple of eight.
    pub size: usize,
}

/// Most fields, as in the kernel.
const FIELDS: usize = 64;
/// The kernel's own types, with their bytes; those that begin with `u` and `gfp_t` have no sign.
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
/// No field lies in the first bytes of a record.
const START: u32 = 8;

impl Synthetic {
    /// Reads a definition as the kernel's `synthetic_events` takes it: `wakeup_latency u64 lat; pid_t
    /// pid; char comm[16]`. `number`: a number that no other synthetic event of the command has.
    ///
    /// # Errors
    ///
    /// What is wrong, in the kernel's words.
    pub fn parse(text: &str, number: u64) -> Result<Self, Problem> {
        let start = text.len() - text.trim_start().len();
        let word = text[start..]
            .find(char::is_whitespace)
            .map(|length| (&text[start..start + length], start + length));
        let whole = Span::new(start, text.trim_end().len().max(start));
        let Some((name, mut at)) = word else {
            let form = "Command must be of the form: <name> field[;field] ...";
            let help = "such as `wakeup_latency u64 lat; pid_t pid`";
            return Err(Problem::new(whole, form).with_help(help));
        };
        if !is_name(name) {
            let place = Span::new(start, start + name.len());
            return Err(Problem::new(place, "Illegal name"));
        }
        let mut synthetic = Self {
            format: EventFormat {
                name: name.to_owned(),
                id: number,
                ..EventFormat::default()
            },
            size: START as usize,
        };
        for part in text[at..].split(';') {
            let span = Span::new(at, at + part.len());
            at += part.len() + 1;
            let inside = part.trim();
            if inside.is_empty() {
                continue;
            }
            let begin = span.start + (part.len() - part.trim_start().len());
            let span = Span::new(begin, begin + inside.len());
            synthetic.add(inside, span)?;
        }
        match synthetic.format.fields.len() {
            0 => Err(Problem::new(whole, "Incomplete type")),
            1..=FIELDS => Ok(synthetic),
            _ => Err(Problem::new(whole, "Too many fields")),
        }
    }

    /// Adds the field behind the others.
    fn add(&mut self, text: &str, span: Span) -> Result<(), Problem> {
        let wrong = |words: &str| Err(Problem::new(span, words));
        if text.split_whitespace().any(|word| word == "long[]") {
            let help = "a stack is a key only: `keys=stacktrace` in the trigger of an event";
            return Err(Problem::new(span, "Invalid type").with_help(help));
        }
        let (words, length) = match text.split_once('[') {
            Some((words, rest)) => match rest.trim_end().strip_suffix(']') {
                Some(length) => (words.trim_end(), Some(length.trim())),
                None => return wrong("Invalid array specification"),
            },
            None => (text, None),
        };
        let Some((kind, name)) = words.rsplit_once(char::is_whitespace) else {
            return wrong("Incomplete type");
        };
        let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ");
        if !is_name(name) {
            return wrong("Illegal name");
        }
        if self.format.field(name).is_some() {
            return wrong("Invalid field");
        }
        let known = TYPES.iter().find(|(known, _)| *known == kind);
        let (size, declared) = match (known, length) {
            (None, _) => {
                let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
                let help = format!("there is {}, and char NAME[SIZE]", names.join(", "));
                return Err(Problem::new(span, "Invalid type").with_help(help));
            }
            (Some((_, size)), None) => (*size, kind),
            (Some(("char", _)), Some("")) => (TEXT_ROOM as u32, "char[]".to_owned()),
            (Some(("char", _)), Some(length)) => match length.parse::<u32>() {
                Ok(size @ 1..=256) => (size, format!("char[{size}]")),
                _ => return wrong("Invalid array specification"),
            },
            (Some(_), Some(_)) => {
                let problem = Problem::new(span, "Invalid type");
                return Err(problem.with_help("only text can be an array: `char NAME[SIZE]`"));
            }
        };
        let is_text = length.is_some();
        let align = if is_text { 8 } else { size };
        let before = self.format.fields.last();
        let offset = before
            .map_or(START, |field| field.offset + field.size)
            .next_multiple_of(align);
        let room = if is_text {
            size.next_multiple_of(8)
        } else {
            size
        };
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
        Ok(())
    }
}

/// The kernel's rule for names (`is_good_name`), and what its own tests have besides: `-`, `+`.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| is_word(c) || c == '-' || c == '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_numbers_can_be_read() {
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
    fn what_is_wrong_has_the_kernels_words() {
        let form = "Command must be of the form: <name> field[;field] ...";
        let cases = [
            ("", form, 0),
            ("name", form, 0),
            ("name ;", "Incomplete type", 0),
            ("na.me u64 a", "Illegal name", 0),
            ("name u64", "Incomplete type", 5),
            ("name u64 a; u65 b", "Invalid type", 12),
            ("name u64 a; u64 a", "Invalid field", 12),
            ("name char a[x]", "Invalid array specification", 5),
            ("name char a[257]", "Invalid array specification", 5),
            ("name char a[16", "Invalid array specification", 5),
            ("name unsigned long stack[]", "Invalid type", 5),
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
