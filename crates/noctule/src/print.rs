//! Colours, tables and the zone of the machine, for people.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use noctule_text::{Align, pad, width};

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

    fn wrap(self, style: Style, text: &str) -> String {
        if self.on {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap(Style::new().dimmed(), text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap(AnsiColor::Red.on_default(), text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.wrap(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap(AnsiColor::Yellow.on_default(), text)
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
    let mut widths: Vec<usize> = header.iter().map(|h| width(h)).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let line = |cells: Vec<&str>| {
        let mut out = String::new();
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if i == 0 {
                out.push_str(&pad(cell, *width, Align::Left));
            } else {
                out.push_str("  ");
                out.push_str(&pad(cell, *width, Align::Right));
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
    fn colours_end_with_the_text() {
        let paint = Paint { on: true };
        assert_eq!(paint.bold("a"), "\x1b[1ma\x1b[0m");
        assert_eq!(paint.red("a"), "\x1b[31ma\x1b[0m");
        assert_eq!(Paint::none().red("a"), "a");
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
