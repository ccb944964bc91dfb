//! Converts nested rows to Parquet's flat leaf columns. Each slot of a leaf has two levels. The
//! definition level counts how many of the enclosing optional values and lists are present. The
//! repetition level determines which enclosing list the slot continues.

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType, Field};

/// A column without nested columns.
pub(super) struct Leaf<'a> {
    pub(super) array: &'a ArrayRef,
    /// Indexes of the non-null values in the array.
    pub(super) places: Vec<usize>,
    /// Definition level of each slot: how many optional values and lists are present, from the
    /// outermost to the value itself.
    pub(super) defined: Vec<i16>,
    /// Repetition level of each slot: the depth of the list that it continues, or 0 if a row
    /// starts.
    pub(super) repeated: Vec<i16>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// `None` if an enclosing value is null or empty.
    place: Option<usize>,
    defined: i16,
    repeated: i16,
}

/// Returns the leaves of a column, in the order of the schema.
pub(super) fn leaves<'a>(field: &Field, array: &'a ArrayRef) -> Vec<Leaf<'a>> {
    let slot = |row| Slot {
        place: Some(row),
        defined: 0,
        repeated: 0,
    };
    let mut leaves = Vec::new();
    descend(
        field,
        array,
        (0..array.len()).map(slot).collect(),
        0,
        &mut leaves,
    );
    leaves
}

/// Adds the leaves of a column that is nested in `lists` lists.
fn descend<'a>(
    field: &Field,
    array: &'a ArrayRef,
    mut slots: Vec<Slot>,
    lists: i16,
    leaves: &mut Vec<Leaf<'a>>,
) {
    if field.is_nullable() {
        for slot in &mut slots {
            slot.place = slot.place.filter(|place| array.is_valid(*place));
            slot.defined += i16::from(slot.place.is_some());
        }
    }
    match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let slots = slots
                .into_iter()
                .flat_map(|slot| items(list, slot, lists + 1));
            descend(item, list.values(), slots.collect(), lists + 1, leaves);
        }
        DataType::Struct(fields) => {
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                descend(field, column, slots.clone(), lists, leaves);
            }
        }
        _ => leaves.push(Leaf {
            array,
            places: slots.iter().filter_map(|slot| slot.place).collect(),
            defined: slots.iter().map(|slot| slot.defined).collect(),
            repeated: slots.iter().map(|slot| slot.repeated).collect(),
        }),
    }
}

