//! The files of an export, and which of them are open.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use chrono::DateTime;

use super::rows::Rows;
use super::{DAY_NS, Exported, TableFormat, csv, parquet};
use crate::error::Error;
use crate::private;

/// The origin of rows, which determines the file that contains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Days since 1970, if each day has its own directory.
    pub(super) day: Option<u64>,
    /// Whether each host has its own directory.
    pub(super) in_host: bool,
    pub(super) host: String,
    pub(super) run: String,
}

impl Place {
    /// Returns the directory of a table.
    fn folder(&self, root: &Path, table: &str) -> PathBuf {
        let mut folder = root.join(table);
        if let Some(day) = self.day {
            let time = DateTime::from_timestamp_nanos((day * DAY_NS).cast_signed());
            folder.push(format!("date={}", time.format("%Y-%m-%d")));
        }
        if self.in_host {
            folder.push(format!("host={}", encoded(&self.host)));
        }
        folder
    }

    /// Returns whether rows of both origins go into the same file.
    fn is_with(&self, other: &Self) -> bool {
        self.day == other.day && (!self.in_host || self.host == other.host)
    }
}

/// Encodes a name as one path component, as Hive does: bytes other than letters, digits and `-._`
/// become `%` and two hexadecimal digits.
fn encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => out.push(byte.into()),
            b'.' if !out.is_empty() => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

struct Open {
    path: PathBuf,
    place: Place,
    rows: Box<dyn Rows>,
}

/// The files of an export.
pub(super) struct Places {
    root: PathBuf,
    format: TableFormat,
    group_bytes: usize,
    open: BTreeMap<&'static str, Open>,
    done: Exported,
}

impl Places {
    /// Creates the directory, or accepts an existing empty one.
    pub(super) fn open(
        root: &Path,
        format: TableFormat,
        group_bytes: usize,
    ) -> Result<Self, Error> {
        let mut make = private::folders();
        make.recursive(true).create(root).map_err(Error::at(root))?;
        let mut found = fs::read_dir(root).map_err(Error::at(root))?;
        if found.next().is_some() {
            let root = root.display();
            return Err(Error::new(format!(
                "{root} is not empty: choose a new or empty folder"
            )));
        }
        Ok(Self {
            root: root.to_owned(),
            format,
            group_bytes,
            open: BTreeMap::new(),
            done: Exported::default(),
        })
    }

    /// Appends rows to the file of a table.
    pub(super) fn write(
        &mut self,
        table: &'static str,
        place: &Place,
        batch: &RecordBatch,
    ) -> Result<(), Error> {
        if let Some(open) = self.open.get(table)
            && !open.place.is_with(place)
            && let Some(open) = self.open.remove(table)
        {
            self.close_one(open)?;
        }
        let open = match self.open.entry(table) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let (path, file) = begin(&place.folder(&self.root, table), self.format)?;
                let rows: io::Result<Box<dyn Rows>> = match self.format {
                    TableFormat::Parquet => {
                        parquet::begin(file, batch.schema_ref(), self.group_bytes)
                    }
                    TableFormat::Csv => csv::begin(file, batch.schema_ref()),
                };
                free.insert(Open {
                    rows: rows.map_err(Error::at(&path))?,
                    place: place.clone(),
                    path,
                })
            }
        };
        self.done.rows += batch.num_rows() as u64;
        open.rows.write(batch).map_err(Error::at(&open.path))
    }

    /// Returns whether the table has an open file.
    pub(super) fn has(&self, table: &str) -> bool {
        self.open.contains_key(table)
    }

    /// Finishes all files.
    pub(super) fn close(mut self) -> Result<Exported, Error> {
        for open in std::mem::take(&mut self.open).into_values() {
            self.close_one(open)?;
        }
        Ok(self.done)
    }

    fn close_one(&mut self, open: Open) -> Result<(), Error> {
        open.rows.close().map_err(Error::at(&open.path))?;
        let size = fs::metadata(&open.path).map_err(Error::at(&open.path))?;
        self.done.files += 1;
        self.done.bytes += size.len();
        Ok(())
    }
}

/// Creates the next file of a directory.
fn begin(folder: &Path, format: TableFormat) -> Result<(PathBuf, File), Error> {
    let mut make = private::folders();
    make.recursive(true)
        .create(folder)
        .map_err(Error::at(folder))?;
    let ending = match format {
        TableFormat::Parquet => "parquet",
        TableFormat::Csv => "csv",
    };
    let mut number = 0;
    loop {
        let path = folder.join(format!("part-{number}.{ending}"));
        match private::new_file(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::at(&path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_is_one_path_component() {
        let cases = [
            ("node-1.example", "node-1.example"),
            ("../../etc", "%2E.%2F..%2Fetc"),
            ("..", "%2E."),
            ("a=b c", "a%3Db%20c"),
        ];
        for (host, expected) in cases {
            assert_eq!(encoded(host), expected);
        }
    }
}
