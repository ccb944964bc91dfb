//! Parses actions of a histogram: `onmatch(system.event).trace(...)`, `onmax($x).save(...)`.

use super::parser::{Context, Parser};
use super::suggest::{did_you_mean, nearest};
use crate::lex::{Token, is_space, is_word};
use crate::source::{Problem, Span, Spanned};
use crate::tree::{Action, EventName, Expr, Handler};

pub(super) const HANDLERS: [&str; 3] = ["onmatch", "onmax", "onchange"];

const NO_ACTION: &str = "No action found";
const NO_CLOSING: &str = "No closing paren found";

/// Parses the action at this span. Returns `None` if a problem was reported.
pub(super) fn action(text: &str, span: Span, problems: &mut Vec<Problem>) -> Option<Action> {
    let mut parser = Parser::new(text, span, Context::Value, problems);
    let handler = parser.handler()?;
    let name = parser.action_name()?;
    let params = parser.params()?;
    if parser.token != Token::End {
        parser.report_here("Unexpected text after the action");
    }
    parser.check_combination(&handler.node, &name, &params);
    Some(Action {
        handler,
        name,
        params,
    })
}

impl Parser<'_, '_> {
    fn handler(&mut self) -> Option<Spanned<Handler>> {
        let word = match self.token {
            Token::Word(word) if HANDLERS.contains(&word) => word,
            token => {
                let mut problem = Problem::new(self.span, NO_ACTION);
                if let Token::Word(word) = token {
                    problem.help = nearest(word, HANDLERS).map(did_you_mean);
                }
                self.report(problem);
                return None;
            }
        };
        let name = self.advance();
        let (inside, span) = self.read(|lexer| {
            lexer.take_while(|c| c == '(' || is_space(c));
            lexer.take_until(')')
        });
        let Some(inside) = inside else {
            self.report(Problem::new(span, NO_CLOSING));
            return None;
        };
        let handler = match word {
            "onmatch" => event(inside).map(Handler::OnMatch),
            "onmax" => variable(inside).map(Handler::OnMax),
            _ => variable(inside).map(Handler::OnChange),
        };
        match handler {
            Ok(handler) => Some(Spanned::new(handler, name.to(span))),
            Err(text) => {
                self.report(Problem::new(span, text));
                None
            }
        }
    }

    /// Parses `.save`.
    fn action_name(&mut self) -> Option<Spanned<String>> {
        if self.accept(Token::Dot).is_some()
            && let Token::Word(word) = self.token
        {
            return Some(Spanned::new(word.to_owned(), self.advance()));
        }
        self.report_here(NO_ACTION);
        None
    }

    /// Parses `(a,$b)`.
    fn params(&mut self) -> Option<Vec<Expr>> {
        let open = self.span;
        let mut params = Vec::new();
        if self.accept(Token::Open).is_some() {
            if self.accept(Token::Close).is_some() {
                return Some(params);
            }
            loop {
                self.restart_limit();
                params.push(self.expression());
                if self.accept(Token::Comma).is_none() {
                    break;
                }
            }
            if self.accept(Token::Close).is_some() {
                return Some(params);
            }
        }
        self.report(Problem::new(open, NO_CLOSING));
        None
    }

    /// Validates the combination of handler, action and parameters.
    fn check_combination(&mut self, handler: &Handler, name: &Spanned<String>, params: &[Expr]) {
        let text = match (handler, name.node.as_str()) {
            (Handler::OnMatch(_), "save" | "snapshot") => "Handler doesn't support action",
            (_, "save") if params.is_empty() => "No params found for save()",
            _ => return,
        };
        self.report(Problem::new(name.span, text));
    }
}

/// Parses `system.event`.
fn event(text: &str) -> Result<EventName, &'static str> {
    let (system, event) = text.split_once('.').ok_or("Missing subsystem")?;
    event_name(system, event).ok_or(INVALID_EVENT)
}

pub(super) const INVALID_EVENT: &str = "Invalid subsystem or event name";

/// Validates both names, because they become a path in tracefs.
pub(super) fn event_name(system: &str, event: &str) -> Option<EventName> {
    let name = |text: &str| {
        let text = text.trim_matches(is_space);
        let fits = |c| is_word(c) || c == '-';
        (!text.is_empty() && text.chars().all(fits)).then(|| text.to_owned())
    };
    let (system, event) = (name(system)?, name(event)?);
    Some(EventName { system, event })
}

/// Parses `$name`.
fn variable(text: &str) -> Result<String, &'static str> {
    let name = text.trim_matches(is_space).strip_prefix('$');
    name.filter(|name| !name.is_empty() && name.chars().all(is_word))
        .map(str::to_owned)
        .ok_or("For onmax(x) or onchange(x), x must be a variable")
}
