//! Arrow columns: how a value of each type is written and read.
//!
//! A missing column reads as the default, because recordings of older versions have fewer columns.

mod counts;
pub(crate) mod described;
mod list;
mod path;
mod words;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType as _, Float64Type, Int32Type, TimestampNanosecondType, UInt8Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

pub(crate) use counts::{Counted, Named};
pub(crate) use noctule_schema::column::{List, Moment, Word, Words};

/// The result of reading a column. The error is the reason why it cannot be read.
pub(crate) type ColumnResult<T> = Result<T, String>;

/// A value that fills one column, or several columns whose names start with the field's name.
pub(crate) trait Column: Clone + Default {
    fn fields(name: &str, out: &mut Vec<Field>);
    /// Appends one array for each of [`Self::fields`], in the same order.
    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>);
    /// Returns one value per row.
    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>>;
    /// Returns the growth of a count since an earlier value, or `None` if the count decreased or
    /// the two values are not comparable. A value that is not a count is returned unchanged.
    fn since(&self, _earlier: &Self) -> Option<Self> {
        Some(self.clone())
    }
    /// Undoes [`Self::since`] by adding the earlier value.
    fn add(&mut self, _earlier: &Self) {}
}

/// A row of several columns.
pub(crate) trait Record: Clone + Default + PartialEq {
    fn fields(out: &mut Vec<Field>);
    /// Appends one array for each of [`Self::fields`], in the same order.
    fn arrays(rows: &[&Self], out: &mut Vec<ArrayRef>);
    /// Returns one record per row.
    fn read(from: &Columns<'_>) -> ColumnResult<Vec<Self>>;
    /// Returns the record with each count replaced by its growth since an earlier record. Returns
    /// `None` if [`Column::since`] does so for any field.
    fn since(&self, earlier: &Self) -> Option<Self>;
    /// Undoes [`Self::since`] by adding the earlier counts.
    fn add(&mut self, earlier: &Self);
}

/// Declares a [`Record`] in which each field is a [`Column`] of the same name, or with the name
/// after `as`.
macro_rules! record {
    ($(#[$doc:meta])* pub(crate) struct $name:ident {
        $($(#[$field_doc:meta])* $field:ident $(as $column:literal)?: $type:ty,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)+
        }

        impl $crate::column::Record for $name {
            fn fields(out: &mut Vec<arrow_schema::Field>) {
                $(<$type as $crate::column::Column>::fields(
                    $crate::column::name!($field $($column)?), out,
                );)+
            }

            fn arrays(rows: &[&Self], out: &mut Vec<arrow_array::ArrayRef>) {
                $({
                    let values: Vec<&$type> = rows.iter().map(|row| &row.$field).collect();
                    <$type as $crate::column::Column>::arrays(&values, out);
                })+
            }

            fn read(
                from: &$crate::column::Columns<'_>,
            ) -> $crate::column::ColumnResult<Vec<Self>> {
                $(let mut $field = <$type as $crate::column::Column>::read(
                    from, $crate::column::name!($field $($column)?),
                )?.into_iter();)+
                let rows = (0..from.rows()).map(|_| Self {
                    $($field: $field.next().unwrap_or_default(),)+
                });
                Ok(rows.collect())
            }

            fn since(&self, earlier: &Self) -> Option<Self> {
                Some(Self {
                    $($field: $crate::column::Column::since(&self.$field, &earlier.$field)?,)+
                })
            }

            fn add(&mut self, earlier: &Self) {
                $($crate::column::Column::add(&mut self.$field, &earlier.$field);)+
            }
        }
    };
}
pub(crate) use record;

/// Returns the name of the column of a field.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $column:literal) => {
        $column
    };
}
pub(crate) use name;

/// The columns of a record batch, or of the structs in a list.
pub(crate) struct Columns<'a> {
    fields: &'a Fields,
    arrays: &'a [ArrayRef],
    rows: usize,
    /// Runs of consecutive rows. Reading returns one row for each run: the last one, with the
    /// counts of the run added up. `None` reads every row.
    picked: Option<&'a [Range<usize>]>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(batch: &'a RecordBatch) -> Self {
        Self {
            fields: batch.schema_ref().fields(),
            arrays: batch.columns(),
            rows: batch.num_rows(),
            picked: None,
        }
    }

    /// Reads only the last row of each run, with the counts of the run added up. No run may be
    /// empty.
    pub(crate) fn pick(self, runs: &'a [Range<usize>]) -> Self {
        Self {
            rows: runs.len(),
            picked: Some(runs),
            ..self
        }
    }

    pub(crate) fn of_structs(structs: &'a StructArray) -> Self {
        Self {
            fields: structs.fields(),
            arrays: structs.columns(),
            rows: structs.len(),
            picked: None,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the array index of each row. For a run, this is its last index.
    fn places(&self) -> impl Iterator<Item = usize> + use<'a> {
        let picked = self.picked;
        (0..self.rows).map(move |row| picked.map_or(row, |picked| picked[row].end - 1))
    }

    /// Returns a count per row, or `None` if there is no such column.
    fn counts(&self, name: &str) -> ColumnResult<Option<Vec<Option<u64>>>> {
        let (Some(runs), Some(array)) = (self.picked, self.array(name)) else {
            let known = self.array(name).is_some();
            return Option::<u64>::read(self, name).map(|counts| known.then_some(counts));
        };
        let typed = array.as_primitive_opt::<UInt64Type>();
        let typed =
            typed.ok_or_else(|| format!("column {name} has wrong type {}", array.data_type()))?;
        // A null contributes 0. The sum wraps, because a forged file can contain any number.
        let values = typed.values();
        let sum = |run: &Range<usize>| {
            let sum = values[run.clone()]
                .iter()
                .fold(0_u64, |sum, value| sum.wrapping_add(*value));
            (!typed.is_null(run.end - 1)).then_some(sum)
        };
        Ok(Some(runs.iter().map(sum).collect()))
    }

    /// Marks each row whose successor differs in one of these columns. Marks every row if a column
    /// is missing or `names` is empty.
    pub(crate) fn ends_of_runs(&self, names: &[&str]) -> Vec<bool> {
        let mut ends = vec![names.is_empty(); self.rows];
        if let Some(last) = ends.last_mut() {
            *last = true;
        }
        for name in names {
            match self.array(name) {
                Some(array) => mark_changes(array, &mut ends),
                None => ends.fill(true),
            }
        }
        ends
    }

    fn array(&self, name: &str) -> Option<&'a ArrayRef> {
        let (place, _) = self.fields.find(name)?;
        self.arrays.get(place)
    }

    /// Returns the value of each row. `reader` returns how to read a row of the array, or `None` if
    /// the array has the wrong type.
    fn each<T: Clone + Default, R: Fn(usize) -> T>(
        &self,
        name: &str,
        reader: impl FnOnce(&'a ArrayRef) -> Option<R>,
    ) -> ColumnResult<Vec<T>> {
        let Some(array) = self.array(name) else {
            return Ok(vec![T::default(); self.rows]);
        };
        let read = reader(array)
            .ok_or_else(|| format!("column {name} has wrong type {}", array.data_type()))?;
        let value = |row| match array.is_null(row) {
            true => T::default(),
            false => read(row),
        };
        Ok(self.places().map(value).collect())
    }
}

