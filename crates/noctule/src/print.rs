//! Terminal output: colours, width, ASCII and the local time zone.

use std::env::var_os;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::AsFd;

use anstyle::{Ansi256Color, AnsiColor, Style};
use noctule_text::{Span, Tone, cause_colour, fold};

/// Assumed width of a terminal that does not report its width.
const USUAL_WIDTH: usize = 80;

/// Style of an output: its width, and colours if it is a terminal and NO_COLOR is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
    width: Option<usize>,
}

impl Paint {
    pub(crate) fn of(out: &(impl IsTerminal + AsFd)) -> Self {
        let terminal = out.is_terminal();
        Self {
            on: terminal && colours(),
            width: terminal.then(|| width_of(out)),
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            on: false,
            width: None,
        }
    }

    /// Creates the output style for a terminal that supports colours.
    #[cfg(test)]
    pub(crate) fn colours(width: usize) -> Self {
        Self {
            on: true,
            width: Some(width),
        }
    }

    /// Creates the output style for a terminal that does not support colours.
    #[cfg(test)]
    pub(crate) fn plain(width: usize) -> Self {
        Self {
            on: false,
            width: Some(width),
        }
    }

    /// Removes the width limit if `wide` is set.
    pub(crate) fn wide(self, wide: bool) -> Self {
        Self {
            width: self.width.filter(|_| !wide),
            ..self
        }
    }

    /// Returns the width of the terminal; `None` if there is no limit.
    pub(crate) fn width(self) -> Option<usize> {
        self.width
    }

    fn wrap(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Formats a text in a tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => Style::new().bold(),
            Tone::Faint => Style::new().dimmed(),
            Tone::Good => AnsiColor::Green.on_default(),
            // Yellow is not readable on white.
            Tone::Own => AnsiColor::Magenta.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Cause(cause) => match cause_colour(cause) {
                Some(colour) => Ansi256Color(colour).on_default(),
                None => Style::new().dimmed(),
            },
        };
        self.wrap(style, text)
    }

    /// Formats a line that consists of spans.
    pub(crate) fn line(self, spans: &[Span]) -> String {
        spans
            .iter()
            .map(|span| self.tone(span.tone, &span.text))
            .collect::<String>()
            + "\n"
    }

    /// Wraps text into lines and formats them in this tone. All lines except the first are indented
    /// by `hang` columns.
    pub(crate) fn folded(self, tone: Tone, text: &str, hang: usize) -> String {
        let lines = fold(text, self.width, hang);
        lines
            .iter()
            .map(|line| self.tone(tone, line) + "\n")
            .collect()
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.tone(Tone::Strong, text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.tone(Tone::Faint, text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.tone(Tone::Good, text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.tone(Tone::Own, text)
    }
}

/// Returns whether the user allows colours and the terminal supports them.
pub(crate) fn colours() -> bool {
    var_os("NO_COLOR").is_none_or(|it| it.is_empty()) && !is_dumb(var_os("TERM").as_deref())
}

/// Returns whether output must be ASCII, because the locale is not UTF-8 or the terminal is dumb.
pub(crate) fn ascii_only() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(var_os);
    !is_utf8(locale) || is_dumb(var_os("TERM").as_deref())
}

/// Returns whether the terminal supports moving the cursor.
pub(crate) fn moves() -> bool {
    !is_dumb(var_os("TERM").as_deref())
}

fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Checks the first variable that is set. If none is set, as in most containers and after `sudo
/// -i`, assumes UTF-8, which most terminals support. systemd makes the same assumption.
fn is_utf8(locale: [Option<OsString>; 3]) -> bool {
    let set = locale.into_iter().flatten().find(|it| !it.is_empty());
    set.is_none_or(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn width_of(out: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(out).map(|size| usize::from(size.ws_col));
    size.ok().filter(|width| *width > 0).unwrap_or(USUAL_WIDTH)
}

/// Returns the offset of local time from UTC at that moment, in seconds.
pub(crate) fn utc_offset(unix_ns: u64) -> i32 {
    let time = chrono::DateTime::from_timestamp_nanos(unix_ns.cast_signed());
    let local = time.with_timezone(&chrono::Local);
    local.offset().local_minus_utc()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_end_with_the_text() {
        let paint = Paint {
            on: true,
            width: Some(6),
        };
        assert_eq!(paint.bold("a"), "\x1b[1ma\x1b[0m");
        assert_eq!(paint.tone(Tone::Bad, "a"), "\x1b[31ma\x1b[0m");
        assert_eq!(Paint::none().bold("a"), "a");
        let folded = paint.folded(Tone::Strong, "one two", 0);
        assert_eq!(folded, "\x1b[1mone\x1b[0m\n\x1b[1mtwo\x1b[0m\n");
    }

    #[test]
    fn first_set_locale_variable_decides_the_encoding() {
        let cases = [
            (["", "", ""], true),
            (["C.UTF-8", "", "C"], true),
            (["C", "C.UTF-8", "C.UTF-8"], false),
            (["", "de_DE.utf8", "C"], true),
            (["", "", "de_DE@euro"], false),
            (["", "", "POSIX"], false),
        ];
        for (locale, expected) in cases {
            let set = locale.map(|it| (!it.is_empty()).then(|| it.into()));
            assert_eq!(is_utf8(set), expected, "{locale:?}");
        }
    }
}
