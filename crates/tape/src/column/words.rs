//! Text, and bytes that are usually text.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StringViewBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::{DataType, Field};
use noctule_schema::column::{Word, Words, WordsList};

use super::{Column, ColumnResult, Columns, Simple};
use crate::names::intern;

impl Simple for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef {
        let mut builder = StringBuilder::new();
        cells.for_each(|cell| builder.append_option(cell));
        Arc::new(builder.finish())
    }

    fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self> {
        let array = array.as_string_opt::<i32>()?;
        Some(move |row| array.value(row).to_owned())
    }
}

/// Words are string views, which contain short text inline, so that repeated text compresses to
/// almost nothing. Plain string columns have offsets, all of which differ.
impl Simple for Word {
    fn data_type() -> DataType {
        DataType::Utf8View
    }

    fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef {
        let mut builder = StringViewBuilder::new();
        cells.for_each(|cell| builder.append_option(cell.map(|word| word.0)));
        Arc::new(builder.finish())
    }

    fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self> {
        let array = array.as_string_view_opt()?;
        let known = Known::default();
        Some(move |row| known.word(array.value(row)))
    }
}

/// Caches the last word that was read. The next word is usually the same, so the cache saves a
/// lookup under a lock.
#[derive(Default)]
struct Known(Cell<Word>);

impl Known {
    fn word(&self, text: &str) -> Word {
        if self.0.get().0 != text {
            self.0.set(Word(intern(text)));
        }
        self.0.get()
    }
}

/// Bytes are written as text, with U+FFFD in place of invalid UTF-8. If the bytes are not valid
/// UTF-8, a second column contains the original bytes.
impl Column for Words {
    fn fields(name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, DataType::Utf8View, false));
        out.push(Field::new(raw(name), DataType::Binary, true));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        words(values.iter().map(|value| Some(*value)), out);
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let all = Option::<Self>::read(from, name)?.into_iter();
        Ok(all.map(Option::unwrap_or_default).collect())
    }
}

impl Column for Option<Words> {
    fn fields(name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, DataType::Utf8View, true));
        out.push(Field::new(raw(name), DataType::Binary, true));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        words(values.iter().map(|value| value.as_ref()), out);
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let text = from.each(name, |array| {
            let array = array.as_string_view_opt()?;
            Some(move |row| Some(array.value(row).to_owned()))
        })?;
        let bytes = from.each(&raw(name), |array| {
            let array = array.as_binary_opt::<i32>()?;
            Some(move |row| Some(array.value(row).to_vec()))
        })?;
        let pairs = text.into_iter().zip(bytes);
        Ok(pairs
            .map(|(text, bytes)| bytes.or(text.map(String::into_bytes)).map(Words))
            .collect())
    }
}

impl Column for WordsList {
    fn fields(name: &str, out: &mut Vec<Field>) {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        out.push(Field::new(name, list(DataType::Utf8), true));
        out.push(Field::new(raw(name), list(DataType::Binary), true));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        let mut text = ListBuilder::new(StringBuilder::new());
        let mut bytes = ListBuilder::new(BinaryBuilder::new());
        for value in values {
            let list = value.0.as_deref().unwrap_or_default();
            let is_text = list.iter().all(|words| str::from_utf8(words).is_ok());
            for words in list {
                text.values().append_value(String::from_utf8_lossy(words));
                if !is_text {
                    bytes.values().append_value(words);
                }
            }
            text.append(value.0.is_some());
            bytes.append(!is_text);
        }
        out.push(Arc::new(text.finish()));
        out.push(Arc::new(bytes.finish()));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Option<Vec<Vec<u8>>>> {
            let list = array.as_list_opt::<i32>()?;
            Some(move |row| {
                let items = list.value(row);
                if let Some(text) = items.as_string_opt::<i32>() {
                    let items = (0..text.len()).map(|at| text.value(at).as_bytes().to_vec());
                    return Some(items.collect());
                }
                let bytes = items.as_binary_opt::<i32>()?;
                Some(
                    (0..bytes.len())
                        .map(|at| bytes.value(at).to_vec())
                        .collect(),
                )
            })
        }
        let text = from.each(name, reader)?;
        let bytes = from.each(&raw(name), reader)?;
        let pairs = text.into_iter().zip(bytes);
        Ok(pairs.map(|(text, bytes)| Self(bytes.or(text))).collect())
    }
}

fn raw(name: &str) -> String {
    format!("{name}_bytes")
}

fn words<'a>(values: impl Iterator<Item = Option<&'a Words>>, out: &mut Vec<ArrayRef>) {
    let mut text = StringViewBuilder::new();
    let mut bytes = BinaryBuilder::new();
    for value in values {
        let lossy = value.map(|value| String::from_utf8_lossy(&value.0));
        let is_text = matches!(lossy, None | Some(Cow::Borrowed(_)));
        text.append_option(lossy);
        bytes.append_option(value.filter(|_| !is_text).map(|value| &value.0));
    }
    out.push(Arc::new(text.finish()));
    out.push(Arc::new(bytes.finish()));
}
