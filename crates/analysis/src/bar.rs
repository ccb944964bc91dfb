//! Draws the causes of a wait as the segments of a bar.

use noctule_model::Cause;

use crate::WaitReportRow;

impl WaitReportRow {
    /// Divides a bar of `characters` among the causes. The segments fill the bar, unless there was
    /// no wait.
    pub fn bar(&self, characters: usize) -> impl Iterator<Item = (Cause, usize)> {
        let all = self.wait_ns.iter().map(|part| u128::from(*part));
        let total = all.sum::<u128>().max(1);
        let (mut sum, mut drawn) = (0, 0);
        Cause::ALL.into_iter().map(move |cause| {
            sum += u128::from(self.wait_ns[cause as usize]);
            let end = ((sum * characters as u128 + total / 2) / total) as usize;
            let part = end - drawn;
            drawn = end;
            (cause, part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Party;

    #[test]
    fn bar_parts_add_up_to_its_width() {
        let cases = [
            ([0; 8], [0; 8]),
            ([0, 7, 0, 0, 0, 0, 0, 0], [0, 24, 0, 0, 0, 0, 0, 0]),
            ([1; 8], [3; 8]),
            ([1, 98, 0, 0, 0, 0, 0, 1], [0, 24, 0, 0, 0, 0, 0, 0]),
            (
                [u64::MAX / 8, u64::MAX / 8, 0, 0, 0, 0, 0, 0],
                [12, 12, 0, 0, 0, 0, 0, 0],
            ),
            // Values this large can come from a forged recording.
            (
                [1 << 63, 1 << 63, 0, 0, 0, 0, 0, 0],
                [12, 12, 0, 0, 0, 0, 0, 0],
            ),
            ([u64::MAX; 8], [3; 8]),
        ];
        for (wait_ns, parts) in cases {
            let row = WaitReportRow {
                wait_ns,
                ..WaitReportRow::quiet(Party::Kernel)
            };
            let drawn: Vec<usize> = row.bar(24).map(|(_, part)| part).collect();
            assert_eq!(drawn, parts, "{wait_ns:?}");
        }
    }
}
