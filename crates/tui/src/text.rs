//! Fits text into columns, and formats durations.

pub(crate) use noctule_text::{Align, keep_end, keep_start, pad, shorten, width, wrap};

/// Formats a duration in nanoseconds, or a duration per second.
pub(crate) fn length(ns: f64) -> String {
    noctule_text::duration(ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use ratatui::text::Span;

    use super::*;

    /// If the widths differed, columns would not start at the computed positions.
    #[test]
    fn text_width_equals_the_drawn_width() {
        for text in [
            "",
            "nginx",
            "日本語",
            "e\u{301}a",
            "größe",
            "👨\u{200d}👩\u{200d}👧 x",
            "▁▂█",
        ] {
            assert_eq!(width(text), Span::raw(text).width(), "{text}");
        }
    }
}
