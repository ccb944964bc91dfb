//! Values as shares of all rows.

use super::{Row, Table, ValueShow};

/// For each value column: the sum of all rows if it is shown in percent, the greatest if it is shown
/// as a bar.
pub(super) fn wholes(table: &Table, rows: &[Row]) -> Vec<u64> {
    let whole = |column: &super::ValueColumn| {
        let numbers = rows.iter().map(|row| row.figure(column.figure));
        match column.show {
            ValueShow::Percent => numbers.fold(0, u64::wrapping_add),
            ValueShow::Graph => numbers.max().unwrap_or(0),
            ValueShow::Number | ValueShow::Signed | ValueShow::Hex => 0,
        }
    };
    table.values.iter().map(whole).collect()
}

/// The share in hundredths of a percent; `None` where the kernel prints an error, because the sum of
/// all rows has wrapped to a small number. Great numbers lose digits, as they do in the kernel.
pub(super) fn hundredths(number: u64, whole: u64) -> Option<u32> {
    let share = if whole == 0 {
        return (number == 0).then_some(0);
    } else if number < u64::MAX / 10_000 {
        number * 10_000 / whole
    } else {
        number.checked_div(whole / 10_000)?
    };
    // The kernel cuts the share to 32 bits, and has the greatest number for its error.
    let share = share as u32;
    (share != u32::MAX).then_some(share)
}
