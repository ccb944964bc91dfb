//! Finds rows that the index of a segment does not list. Rows are written before their index line.
//! A killed or running writer therefore leaves at most one unlisted message per table. If there are
//! more messages, index lines were lost.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::index::{Flush, table_file};
use crate::message::{self, Found};

/// The tables of a segment with their lengths.
pub(crate) type Lengths = Vec<(String, u64)>;

/// Returns the current lengths.
pub(crate) fn lengths(segment: &Path) -> Lengths {
    let files = fs::read_dir(segment).into_iter().flatten().flatten();
    let tables = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let table = name.strip_suffix(".arrows")?.to_owned();
        let data = file.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((table, data.len()))
    });
    tables.collect()
}

/// Rows of a table that the index does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The index lists all rows.
    None,
    /// Rows of one flush, whose write may not have finished.
    Last,
    /// Rows whose index lines were lost.
    Lost,
}

/// Returns a table with unlisted rows, and the offset of these rows. Prefers a table with lost
/// index lines. The lengths must be read before the index.
pub(crate) fn find(
    segment: &Path,
    flushes: &[Flush],
    lengths: &Lengths,
) -> io::Result<Option<(String, u64, Rows)>> {
    let mut last = None;
    for (table, length) in lengths {
        let chunks = flushes.iter().flat_map(|flush| &flush.chunks);
        let ends = chunks.filter(|chunk| chunk.table == *table);
        let end = ends.map(|chunk| chunk.offset.saturating_add(chunk.length));
        let end = end.max().unwrap_or(0);
        if end >= *length {
            continue;
        }
        let file = File::open(segment.join(table_file(table)))?;
        match of_table(&file, end, *length)? {
            Rows::None => {}
            Rows::Last => last = last.or_else(|| Some((table.clone(), end, Rows::Last))),
            Rows::Lost => return Ok(Some((table.clone(), end, Rows::Lost))),
        }
    }
    Ok(last)
}

fn of_table(file: &File, end: u64, length: u64) -> io::Result<Rows> {
    let (mut at, mut rows) = (end, Rows::None);
    while at < length {
        match message::find(file, at, length)? {
            // The schema at the start of a file.
            Found::Whole(bytes) if at == 0 => at += bytes,
            Found::Whole(bytes) if rows == Rows::None => {
                rows = Rows::Last;
                at += bytes;
            }
            Found::Begun if rows == Rows::None => return Ok(Rows::Last),
            Found::End if rows == Rows::None => return Ok(Rows::None),
            // The end of a stream is written only after all index lines.
            _ => return Ok(Rows::Lost),
        }
    }
    Ok(rows)
}
