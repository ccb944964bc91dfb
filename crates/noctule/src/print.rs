//! Colours, tables and the zone of the machine, for people.

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

/// Local time less UTC at that moment, in seconds.
pub(crate) fn utc_offset(unix_ns: u64) -> i32 {
    let time = chrono::DateTime::from_timestamp_nanos(unix_ns.cast_signed());
    let local = time.with_timezone(&chrono::Local);
    local.offset().local_minus_utc()
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