/// Marks the rows whose value differs from the value of the next row.
fn mark_changes(array: &ArrayRef, marks: &mut [bool]) {
    fn mark(marks: &mut [bool], differs: impl Fn(usize) -> bool) {
        let rows = marks.len().saturating_sub(1);
        for (row, mark) in marks[..rows].iter_mut().enumerate() {
            *mark |= differs(row);
        }
    }
    if let Some(numbers) = array.as_primitive_opt::<UInt64Type>() {
        mark(marks, |row| numbers.value(row) != numbers.value(row + 1));
    } else if let Some(numbers) = array.as_primitive_opt::<UInt32Type>() {
        mark(marks, |row| numbers.value(row) != numbers.value(row + 1));
    } else if let Some(words) = array.as_string_view_opt() {
        mark(marks, |row| words.value(row) != words.value(row + 1));
    } else {
        marks.fill(true);
    }
}

/// Returns the schema of a record type, after the given columns.
pub(crate) fn schema<R: Record>(mut first: Vec<Field>) -> Arc<Schema> {
    R::fields(&mut first);
    Arc::new(Schema::new(first))
}

/// A value that fills one column. An optional value fills a column that can be null.
pub(crate) trait Simple: Clone + Default {
    fn data_type() -> DataType;
    fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a;
    /// Returns how to read a row of the array, or `None` if the array has the wrong type.
    fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self>;
}

