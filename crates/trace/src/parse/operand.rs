//! Parses operands: numbers, strings, names and their modifiers.

use super::expr::{INVALID_VALUE, TOO_MANY_TERMS};
use super::number::number;
use super::parser::{Context, Parser, wrong};
use super::suggest::{did_you_mean, nearest};
use crate::lex::{Token, is_space, is_word};
use crate::modifier::BUCKETS;
use crate::operator::Level;
use crate::source::{Problem, Spanned};
use crate::tree::{EventName, Expr, ExprKind, Modifier, Name};

/// Maximum number of source bytes that a suggestion quotes.
const MAX_QUOTED: usize = 64;

impl Parser<'_, '_> {
    /// Parses one operand, without modifiers.
    pub(super) fn operand(&mut self) -> Expr {
        let kind = match self.token {
            Token::Digits(digits) => match number(digits) {
                Some(number) => ExprKind::Number(number.into()),
                None => {
                    self.report_here(self.context.bad_number());
                    ExprKind::Wrong
                }
            },
            Token::Text(text) => ExprKind::Text(text.into()),
            Token::Unclosed => {
                self.report_here("Missing matching quote");
                self.give_up();
                ExprKind::Wrong
            }
            Token::Variable("") => {
                self.report_here("Couldn't find variable");
                ExprKind::Wrong
            }
            Token::Variable(name) => ExprKind::Variable(bare(name)),
            Token::Word("CPUS") => return self.cpus(),
            // `if` is a keyword of C, so no field has this name.
            Token::Word("if") => return self.missing(),
            Token::Word(word) => return self.name(word),
            Token::Open => return self.parenthesis(),
            _ => return self.missing(),
        };
        let span = self.advance();
        Expr { kind, span }
    }

    /// Reports that the current token does not start an operand.
    fn missing(&mut self) -> Expr {
        let place = self.span;
        let nothing_more = matches!(self.token, Token::End | Token::Close | Token::CloseBrace);
        let text = match (self.last, self.token) {
            // The caller reports the open parenthesis.
            (Token::Open, Token::End) => return wrong(place),
            (Token::Open, Token::Close) => "Empty parentheses".into(),
            (Token::Operator(op), _) if op.is_comparison() => INVALID_VALUE.into(),
            (Token::Operator(op), _) if op.is_logical() => {
                format!("Missing condition after `{op}`")
            }
            (Token::Operator(op), _) => format!("Missing operand after `{op}`"),
            (Token::Not, _) => "Missing condition after `!`".into(),
            (Token::Assign, _) => "Empty assignment".into(),
            (_, Token::Operator(op)) if op.is_logical() => {
                format!("Missing condition before `{op}`")
            }
            (Token::Comma | Token::OpenBrace, _) if self.context == Context::Filter => {
                INVALID_VALUE.into()
            }
            (_, Token::Comma) => self.context.nothing().into(),
            _ if nothing_more => self.context.nothing().into(),
            _ => self.context.no_field().into(),
        };
        let mut problem = Problem::new(place, text);
        if problem.text == INVALID_VALUE && !nothing_more {
            let bare = self.rest_from_here().split(ends_text).next();
            problem.help = bare.and_then(suggest_quotes);
        }
        self.report(problem);
        self.recover();
        wrong(place)
    }

    fn parenthesis(&mut self) -> Expr {
        let open = self.advance();
        let inner = self.nested(open, Self::expression);
        if !matches!(self.token, Token::Close | Token::End) {
            self.report_here(TOO_MANY_TERMS);
            self.skip_to(Token::Close);
        }
        let close = self.accept(Token::Close).unwrap_or_else(|| {
            self.report(Problem::new(open, "Too many '('"));
            inner.span
        });
        Expr {
            kind: inner.kind,
            span: open.to(close),
        }
    }

    /// Parses `CPUS{0-3}`. The current token is `CPUS`.
    fn cpus(&mut self) -> Expr {
        let word = self.advance();
        if self.token != Token::OpenBrace {
            self.report_here("Missing '{'");
            return wrong(word);
        }
        let (list, span) = self.read(|lexer| {
            lexer.take_while(|c| c == '{');
            lexer.take_until('}')
        });
        let span = word.to(span);
        let Some(list) = list else {
            self.report(Problem::new(span, "Missing '}'"));
            self.give_up();
            return wrong(span);
        };
        if !is_cpu_list(list) {
            self.report(Problem::new(span, "Invalid cpulist"));
            return wrong(span);
        }
        Expr {
            kind: ExprKind::Cpus(list.into()),
            span,
        }
    }

    /// Parses a name, or a system, an event and a name separated by dots.
    fn name(&mut self, first: &str) -> Expr {
        let mut ahead = self.lexer.clone();
        let mut next = || ahead.next().0;
        let (kind, tokens) = match [next(), next(), next(), next()] {
            [
                Token::Dot,
                Token::Word(event),
                Token::Dot,
                Token::Word(field),
            ] if !are_modifiers(event, field) => (ExprKind::Name(of_event(first, event, field)), 5),
            [
                Token::Dot,
                Token::Word(event),
                Token::Dot,
                Token::Variable(name),
            ] if !name.is_empty() => (ExprKind::Variable(of_event(first, event, name)), 5),
            _ => (ExprKind::Name(bare(first)), 1),
        };
        let mut span = self.span;
        for _ in 0..tokens {
            span = span.to(self.advance());
        }
        Expr { kind, span }
    }

    /// Parses the modifiers after an operand.
    pub(super) fn modified(&mut self, operand: Expr) -> Expr {
        let mut operand = operand;
        while self.accept(Token::Dot).is_some() {
            let modifier = self.modifier();
            let span = operand.span.to(modifier.span);
            operand = self.node(ExprKind::Modified(operand.into(), modifier), span);
        }
        operand
    }

