//! Fits text into terminal columns: measures, cuts, pads and wraps it.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Maximum characters per grapheme. No language needs more marks on a letter, and they would be
/// drawn over the lines above and below.
const MAX_CHARS_PER_CELL: usize = 6;

/// Returns the graphemes of the text with their widths. Graphemes of width zero are left out.
fn signs(text: &str) -> impl Iterator<Item = (String, usize)> {
    let sign = |symbol: &str| match symbol {
        zalgo if zalgo.chars().count() > MAX_CHARS_PER_CELL => ("\u{fffd}".to_owned(), 1),
        symbol => (symbol.to_owned(), symbol.width()),
    };
    let visible = text
        .graphemes(true)
        .filter(|s| !s.contains(char::is_control));
    visible.map(sign).filter(|(_, width)| *width > 0)
}

/// Returns the number of columns that the text occupies.
pub fn width(text: &str) -> usize {
    signs(text).map(|(_, width)| width).sum()
}

/// Returns the text, or its beginning and `…`, in at most `max` columns.
pub fn keep_start(text: &str, max: usize) -> String {
    let signs: Vec<_> = signs(text).collect();
    take(&signs, max, signs.iter(), |kept| kept.concat() + "…")
}

/// Returns the text, or `…` and its end. The last components of a path identify it better than the
/// first ones.
pub fn keep_end(text: &str, max: usize) -> String {
    let signs: Vec<_> = signs(text).collect();
    take(&signs, max, signs.iter().rev(), |mut kept| {
        kept.reverse();
        "…".to_owned() + &kept.concat()
    })
}

/// Returns the name, or its beginning, `…` and its end, in at most `max` columns. Names within one
/// pod or directory have the same beginning, so the last part of a path is kept whole if it fits.
pub fn shorten(name: &str, max: usize) -> String {
    if width(name) <= max || max < 4 {
        return keep_start(name, max);
    }
    let last = name.rfind('/').map_or(0, |at| width(&name[at..]));
    let tail = match last {
        0 => max / 3,
        last if last + 2 <= max => last,
        _ => max * 2 / 3,
    };
    // Both functions mark the cut; only one mark is kept.
    let (head, end) = (keep_start(name, max - tail), keep_end(name, tail + 1));
    head.trim_end_matches('…').to_owned() + &end
}

fn take<'a>(
    all: &[(String, usize)],
    max: usize,
    order: impl Iterator<Item = &'a (String, usize)>,
    shorten: impl Fn(Vec<&'a str>) -> String,
) -> String {
    let total: usize = all.iter().map(|(_, width)| width).sum();
    if total <= max {
        return all.iter().map(|(symbol, _)| symbol.as_str()).collect();
    }
    if max == 0 {
        return String::new();
    }
    let mut room = max - 1;
    let fitting = order.map_while(|(symbol, width)| {
        room = room.checked_sub(*width)?;
        Some(symbol.as_str())
    });
    shorten(fitting.collect())
}

/// Alignment of text in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    /// Right, as for numbers.
    Right,
}

/// Pads or cuts the text to exactly `columns` columns.
pub fn pad(text: &str, columns: usize, align: Align) -> String {
    let fitted = keep_start(text, columns);
    let space = " ".repeat(columns.saturating_sub(width(&fitted)));
    match align {
        Align::Left => fitted + &space,
        Align::Right => space + &fitted,
    }
}

/// Wraps the text into lines of at most `max` columns, between words if possible.
pub fn wrap(text: &str, max: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        if used > 0 && used + width(word.trim_end()) > max {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for (symbol, width) in signs(word) {
            if used > 0 && used + width > max && symbol != " " {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push_str(&symbol);
            used += width;
        }
    }
    lines.push(line);
    lines
}

/// Wraps the text into lines of at most `room` columns, at blanks if possible. Later lines are
/// indented by `hang` blanks, unless that leaves too little room. Without `room`, returns one line.
pub fn fold(text: &str, room: Option<usize>, hang: usize) -> Vec<String> {
    let Some(room) = room.filter(|room| width(text) > *room) else {
        return vec![text.to_owned()];
    };
    let hang = if room >= hang + LEAST { hang } else { 0 };
    // The width of the first line includes the blanks at its start.
    let indent = " ".repeat(hang);
    let (first, rest) = match text.char_indices().nth(hang) {
        Some((at, _)) if text.is_char_boundary(at) && width(&text[..at]) == hang => {
            text.split_at(at)
        }
        _ => {
            return wrap(text, room)
                .iter()
                .map(|line| line.trim_end().to_owned())
                .collect();
        }
    };
    let lines = wrap(rest, room - hang).into_iter().enumerate();
    let lines = lines.map(|(i, line)| match i {
        0 => format!("{first}{line}"),
        _ => format!("{indent}{line}"),
    });
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// Minimum number of columns after the indentation.
const LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_counts_columns_not_characters() {
        assert_eq!(keep_start("nginx", 5), "nginx");
        assert_eq!(keep_start("nginx", 4), "ngi…");
        // Each character is two columns wide, so one of the five columns stays empty.
        assert_eq!(keep_start("日本語処理", 6), "日本…");
        assert_eq!(keep_end("/kubepods/pod1", 6), "…/pod1");
        assert_eq!(keep_end("日本語", 4), "…語");
        assert_eq!(keep_start("x", 0), "");
        assert_eq!(width("e\u{301}a"), 2);
    }

    #[test]
    fn names_are_shortened_in_the_middle() {
        let cases = [
            ("nginx", 5, "nginx"),
            ("web/shop-7d9f/shop-77aa", 17, "web/sh…/shop-77aa"),
            ("/kubepods/pod1/container", 12, "/…/container"),
            ("systemd-journal-flush.service", 12, "systemd…vice"),
            ("nginx", 3, "ng…"),
        ];
        for (name, max, expected) in cases {
            let short = shorten(name, max);
            assert!(width(&short) <= max, "{short}");
            assert_eq!(short, expected);
        }
    }

    #[test]
    fn padding_gives_exactly_the_requested_width() {
        for text in ["", "a", "日本語", "a-long-name-of-some-kind", "e\u{301}"] {
            for columns in 0..12 {
                for align in [Align::Left, Align::Right] {
                    assert_eq!(width(&pad(text, columns, align)), columns, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn wrapping_breaks_between_words_and_inside_long_ones() {
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("/a/very/long/path", 6), ["/a/ver", "y/long", "/path"]);
        assert_eq!(wrap("日本語", 5), ["日本", "語"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
    }

    #[test]
    fn folding_indents_later_lines() {
        let text = "used      1.01s (0.5 CPU) of all";
        assert_eq!(fold(text, None, 10), [text]);
        assert_eq!(fold(text, Some(32), 10), [text]);
        assert_eq!(
            fold(text, Some(28), 10),
            ["used      1.01s (0.5 CPU) of", "          all"]
        );
        assert_eq!(
            fold(text, Some(20), 10),
            ["used      1.01s (0.5", "CPU) of all"]
        );
        assert_eq!(fold("日本語日本語", Some(4), 1), ["日本", "語日", "本語"]);
    }

    #[test]
    fn grapheme_with_too_many_marks_is_replaced() {
        let zalgo = format!("a{}b", "\u{301}".repeat(500));
        assert_eq!(keep_start(&zalgo, 10), "\u{fffd}b");
    }
}
