//! Replaces characters for terminals that show only ASCII.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Returns the text in ASCII, with the same width. noctule's own symbols are replaced by the
/// nearest character, and other non-ASCII text by one `?` per column.
pub fn ascii(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for symbol in text.graphemes(true) {
        let mut chars = symbol.chars();
        match (chars.next(), chars.next()) {
            _ if symbol.is_ascii() => out.push_str(symbol),
            (Some(c), None) if let Some(near) = near(c) => out.push(near),
            _ => out.extend(std::iter::repeat_n('?', symbol.width())),
        }
    }
    out
}

/// Returns the ASCII replacement of a symbol that noctule itself writes.
const fn near(sign: char) -> Option<char> {
    Some(match sign {
        'µ' | 'μ' => 'u',
        '…' => '~',
        '±' => '~',
        '·' => '-',
        '×' => 'x',
        '–' | '—' | '─' => '-',
        // Heights of a graph, from low to high.
        '▁' => '_',
        '▂' => '.',
        '▃' => ':',
        '▄' => '-',
        '▅' => '=',
        '▆' => '+',
        '▇' => '*',
        '█' => '#',
        // Causes, and the empty columns of a bar.
        '░' => '.',
        '▒' => 'o',
        '▓' => '%',
        '▚' => 'k',
        '▞' => 'i',
        '▤' => 'h',
        '│' | '├' => '|',
        '└' => '`',
        '▼' | '↓' => 'v',
        '▲' | '↑' => '^',
        '←' => '<',
        '→' => '>',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use noctule_model::Cause;

    use super::*;
    use crate::{glyph, width};

    #[test]
    fn ascii_text_keeps_its_width() {
        let cases = [
            ("12.3µs", "12.3us"),
            ("▁▂▃▄▅▆▇█", "_.:-=+*#"),
            ("web/sh…/shop · ±3%", "web/sh~/shop - ~3%"),
            ("├─a └─b", "|-a `-b"),
            ("日本 größe e\u{301}", "???? gr??e ?"),
            ("\x1b[31m█\x1b[0m\n", "\x1b[31m#\x1b[0m\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(ascii(text), expected);
        }
        for text in ["größe", "日本 e\u{301}", "▁█…"] {
            assert_eq!(width(&ascii(text)), width(text), "{text}");
        }
    }

    #[test]
    fn causes_stay_distinguishable_in_ascii() {
        let mut signs = Cause::ALL
            .map(|cause| ascii(&glyph(cause).to_string()))
            .to_vec();
        signs.sort_unstable();
        signs.dedup();
        assert_eq!(signs.len(), Cause::ALL.len());
        assert!(!signs.contains(&"_".to_owned()));
    }
}