    fn modifier(&mut self) -> Spanned<Modifier> {
        let (Token::Word(word) | Token::Digits(word)) = self.token else {
            self.report_here(self.context.bad_modifier());
            return Spanned::new(Modifier::Unknown(String::new()), self.span);
        };
        if BUCKETS.contains(&word) {
            return self.buckets(word);
        }
        let (whole, span) = self.read(|lexer| {
            lexer.take_while(is_word);
            let is_offset = word == "sym"
                && lexer
                    .rest()
                    .strip_prefix("-offset")
                    .is_some_and(|rest| !rest.starts_with(is_word));
            if is_offset {
                lexer.go_to(lexer.position() + "-offset".len());
            }
            if is_offset { "sym-offset" } else { word }
        });
        let modifier = Modifier::named(whole).unwrap_or_else(|| {
            let mut problem = Problem::new(span, self.context.bad_modifier());
            problem.help = nearest(word, Modifier::names()).map(did_you_mean);
            self.report(problem);
            Modifier::Unknown(word.into())
        });
        Spanned::new(modifier, span)
    }

    /// Parses `buckets=N`. The current token is `buckets`.
    fn buckets(&mut self, word: &str) -> Spanned<Modifier> {
        let name = self.advance();
        let mut span = name;
        if let Some(assign) = self.accept(Token::Assign) {
            span = span.to(assign);
            if let Token::Digits(size) | Token::Word(size) = self.token {
                span = span.to(self.advance());
                if let Some(size @ 1..) = number(size) {
                    return Spanned::new(Modifier::Buckets(size), span);
                }
            }
        }
        let problem = Problem::new(name, self.context.bad_modifier());
        self.report(problem.with_help("give a size, as in `.buckets=8`"));
        Spanned::new(Modifier::Unknown(word.into()), span)
    }

    /// Parses the operand of `~`. Reports an unquoted glob.
    pub(super) fn pattern(&mut self) -> Expr {
        let quoted = matches!(self.token, Token::Text(_) | Token::Unclosed);
        if quoted || self.rest_from_here().starts_with(ends_text) || self.token == Token::End {
            if self.token == Token::Open {
                self.report_here(INVALID_VALUE);
            }
            return self.operand();
        }
        let (glob, span) = self.read(|lexer| lexer.take_while(|c| !ends_text(c)));
        let mut problem = Problem::new(span, INVALID_VALUE);
        problem.help = suggest_quotes(glob);
        self.report(problem);
        let kind = ExprKind::Text(glob.into());
        Expr { kind, span }
    }

    /// Parses the right side of `x.function ==`: an address, or a name that may contain dots.
    pub(super) fn function_name(&mut self) -> Expr {
        let begins = |c: char| is_word(c) && !c.is_ascii_digit() || c == '.';
        if !self.rest_from_here().starts_with(begins) || self.token == Token::Word("if") {
            return self.binary(Level::BitOr);
        }
        let within = |c: char| is_word(c) || matches!(c, '.' | ':' | '$');
        let (name, span) = self.read(|lexer| lexer.take_while(within));
        let kind = ExprKind::Name(bare(name));
        Expr { kind, span }
    }

    /// Returns the source starting at the current token.
    fn rest_from_here(&self) -> &str {
        let mut lexer = self.lexer.clone();
        lexer.go_to(self.span.start);
        lexer.rest()
    }
}

/// Whether unquoted text ends at this character.
fn ends_text(c: char) -> bool {
    is_space(c) || matches!(c, '(' | ')' | '{' | '}' | ',' | '&' | '|' | '=')
}

/// Suggests quoting a word.
fn suggest_quotes(bare: &str) -> Option<String> {
    let fits = |c: char| !c.is_control() && !matches!(c, '"' | '\'');
    let named = bare.contains(|c: char| c.is_alphanumeric()) && bare.chars().all(fits);
    (named && bare.len() <= MAX_QUOTED).then(|| did_you_mean(&format!("\"{bare}\"")))
}

fn bare(field: &str) -> Name {
    Name {
        event: None,
        field: field.into(),
    }
}

fn of_event(system: &str, event: &str, field: &str) -> Name {
    let event = EventName {
        system: system.into(),
        event: event.into(),
    };
    Name {
        event: Some(event),
        field: field.into(),
    }
}

/// Whether `a.second.third` is a field with two modifiers (`latency.p99.descending`) rather than a
/// field of an event. A third word that resembles a modifier counts as a misspelled modifier,
/// because few events have such a name.
fn are_modifiers(second: &str, third: &str) -> bool {
    let is_modifier = |word| BUCKETS.contains(&word) || Modifier::named(word).is_some();
    is_modifier(second) && (is_modifier(third) || nearest(third, Modifier::names()).is_some())
}

/// Whether the kernel's `cpulist_parse` accepts the list: `0-3,8`, `0-31:2/4` (two of every four),
/// `all`, and `N` for the last CPU.
fn is_cpu_list(list: &str) -> bool {
    let is_cpu = |cpu: &str| cpu == "N" || decimal(cpu).is_some();
    let is_range = |part: &str| match part.split_once('-') {
        Some((first, last)) => is_cpu(first) && is_cpu(last),
        None => part == "all" || is_cpu(part),
    };
    let is_part = |part: &str| match part.split_once(':') {
        Some((range, group)) => {
            let group = group.split_once('/');
            let counts = group.map(|(used, size)| (decimal(used), decimal(size)));
            is_range(range) && matches!(counts, Some((Some(_), Some(1..))))
        }
        None => is_range(part),
    };
    let mut parts = list.split([',', ' ']).filter(|part| !part.is_empty());
    !list.is_empty() && parts.all(is_part)
}

fn decimal(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}
