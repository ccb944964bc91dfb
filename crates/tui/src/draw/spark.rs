//! Graphs drawn with block characters.

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws values from 0 to `top` into `rows` lines from the top down, one column per value, oldest
/// first. `None` means unknown and is left blank, while 0 is drawn as a base line.
pub(crate) fn graph(values: &[Option<f32>], top: f32, rows: usize) -> Vec<String> {
    let levels = 8 * rows;
    let heights: Vec<Option<usize>> = values
        .iter()
        .map(|value| value.map(|v| height(v, top, levels)))
        .collect();
    (0..rows)
        .rev()
        .map(|row| {
            let cell = |height: &Option<usize>| {
                height.map_or(' ', |h| BLOCKS[h.saturating_sub(8 * row).min(8)])
            };
            heights.iter().map(cell).collect()
        })
        .collect()
}

/// Returns at least one eighth, so that an idle minute is a line, and an unknown minute is blank.
fn height(value: f32, top: f32, levels: usize) -> usize {
    if top <= 0.0 {
        return 1;
    }
    ((value / top * levels as f32).round() as usize).clamp(1, levels)
}

/// Draws a bar of `columns` columns, filled up to `share` (0 to 1). The remaining columns are
/// dotted, so that the length of the bar shows without colour.
pub(crate) fn bar(share: f64, columns: usize) -> (String, String) {
    let filled = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    ("█".repeat(filled), "░".repeat(columns - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_steps_are_blank_and_idle_ones_a_line() {
        let values = [None, Some(0.0), Some(0.5), Some(1.0), Some(7.0)];
        assert_eq!(graph(&values, 1.0, 1), [" ▁▄██"]);
        assert_eq!(graph(&values, 1.0, 2), ["   ██", " ▁███"]);
        assert_eq!(graph(&[Some(0.0)], 0.0, 1), ["▁"]);
    }

    #[test]
    fn bars_have_one_length() {
        for share in [-1.0, 0.0, 0.33, 1.0, 9.0, f64::NAN] {
            let (filled, rest) = bar(share, 10);
            assert_eq!(filled.chars().count() + rest.chars().count(), 10);
        }
    }
}
