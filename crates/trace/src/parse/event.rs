//! An event with a filter: `sched:sched_switch if prev_pid > 0`.

use super::filter_in;
use super::split::{at, split_filter, trim};
use crate::lex::is_space;
use crate::source::{Problem, Span, Spanned};
use crate::tree::EventFilter;

/// Parses the whole text.
pub(super) fn event(text: &str, problems: &mut Vec<Problem>) -> EventFilter {
    let (name, filter) = split_filter(text, Span::new(0, text.len()));
    let name = trim(text, name);
    let word = at(text, name);
    if word.is_empty() {
        problems.push(Problem::new(name, "Missing event").with_help("use `system:event`"));
    }
    if let Some(length) = word.find(is_space) {
        let more = trim(text, Span::new(name.start + length, name.end));
        let help = "write `if` in front of the filter, or give each event by itself";
        problems.push(Problem::new(more, "Unexpected text behind the event").with_help(help));
    }
    EventFilter {
        event: Spanned::new(word.to_owned(), name),
        filter: filter.map(|span| filter_in(text, span, problems)),
    }
}
