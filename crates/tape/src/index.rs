//! The index of a segment: one line for each time that the tables were written, with the place and the
//! checksum of what was written. A line stands behind the data that it names: data without a line were
//! not finished.
//!
//! Readers without us do not need it: each table is a whole stream of Arrow.

use std::fmt::Write as _;

/// Its file.
pub(crate) const FILE: &str = "index";

/// The first word of each line.
const FLUSH: &str = "rows";
const CLOSED: &str = "closed";

/// Words behind the numbers of a line. Format 1 had none of them.
const WHOLE: &str = "whole";
const KEPT: &str = "kept";

/// Ends the name of a table whose schema, not its rows, is in a chunk.
const SCHEMA: char = '^';

/// A part of a table's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) table: String,
    /// It is the schema, with which the file begins; otherwise a record batch.
    pub(crate) schema: bool,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u32,
}

/// What was written at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Number of its first batch and of its last, and how many there are.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) ticks: u64,
    /// Wall-clock time of these two, nanoseconds since 1970.
    pub(crate) from_unix_ns: u64,
    pub(crate) to_unix_ns: u64,
    /// How many events, and the earliest and latest time of them.
    pub(crate) events: u64,
    pub(crate) events_from_unix_ns: u64,
    pub(crate) events_to_unix_ns: u64,
    /// Its first batch has all rows: reading can begin with it.
    pub(crate) whole: bool,
    /// Each of its batches has all that the one before had, but for processes whose end is reported.
    pub(crate) kept: bool,
    pub(crate) chunks: Vec<Chunk>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Flush(Flush),
    /// The segment is complete.
    Closed,
}

impl Line {
    /// The line with its checksum and its end.
    pub(crate) fn text(&self) -> String {
        let mut text = match self {
            Self::Closed => CLOSED.to_owned(),
            Self::Flush(flush) => flush.text(),
        };
        let checksum = crc32fast::hash(text.as_bytes());
        // Writing to a string cannot fail.
        let _ = writeln!(text, " ={checksum:08x}");
        text
    }

    /// Reads a line without its end.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let (text, checksum) = line
            .rsplit_once(" =")
            .ok_or("the line has no checksum at its end")?;
        if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(text.as_bytes())) {
            return Err("the checksum of the line differs".to_owned());
        }
        let mut words = text.split(' ');
        match words.next() {
            Some(CLOSED) => Ok(Self::Closed),
            Some(FLUSH) => Flush::parse(words)
                .map(Self::Flush)
                .ok_or_else(|| "the line is not as this version writes it".to_owned()),
            _ => Err("the line is of a kind that this version does not read".to_owned()),
        }
    }
}

impl Flush {
    /// Bytes of the rows of a table.
    pub(crate) fn bytes(&self, table: &str) -> u64 {
        let mut chunks = self.chunks.iter();
        let rows = chunks.find(|chunk| chunk.table == table && !chunk.schema);
        rows.map_or(0, |chunk| chunk.length)
    }

    fn numbers(&self) -> [u64; 8] {
        [
            self.first,
            self.last,
            self.ticks,
            self.from_unix_ns,
            self.to_unix_ns,
            self.events,
            self.events_from_unix_ns,
            self.events_to_unix_ns,
        ]
    }

    fn text(&self) -> String {
        let mut text = FLUSH.to_owned();
        for number in self.numbers() {
            let _ = write!(text, " {number}");
        }
        for (_, word) in [(self.whole, WHOLE), (self.kept, KEPT)]
            .iter()
            .filter(|(is, _)| *is)
        {
            let _ = write!(text, " {word}");
        }
        for chunk in &self.chunks {
            let Chunk {
                table,
                schema,
                offset,
                length,
                checksum,
            } = chunk;
            let mark = if *schema { "^" } else { "" };
            let _ = write!(text, " {table}{mark}:{offset}:{length}:{checksum:08x}");
        }
        text
    }

    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut number = || words.next()?.parse().ok();
        let mut flush = Self {
            first: number()?,
            last: number()?,
            ticks: number()?,
            from_unix_ns: number()?,
            to_unix_ns: number()?,
            events: number()?,
            events_from_unix_ns: number()?,
            events_to_unix_ns: number()?,
            whole: false,
            kept: false,
            chunks: Vec::new(),
        };
        for word in words {
            match word {
                WHOLE => flush.whole = true,
                KEPT => flush.kept = true,
                _ => flush.chunks.push(Chunk::parse(word)?),
            }
        }
        Some(flush)
    }
}

impl Chunk {
    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let name = parts.next()?;
        let table = name.trim_end_matches(SCHEMA);
        // It becomes the name of a file.
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if !table.bytes().all(is_plain) {
            return None;
        }
        Some(Self {
            table: table.to_owned(),
            schema: name.ends_with(SCHEMA),
            offset: parts.next()?.parse().ok()?,
            length: parts.next()?.parse().ok()?,
            checksum: u32::from_str_radix(parts.next()?, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_no_other_is() {
        let chunk = |schema, offset| Chunk {
            table: "processes".into(),
            schema,
            offset,
            length: 7,
            checksum: 0xab,
        };
        let flush = Line::Flush(Flush {
            first: 3,
            last: 5,
            ticks: 3,
            events: 9,
            events_to_unix_ns: u64::MAX,
            whole: true,
            kept: true,
            chunks: vec![chunk(true, 0), chunk(false, 7)],
            ..Flush::default()
        });
        for line in [flush, Line::Closed] {
            let text = line.text();
            let text = text.strip_suffix('\n').expect("a whole line");
            assert_eq!(Line::parse(text).as_ref(), Ok(&line));
            for at in 0..text.len() {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] ^= 1;
                let other = String::from_utf8(bytes).expect("text");
                assert!(Line::parse(&other).is_err(), "{other}");
                assert!(Line::parse(&text[..at]).is_err());
            }
        }
    }
}
