//! The index of a segment. Each write of the tables appends a line with the position and checksum
//! of the written data. The line is written after the data, so data without a line is incomplete.
//!
//! Other Arrow readers do not need the index: each table is a complete Arrow stream.

use std::fmt::Write as _;

/// Name of the index file.
pub(crate) const FILE: &str = "index";

/// First word of a line.
const FLUSH: &str = "rows";
const CLOSED: &str = "closed";

/// Optional words after the numbers of a line. Format 1 had none.
const WHOLE: &str = "whole";
const KEPT: &str = "kept";

/// Marks, after a table's name, a chunk that contains the table's schema instead of rows.
const SCHEMA: char = '^';

/// A range of a table's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) table: String,
    /// Whether the chunk is the schema at the start of the file. Otherwise the chunk is a record
    /// batch.
    pub(crate) schema: bool,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u32,
}

/// One write of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Numbers of the first and the last batch, and the count of batches.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) ticks: u64,
    /// Wall-clock times of these two batches, nanoseconds since 1970.
    pub(crate) from_unix_ns: u64,
    pub(crate) to_unix_ns: u64,
    /// The count of events, with their earliest and latest time.
    pub(crate) events: u64,
    pub(crate) events_from_unix_ns: u64,
    pub(crate) events_to_unix_ns: u64,
    /// Whether the first batch contains all rows, so that reading can start with it.
    pub(crate) whole: bool,
    /// Whether each batch contains all rows of the previous batch, except for processes reported as
    /// exited.
    pub(crate) kept: bool,
    pub(crate) chunks: Vec<Chunk>,
}

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Flush(Flush),
    /// The last line of a complete segment.
    Closed,
}

impl Line {
    /// Returns the line with its checksum and newline.
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

    /// Parses a line without its newline.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let (text, checksum) = line
            .rsplit_once(" =")
            .ok_or("the line has no checksum at its end")?;
        if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(text.as_bytes())) {
            return Err("the checksum of the line does not match".to_owned());
        }
        let mut words = text.split(' ');
        match words.next() {
            Some(CLOSED) => Ok(Self::Closed),
            Some(FLUSH) => Flush::parse(words)
                .map(Self::Flush)
                .ok_or_else(|| "the line is malformed".to_owned()),
            _ => Err("the kind of the line is unknown to this version".to_owned()),
        }
    }
}

impl Flush {
    /// Returns the size of a table's rows in bytes.
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
        // The name is used as a file name, so only plain characters are accepted.
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

/// Returns the file name of a table.
pub(crate) fn table_file(table: &str) -> String {
    format!("{table}.arrows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_line_round_trips_and_any_damage_is_detected() {
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
