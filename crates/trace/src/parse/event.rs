//! Parses an event with a filter: `sched:sched_switch if prev_pid > 0`.

use super::filter_in;
use super::split::{split_filter, text_at, trim};
use crate::lex::is_space;
use crate::source::{Problem, Span, Spanned};
use crate::tree::EventFilter;

/// Parses the whole text.
pub(super) fn event(text: &str, problems: &mut Vec<Problem>) -> EventFilter {
    let (name, filter) = split_filter(text, Span::new(0, text.len()));
    let name = trim(text, name);
    let word = text_at(text, name);
    if word.is_empty() {
        problems.push(Problem::new(name, "Missing event").with_help("use `system:event`"));
    }
    if let Some(length) = word.find(is_space) {
        let more = trim(text, Span::new(name.start + length, name.end));
        let help = "write `if` before the filter, or pass each event as a separate argument";
        problems.push(Problem::new(more, "Unexpected text after the event").with_help(help));
    }
    EventFilter {
        event: Spanned::new(word.to_owned(), name),
        filter: filter.map(|span| filter_in(text, span, problems)),
    }
}
