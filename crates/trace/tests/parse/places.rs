//! Every place of a tree, for checks of all of them.

use noctule_trace::source::Span;
use noctule_trace::tree::{Command, Expr, ExprKind, Hist, Trigger};

/// Collects all places, and checks that the parts of an expression lie inside of it.
pub(crate) fn of_expr(expr: &Expr, all: &mut Vec<Span>) {
    all.push(expr.span);
    let mut inside = Vec::new();
    match &expr.kind {
        ExprKind::Unary(_, operand) => of_expr(operand, &mut inside),
        ExprKind::Binary(op, left, right) => {
            of_expr(left, &mut inside);
            inside.push(op.span);
            of_expr(right, &mut inside);
        }
        ExprKind::In(left, elements) => {
            of_expr(left, &mut inside);
            for element in elements {
                of_expr(element, &mut inside);
            }
        }
        ExprKind::Modified(operand, modifier) => {
            of_expr(operand, &mut inside);
            inside.push(modifier.span);
        }
        _ => {}
    }
    for span in &inside {
        assert_eq!(span.to(expr.span), expr.span, "{expr:?}");
    }
    all.append(&mut inside);
}

pub(crate) fn of_hist(hist: &Hist, all: &mut Vec<Span>) {
    let lists = [&hist.keys, &hist.vals, &hist.sort];
    for expr in lists.into_iter().flatten().chain(&hist.filter) {
        of_expr(expr, all);
    }
    all.extend(hist.size.iter().map(|size| size.span));
    let names = [&hist.name, &hist.clock];
    all.extend(names.into_iter().flatten().map(|name| name.span));
    let flags = [hist.pause, hist.cont, hist.clear, hist.nohitcount];
    all.extend(flags.into_iter().flatten());
    for variable in &hist.vars {
        all.push(variable.name.span);
        of_expr(&variable.value, all);
    }
    for action in &hist.actions {
        all.extend([action.handler.span, action.name.span]);
        for param in &action.params {
            of_expr(param, all);
        }
    }
}

pub(crate) fn of_trigger(trigger: &Trigger, all: &mut Vec<Span>) {
    all.push(trigger.command.span);
    if let Command::Hist(hist) = &trigger.command.node {
        of_hist(hist, all);
    }
    all.extend(trigger.count.iter().map(|count| count.span));
    if let Some(filter) = &trigger.filter {
        of_expr(filter, all);
    }
}
