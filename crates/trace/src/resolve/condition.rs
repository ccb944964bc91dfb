//! Resolves conditions: the operands of comparisons and their types.

use super::field::{Meaning, Typed};
use super::{Fits, Function, Resolver};
use crate::glob::Glob;
use crate::identity::Identity;
use crate::program::{Comparison, Condition, ConditionKind, Number, Operator, TEXT_ROOM, Text};
use crate::source::{Span, Spanned};
use crate::tree::{BinaryOp, Expr, ExprKind, Modifier, UnaryOp};

impl Resolver<'_> {
    /// Resolves an expression to a condition.
    pub(super) fn condition(&mut self, expr: &Expr) -> Option<Condition> {
        let span = expr.span;
        let kind = match &expr.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => {
                ConditionKind::Not(Box::new(self.condition(inner)?))
            }
            ExprKind::Binary(op, left, right) => match op.node {
                BinaryOp::And | BinaryOp::Or => {
                    let mut all = Vec::new();
                    let complete = self.flatten(op.node, expr, &mut all);
                    complete?;
                    if op.node == BinaryOp::And {
                        ConditionKind::All(all)
                    } else {
                        ConditionKind::Any(all)
                    }
                }
                _ => self.predicate(op, left, right)?,
            },
            ExprKind::In(operand, set) => {
                let equal = Spanned::new(BinaryOp::Equal, span);
                let any: Vec<_> = set
                    .iter()
                    .map(|one| self.predicate(&equal, operand, one))
                    .collect();
                let kinds: Option<Vec<_>> = any.into_iter().collect();
                let any = kinds?.into_iter().map(|kind| Condition { kind, span });
                ConditionKind::Any(any.collect())
            }
            ExprKind::Wrong => return None,
            _ => return self.wrong(span, "Invalid operator"),
        };
        Some(Condition { kind, span })
    }

    /// Resolves the parts of `a && b && c` in order, without recursion into the left operand.
    fn flatten(&mut self, op: BinaryOp, expr: &Expr, all: &mut Vec<Condition>) -> Option<()> {
        let mut parts = Vec::new();
        let mut at = expr;
        while let ExprKind::Binary(other, left, right) = &at.kind
            && other.node == op
        {
            parts.push(&**right);
            at = left;
        }
        parts.push(at);
        let mut complete = Some(());
        for part in parts.into_iter().rev() {
            match self.condition(part) {
                Some(condition) => all.push(condition),
                None => complete = None,
            }
        }
        complete
    }

    /// Resolves a comparison `left op right`.
    fn predicate(
        &mut self,
        op: &Spanned<BinaryOp>,
        left: &Expr,
        right: &Expr,
    ) -> Option<ConditionKind> {
        let outside = std::mem::replace(&mut self.in_filter, true);
        let kind = self.resolve_comparison(op, left, right);
        self.in_filter = outside;
        kind
    }

    fn resolve_comparison(
        &mut self,
        op: &Spanned<BinaryOp>,
        left: &Expr,
        right: &Expr,
    ) -> Option<ConditionKind> {
        if let Some(kind) = self.function(op, left, right) {
            return kind;
        }
        match self.operand(left) {
            Some(None) => None,
            Some(Some(Meaning::Text(text))) => self.text(op, text, right),
            Some(Some(Meaning::Owner(identity, id))) => self.owner(op, identity, id, right),
            Some(Some(Meaning::Address { offset })) => self.address(op, offset, right),
            Some(Some(Meaning::CpuMask { word, relative })) => self.mask(op, word, relative, right),
            Some(Some(Meaning::Number(typed))) => match &right.kind {
                ExprKind::Cpus(list) => self.cpu(op, &typed, list, right.span),
                _ => self.compare(op, &typed, right),
            },
            None => {
                let left = self.number(left)?;
                self.compare(op, &left, right)
            }
        }
    }

    fn compare(
        &mut self,
        op: &Spanned<BinaryOp>,
        left: &Typed,
        right: &Expr,
    ) -> Option<ConditionKind> {
        if let ExprKind::Name(name) = &right.kind
            && self.scope.format.field(&name.field).is_none()
            && name.event.is_none()
            && !name.field.starts_with("common_")
            && !matches!(name.field.as_str(), "cpu" | "CPU" | "comm" | "COMM")
            && Identity::named(&name.field).is_none()
            && !(self.has_latency && name.field == "latency")
        {
            let text = "Invalid value (did you forget quotes)?";
            return self.wrong(right.span, text);
        }
        let right = self.number(right)?;
        let signed = left.signed || (right.signed && !is_constant(&right));
        let (left, right) = (
            truncate_constant(left, &right),
            truncate_constant(&right, left),
        );
        if op.node == BinaryOp::BitAnd {
            return Some(ConditionKind::AnyBit(left, right));
        }
        let Some(how) = comparison(op.node) else {
            return self.wrong(op.span, "Invalid operator");
        };
        Some(ConditionKind::Compare {
            how,
            signed,
            left,
            right,
        })
    }

    fn text(&mut self, op: &Spanned<BinaryOp>, text: Text, right: &Expr) -> Option<ConditionKind> {
        if let ExprKind::Name(name) = &right.kind
            && self.scope.format.field(&name.field).is_some()
        {
            let help = "fields can only be compared if both are numbers";
            return self.wrong_with(right.span, "Expecting a quoted string", help);
        }
        let value = self.quoted(right)?;
        if value.len() >= TEXT_ROOM {
            let help = format!("at most {} bytes", TEXT_ROOM - 1);
            return self.wrong_with(right.span, "Operand too long", help);
        }
        let longest = match &text {
            Text::Comm => Some(15),
            Text::Field { size, .. } => Some((*size as usize).saturating_sub(1)),
            _ => None,
        };
        let compares = matches!(op.node, BinaryOp::Equal | BinaryOp::NotEqual);
        if let Some(longest) = longest.filter(|longest| compares && value.len() > *longest) {
            let help = format!("the field has at most {longest} bytes");
            return self.wrong_with(right.span, "Operand too long", help);
        }
        let equals = |text, value: &str| ConditionKind::Equals(text, value.as_bytes().to_vec());
        let span = op.span.to(right.span);
        let not = |kind| ConditionKind::Not(Box::new(Condition { kind, span }));
        match op.node {
            BinaryOp::Equal => Some(equals(text, value)),
            BinaryOp::NotEqual => Some(not(equals(text, value))),
            BinaryOp::Matches => {
                let (is, glob, _) = self.glob(value, right.span)?;
                let kind = ConditionKind::Matches(text, glob);
                Some(if is { kind } else { not(kind) })
            }
            _ => self.wrong(op.span, "Illegal operation for field type"),
        }
    }

    /// Returns the quoted text of an operand.
    fn quoted<'a>(&mut self, operand: &'a Expr) -> Option<&'a str> {
        match &operand.kind {
            ExprKind::Text(value) => Some(value),
            ExprKind::Name(name) => {
                let help = format!("write \"{}\"", name.field);
                let text = "Invalid value (did you forget quotes)?";
                self.wrong_with(operand.span, text, help)
            }
            ExprKind::Wrong => None,
            _ => self.wrong(operand.span, "Expecting string field"),
        }
    }

    /// Parses a pattern. Returns whether a value must match it, and the pattern without its `!`.
    fn glob<'a>(&mut self, value: &'a str, span: Span) -> Option<(bool, Glob, &'a str)> {
        let (is, pattern) = match value.strip_prefix('!') {
            Some(rest) => (false, rest),
            None => (true, value),
        };
        match Glob::parse(pattern.as_bytes()) {
            Ok(glob) => Some((is, glob, pattern)),
            Err(_) => self.wrong(span, "Operand too long"),
        }
    }

    /// Compares the owner of the thread's cgroup with a name. The matching cgroups are looked up
    /// when the condition is resolved.
    fn owner(
        &mut self,
        op: &Spanned<BinaryOp>,
        identity: Identity,
        id: Number,
        right: &Expr,
    ) -> Option<ConditionKind> {
        let (value, span) = (self.quoted(right)?, right.span);
        let (is, fits) = match op.node {
            BinaryOp::Equal => (true, Fits::Name(value.to_owned())),
            BinaryOp::NotEqual => (false, Fits::Name(value.to_owned())),
            BinaryOp::Matches => {
                let (is, glob, pattern) = self.glob(value, span)?;
                (is, Fits::Glob(glob, pattern.to_owned()))
            }
            _ => return self.wrong(op.span, "Illegal operation for field type"),
        };
        let ids = self.scope.groups.fitting(identity, fits);
        if is && ids.is_empty() {
            let words = format!("No {identity} has this name");
            let help = format!("`noctule stat --by {identity}` lists the existing ones");
            return self.wrong_with(span, words, help);
        }
        let kind = ConditionKind::OneOf(id, ids);
        let span = op.span.to(span);
        Some(if is {
            kind
        } else {
            ConditionKind::Not(Box::new(Condition { kind, span }))
        })
    }

    /// Resolves `field.function == name`: whether the address lies in the named function, or in the
    /// function at the given address. Returns `None` for any other comparison.
    fn function(
        &mut self,
        op: &Spanned<BinaryOp>,
        left: &Expr,
        right: &Expr,
    ) -> Option<Option<ConditionKind>> {
        let ExprKind::Modified(operand, modifier) = &left.kind else {
            return None;
        };
        if modifier.node != Modifier::Function {
            return None;
        }
        let Some(typed) = self.number(operand) else {
            return Some(None);
        };
        let equal = match op.node {
            BinaryOp::Equal => true,
            BinaryOp::NotEqual => false,
            _ => return Some(self.wrong(op.span, "Invalid operator")),
        };
        if typed.size != 8 {
            return Some(self.wrong(operand.span, "Illegal operation for field type"));
        }
        let wanted = match &right.kind {
            ExprKind::Name(name) => Some(Function::Named(&name.field)),
            ExprKind::Text(name) => Some(Function::Named(name)),
            ExprKind::Number(address) => u64::try_from(*address).ok().map(Function::At),
            ExprKind::Wrong => return Some(None),
            _ => None,
        };
        let Some((start, size)) = wanted.and_then(|wanted| (self.scope.function)(wanted)) else {
            let words = "Function not found";
            let help = "no kernel function contains this address, or this user may not see kernel addresses";
            return Some(match wanted {
                Some(Function::At(_)) => self.wrong_with(right.span, words, help),
                _ => self.wrong(right.span, words),
            });
        };
        let kind = within(typed.number, start, size.max(1));
        let span = op.span.to(right.span);
        Some(Some(match equal {
            true => kind,
            false => ConditionKind::Not(Box::new(Condition { kind, span })),
        }))
    }

    /// Compares a CPU with a list of CPUs.
    fn cpu(
        &mut self,
        op: &Spanned<BinaryOp>,
        typed: &Typed,
        list: &str,
        span: Span,
    ) -> Option<ConditionKind> {
        let Some(cpus) = cpu_list(list, self.scope.cpus) else {
            return self.wrong(span, "Invalid cpulist");
        };
        let single = cpus.len() == 1;
        let inverted = match op.node {
            BinaryOp::BitAnd => false,
            BinaryOp::Equal if single => false,
            BinaryOp::NotEqual if single => true,
            // A single CPU never equals a set of several.
            BinaryOp::Equal => return Some(ConditionKind::Any(Vec::new())),
            BinaryOp::NotEqual => return Some(ConditionKind::All(Vec::new())),
            _ => return self.wrong(op.span, "Illegal operation for field type"),
        };
        let one = |(first, count): (u32, u32)| Condition {
            kind: within(typed.number.clone(), u64::from(first), u64::from(count)),
            span,
        };
        let kind = ConditionKind::Any(ranges(&cpus).into_iter().map(one).collect());
        Some(if inverted {
            ConditionKind::Not(Box::new(Condition { kind, span }))
        } else {
            kind
        })
    }

    /// Compares a set of CPUs in the record with a list of CPUs.
    fn mask(
        &mut self,
        op: &Spanned<BinaryOp>,
        word: u32,
        relative: bool,
        right: &Expr,
    ) -> Option<ConditionKind> {
        let ExprKind::Cpus(list) = &right.kind else {
            return self.wrong(right.span, "Expecting string field");
        };
        let Some(cpus) = cpu_list(list, self.scope.cpus) else {
            return self.wrong(right.span, "Invalid cpulist");
        };
        let mut words = [0_u64; MASK_WORDS];
        for cpu in cpus {
            words[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        let span = op.span;
        let of = |(index, bits): (u32, u64)| {
            let number = Number::DynamicField {
                word,
                relative,
                skip: 8 * index,
                size: 8,
                signed: false,
            };
            (number, Number::Constant(bits))
        };
        let pairs = (0..).zip(words).map(of);
        let condition = |kind| Condition { kind, span };
        let equal = || {
            let same = pairs.clone().map(|(left, right)| ConditionKind::Compare {
                how: Comparison::Equal,
                signed: false,
                left,
                right,
            });
            ConditionKind::All(same.map(condition).collect())
        };
        Some(match op.node {
            BinaryOp::BitAnd => {
                let common = pairs
                    .clone()
                    .filter(|(_, bits)| *bits != Number::Constant(0))
                    .map(|(left, right)| ConditionKind::AnyBit(left, right));
                ConditionKind::Any(common.map(condition).collect())
            }
            BinaryOp::Equal => equal(),
            BinaryOp::NotEqual => ConditionKind::Not(Box::new(condition(equal()))),
            _ => return self.wrong(op.span, "Illegal operation for field type"),
        })
    }
}

/// Number of 64-bit words in which a set of CPUs is compared.
const MASK_WORDS: usize = 16;
/// Highest CPU number that a list can contain.
const MAX_CPU: u32 = 64 * MASK_WORDS as u32 - 1;

/// Tests `first <= number < first + count` with one unsigned comparison: a smaller number wraps
/// around.
fn within(number: Number, first: u64, count: u64) -> ConditionKind {
    ConditionKind::Compare {
        how: Comparison::Less,
        signed: false,
        left: super::number::fold(Operator::Minus, number, Number::Constant(first)),
        right: Number::Constant(count),
    }
}

/// Parses a CPU list like the kernel's `cpulist_parse`, in order. Returns `None` for an invalid or
/// empty list. `cpus` is the number of possible CPUs.
pub(super) fn cpu_list(text: &str, cpus: usize) -> Option<Vec<u32>> {
    let last = u32::try_from(cpus).ok()?.checked_sub(1)?;
    let number = |text: &str| match text {
        "N" => Some(last),
        _ => text.parse::<u32>().ok(),
    };
    let mut list = Vec::new();
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    for part in parts {
        let (range, group) = part.split_once(':').unwrap_or((part, "1/1"));
        let (first, end) = match range {
            "all" => ("0", "N"),
            _ => range.split_once('-').unwrap_or((range, range)),
        };
        let (first, end) = (number(first)?, number(end)?);
        let (used, size) = group.split_once('/')?;
        let (used, size) = (used.parse::<u32>().ok()?, size.parse::<u32>().ok()?);
        if first > end || end > MAX_CPU || size == 0 || used > size {
            return None;
        }
        list.extend((first..=end).filter(|cpu| (cpu - first) % size < used));
    }
    list.sort_unstable();
    list.dedup();
    (!list.is_empty()).then_some(list)
}

/// Splits numbers into consecutive ranges. Returns the first number and the length of each.
pub(super) fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => ranges.push((number, 1)),
        }
    }
    ranges
}

fn is_constant(typed: &Typed) -> bool {
    matches!(typed.number, Number::Constant(_))
}

/// Truncates a constant to the type of the other operand, because the kernel compares only as many
/// bytes as the field has.
fn truncate_constant(typed: &Typed, other: &Typed) -> Number {
    let Number::Constant(value) = typed.number else {
        return typed.number.clone();
    };
    if is_constant(other) {
        return Number::Constant(value);
    }
    let shift = 64 - 8 * other.size.clamp(1, 8);
    let high = value << shift;
    Number::Constant(if other.signed {
        (high.cast_signed() >> shift).cast_unsigned()
    } else {
        high >> shift
    })
}

const fn comparison(op: BinaryOp) -> Option<Comparison> {
    Some(match op {
        BinaryOp::Equal => Comparison::Equal,
        BinaryOp::NotEqual => Comparison::NotEqual,
        BinaryOp::Less => Comparison::Less,
        BinaryOp::LessOrEqual => Comparison::LessOrEqual,
        BinaryOp::Greater => Comparison::Greater,
        BinaryOp::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
