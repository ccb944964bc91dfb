//! Prints trees in the syntax of the kernel's trigger files, with as few parentheses as possible.
//! Parsing the printed text of a tree without problems yields the same tree.

use std::fmt::{self, Display, Formatter};

use crate::operator::Level;
use crate::tree::{
    Action, BinaryOp, Command, EventName, Expr, ExprKind, Handler, Hist, Modifier, Name, Trigger,
    UnaryOp, Variable,
};

impl Expr {
    /// Returns the precedence, which determines whether parentheses are needed.
    fn level(&self) -> Level {
        match &self.kind {
            ExprKind::Binary(op, ..) => op.node.level(),
            ExprKind::In(..) => Level::Compare,
            ExprKind::Unary(UnaryOp::Not, _) => Level::Not,
            ExprKind::Unary(..) | ExprKind::Number(..0) => Level::Prefix,
            _ => Level::Operand,
        }
    }

    /// Prints the expression, in parentheses if its precedence is lower than `least`.
    fn print(&self, least: Level, f: &mut Formatter<'_>) -> fmt::Result {
        if self.level() < least {
            write!(f, "({self})")
        } else {
            self.fmt(f)
        }
    }

    /// Whether the expression is `x.function`. If so, the operand to the right of the operator is a
    /// function name.
    fn is_function(&self) -> bool {
        matches!(&self.kind, ExprKind::Modified(_, modifier) if modifier.node == Modifier::Function)
    }

    /// Prints the right side of `x.function ==`, where a word without parentheses is a function
    /// name.
    fn print_function(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Name(Name { event: None, .. }) | ExprKind::Text(_) => self.fmt(f),
            ExprKind::Number(0..) => self.fmt(f),
            _ => write!(f, "({self})"),
        }
    }

    /// Whether the text ends with `.sym`. A following `-offset` would become part of the modifier.
    fn ends_with_symbol(&self) -> bool {
        match &self.kind {
            ExprKind::Binary(_, _, right) => right.ends_with_symbol(),
            ExprKind::Unary(_, operand) => operand.ends_with_symbol(),
            ExprKind::Modified(_, modifier) => modifier.node == Modifier::Symbol,
            _ => false,
        }
    }

    fn starts_with_minus(&self) -> bool {
        matches!(
            &self.kind,
            ExprKind::Number(..0) | ExprKind::Unary(UnaryOp::Minus, _)
        )
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Number(number) => write!(f, "{number}"),
            ExprKind::Text(text) if text.contains('"') => write!(f, "'{text}'"),
            ExprKind::Text(text) => write!(f, "\"{text}\""),
            ExprKind::Name(name) => name.fmt(f),
            ExprKind::Variable(name) => print_variable(name, f),
            ExprKind::Cpus(list) => write!(f, "CPUS{{{list}}}"),
            ExprKind::Unary(UnaryOp::Complement, operand) => {
                f.write_str("~")?;
                operand.print(Level::Prefix, f)
            }
            ExprKind::Unary(UnaryOp::Minus, operand) => write!(f, "-({operand})"),
            ExprKind::Unary(UnaryOp::Not, operand) => write!(f, "!({operand})"),
            ExprKind::Binary(op, left, right) => print_binary(op.node, left, right, f),
            ExprKind::In(left, elements) => print_in(left, elements, f),
            ExprKind::Modified(operand, modifier) => {
                operand.print(Level::Operand, f)?;
                write!(f, ".{}", modifier.node)
            }
            ExprKind::Wrong => f.write_str("?"),
        }
    }
}

fn print_binary(op: BinaryOp, left: &Expr, right: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
    // Comparisons do not chain; all other operators are left-associative.
    let least = if op.is_comparison() {
        op.level().tighter()
    } else {
        op.level()
    };
    left.print(least, f)?;
    let compact = matches!(op.level(), Level::Sum | Level::Product);
    if compact && !(op == BinaryOp::Minus && left.ends_with_symbol()) {
        write!(f, "{op}")?;
    } else {
        write!(f, " {op} ")?;
    }
    if left.is_function() && matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
        right.print_function(f)
    } else if compact && right.starts_with_minus() {
        write!(f, "({right})")
    } else {
        right.print(op.level().tighter(), f)
    }
}

