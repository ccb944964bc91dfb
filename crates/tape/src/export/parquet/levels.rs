//! Rows with lists in them as Parquet has them: each leaf is a flat column of slots, with two levels of each
//! slot. The first says how much of what is around a value is there, and the second in which of the lists
//! around it it continues.

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType, Field};

/// A column that has no others in it.
pub(super) struct Leaf<'a> {
    pub(super) array: &'a ArrayRef,
    /// Where in the array the values are, without what is null.
    pub(super) places: Vec<usize>,
    /// Of each slot how many of the nullable values and lists around it are there, itself included.
    pub(super) defined: Vec<i16>,
    /// Of each slot how many lists around it had an item before it in this row; 0: a row begins.
    pub(super) repeated: Vec<i16>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// `None`: something around it is null or empty.
    place: Option<usize>,
    defined: i16,
    repeated: i16,
}

/// The leaves of a column, in the order of the schema.
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

/// Adds the leaves of a column that has so many lists around it.
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

/// The slots of the items of a list; one, which is not there, where it has none.
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
