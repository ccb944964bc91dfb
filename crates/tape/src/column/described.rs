//! Columns described by `noctule-schema`: columns of events and of the types that events contain.

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_schema::column::{self, Access, Row};
use noctule_schema::with_access;

use super::{Column, ColumnResult, Columns, Record};

/// Appends the columns of a type.
pub(crate) fn fields<T: Row>(out: &mut Vec<Field>) {
    fn of<T, V: Column>(_: &Access<T, V>, name: &str, out: &mut Vec<Field>) {
        V::fields(name, out);
    }
    for column in T::COLUMNS.iter().copied().flatten() {
        with_access!(&column.values, access => of(access, column.name, out));
    }
}

/// Appends the values of these columns. If a row is `None`, its values are the defaults.
pub(crate) fn arrays<T: Row>(rows: &[Option<&T>], out: &mut Vec<ArrayRef>) {
    fn of<T, V: Column>(access: &Access<T, V>, rows: &[Option<&T>], out: &mut Vec<ArrayRef>) {
        let value = |row: &Option<&T>| row.map_or_else(V::default, access.get);
        let values: Vec<V> = rows.iter().map(value).collect();
        V::arrays(&values.iter().collect::<Vec<_>>(), out);
    }
    for column in T::COLUMNS.iter().copied().flatten() {
        with_access!(&column.values, access => of(access, rows, out));
    }
}

/// Fills rows from their columns. If a row lacks a required value, sets it to `None`.
pub(crate) fn read<T: Row>(from: &Columns<'_>, rows: &mut [Option<T>]) -> ColumnResult<()> {
    fn of<T, V: Column>(access: &Access<T, V>, values: Vec<V>, rows: &mut [Option<T>]) {
        for (row, value) in rows.iter_mut().zip(values) {
            if row.as_mut().is_some_and(|row| !(access.set)(row, value)) {
                *row = None;
            }
        }
    }
    for column::Column { name, values } in T::COLUMNS.iter().copied().flatten() {
        with_access!(values, access => of(access, Column::read(from, name)?, rows));
    }
    Ok(())
}

impl<T: Row + Clone + Default + PartialEq> Record for T {
    fn fields(out: &mut Vec<Field>) {
        fields::<T>(out);
    }

    fn arrays(rows: &[&Self], out: &mut Vec<ArrayRef>) {
        let rows: Vec<Option<&T>> = rows.iter().copied().map(Some).collect();
        arrays(&rows, out);
    }

    fn read(from: &Columns<'_>) -> ColumnResult<Vec<Self>> {
        let mut rows = vec![Some(T::default()); from.rows()];
        read(from, &mut rows)?;
        Ok(rows.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn since(&self, _earlier: &Self) -> Option<Self> {
        Some(self.clone())
    }

    fn add(&mut self, _earlier: &Self) {}
}
