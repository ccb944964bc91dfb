//! The parser: source text to tree.
//!
//! Parsing never fails. It returns a tree, with [`ExprKind::Wrong`](crate::tree::ExprKind::Wrong) in
//! place of every part that is no expression, and the problems in the order of their places. The parser
//! checks everything that needs no knowledge of the event. Later steps check fields and types, the
//! placement of modifiers, the fields of `sort`, and constants such as a division by zero.
//!
//! [`operator`](crate::operator) documents the precedence. Limits: [`MAX_NESTING`],
//! [`MAX_OPERATORS`] and [`MAX_PROBLEMS`]. Time and memory are linear in the length of the text.

mod action;
mod event;
mod expr;
mod hist;
mod number;
mod operand;
mod parser;
mod split;
mod suggest;
mod trigger;

use crate::source::{Problem, Span};
use crate::tree::{EventFilter, Expr, Hist, Trigger};

use parser::{Context, Parser};

/// The most levels of parentheses and prefix operators.
pub const MAX_NESTING: usize = 64;

/// The most operators and modifiers of one expression. It bounds the depth of the tree, so that code
/// that walks through a tree may recurse. The kernel takes 4,095 bytes, enough for some 500
/// comparisons of real fields; the list behind `in` has no limit.
pub const MAX_OPERATORS: usize = 1024;

/// The most problems of one text. Each problem is shown with the whole text, so that without a limit
/// the output would grow with the square of its length.
pub const MAX_PROBLEMS: usize = 32;

/// Reads an event filter: `prev_pid > 3 && comm ~ "ba*"`.
///
/// ```
/// let text = "prev_pid = 3";
/// let (_, problems) = noctule_trace::parse::filter(text);
/// assert_eq!(
///     problems[0].show(text),
///     "error: Invalid operator\n  prev_pid = 3\n           ^\nhelp: use `==` to compare\n"
/// );
/// ```
pub fn filter(text: &str) -> (Expr, Vec<Problem>) {
    let mut problems = Vec::new();
    let expr = filter_in(text, Span::new(0, text.len()), &mut problems);
    (expr, in_order(problems))
}

/// Reads a histogram: `keys=call_site.sym:vals=bytes_req if bytes_req > 64`, with or without `hist:`
/// in front.
///
/// ```
/// let (hist, problems) = noctule_trace::parse::hist("key=pid:val=len:sort=len.descending");
/// assert!(problems.is_empty());
/// assert_eq!(hist.to_string(), "hist:keys=pid:vals=len:sort=len.descending");
/// ```
pub fn hist(text: &str) -> (Hist, Vec<Problem>) {
    let mut problems = Vec::new();
    let hist = hist::hist(text, &mut problems);
    (hist, in_order(problems))
}

/// Reads an event trigger: `stacktrace:5 if prio < 100`. A histogram is one, with `hist:` in front.
///
/// ```
/// let (trigger, problems) = noctule_trace::parse::trigger("traceoff:0x3 if prio<100");
/// assert!(problems.is_empty());
/// assert_eq!(trigger.to_string(), "traceoff:3 if prio < 100");
/// ```
pub fn trigger(text: &str) -> (Trigger, Vec<Problem>) {
    let mut problems = Vec::new();
    let trigger = trigger::trigger(text, &mut problems);
    (trigger, in_order(problems))
}

/// Reads an event or a pattern of events, with or without a filter: `sched:* if common_pid != 0`.
///
/// ```
/// let (event, problems) = noctule_trace::parse::event("sched:sched_switch if prev_pid > 3");
/// assert!(problems.is_empty());
/// assert_eq!(event.event.node, "sched:sched_switch");
/// let (_, problems) = noctule_trace::parse::event("sched:sched_switch prev_pid > 3");
/// assert_eq!(problems[0].span.start, 19);
/// ```
pub fn event(text: &str) -> (EventFilter, Vec<Problem>) {
    let mut problems = Vec::new();
    let event = event::event(text, &mut problems);
    (event, in_order(problems))
}

/// The filter at this place of the text.
fn filter_in(text: &str, span: Span, problems: &mut Vec<Problem>) -> Expr {
    let mut parser = Parser::new(text, span, Context::Filter, problems);
    let expr = parser.condition();
    parser.finish();
    expr
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.span.start);
    problems.truncate(MAX_PROBLEMS);
    problems
}
