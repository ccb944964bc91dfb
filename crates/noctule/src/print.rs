//! Figures and tables for people.

use std::io::IsTerminal;

use unicode_width::UnicodeWidthStr as _;

/// Colours, when the output is a terminal and NO_COLOR is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn of(out: &impl IsTerminal) -> Self {
        Self {
            on: out.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    pub(crate) fn none() -> Self {
        Self { on: false }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }
}

/// A count with a unit prefix and three significant digits: `12.3 M`.
pub(crate) fn count(value: u64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    for (step, prefix) in steps {
        // 999.95 k would be drawn as 1000 k: it is 1.00 M.
        if value as f64 >= step * 0.99995 && value >= 1000 {
            return significant(value as f64 / step, prefix);
        }
    }
    value.to_string()
}

fn significant(value: f64, unit: &str) -> String {
    let decimals = if value < 9.995 {
        2
    } else {
        usize::from(value < 99.95)
    };
    format!("{value:.decimals$}{unit}")
}

/// Nanoseconds as a time: `1.23 s`, `45.6 ms`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        _ if ns >= 0.9995e9 => format!("{:.3}s", ns / 1e9),
        _ if ns >= 0.9995e6 => significant(ns / 1e6, "ms"),
        _ if ns >= 0.9995e3 => significant(ns / 1e3, "us"),
        _ => format!("{ns:.0}ns"),
    }
}

/// A frequency: `3.42 GHz`.
pub(crate) fn frequency(hertz: f64) -> String {
    if hertz >= 1e9 {
        significant(hertz / 1e9, "GHz")
    } else {
        significant(hertz / 1e6, "MHz")
    }
}

/// Rows of cells below a header: the first column to the left, the others to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>], paint: Paint) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |cells: Vec<&str>| {
        let mut out = String::new();
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.width());
            if i == 0 {
                out.push_str(&format!("{cell}{pad}"));
            } else {
                out.push_str(&format!("  {pad}{cell}"));
            }
        }
        out.trim_end().to_owned()
    };
    let mut out = paint.bold(&line(header.to_vec()));
    out.push('\n');
    for row in rows {
        out.push_str(&line(row.iter().map(String::as_str).collect()));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_never_round_to_a_thousand() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1.00k"),
            (999_999, "1.00M"),
            (12_345, "12.3k"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
        assert_eq!(time(999), "999ns");
        assert_eq!(time(1_234_567), "1.23ms");
        assert_eq!(time(2_500_000_000), "2.500s");
        assert_eq!(frequency(3.42e9), "3.42GHz");
    }

    #[test]
    fn columns_are_aligned_by_width_on_the_screen() {
        let rows = vec![
            vec!["日本".into(), "1".into()],
            vec!["abc".into(), "23".into()],
        ];
        assert_eq!(
            table(&["n", "cpu"], &rows, Paint::none()),
            "n     cpu\n日本    1\nabc    23\n"
        );
    }
}
