//! Parses source text to a tree.
//!
//! Parsing never fails. The parser returns a tree and the problems in source order. The tree has
//! [`ExprKind::Wrong`](crate::tree::ExprKind::Wrong) in place of every invalid part. The parser
//! checks everything that needs no knowledge of the event. Later steps check fields, types, the
//! placement of modifiers, the fields of `sort`, and constants such as a zero divisor.
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

/// Maximum nesting of parentheses and prefix operators.
pub const MAX_NESTING: usize = 64;

/// Maximum number of operators and modifiers in an expression. This bounds the depth of the tree,
/// so that code may walk it recursively. The kernel accepts 4,095 bytes, enough for about 500
/// comparisons of real fields. The list after `in` has no limit.
pub const MAX_OPERATORS: usize = 1024;

/// Maximum number of problems per text. Each problem is shown with the whole text, so without a
/// limit the output would be quadratic in the length of the text.
pub const MAX_PROBLEMS: usize = 32;

/// Parses an event filter: `prev_pid > 3 && comm ~ "ba*"`.
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

/// Parses a histogram with an optional `hist:` prefix: `keys=call_site.sym:vals=bytes_req if
/// bytes_req > 64`.
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

/// Parses an event trigger: `stacktrace:5 if prio < 100`. A histogram with the prefix `hist:` is
/// also a trigger.
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

/// Parses an event or a pattern of events with an optional filter: `sched:* if common_pid != 0`.
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

/// Parses the filter at this span of the text.
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
