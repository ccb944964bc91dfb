//! Values as shares of the total.

use super::{Row, Table, ValueShow};

/// Returns the reference value of each column: the sum of all rows if the column is shown in
/// percent, or the maximum if it is shown as a bar.
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

/// Returns the share in hundredths of a percent. Returns `None` if the sum of all rows has
/// overflowed, in which case the kernel prints an error. As in the kernel, large numbers lose
/// precision.
pub(super) fn hundredths(number: u64, whole: u64) -> Option<u32> {
    let share = if whole == 0 {
        return (number == 0).then_some(0);
    } else if number < u64::MAX / 10_000 {
        number * 10_000 / whole
    } else {
        number.checked_div(whole / 10_000)?
    };
    // The kernel truncates the share to 32 bits and uses the largest number to mark an error.
    let share = share as u32;
    (share != u32::MAX).then_some(share)
}
