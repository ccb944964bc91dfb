//! Parses histograms.

use std::mem;

use super::action;
use super::filter_in;
use super::number::number;
use super::parser::{Context, Parser};
use super::split::{split_colons, split_filter, text_at, trim};
use super::suggest::{did_you_mean, nearest};
use crate::lex::{Token, is_space, is_word};
use crate::source::{Problem, Span, Spanned};
use crate::tree::{Expr, Hist, Variable};

/// Words before `=`. Any other word is the name of a variable.
const KEYWORDS: [&str; 10] = [
    "keys", "key", "vals", "val", "values", "on", "sort", "size", "name", "clock",
];

/// Words that stand alone, without `=`.
const FLAGS: [&str; 6] = ["pause", "cont", "continue", "clear", "nohitcount", "NOHC"];

/// Parses the whole text, with an optional prefix `hist:`.
pub(super) fn hist(text: &str, problems: &mut Vec<Problem>) -> Hist {
    let span = trim(text, Span::new(0, text.len()));
    let rest = text_at(text, span).strip_prefix("hist");
    let is_prefix = rest.is_some_and(|rest| rest.starts_with(|c| c == ':' || is_space(c)));
    let skipped = if is_prefix { "hist:".len() } else { 0 };
    hist_in(text, Span::new(span.start + skipped, span.end), problems)
}

/// Parses a histogram without the prefix at this span.
pub(super) fn hist_in(text: &str, span: Span, problems: &mut Vec<Problem>) -> Hist {
    let (body, filter) = split_filter(text, span);
    let body = trim(text, body);
    let mut reader = Reader {
        text,
        problems,
        hist: Hist::default(),
    };
    let parts = split_colons(text, body);
    let is_empty = parts.len() == 1 && body.start == body.end;
    for part in parts.into_iter().filter(|_| !is_empty) {
        reader.part(trim(text, part));
    }
    reader.require_keys(body);
    let mut hist = reader.hist;
    hist.filter = filter.map(|span| filter_in(text, span, problems));
    hist.filter_text = filter.map(|span| text_at(text, trim(text, span)).to_owned());
    hist
}

struct Reader<'a, 'p> {
    text: &'a str,
    problems: &'p mut Vec<Problem>,
    hist: Hist,
}

