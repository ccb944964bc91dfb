//! Draws waits as characters, for tables and the screen.

use noctule_model::{Cause, Histogram};

/// Number of characters in a drawn histogram. There is one character for each factor of four, from
/// 1 µs (2^10 ns) to 4 s (2^32 ns). The first and the last character include shorter and longer
/// waits.
pub const WAIT_LENGTHS: usize = 13;

/// The scale above a drawn histogram. Each label starts at the character for that length.
pub const WAIT_SCALE: &str = " 1µs  1ms  1s";

const FIRST_POWER: u32 = 10;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the glyph of a cause in a bar. Glyphs can be distinguished without colours.
pub const fn glyph(cause: Cause) -> char {
    match cause {
        Cause::Throttle => '▓',
        Cause::Neighbour => '█',
        Cause::Own => '▒',
        Cause::Kernel => '▚',
        Cause::Interrupt => '▞',
        Cause::Host => '▤',
        Cause::Idle => '░',
        Cause::Unattributed => '?',
    }
}

/// Returns the number of waits for each character of a drawn histogram.
pub fn lengths(waits: &Histogram) -> [u64; WAIT_LENGTHS] {
    let mut counts = [0; WAIT_LENGTHS];
    let mut before = 0;
    for (power, count) in (FIRST_POWER..).step_by(2).zip(&mut counts) {
        let below = waits.count_below_power(power);
        *count = below - before;
        before = below;
    }
    counts[WAIT_LENGTHS - 1] += waits.count() - before;
    counts
}

/// Draws shares from 0 to 1, one character each. A full block is 1, a blank is 0, and a dot is
/// unknown.
pub fn strip(parts: impl IntoIterator<Item = Option<f64>>) -> String {
    let height = |part: Option<f64>| match part {
        None => '·',
        Some(part) if part <= 0.0 => ' ',
        Some(part) => HEIGHTS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    parts.into_iter().map(height).collect()
}

/// Draws a histogram on one line, scaled to its fullest bucket. Even a single wait is visible, and
/// a blank means that there were no waits.
pub fn drawn(waits: &Histogram) -> String {
    let counts = lengths(waits);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let height = |&count: &u64| match count {
        0 => ' ',
        count => {
            let eighths = (u128::from(count) * 8).div_ceil(u128::from(most));
            HEIGHTS[eighths as usize - 1]
        }
    };
    counts.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_has_one_character_per_share() {
        let parts = [Some(0.0), Some(0.01), Some(0.5), Some(1.0), Some(1.2), None];
        assert_eq!(strip(parts), " ▁▄██·");
    }

    fn of(waits: &[(u64, u64)]) -> Histogram {
        let mut counts = vec![0; Histogram::BUCKETS];
        for &(ns, count) in waits {
            counts[Histogram::bucket(ns)] += count;
        }
        Histogram::from_counts(counts)
    }

    #[test]
    fn wait_is_drawn_below_the_label_of_its_length() {
        for (label, ns) in [("1µs", 1_500), ("1ms", 1_500_000), ("1s", 1_500_000_000)] {
            let at = lengths(&of(&[(ns, 1)])).iter().position(|&n| n > 0);
            let (before, _) = WAIT_SCALE.split_once(label).expect("a label");
            assert_eq!(at, Some(before.chars().count()), "{label}");
        }
        assert_eq!(WAIT_SCALE.chars().count(), WAIT_LENGTHS);
    }

    #[test]
    fn single_wait_is_visible_and_zero_is_blank() {
        let cases = [
            (of(&[]), "             "),
            (of(&[(0, 1), (u64::MAX, 1)]), "█           █"),
            (of(&[(2_000, 1000), (5_000_000, 1)]), " █     ▁     "),
            (of(&[(2_000, u64::MAX / 2), (9_000, 1)]), " █▁          "),
        ];
        for (histogram, drawn) in cases {
            assert_eq!(super::drawn(&histogram), drawn);
            assert_eq!(lengths(&histogram).iter().sum::<u64>(), histogram.count());
        }
    }
}