/// Returns the slots of a list's items, or one empty slot if the list has none.
fn items(list: &ListArray, slot: Slot, lists: i16) -> impl Iterator<Item = Slot> + use<> {
    let ends = list.value_offsets();
    let places = slot
        .place
        .map(|row| ends[row] as usize..ends[row + 1] as usize);
    let places = places.unwrap_or_default();
    let none = places.is_empty().then_some(Slot {
        place: None,
        ..slot
    });
    let first = places.start;
    let item = move |place| Slot {
        place: Some(place),
        defined: slot.defined + 1,
        repeated: match place == first {
            true => slot.repeated,
            false => lists,
        },
    };
    none.into_iter().chain(places.map(item))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, UInt32Builder};
    use arrow_array::{StructArray, UInt32Array};
    use arrow_buffer::{NullBuffer, OffsetBuffer};

    use super::*;

    /// Returns the values, definition levels and repetition levels of each leaf.
    fn found(array: impl Array + 'static, nullable: bool) -> Vec<(Vec<u32>, Vec<i16>, Vec<i16>)> {
        let array: ArrayRef = Arc::new(array);
        let field = Field::new("a", array.data_type().clone(), nullable);
        let leaf = |leaf: Leaf| {
            let values = leaf.array.as_primitive::<arrow_array::types::UInt32Type>();
            let values = leaf.places.iter().map(|place| values.value(*place));
            (values.collect(), leaf.defined, leaf.repeated)
        };
        leaves(&field, &array).into_iter().map(leaf).collect()
    }

    type Row = Option<Vec<Option<u32>>>;

    fn append(to: &mut ListBuilder<UInt32Builder>, row: Row) {
        match row {
            Some(items) => to.append_value(items),
            None => to.append_null(),
        }
    }

    /// A list of numbers, a null, an empty list, a list with a null, and a list with nulls and
    /// numbers.
    fn rows() -> [Row; 5] {
        [
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
            Some(vec![None]),
            Some(vec![None, Some(3), None]),
        ]
    }

    fn lists() -> ListArray {
        let mut lists = ListBuilder::new(UInt32Builder::new());
        rows().into_iter().for_each(|row| append(&mut lists, row));
        lists.finish()
    }

    #[test]
    fn a_plain_column_has_one_slot_for_each_row() {
        let all = UInt32Array::from(vec![4, 5]);
        assert_eq!(found(all, false), [(vec![4, 5], vec![0, 0], vec![0, 0])]);
        let some = UInt32Array::from(vec![Some(4), None, Some(5)]);
        let expected = (vec![4, 5], vec![1, 0, 1], vec![0, 0, 0]);
        assert_eq!(found(some, true), [expected]);
    }

    /// Definition levels: 0 is a null list, 1 an empty list, 2 a null item, 3 a number.
    #[test]
    fn null_and_empty_lists_have_distinct_levels() {
        let defined = vec![3, 3, 0, 1, 2, 2, 3, 2];
        let repeated = vec![0, 1, 0, 0, 0, 0, 1, 1];
        let expected = (vec![1, 2, 3], defined, repeated);
        assert_eq!(found(lists(), true), [expected]);
        // A slice, which does not start at the array's first item.
        let expected = (vec![3], vec![1, 2, 2, 3, 2], vec![0, 0, 0, 1, 1]);
        assert_eq!(found(lists().slice(2, 3), true), [expected]);
    }

    /// Required values have no definition level.
    #[test]
    fn required_list_has_one_level_less() {
        let item = Arc::new(Field::new("item", DataType::UInt32, false));
        let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
        let values = Arc::new(UInt32Array::from(vec![1, 2, 3]));
        let array = ListArray::new(item, offsets, values, None);
        let expected = (vec![1, 2, 3], vec![1, 1, 0, 1], vec![0, 1, 0, 0]);
        assert_eq!(found(array, false), [expected]);
    }

    #[test]
    fn values_behind_a_null_are_left_out() {
        let item = Arc::new(Field::new("item", DataType::UInt32, true));
        let offsets = OffsetBuffer::from_lengths([1, 2, 1]);
        let values = Arc::new(UInt32Array::from(vec![1, 8, 9, 2]));
        let nulls = NullBuffer::from(vec![true, false, true]);
        let array = ListArray::new(item, offsets, values, Some(nulls));
        let expected = (vec![1, 2], vec![3, 0, 3], vec![0, 0, 0]);
        assert_eq!(found(array, true), [expected]);
    }

    /// Repetition levels: 0 starts a row, 1 continues the outer list, and 2 continues the inner
    /// list.
    #[test]
    fn nested_lists_have_repetition_levels() {
        let mut outer = ListBuilder::new(ListBuilder::new(UInt32Builder::new()));
        rows()
            .into_iter()
            .for_each(|row| append(outer.values(), row));
        outer.append(true);
        outer.append(false);
        outer.append(true);
        append(outer.values(), None);
        append(outer.values(), Some(vec![Some(4), Some(5)]));
        outer.append(true);
        // A row with all five lists, a null, an empty list, and a null list with a list of numbers.
        let defined = vec![5, 5, 2, 3, 4, 4, 5, 4, 0, 1, 2, 5, 5];
        let repeated = vec![0, 2, 1, 1, 1, 1, 2, 2, 0, 0, 0, 1, 2];
        let expected = (vec![1, 2, 3, 4, 5], defined, repeated);
        assert_eq!(found(outer.finish(), true), [expected]);
    }

    /// Each column of a struct has the same number of slots, even if the struct or a column is
    /// null.
    #[test]
    fn a_list_of_structs_has_a_leaf_for_each_column() {
        let fields = vec![
            Field::new("always", DataType::UInt32, false),
            Field::new("some", DataType::UInt32, true),
            Field::new("list", lists().data_type().clone(), true),
        ];
        let structs = StructArray::new(
            fields.into(),
            vec![
                Arc::new(UInt32Array::from(vec![10, 11, 12, 13, 14])),
                Arc::new(UInt32Array::from(vec![
                    None,
                    Some(21),
                    None,
                    Some(23),
                    None,
                ])),
                Arc::new(lists()),
            ],
            Some(NullBuffer::from(vec![true, true, true, false, true])),
        );
        let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([2, 0, 3]);
        let array = ListArray::new(item, offsets, Arc::new(structs), None);
        let repeated = vec![0, 1, 0, 0, 1, 1];
        let expected = [
            (
                vec![10, 11, 12, 14],
                vec![3, 3, 1, 3, 2, 3],
                repeated.clone(),
            ),
            (vec![21], vec![3, 4, 1, 3, 2, 3], repeated),
            (
                vec![1, 2, 3],
                vec![6, 6, 3, 1, 4, 2, 5, 6, 5],
                vec![0, 2, 1, 0, 0, 1, 1, 2, 2],
            ),
        ];
        assert_eq!(found(array, true), expected);
    }
}
