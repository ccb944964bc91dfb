//! Resolves histograms: keys, values, and their columns.

use super::field::{Meaning, Typed};
use super::linked::Links;
use super::{Resolver, Scope};
use crate::emit::layout;
use crate::print::FieldTable;
use crate::program::{Aggregate, Kept, Number, Operator, Pair, Part, Program};
use crate::session::{TABLE_BYTES, table_bytes};
use crate::source::{Problem, Span};
use crate::table::{
    Figure, KeyColumn, KeyShow, SortColumn, SortKey, Table, ValueColumn, ValueShow,
};
use crate::tree::{BinaryOp, Expr, ExprKind, Hist, Modifier, Name};

/// Default number of entries in a table.
const DEFAULT_SIZE: u32 = 2048;
/// Binary logarithms of the allowed sizes.
const SIZE_BITS: std::ops::RangeInclusive<u32> = 7..=17;
/// Maximum number of sort fields.
const MAX_SORT_FIELDS: usize = 2;

/// Resolves a histogram to its program and its table.
///
/// # Errors
///
/// Returns all problems in source order.
pub fn hist(hist: &Hist, scope: &Scope<'_>) -> Result<(Program, Table), Vec<Problem>> {
    let made = resolve_hist(Resolver::new(scope), hist);
    made.map(|(program, table, _)| (program, table))
}

/// Resolves a histogram, and also returns its links to other events.
pub(super) fn resolve_hist<'a>(
    mut resolver: Resolver<'a>,
    hist: &Hist,
) -> Result<(Program, Table, Option<Links<'a>>), Vec<Problem>> {
    let made = resolver.hist(hist);
    let links = resolver.links.take();
    let (program, table) = resolver.finish(made)?;
    Ok((program, table, links))
}

/// Resolves a pair of events that belong together by `on=`, and the table of the latency between
/// them. Keys, values and the filter refer to the second event.
///
/// # Errors
///
/// Returns all problems in source order.
pub fn latency(
    hist: &Hist,
    first: &Scope<'_>,
    second: &Scope<'_>,
) -> Result<([Program; 2], Table), Vec<Problem>> {
    let made = resolve_pair(Resolver::new(second), hist, first);
    made.map(|(programs, table, _)| (programs, table))
}

/// The programs of the first and the second event, the table and the links.
type PairMade<'a> = ([Program; 2], Table, Option<Links<'a>>);

/// Resolves a pair of events, and also returns the second event's links to other events.
pub(super) fn resolve_pair<'a>(
    mut resolver: Resolver<'a>,
    hist: &Hist,
    first: &Scope<'_>,
) -> Result<PairMade<'a>, Vec<Problem>> {
    resolver.has_latency = true;
    let made = resolver.hist(hist);
    let mut early = Resolver::new(first);
    resolver.has_latency = false;
    let parts: Vec<_> = hist
        .on
        .iter()
        .map(|on| {
            let (left, right) = match &on.kind {
                ExprKind::Binary(op, left, right) if op.node == BinaryOp::Equal => (left, right),
                _ => (&Box::new(on.clone()), &Box::new(on.clone())),
            };
            let parts = (early.key(left)?.0, resolver.key(right)?.0);
            resolver.same_kind(parts, on.span)
        })
        .collect();
    if hist.on.is_empty() {
        let words = "Missing `on=`";
        let help = "name the field that matches the events: `on=FIELD`, or `on=pid==next_pid`";
        let _: Option<()> = resolver.wrong_with(Span::new(0, 0), words, help);
    }
    resolver.problems.append(&mut early.problems);
    resolver.problems.dedup();
    let parts: Option<Vec<_>> = parts.into_iter().collect();
    let made = made.zip(parts).map(|((mut program, table), parts)| {
        let (left, right): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        program.pair = Pair::Second(right);
        let early = Program {
            probe: first.probe,
            pair: Pair::First(left),
            ..Program::default()
        };
        ([early, program], table)
    });
    let links = resolver.links.take();
    let (programs, table) = resolver.finish(made)?;
    Ok((programs, table, links))
}

