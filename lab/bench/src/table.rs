//! An aligned table.

use std::io::{self, Write};

/// Writes rows under a heading: the first `words` columns left-aligned, numbers right-aligned.
pub(super) fn write(
    out: &mut impl Write,
    words: usize,
    head: &[&str],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let head: Vec<String> = head.iter().map(|&h| h.to_owned()).collect();
    let lines = || std::iter::once(&head).chain(rows);
    let width = |column: usize| {
        let cells = lines().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in lines() {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column < words {
                line.push_str(&format!(" {cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Formats a number with about three digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v.is_nan() => "-".into(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a ratio; `-` if it is missing.
pub(super) fn ratio(value: Option<f64>) -> String {
    value.map_or("-".into(), |v| format!("{v:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_aligned_and_numbers_right_aligned() {
        let mut out = Vec::new();
        let rows = [
            vec!["a".to_owned(), "1.5".into()],
            vec!["long".into(), "20".into()],
        ];
        write(&mut out, 1, &["x", "ns"], &rows).expect("a vector takes everything");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, "  x      ns\n  a     1.5\n  long   20\n");
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [123.4, 12.34, 1.234, 0.1234, 0.0].map(number);
        assert_eq!(shown, ["123", "12.3", "1.23", "0.123", "0.00"]);
        assert_eq!(number(f64::NAN), "-");
    }
}