fn print_in(left: &Expr, elements: &[Expr], f: &mut Formatter<'_>) -> fmt::Result {
    left.print(Level::BitOr, f)?;
    f.write_str(" in {")?;
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        if left.is_function() {
            element.print_function(f)?;
        } else {
            element.print(Level::BitOr, f)?;
        }
    }
    f.write_str("}")
}

fn print_variable(name: &Name, f: &mut Formatter<'_>) -> fmt::Result {
    if let Some(event) = &name.event {
        write!(f, "{event}.")?;
    }
    write!(f, "${}", name.field)
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(event) = &self.event {
            write!(f, "{event}.")?;
        }
        f.write_str(&self.field)
    }
}

impl Display for EventName {
    /// Prints the name with a dot, as in `onmatch`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.system, self.event)
    }
}

/// A comma-separated list of expressions.
struct List<'a>(&'a [Expr]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, expr) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{expr}")?;
        }
        Ok(())
    }
}

impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name.node, self.value)
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.handler.node {
            Handler::OnMatch(event) => write!(f, "onmatch({event})")?,
            Handler::OnMax(variable) => write!(f, "onmax(${variable})")?,
            Handler::OnChange(variable) => write!(f, "onchange(${variable})")?,
        }
        write!(f, ".{}({})", self.name.node, List(&self.params))
    }
}

impl Display for Hist {
    /// Prints the parts that are set, in the kernel's order, with the prefix `hist`. The kernel
    /// prints a name without `name=`, which it cannot parse, so `name=` is added here.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("hist")?;
        if let Some(name) = &self.name {
            write!(f, ":name={}", name.node)?;
        }
        let lists = [("keys", &self.keys), ("vals", &self.vals)];
        for (keyword, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, ":{keyword}={}", List(list))?;
        }
        for variable in &self.vars {
            write!(f, ":{variable}")?;
        }
        if !self.sort.is_empty() {
            write!(f, ":sort={}", List(&self.sort))?;
        }
        if let Some(size) = &self.size {
            write!(f, ":size={}", size.node)?;
        }
        if let Some(clock) = &self.clock {
            write!(f, ":clock={}", clock.node)?;
        }
        let flags = [
            ("pause", self.pause),
            ("cont", self.cont),
            ("clear", self.clear),
            ("nohitcount", self.nohitcount),
        ];
        for (flag, _) in flags.iter().filter(|(_, place)| place.is_some()) {
            write!(f, ":{flag}")?;
        }
        for action in &self.actions {
            write!(f, ":{action}")?;
        }
        print_filter(self.filter.as_ref(), f)
    }
}

impl Display for Trigger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.command.node.fmt(f)?;
        if let Some(count) = &self.count {
            write!(f, ":{}", count.node)?;
        }
        print_filter(self.filter.as_ref(), f)
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (word, of) = match self {
            Self::Stacktrace => return f.write_str("stacktrace"),
            Self::Snapshot => return f.write_str("snapshot"),
            Self::TraceOn => return f.write_str("traceon"),
            Self::TraceOff => return f.write_str("traceoff"),
            Self::Unknown(word) => return f.write_str(word),
            Self::Hist(hist) => return hist.fmt(f),
            Self::EnableEvent(of) => ("enable_event", of),
            Self::DisableEvent(of) => ("disable_event", of),
            Self::EnableHist(of) => ("enable_hist", of),
            Self::DisableHist(of) => ("disable_hist", of),
        };
        write!(f, "{word}:{}:{}", of.system, of.event)
    }
}

fn print_filter(filter: Option<&Expr>, f: &mut Formatter<'_>) -> fmt::Result {
    filter.map_or(Ok(()), |filter| write!(f, " if {filter}"))
}
