//! Prints trees as one line in prefix notation, without spans.

use noctule_trace::tree::{
    Command, EventName, Expr, ExprKind, Handler, Hist, Name, Trigger, UnaryOp,
};

/// Prints `(&& (== prev_pid 1) (~ comm "ba*"))`.
pub(crate) fn expr(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Number(number) => number.to_string(),
        ExprKind::Text(text) => format!("{text:?}"),
        ExprKind::Name(name) => self::name("", name),
        ExprKind::Variable(name) => self::name("$", name),
        ExprKind::Cpus(list) => format!("CPUS{{{list}}}"),
        ExprKind::Unary(op, operand) => {
            let op = match op {
                UnaryOp::Minus => "neg",
                UnaryOp::Not => "!",
                UnaryOp::Complement => "compl",
            };
            format!("({op} {})", self::expr(operand))
        }
        ExprKind::Binary(op, left, right) => {
            let op = op.node.symbol();
            format!("({op} {} {})", self::expr(left), self::expr(right))
        }
        ExprKind::In(left, elements) => format!("(in {} {})", self::expr(left), list(elements)),
        ExprKind::Modified(operand, modifier) => {
            format!("(.{} {})", modifier.node, self::expr(operand))
        }
        ExprKind::Wrong => "WRONG".into(),
    }
}

fn name(sign: &str, name: &Name) -> String {
    match &name.event {
        Some(event) => format!("{}:{sign}{}", self::event(event), name.field),
        None => format!("{sign}{}", name.field),
    }
}

fn event(event: &EventName) -> String {
    format!("{}:{}", event.system, event.event)
}

fn list(elements: &[Expr]) -> String {
    let elements: Vec<String> = elements.iter().map(expr).collect();
    format!("[{}]", elements.join(" "))
}

/// Prints the parts of a histogram in order.
pub(crate) fn hist(hist: &Hist) -> String {
    let mut parts = Vec::new();
    for (word, list) in [
        ("on", &hist.on),
        ("keys", &hist.keys),
        ("vals", &hist.vals),
        ("sort", &hist.sort),
    ] {
        if !list.is_empty() {
            parts.push(format!("{word}={}", self::list(list)));
        }
    }
    parts.extend(hist.size.iter().map(|size| format!("size={}", size.node)));
    parts.extend(hist.name.iter().map(|name| format!("name={:?}", name.node)));
    parts.extend(
        hist.clock
            .iter()
            .map(|clock| format!("clock={:?}", clock.node)),
    );
    let flags = [
        ("pause", hist.pause),
        ("cont", hist.cont),
        ("clear", hist.clear),
        ("nohitcount", hist.nohitcount),
    ];
    let given = flags.iter().filter(|(_, place)| place.is_some());
    parts.extend(given.map(|(flag, _)| (*flag).to_owned()));
    for variable in &hist.vars {
        parts.push(format!("${}={}", variable.name.node, expr(&variable.value)));
    }
    for action in &hist.actions {
        let handler = match &action.handler.node {
            Handler::OnMatch(of) => format!("onmatch {}", event(of)),
            Handler::OnMax(variable) => format!("onmax ${variable}"),
            Handler::OnChange(variable) => format!("onchange ${variable}"),
        };
        parts.push(format!(
            "({handler} {} {})",
            action.name.node,
            list(&action.params)
        ));
    }
    parts.extend(
        hist.filter
            .iter()
            .map(|filter| format!("if={}", expr(filter))),
    );
    parts.join(" ")
}

/// Prints the command, the count and the filter.
pub(crate) fn trigger(trigger: &Trigger) -> String {
    let mut line = match &trigger.command.node {
        Command::Hist(hist) => format!("Hist {}", self::hist(hist)),
        Command::EnableEvent(of) => format!("EnableEvent {}", event(of)),
        Command::DisableEvent(of) => format!("DisableEvent {}", event(of)),
        Command::EnableHist(of) => format!("EnableHist {}", event(of)),
        Command::DisableHist(of) => format!("DisableHist {}", event(of)),
        other => format!("{other:?}"),
    };
    line.extend(
        trigger
            .count
            .iter()
            .map(|count| format!(" count={}", count.node)),
    );
    line.extend(
        trigger
            .filter
            .iter()
            .map(|filter| format!(" if={}", expr(filter))),
    );
    line
}