impl Resolver<'_> {
    /// Checks that the parts of two keys can be equal.
    fn same_kind(&mut self, (left, right): (Part, Part), span: Span) -> Option<(Part, Part)> {
        match (&left, &right) {
            (Part::Number(_), Part::Number(_)) => Some((left, right)),
            (Part::Text(_), Part::Text(_)) if left.size() == right.size() => Some((left, right)),
            (Part::Text(_), Part::Text(_)) => {
                self.wrong(span, "Both string fields must have the same size")
            }
            _ => self.wrong(span, "These fields cannot be equal"),
        }
    }

    fn hist(&mut self, hist: &Hist) -> Option<(Program, Table)> {
        self.reject_unsupported(hist);
        if let (Some(on), false) = (hist.on.first(), self.has_latency) {
            let help = "use `noctule hist FIRST..SECOND 'on=...'`";
            let _: Option<()> = self.wrong_with(on.span, "`on=` needs two events", help);
        }
        let mut program = Program {
            probe: self.scope.probe,
            pausable: hist.pause.is_some(),
            ..Program::default()
        };
        for span in [hist.cont, hist.clear].into_iter().flatten() {
            let help =
                "`--control FILE` accepts `pause`, `cont` and `clear` while the histogram runs";
            let text = "Can't clear or continue a nonexistent hist trigger";
            let _: Option<()> = self.wrong_with(span, text, help);
        }
        let mut table = Table {
            size: self.size(hist).unwrap_or_default(),
            nohitcount: hist.nohitcount.is_some(),
            ..Table::default()
        };
        for key in &hist.keys {
            if let Some((part, column)) = self.key(key) {
                if part == Part::Stack && program.keys.contains(&part) {
                    let _: Option<()> = self.wrong(key.span, "A key can have only one stack");
                }
                program.keys.push(part);
                table.keys.push(column);
            }
        }
        self.set_link_keys(&program.keys);
        let sets = self.sets(hist);
        // The hit count is always the first value.
        for value in hist.vals.iter().filter(|value| !is_hits(value)) {
            let column = self.with_variables(|one| one.value(value, &mut program.values));
            if let Some(column) = column {
                table.values.push(column);
            }
        }
        if let Some(span) = hist.nohitcount
            && table.values.is_empty()
        {
            let _: Option<()> = self.wrong(span, "Can't set nohitcount without another value");
        }
        table.sort = self.sort(hist, &table);
        self.actions(hist, &mut program, &mut table)?;
        self.finish_links(sets, &mut program);
        program.filter = match &hist.filter {
            Some(filter) => Some(self.condition(filter)?),
            None => None,
        };
        if hist.size.is_none() {
            table.size = default_size(&program, self.scope.cpus);
        }
        table.info = info(hist, &table);
        Some((program, table))
    }

    fn reject_unsupported(&mut self, hist: &Hist) {
        let words = "Variables and actions need a single event";
        let help = "variables and actions do not work with a pattern of events or a table shared by `name=`";
        let variables = hist.vars.iter().map(|variable| variable.name.span);
        let actions = hist.actions.iter().map(|action| action.handler.span);
        for span in variables.chain(actions) {
            if self.links.is_none() {
                let _: Option<()> = self.wrong_with(span, words, help);
            }
        }
        if let Some(clock) = &hist.clock
            && clock.node != "mono"
            && clock.node != "global"
        {
            let words = "Unknown clock";
            let help = "times are from CLOCK_MONOTONIC: `clock=mono`";
            let _: Option<()> = self.wrong_with(clock.span, words, help);
        }
    }

    fn size(&mut self, hist: &Hist) -> Option<u32> {
        let size = hist.size.as_ref()?;
        let rounded = u32::try_from(size.node).ok()?.checked_next_power_of_two();
        let fits = rounded.filter(|size| SIZE_BITS.contains(&size.ilog2()));
        if fits.is_none() {
            let help = "use 128 to 131072; the size is rounded up to a power of two";
            return self.wrong_with(size.span, "Invalid size of the table", help);
        }
        fits
    }

    fn key(&mut self, expr: &Expr) -> Option<(Part, KeyColumn)> {
        let (operand, modifier) = match &expr.kind {
            ExprKind::Modified(inner, modifier) => (&**inner, Some(modifier)),
            _ => (expr, None),
        };
        if let ExprKind::Name(name) = &operand.kind
            && matches!(name.field.as_str(), "stacktrace" | "common_stacktrace")
            && self.scope.format.field(&name.field).is_none()
        {
            if let Some(modifier) = modifier
                && modifier.node != Modifier::Stacktrace
            {
                return self.wrong(modifier.span, "Invalid field modifier");
            }
            self.require_thread(operand.span)?;
            return Some((Part::Stack, column(operand, KeyShow::Stack, 8, false)));
        }
        if let (ExprKind::Name(name), None) = (&operand.kind, modifier)
            && (name.field == "event" && self.scope.format.field("event").is_none())
        {
            let id = self.scope.format.id;
            let names = FieldTable::of_value("event", id, &self.scope.format.name);
            let shown = column(operand, KeyShow::Flags(names), 8, false);
            return Some((Part::Number(Number::Constant(id)), shown));
        }
        if let ExprKind::Variable(_) = operand.kind {
            let words = "Using variable references in keys not supported";
            return self.wrong(operand.span, words);
        }
        match (self.operand(expr), modifier) {
            (Some(None), _) => None,
            (Some(Some(Meaning::Text(text))), _) => {
                let size = text.room();
                let shown = column(operand, KeyShow::Text, size, false);
                Some((Part::Text(text), shown))
            }
            (Some(Some(Meaning::Owner(identity, id))), _) => {
                let shown = column(operand, KeyShow::Owner(identity), 8, false);
                Some((Part::Number(id), shown))
            }
            (Some(Some(Meaning::Address { offset })), _) => {
                let shown = column(operand, KeyShow::Address, 16, false);
                Some((Part::Address { offset }, shown))
            }
            (Some(Some(Meaning::CpuMask { .. })), _) => {
                self.wrong(expr.span, "A set of CPUs cannot be a key")
            }
            (Some(Some(Meaning::Number(typed))), _) => {
                let show = self.number_key(typed.signed);
                let shown = column(operand, show, 8, typed.signed);
                Some((Part::Number(typed.number), shown))
            }
            (None, Some(modifier)) => {
                let inner = self.number(operand);
                self.modified_key(operand, inner?, &modifier.node, modifier.span)
            }
            (None, None) => {
                let typed = self.number(expr)?;
                let show = self.number_key(typed.signed);
                let shown = column(expr, show, 8, typed.signed);
                Some((Part::Number(typed.number), shown))
            }
        }
    }

    /// Returns how a number is shown in a key. Like the kernel, noctule shows negative numbers as
    /// large unsigned ones. The kernel has no histograms of functions, so histograms of functions
    /// show the sign.
    fn number_key(&self, signed: bool) -> KeyShow {
        if signed && self.scope.probe.is_function() {
            KeyShow::Signed
        } else {
            KeyShow::Number
        }
    }

    fn modified_key(
        &mut self,
        operand: &Expr,
        typed: Typed,
        modifier: &Modifier,
        span: Span,
    ) -> Option<(Part, KeyColumn)> {
        let is = |name: &str| matches!(&operand.kind, ExprKind::Name(Name { field, .. }) if field == name);
        let mut number = typed.number;
        let show = match modifier {
            Modifier::Hex => KeyShow::Hex,
            Modifier::Symbol => KeyShow::Symbol,
            Modifier::SymbolOffset => KeyShow::SymbolOffset,
            Modifier::Syscall => KeyShow::Syscall,
            Modifier::ExecName if is("common_pid") => KeyShow::ExecName,
            Modifier::Log2 => {
                number = Number::Log2(Box::new(number));
                KeyShow::Log2
            }
            Modifier::Buckets(width @ 1..) => {
                let width = *width;
                number = Number::Bucket {
                    number: Box::new(number),
                    width,
                };
                KeyShow::Buckets(width)
            }
            Modifier::Microseconds if is("common_timestamp") || is("latency") => {
                number = microseconds(number);
                KeyShow::Microseconds
            }
            Modifier::Flags => KeyShow::Flags(self.field_table(operand, span)?),
            _ => return self.wrong(span, "Invalid field modifier"),
        };
        // Buckets are sorted as unsigned numbers.
        let signed = typed.signed && !matches!(show, KeyShow::Log2 | KeyShow::Buckets(_));
        Some((Part::Number(number), column(operand, show, 8, signed)))
    }

    /// Returns the names that the event's print format has for a field.
    fn field_table(&mut self, operand: &Expr, span: Span) -> Option<FieldTable> {
        let tables = self.scope.tables;
        let found = match &operand.kind {
            ExprKind::Name(name) => tables.iter().find(|table| table.field == name.field),
            _ => None,
        };
        if found.is_none() {
            let names: Vec<_> = tables.iter().map(|table| table.field.as_str()).collect();
            let help = match names.as_slice() {
                [] => "the event's print format has no names for values".to_owned(),
                names => format!("the event has names for the values of {}", names.join(", ")),
            };
            return self.wrong_with(span, "Invalid field modifier", help);
        }
        found.cloned()
    }

    /// Resolves a value and the aggregate that it needs.
    fn value(&mut self, expr: &Expr, values: &mut Vec<Kept>) -> Option<ValueColumn> {
        let (operand, modifier) = match &expr.kind {
            ExprKind::Modified(inner, modifier) => (&**inner, Some(modifier)),
            _ => (expr, None),
        };
        let mut show = ValueShow::Number;
        let shown = match modifier.map(|modifier| &modifier.node) {
            None => None,
            Some(Modifier::Hex) => Some(ValueShow::Hex),
            Some(Modifier::Percent) => Some(ValueShow::Percent),
            Some(Modifier::Graph) => Some(ValueShow::Graph),
            _ => None,
        };
        let figure = if is_hits(operand) {
            if let (Some(modifier), None) = (modifier, shown) {
                return self.wrong(modifier.span, "Invalid field modifier");
            }
            Figure::Hits
        } else {
            let typed = self.number(operand)?;
            let signed = typed.signed;
            let mut keep = |number: Number, what| {
                let kept = Kept { number, what };
                let at = values.iter().position(|known| *known == kept);
                at.unwrap_or_else(|| {
                    values.push(kept);
                    values.len() - 1
                })
            };
            match modifier.map(|modifier| (&modifier.node, modifier.span)) {
                Some((Modifier::Minimum, _)) => {
                    show = number_show(signed);
                    Figure::Kept(keep(typed.number, Aggregate::Minimum { signed }))
                }
                Some((Modifier::Maximum, _)) => {
                    show = number_show(signed);
                    Figure::Kept(keep(typed.number, Aggregate::Maximum { signed }))
                }
                Some((Modifier::Average, _)) => {
                    show = number_show(signed);
                    let kept = keep(typed.number, Aggregate::Sum);
                    Figure::Average { kept, signed }
                }
                Some((Modifier::Percentile(thousandths), _)) => {
                    show = number_show(signed);
                    Figure::Percentile {
                        kept: keep(typed.number, Aggregate::Buckets),
                        thousandths: *thousandths,
                        signed,
                    }
                }
                Some((Modifier::Microseconds, _)) if is_time(operand) => {
                    Figure::Kept(keep(microseconds(typed.number), Aggregate::Sum))
                }
                Some((_, span)) if shown.is_none() => {
                    return self.wrong(span, "Invalid field modifier");
                }
                _ => {
                    if self.scope.probe.is_function() {
                        show = number_show(signed);
                    }
                    Figure::Kept(keep(typed.number, Aggregate::Sum))
                }
            }
        };
        Some(ValueColumn {
            name: value_name(operand, modifier.map(|modifier| &modifier.node)),
            figure,
            show: shown.unwrap_or(show),
        })
    }

    fn sort(&mut self, hist: &Hist, table: &Table) -> Vec<SortKey> {
        if let Some(third) = hist.sort.get(MAX_SORT_FIELDS) {
            let _: Option<()> = self.wrong(third.span, "Too many sort fields (Max = 2)");
        }
        let keys = hist.sort.iter().take(MAX_SORT_FIELDS);
        keys.filter_map(|expr| self.sort_key(expr, hist, table))
            .collect()
    }

    fn sort_key(&mut self, expr: &Expr, hist: &Hist, table: &Table) -> Option<SortKey> {
        let values: Vec<_> = hist.vals.iter().filter(|value| !is_hits(value)).collect();
        let keys: Vec<_> = hist.keys.iter().collect();
        let (operand, descending) = match &expr.kind {
            ExprKind::Modified(inner, modifier) => match modifier.node {
                Modifier::Ascending => (&**inner, false),
                Modifier::Descending => (&**inner, true),
                // A value that also occurs with a modifier.
                _ if position(&values, expr).is_some() => (expr, false),
                _ => return self.wrong(modifier.span, "Invalid sort modifier"),
            },
            _ => (expr, false),
        };
        let column = if is_hits(operand) {
            SortColumn::Hits
        } else if let Some(at) = position(&values, operand).filter(|at| *at < table.values.len()) {
            SortColumn::Value(at)
        } else if let Some(at) = position(&keys, operand).filter(|at| *at < table.keys.len()) {
            SortColumn::Key(at)
        } else {
            return self.wrong(operand.span, "Sort field must be a key or a val");
        };
        Some(SortKey { column, descending })
    }
}

