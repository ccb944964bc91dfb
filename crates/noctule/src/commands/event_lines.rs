//! Events for people: one line each, in columns.

use noctule_model::Event;
use noctule_sinks::events::{EventLine, Tone, event_line};

use noctule_text::{Align, pad, shorten, width};

use crate::print::{self, Paint};

/// Widths of the columns, as a stream cannot know what comes: `HH:MM:SS.mmm`, the longest kind, a
/// command name with a pid of five digits, and most names of units.
const TIME: usize = 12;
const KIND: usize = 7;
const WHO: usize = 22;
const PLACE: usize = 22;

/// The names of the columns.
pub(super) fn head(paint: Paint) -> String {
    let names = [
        column("time", TIME),
        column("kind", KIND),
        column("who", WHO),
        column("where", PLACE),
    ];
    format!("{}\n", paint.bold(&format!("{}  what", names.join("  "))))
}

/// The line of an event, in local time.
pub(super) fn draw(event: &Event, paint: Paint) -> String {
    let offset = print::utc_offset(event.time_unix_ns);
    arrange(&event_line(event, offset), paint)
}

fn arrange(line: &EventLine, paint: Paint) -> String {
    let time = paint.dim(&line.time);
    let what = match line.tone {
        Tone::Plain => line.what.clone(),
        Tone::Quiet => paint.dim(&line.what),
        Tone::Good => paint.green(&line.what),
        Tone::Notice => paint.yellow(&line.what),
        Tone::Bad => paint.red(&line.what),
    };
    if line.kind.is_empty() {
        return format!("{time}  {what}\n");
    }
    let kind = paint.bold(&column(line.kind, KIND));
    let who = column(&line.who, WHO);
    let place = column(&shorten(&line.place, PLACE), PLACE);
    format!("{time}  {kind}  {who}  {place}  {what}\n")
}

/// A text that is too wide is not cut: the columns after it move.
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
            tone: Tone::Plain,
        }
    }

    #[test]
    fn columns_stand_below_their_names() {
        let head = head(Paint::none());
        let at = head.find("what").expect("a column");
        let places = [
            "nginx.service",
            "",
            "日本日本日本日本日本日本日本",
            "/kubepods.slice/burstable/pod1/deep/below",
            "a-name-that-is-much-too-long.service",
        ];
        for place in places {
            let drawn = arrange(&line("curl[4711]", place), Paint::none());
            let (before, _) = drawn.split_once("what").expect("the last column");
            assert_eq!(width(before), at, "{drawn}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_where_it_says_least() {
        assert_eq!(shorten("/a/b/c", 6), "/a/b/c");
        assert_eq!(shorten("/a/b/c/d", 6), "/a/…/d");
        assert_eq!(shorten("name.service", 6), "nam…ce");
    }

    #[test]
    fn a_gap_has_no_columns() {
        let gap = EventLine {
            kind: "",
            what: "--- 1 event lost: 1 file.open ---".into(),
            ..line("", "")
        };
        let drawn = arrange(&gap, Paint::none());
        assert_eq!(drawn, "12:34:56.789  --- 1 event lost: 1 file.open ---\n");
    }
}
