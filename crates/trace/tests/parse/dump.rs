//! Trees as one line each: operators in front of their operands, without places.

use noctule_trace::tree::{EventName, Expr, ExprKind, Name, UnaryOp};

/// `(&& (== prev_pid 1) (~ comm "ba*"))`.
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