/// Returns the index of an equal expression, with or without its modifier.
fn position(all: &[&Expr], wanted: &Expr) -> Option<usize> {
    let text = wanted.to_string();
    let bare = |expr: &Expr| match &expr.kind {
        ExprKind::Modified(inner, _) => inner.to_string(),
        _ => expr.to_string(),
    };
    let whole = all.iter().position(|expr| expr.to_string() == text);
    whole.or_else(|| all.iter().position(|expr| bare(expr) == text))
}

/// Whether the expression is `hitcount` without a modifier.
fn is_hits(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name.field == "hitcount" && name.event.is_none())
}

/// Converts nanoseconds to microseconds, rounded like in the kernel.
pub(super) fn microseconds(number: Number) -> Number {
    let half = super::number::fold(Operator::Plus, number, Number::Constant(500));
    super::number::fold(Operator::Divided, half, Number::Constant(1000))
}

const fn number_show(signed: bool) -> ValueShow {
    if signed {
        ValueShow::Signed
    } else {
        ValueShow::Number
    }
}

pub(super) fn is_time(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name)
        if matches!(name.field.as_str(), "common_timestamp" | "latency"))
}

fn column(operand: &Expr, show: KeyShow, size: usize, signed: bool) -> KeyColumn {
    KeyColumn {
        name: operand.to_string(),
        show,
        signed,
        size,
    }
}

