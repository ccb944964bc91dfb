//! Lists of records.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields};
use noctule_schema::column::List;

use super::{Column, ColumnResult, Columns, Record};

fn item<R: Record>() -> (Fields, Arc<Field>) {
    let mut fields = Vec::new();
    R::fields(&mut fields);
    let fields: Fields = fields.into();
    let item = Field::new_list_field(DataType::Struct(fields.clone()), false);
    (fields, Arc::new(item))
}

impl<R: Record> Column for List<R> {
    fn fields(name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, DataType::List(item::<R>().1), false));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        let (fields, item) = item::<R>();
        let records: Vec<&R> = values.iter().flat_map(|list| &list.0).collect();
        let mut columns = Vec::new();
        R::arrays(&records, &mut columns);
        let offsets = OffsetBuffer::from_lengths(values.iter().map(|list| list.0.len()));
        // `StructArray::new` panics if columns and fields differ. Here, both come from the same
        // record type.
        let items = StructArray::new(fields, columns, None);
        out.push(Arc::new(ListArray::new(
            item,
            offsets,
            Arc::new(items),
            None,
        )));
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let Some(array) = from.array(name) else {
            return Ok(vec![Self::default(); from.rows()]);
        };
        let wrong = || format!("column {name} has wrong type {}", array.data_type());
        let lists = array.as_list_opt::<i32>().ok_or_else(wrong)?;
        let items = lists.values().as_struct_opt().ok_or_else(wrong)?;
        let records = R::read(&Columns::of_structs(items))?;
        let ends = lists.value_offsets();
        let rows = from.places().map(|row| {
            let of_row = records.get(ends[row] as usize..ends[row + 1] as usize);
            Self(of_row.unwrap_or_default().to_vec())
        });
        Ok(rows.collect())
    }
}
