//! Collects the spans of a tree.

use noctule_trace::source::Span;
use noctule_trace::tree::{Command, Expr, ExprKind, Hist, Trigger};

/// Collects all spans, and checks that the parts of an expression are inside it.
pub(crate) fn collect_expr(expr: &Expr, all: &mut Vec<Span>) {
    all.push(expr.span);
    let mut inside = Vec::new();
    match &expr.kind {
        ExprKind::Unary(_, operand) => collect_expr(operand, &mut inside),
        ExprKind::Binary(op, left, right) => {
            collect_expr(left, &mut inside);
            inside.push(op.span);
            collect_expr(right, &mut inside);
        }
        ExprKind::In(left, elements) => {
            collect_expr(left, &mut inside);
            for element in elements {
                collect_expr(element, &mut inside);
            }
        }
        ExprKind::Modified(operand, modifier) => {
            collect_expr(operand, &mut inside);
            inside.push(modifier.span);
        }
        _ => {}
    }
    for span in &inside {
        assert_eq!(span.to(expr.span), expr.span, "{expr:?}");
    }
    all.append(&mut inside);
}

pub(crate) fn collect_hist(hist: &Hist, all: &mut Vec<Span>) {
    let lists = [&hist.keys, &hist.vals, &hist.sort];
    for expr in lists.into_iter().flatten().chain(&hist.filter) {
        collect_expr(expr, all);
    }
    all.extend(hist.size.iter().map(|size| size.span));
    let names = [&hist.name, &hist.clock];
    all.extend(names.into_iter().flatten().map(|name| name.span));
    let flags = [hist.pause, hist.cont, hist.clear, hist.nohitcount];
    all.extend(flags.into_iter().flatten());
    for variable in &hist.vars {
        all.push(variable.name.span);
        collect_expr(&variable.value, all);
    }
    for action in &hist.actions {
        all.extend([action.handler.span, action.name.span]);
        for param in &action.params {
            collect_expr(param, all);
        }
    }
}

pub(crate) fn collect_trigger(trigger: &Trigger, all: &mut Vec<Span>) {
    all.push(trigger.command.span);
    if let Command::Hist(hist) = &trigger.command.node {
        collect_hist(hist, all);
    }
    all.extend(trigger.count.iter().map(|count| count.span));
    if let Some(filter) = &trigger.filter {
        collect_expr(filter, all);
    }
}
