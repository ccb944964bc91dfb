//! Text that fits, and lengths of time.

pub(crate) use noctule_text::{Align, keep_end, keep_start, pad, shorten, width, wrap};

/// A length of time, or time per second, in nanoseconds.
pub(crate) fn length(ns: f64) -> String {
    noctule_text::duration(ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use ratatui::text::Span;

    use super::*;

    /// Else a column would start elsewhere than it was computed.
    #[test]
    fn text_is_as_wide_as_the_buffer_draws_it() {
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
