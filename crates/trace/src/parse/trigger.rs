//! Parses event triggers.

use super::action::{INVALID_EVENT, event_name};
use super::filter_in;
use super::hist::hist_in;
use super::number::number;
use super::parser::Context;
use super::split::{split_colons, split_filter, text_at, trim};
use super::suggest::{did_you_mean, nearest};
use crate::lex::is_space;
use crate::source::{Problem, Span, Spanned};
use crate::tree::{Command, EventName, Trigger};

/// Commands whose only parameter is a count.
const SIMPLE: [(&str, Command); 4] = [
    ("stacktrace", Command::Stacktrace),
    ("snapshot", Command::Snapshot),
    ("traceon", Command::TraceOn),
    ("traceoff", Command::TraceOff),
];

type OfEvent = fn(EventName) -> Command;

/// Commands that enable or disable another event.
const OF_EVENTS: [(&str, OfEvent); 4] = [
    ("enable_event", Command::EnableEvent),
    ("disable_event", Command::DisableEvent),
    ("enable_hist", Command::EnableHist),
    ("disable_hist", Command::DisableHist),
];

/// Parses the whole text.
pub(super) fn trigger(text: &str, problems: &mut Vec<Problem>) -> Trigger {
    let all = trim(text, Span::new(0, text.len()));
    let whole = text_at(text, all);
    if whole.starts_with('!') {
        let problem = Problem::new(all, "Triggers cannot be removed");
        problems.push(problem.with_help("a trigger ends when its command ends"));
    }
    let start = all.start + (whole.len() - whole.trim_start_matches('!').len());
    let rest = text_at(text, Span::new(start, all.end));
    let length = rest.find(|c| c == ':' || is_space(c));
    let end = start + length.unwrap_or(rest.len());
    let name = Span::new(start, end);
    let params = Span::new((end + 1).min(all.end), all.end);
    command(text, name, params, problems)
}

fn command(text: &str, name: Span, params: Span, problems: &mut Vec<Problem>) -> Trigger {
    let word = text_at(text, name);
    if word == "hist" {
        let hist = hist_in(text, params, problems);
        return Trigger {
            command: Spanned::new(Command::Hist(hist.into()), name),
            count: None,
            filter: None,
        };
    }
    let (params, filter) = split_filter(text, params);
    let params = trim(text, params);
    let filter = filter.map(|span| filter_in(text, span, problems));
    let simple = SIMPLE.into_iter().find(|(name, _)| *name == word);
    let of_event = OF_EVENTS.into_iter().find(|(name, _)| *name == word);
    let (command, count) = match (simple, of_event) {
        (Some((_, command)), _) => (command, Some(params).filter(|span| span.start < span.end)),
        (None, Some((_, command))) => {
            let (event, count) = event(text, params, problems);
            let command = event.map_or_else(|| Command::Unknown(word.into()), command);
            (command, count)
        }
        (None, None) => {
            problems.push(unknown(word, name));
            (Command::Unknown(word.into()), None)
        }
    };
    Trigger {
        command: Spanned::new(command, name),
        count: count.and_then(|span| self::count(text, span, problems)),
        filter,
    }
}

fn unknown(word: &str, name: Span) -> Problem {
    let known = SIMPLE.iter().map(|(name, _)| *name);
    let known = known.chain(OF_EVENTS.iter().map(|(name, _)| *name));
    let problem = Problem::new(name, "Unknown trigger");
    problem.with_help(match nearest(word, known.clone().chain(["hist"])) {
        Some(near) => did_you_mean(near),
        None => format!("use one of {}", known.collect::<Vec<_>>().join(", ")),
    })
}

/// Parses `system:event` and returns the span of the count after it.
fn event(
    text: &str,
    params: Span,
    problems: &mut Vec<Problem>,
) -> (Option<EventName>, Option<Span>) {
    let mut parts = split_colons(text, params).into_iter();
    let (Some(system), Some(event)) = (parts.next(), parts.next()) else {
        problems.push(Problem::new(params, "Missing subsystem").with_help("use `system:event`"));
        return (None, None);
    };
    let count = parts.next().map(|count| Span::new(count.start, params.end));
    let name = event_name(text_at(text, system), text_at(text, event));
    if name.is_none() {
        problems.push(Problem::new(system.to(event), INVALID_EVENT));
    }
    (name, count)
}

/// Parses a count. Like the kernel, rejects the texts that the kernel itself prints for counts
/// (`count=3`, `unlimited`).
fn count(text: &str, span: Span, problems: &mut Vec<Problem>) -> Option<Spanned<u64>> {
    let span = trim(text, span);
    let digits = text_at(text, span);
    let count = number(digits);
    if count.is_none() {
        let problem = Problem::new(span, Context::Value.bad_number());
        problems.push(match digits {
            "unlimited" => problem.with_help("omit the count for no limit"),
            _ if digits.contains(is_space) => problem.with_help("write `if` before the filter"),
            _ => problem,
        });
    }
    count.map(|count| Spanned::new(count, span))
}