/// Returns the name of a value's column. The kernel prints only the field; columns of noctule's own
/// modifiers include the modifier, because a field can have several.
fn value_name(operand: &Expr, modifier: Option<&Modifier>) -> String {
    match modifier {
        Some(
            modifier @ (Modifier::Minimum
            | Modifier::Maximum
            | Modifier::Average
            | Modifier::Percentile(_)),
        ) => format!("{operand}.{modifier}"),
        _ => match &operand.kind {
            ExprKind::Variable(name) => name.field.clone(),
            _ => operand.to_string(),
        },
    }
}

/// Returns the default size of a table. The default is smaller if the rows would take too much
/// memory, as with percentiles on many CPUs.
fn default_size(program: &Program, cpus: usize) -> u32 {
    let layout = layout(program);
    let is_too_large = |size: u32| table_bytes(&layout, size, cpus) > TABLE_BYTES;
    let mut size = DEFAULT_SIZE;
    while size.ilog2() > *SIZE_BITS.start() && is_too_large(size) {
        size /= 2;
    }
    size
}

/// Formats the trigger like the kernel.
fn info(hist: &Hist, table: &Table) -> String {
    let list = |all: &[Expr]| {
        all.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let name = hist
        .name
        .as_ref()
        .map_or(String::new(), |name| format!("name={}:", name.node));
    let mut vals = if table.nohitcount {
        Vec::new()
    } else {
        vec!["hitcount".to_owned()]
    };
    let others = hist.vals.iter().filter(|value| !is_hits(value));
    vals.extend(others.map(ToString::to_string));
    let sort = match table.sort.as_slice() {
        [] => "hitcount".to_owned(),
        all => all
            .iter()
            .map(|by| sort_name(hist, by))
            .collect::<Vec<_>>()
            .join(","),
    };
    let keys = list(&hist.keys);
    let on = match hist.on.as_slice() {
        [] => String::new(),
        on => format!("on={}:", list(on)),
    };
    let vars: Vec<_> = hist.vars.iter().map(ToString::to_string).collect();
    let vars = match vars.as_slice() {
        [] => String::new(),
        vars => format!(":{}", vars.join(",")),
    };
    let mut info = format!(
        "hist:{name}{on}keys={keys}:vals={}{vars}:sort={sort}:size={}",
        vals.join(","),
        table.size
    );
    // Timestamps are always on this clock.
    if format!("{keys},{},{vars}", vals.join(",")).contains("common_timestamp") {
        info += ":clock=mono";
    }
    if table.nohitcount {
        info += ":nohitcount";
    }
    for action in &hist.actions {
        info += &format!(":{action}");
    }
    if let Some(filter) = &hist.filter_text {
        info += &format!(" if {filter}");
    }
    info
}

/// Returns a sort field with its modifier. Ascending order is the default and not printed.
fn sort_name(hist: &Hist, by: &SortKey) -> String {
    let mut values = hist.vals.iter().filter(|value| !is_hits(value));
    let field = match by.column {
        SortColumn::Hits => None,
        SortColumn::Key(index) => hist.keys.get(index),
        SortColumn::Value(index) => values.nth(index),
    };
    let mut name = field.map_or_else(|| "hitcount".to_owned(), ToString::to_string);
    if by.descending {
        name += ".descending";
    }
    name
}