impl<'a> Reader<'a, '_> {
    /// Parses the text between two colons.
    fn part(&mut self, span: Span) {
        let part = text_at(self.text, span);
        match part.find(['=', '(']) {
            _ if part.is_empty() => {
                let problem = Problem::new(span, "Empty parameter");
                self.problems.push(problem.with_help("remove one `:`"));
            }
            Some(place) if part.get(place..).is_some_and(|rest| rest.starts_with('(')) => {
                let action = action::action(self.text, span, self.problems);
                self.hist.actions.extend(action);
            }
            Some(place) => {
                let keyword = trim(self.text, Span::new(span.start, span.start + place));
                let value = trim(self.text, Span::new(span.start + place + 1, span.end));
                if value.start == value.end {
                    self.problems.push(Problem::new(span, "Empty assignment"));
                } else {
                    self.assignment(keyword, value);
                }
            }
            None => self.flag(span),
        }
    }

    fn flag(&mut self, span: Span) {
        let word = text_at(self.text, span);
        let hist = &mut self.hist;
        let flag = match word {
            "pause" => &mut hist.pause,
            "cont" | "continue" => &mut hist.cont,
            "clear" => &mut hist.clear,
            "nohitcount" | "NOHC" => &mut hist.nohitcount,
            _ => {
                let problem = Problem::new(span, "Unknown parameter");
                self.problems.push(if KEYWORDS.contains(&word) {
                    problem.with_help(format!("`{word}=` needs a value"))
                } else {
                    let known = FLAGS.into_iter().chain(KEYWORDS).chain(action::HANDLERS);
                    let help = nearest(word, known).map(did_you_mean);
                    Problem { help, ..problem }
                });
                return;
            }
        };
        *flag = Some(span);
    }

    fn assignment(&mut self, keyword: Span, value: Span) {
        let word = text_at(self.text, keyword);
        let given_before = match word {
            "key" | "keys" => {
                let keys = self.list(value, Context::Value);
                !mem::replace(&mut self.hist.keys, keys).is_empty()
            }
            "val" | "vals" | "values" => {
                let vals = self.list(value, Context::Value);
                !mem::replace(&mut self.hist.vals, vals).is_empty()
            }
            "on" => {
                let on = self.list(value, Context::Filter);
                !mem::replace(&mut self.hist.on, on).is_empty()
            }
            "sort" => {
                let sort = self.list(value, Context::Sort);
                !mem::replace(&mut self.hist.sort, sort).is_empty()
            }
            "size" => {
                let size = self.size(value);
                mem::replace(&mut self.hist.size, size).is_some()
            }
            "name" => {
                let name = self.name(value);
                mem::replace(&mut self.hist.name, name).is_some()
            }
            "clock" => {
                let clock = self.name(value);
                mem::replace(&mut self.hist.clock, clock).is_some()
            }
            _ => {
                let all = Span::new(keyword.start, value.end);
                let variables = self.parser(all, Context::Value).variables();
                self.hist.vars.extend(variables);
                false
            }
        };
        if given_before {
            let text = format!("`{word}=` is given twice");
            self.problems.push(Problem::new(keyword, text));
        }
    }

    fn parser(&mut self, span: Span, context: Context) -> Parser<'a, '_> {
        Parser::new(self.text, span, context, self.problems)
    }

    fn list(&mut self, span: Span, context: Context) -> Vec<Expr> {
        self.parser(span, context).list()
    }

    fn size(&mut self, span: Span) -> Option<Spanned<u64>> {
        let size = number(text_at(self.text, span));
        if size.is_none() {
            let problem = Problem::new(span, Context::Value.bad_number());
            self.problems.push(problem);
        }
        size.map(|size| Spanned::new(size, span))
    }

    /// Parses the name of a histogram or of a clock (`x86-tsc`).
    fn name(&mut self, span: Span) -> Option<Spanned<String>> {
        let name = text_at(self.text, span);
        let fits = |c| is_word(c) || matches!(c, '-' | '.');
        if !name.chars().all(fits) {
            let problem = Problem::new(span, "Invalid name");
            let help = "a name can have letters, digits, `_`, `-` and `.`";
            self.problems.push(problem.with_help(help));
            return None;
        }
        Some(Spanned::new(name.to_owned(), span))
    }

    /// Reports missing keys, unless a problem with `keys=` was reported.
    fn require_keys(&mut self, body: Span) {
        let mut parts = split_colons(self.text, body).into_iter();
        let tried = |part| text_at(self.text, trim(self.text, part)).starts_with("key");
        if !self.hist.keys.is_empty() || parts.any(tried) {
            return;
        }
        let names = self.hist.vars.iter().map(|variable| &variable.name);
        let mut slips = names.filter(|name| nearest(&name.node, ["keys"]).is_some());
        let problem = match slips.next() {
            Some(slip) => Problem::new(slip.span, "Missing keys").with_help(did_you_mean("keys")),
            None => Problem::new(body, "Missing keys").with_help("add `keys=FIELD`"),
        };
        self.problems.push(problem);
    }
}

impl Parser<'_, '_> {
    /// Parses comma-separated expressions up to the end.
    fn list(&mut self) -> Vec<Expr> {
        let mut list = Vec::new();
        loop {
            self.restart_limit();
            list.push(self.expression());
            if !self.accept_comma() {
                return list;
            }
        }
    }

    /// Parses assignments to variables: `a=x,b=y`.
    fn variables(&mut self) -> Vec<Variable> {
        let mut variables = Vec::new();
        loop {
            self.restart_limit();
            variables.extend(self.variable());
            if !self.accept_comma() {
                return variables;
            }
        }
    }

    fn variable(&mut self) -> Option<Variable> {
        let keyword = match self.token {
            Token::Word(word) if KEYWORDS.contains(&word) => Some(word),
            _ => None,
        };
        if let (Token::Word(word), None) = (self.token, keyword) {
            let name = Spanned::new(word.to_owned(), self.advance());
            if self.accept(Token::Assign).is_some() {
                let value = self.expression();
                return Some(Variable { name, value });
            }
        }
        let problem = Problem::new(self.span, "Malformed assignment");
        self.report(match (self.token, keyword) {
            (_, Some(word)) => problem.with_help(format!("write `:` before `{word}=`")),
            (Token::Variable(_), _) => problem.with_help("assign to a variable without `$`"),
            _ => problem,
        });
        self.skip_to(Token::Comma);
        None
    }

    /// Consumes a comma and returns whether there was one. Reports and skips other tokens.
    fn accept_comma(&mut self) -> bool {
        if !matches!(self.token, Token::Comma | Token::End) {
            self.finish();
            self.skip_to(Token::Comma);
        }
        self.accept(Token::Comma).is_some()
    }
}
