//! Events as text, one line each, in columns.

use noctule_model::Event;
use noctule_sinks::events::{EventLine, Tone as Tint, event_line};
use noctule_text::{Align, Need, Tone, fit, fold, pad, shorten, width};

use crate::print::{self, Paint};

/// Column widths are fixed, because later lines of a stream are not known yet. The widths fit
/// `HH:MM:SS.mmm`, the longest kind, a command name with a five-digit pid, most unit names, and a
/// short description.
const TIME: usize = 12;
const KIND: usize = 7;
const WHO: usize = 22;
const PLACE: usize = 22;
const WHAT: usize = 26;
/// Minimum width to which names are shortened. If a column does not fit at this width, it is
/// dropped.
const NAME: usize = 12;
const GAP: usize = 2;

/// Formats events for one output.
pub(crate) struct EventLines {
    paint: Paint,
    /// Widths of the columns time, kind, who and where; 0 if a column does not fit.
    widths: [usize; 4],
}

impl EventLines {
    pub(crate) fn new(paint: Paint) -> Self {
        let need = |least, most, priority| Need {
            least,
            most,
            priority,
            turn: priority,
        };
        let needs = [
            need(TIME, TIME, 2),
            need(KIND, KIND, 4),
            need(NAME, WHO, 1),
            need(NAME, PLACE, 3),
            need(WHAT, WHAT, 0),
        ];
        let places = match paint.width() {
            Some(room) => fit(&needs, room, GAP),
            None => fit(&needs, usize::MAX / 2, GAP),
        };
        let mut widths = [0; 4];
        for place in places {
            if let Some(width) = widths.get_mut(place.column) {
                *width = place.width;
            }
        }
        Self { paint, widths }
    }

    /// Returns the header line.
    pub(crate) fn head(&self) -> String {
        let names = ["time", "kind", "who", "where"];
        let columns = names
            .iter()
            .zip(self.widths)
            .filter(|(_, width)| *width > 0)
            .map(|(name, width)| column(name, width) + &" ".repeat(GAP));
        let columns: String = columns.collect();
        format!("{}\n", self.paint.bold(&format!("{columns}what")))
    }

    /// Formats an event, with its local time.
    pub(crate) fn draw(&self, event: &Event) -> String {
        let offset = print::utc_offset(event.time_unix_ns);
        self.arrange(&event_line(event, offset))
    }

    pub(crate) fn arrange(&self, line: &EventLine) -> String {
        let [time, kind, who, place] = self.widths;
        let paint = self.paint;
        let cut = |text: &str, width| match paint.width() {
            Some(_) => column(&shorten(text, width), width),
            None => column(text, width),
        };
        let mut columns = vec![(column(&line.time, time), Tone::Faint)];
        if !line.kind.is_empty() {
            columns.extend([
                (column(line.kind, kind), Tone::Strong),
                (cut(&line.who, who), Tone::Plain),
                (column(&shorten(&line.place, place), place), Tone::Plain),
            ]);
        }
        let mut head = String::new();
        let mut used = 0;
        for ((text, tone), room) in columns.into_iter().zip(self.widths) {
            if room > 0 {
                used += width(&text) + GAP;
                head.push_str(&paint.tone(tone, &text));
                head.push_str(&" ".repeat(GAP));
            }
        }
        let tone = match line.tone {
            Tint::Plain => Tone::Plain,
            Tint::Quiet => Tone::Faint,
            Tint::Good => Tone::Good,
            Tint::Notice => Tone::Own,
            Tint::Bad => Tone::Bad,
        };
        let room = paint.width().map(|room| room.saturating_sub(used));
        let lines = fold(&line.what, room, 0);
        let lines: Vec<String> = lines.iter().map(|line| paint.tone(tone, line)).collect();
        let hang = format!("\n{}", " ".repeat(used));
        format!("{head}{}\n", lines.join(&hang))
    }
}

/// Pads a text to the width of its column. A text that is too wide shifts the columns after it.
fn column(text: &str, columns: usize) -> String {
    pad(text, columns.max(width(text)), Align::Left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(who: &str, place: &str) -> EventLine {
        EventLine {
            time: "12:34:56.789".into(),
            kind: "tcp",
            who: who.into(),
            place: place.into(),
            what: "what".into(),
            tone: Tint::Plain,
        }
    }

    #[test]
    fn columns_are_aligned_with_their_names() {
        let lines = EventLines::new(Paint::none());
        let head = lines.head();
        let at = head.find("what").expect("a column");
        let places = [
            "nginx.service",
            "",
            "日本日本日本日本日本日本日本",
            "/kubepods.slice/burstable/pod1/deep/below",
            "a-name-that-is-much-too-long.service",
        ];
        for place in places {
            let drawn = lines.arrange(&line("curl[4711]", place));
            let (before, _) = drawn.split_once("what").expect("the last column");
            assert_eq!(width(before), at, "{drawn}");
        }
    }

    #[test]
    fn long_text_is_cut_at_its_least_informative_part() {
        assert_eq!(shorten("/a/b/c", 6), "/a/b/c");
        assert_eq!(shorten("/a/b/c/d", 6), "/a/…/d");
        assert_eq!(shorten("name.service", 6), "nam…ce");
    }

    #[test]
    fn lines_fit_into_the_terminal() {
        let what = "exec /usr/bin/curl -sf http://127.0.0.1:8088/dump -o /tmp/web/copy";
        let event = EventLine {
            what: what.into(),
            ..line("a-long-name[123456]", "kubelet.service")
        };
        for room in [20, 40, 60, 80, 120, 250] {
            let lines = EventLines::new(Paint::plain(room));
            let drawn = lines.arrange(&event);
            for line in drawn.lines().chain([lines.head().trim_end()]) {
                assert!(width(line) <= room, "{room}: {line}");
            }
            let words: Vec<&str> = drawn.split_whitespace().collect();
            assert!(words.concat().contains("http://127.0.0.1:8088"), "{drawn}");
        }
    }

    #[test]
    fn a_gap_has_no_columns() {
        let gap = EventLine {
            kind: "",
            what: "--- 1 event lost: 1 file.open ---".into(),
            ..line("", "")
        };
        let drawn = EventLines::new(Paint::none()).arrange(&gap);
        assert_eq!(drawn, "12:34:56.789  --- 1 event lost: 1 file.open ---\n");
    }
}