impl<C: Simple> Column for C {
    fn fields(name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, C::data_type(), false));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        out.push(C::array(values.iter().copied().map(Some)));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        from.each(name, C::reader)
    }
}

impl<C: Simple> Column for Option<C> {
    fn fields(name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, C::data_type(), true));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        out.push(C::array(values.iter().map(|value| value.as_ref())));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        from.each(name, |array| {
            C::reader(array).map(|read| move |row| Some(read(row)))
        })
    }
}

macro_rules! primitive_cells {
    ($($native:ty => $arrow:ty,)+) => {$(
        impl Simple for $native {
            fn data_type() -> DataType {
                <$arrow>::DATA_TYPE
            }

            fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef {
                let mut builder = PrimitiveBuilder::<$arrow>::new();
                cells.for_each(|cell| builder.append_option(cell.copied()));
                Arc::new(builder.finish())
            }

            fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self> {
                let array = array.as_primitive_opt::<$arrow>()?;
                Some(move |row| array.value(row))
            }
        }
    )+};
}

primitive_cells! {
    u8 => UInt8Type,
    u32 => UInt32Type,
    u64 => UInt64Type,
    i32 => Int32Type,
    f64 => Float64Type,
}

/// A number that never decreases, in a table that writes counts as differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl Column for Count {
    fn fields(name: &str, out: &mut Vec<Field>) {
        u64::fields(name, out);
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        out.push(u64::array(values.iter().map(|value| Some(&value.0))));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let counts = from.counts(name)?.unwrap_or_default().into_iter();
        let counts = counts.map(|count| Self(count.unwrap_or_default()));
        Ok(counts.collect())
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        self.0.checked_sub(earlier.0).map(Self)
    }

    fn add(&mut self, earlier: &Self) {
        self.0 = self.0.wrapping_add(earlier.0);
    }
}

impl Column for Option<Count> {
    fn fields(name: &str, out: &mut Vec<Field>) {
        Option::<u64>::fields(name, out);
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        let counts = values.iter().map(|value| value.as_ref().map(|it| &it.0));
        out.push(u64::array(counts));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let counts = from.counts(name)?.unwrap_or_default().into_iter();
        Ok(counts.map(|count| count.map(Count)).collect())
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        match (self, earlier) {
            (Some(now), Some(then)) => now.since(then).map(Some),
            (None, None) => Some(None),
            _ => None,
        }
    }

    fn add(&mut self, earlier: &Self) {
        if let (Some(grown), Some(then)) = (self, earlier) {
            grown.add(then);
        }
    }
}

impl Simple for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef {
        let mut builder = BooleanBuilder::new();
        cells.for_each(|cell| builder.append_option(cell.copied()));
        Arc::new(builder.finish())
    }

    fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self> {
        let array = array.as_boolean_opt()?;
        Some(move |row| array.value(row))
    }
}

impl Simple for Moment {
    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    }

    fn array<'a>(cells: impl Iterator<Item = Option<&'a Self>>) -> ArrayRef {
        let mut builder = PrimitiveBuilder::<TimestampNanosecondType>::new();
        cells.for_each(|cell| builder.append_option(cell.map(|it| it.0.cast_signed())));
        Arc::new(builder.finish().with_timezone("UTC"))
    }

    fn reader(array: &ArrayRef) -> Option<impl Fn(usize) -> Self> {
        let array = array.as_primitive_opt::<TimestampNanosecondType>()?;
        Some(move |row| Self(array.value(row).cast_unsigned()))
    }
}
