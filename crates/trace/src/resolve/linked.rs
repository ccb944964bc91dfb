//! Resolves events that are linked: variables and actions.

use super::field::{Meaning, Typed};
use super::hist::{resolve_hist, resolve_pair};
use super::{Resolver, Scope};
use crate::program::{
    Action, Aggregate, Emit, EmitField, Kept, Linked, Number, Part, Program, Read, Set, Source,
    Text, Track, When,
};
use crate::source::{Problem, Span};
use crate::synthetic::Synthetic;
use crate::table::{SavedColumn, SavedShow, Table, Tracked};
use crate::tree::{self, EventName, Expr, ExprKind, Handler, Hist, Name};

/// Error messages of the kernel.
const NOT_FOUND: &str = "Couldn't find variable";
const NOT_UNIQUE: &str =
    "Variable name not unique, need to use fully qualified name (subsys.event.var) for variable";
const NO_OPERAND: &str = "String type can not be an operand in expression";
const NO_PARAM: &str = "Couldn't find param";

/// Maximum depth to which synthetic events can generate each other.
const LEVELS: usize = 4;

/// A trigger that can be linked to the other triggers of its command.
pub struct Linkable<'a> {
    /// The event or, for a pair, its second event.
    pub event: EventName,
    pub hist: &'a Hist,
    /// The environment of the event.
    pub scope: Scope<'a>,
    /// The environment of the first event of a pair.
    pub first: Option<Scope<'a>>,
    /// Index of the synthetic event that the trigger counts.
    pub synthetic: Option<usize>,
}

/// The programs of a trigger, and its table.
pub type Resolved = (Vec<Program>, Table);

/// Resolves the triggers of a command. Returns the programs and the table of each trigger; for a
/// pair, the second event comes first. The programs of a synthetic event are also nested in the
/// programs that generate it. Tables are numbered like their triggers. If `pausable` is set, all
/// tables can be paused.
///
/// # Errors
///
/// Returns the index of the first trigger with problems, and these problems.
pub fn linked(
    all: &[Linkable<'_>],
    synthetic: &[Synthetic],
    pausable: bool,
) -> Result<Vec<Resolved>, (usize, Vec<Problem>)> {
    let mut links = Links {
        all,
        synthetic,
        done: Vec::new(),
        own: Vec::new(),
        reads: Vec::new(),
        keys: Vec::new(),
        open: false,
    };
    let mut made = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let mut resolver = Resolver::new(&one.scope);
        resolver.links = Some(links);
        let resolved = match &one.first {
            None => resolve_hist(resolver, one.hist)
                .map(|(program, table, links)| (vec![program], table, links)),
            Some(first) => resolve_pair(resolver, one.hist, first)
                .map(|([early, late], table, links)| (vec![late, early], table, links)),
        };
        let (mut programs, table, back) = resolved.map_err(|problems| (at, problems))?;
        links = back.ok_or((at, Vec::new()))?;
        for program in &mut programs {
            program.linked.table = at;
            program.pausable |= pausable;
        }
        let own = std::mem::take(&mut links.own);
        let first = programs.remove(0);
        links.done.push(Done {
            program: first,
            own,
        });
        made.push((programs, table));
    }
    let programs: Vec<_> = links.done.into_iter().map(|done| done.program).collect();
    let complete = programs
        .iter()
        .map(|program| nest_synthetic(program, all, &programs, 0));
    let complete: Vec<_> = complete.collect();
    for ((other_programs, _), program) in made.iter_mut().zip(complete) {
        other_programs.insert(0, program);
    }
    Ok(made)
}

/// Inserts the programs of synthetic events into the program that generates these events.
fn nest_synthetic(
    program: &Program,
    all: &[Linkable<'_>],
    programs: &[Program],
    level: usize,
) -> Program {
    let mut whole = program.clone();
    for emit in whole.linked.actions.iter_mut().filter_map(Action::emit_mut) {
        let counted_by = all.iter().zip(programs);
        let counted_by = counted_by.filter(|(one, _)| one.synthetic == Some(emit.event));
        emit.programs = counted_by
            // The emitter rejects deeper nesting.
            .filter(|_| level <= LEVELS)
            .map(|(_, inner)| nest_synthetic(inner, all, programs, level + 1))
            .collect();
    }
    whole
}

/// The triggers before the current one, and the links of the current one.
pub(super) struct Links<'a> {
    all: &'a [Linkable<'a>],
    synthetic: &'a [Synthetic],
    done: Vec<Done>,
    own: Vec<Own>,
    reads: Vec<Read>,
    /// The parts of the current trigger's key.
    keys: Vec<Part>,
    /// Whether variables are allowed in the expression being resolved.
    open: bool,
}

/// A resolved trigger.
struct Done {
    program: Program,
    own: Vec<Own>,
}

/// A variable of a trigger, at the same index as in [`Linked::sets`].
#[derive(Clone)]
struct Own {
    /// Name of the variable; `None` for a field that another trigger reads.
    name: Option<String>,
    value: Source,
    signed: bool,
}

/// The location of a variable.
enum Found {
    Own(usize),
    Other { table: usize, set: usize },
}

impl Links<'_> {
    /// Returns the latest previous table of the event.
    fn table_of(&self, event: &EventName) -> Option<usize> {
        let before = self.all.iter().take(self.done.len());
        before
            .enumerate()
            .filter(|(_, one)| one.event == *event)
            .map(|(at, _)| at)
            .next_back()
    }

    /// Returns the variables with this name.
    fn named(&self, name: &Name) -> Vec<Found> {
        let is = |own: &Own| own.name.as_ref() == Some(&name.field);
        let current = self.all.get(self.done.len()).map(|one| &one.event);
        let is_here = name.event.is_none() || name.event.as_ref() == current;
        if let Some(index) = self.own.iter().position(is).filter(|_| is_here) {
            return vec![Found::Own(index)];
        }
        let mut found = Vec::new();
        for (table, done) in self.done.iter().enumerate() {
            let event = &self.all[table].event;
            if name.event.as_ref().is_none_or(|wanted| wanted == event) {
                let sets = done.own.iter().enumerate().filter(|(_, own)| is(own));
                found.extend(sets.map(|(set, _)| Found::Other { table, set }));
            }
        }
        found
    }

    /// Reads a variable of another table. Returns the index of the variable in `reads`, and the
    /// variable.
    fn read(&mut self, table: usize, set: usize, once: bool) -> (usize, Own) {
        let done = &mut self.done[table];
        let own = done.own[set].clone();
        let linked = &mut done.program.linked;
        let at = *linked.sets[set].at.get_or_insert_with(|| {
            let at = linked.kept;
            linked.kept += own.value.stored();
            at
        });
        let is = |read: &Read| read.table == table && read.at == at;
        let index = self.reads.iter().position(is).unwrap_or_else(|| {
            self.reads.push(Read {
                table,
                at,
                text: match &own.value {
                    Source::Number(_) => None,
                    Source::Text(text) => Some(text.room()),
                },
                once: false,
            });
            self.reads.len() - 1
        });
        // Text is not an operand and is never unset.
        self.reads[index].once |= once && matches!(own.value, Source::Number(_));
        (index, own)
    }

    /// Formats the variables that are set so far, for a help text.
    fn variables_help(&self) -> String {
        let all = self.done.iter().flat_map(|done| &done.own).chain(&self.own);
        let names: Vec<_> = all
            .filter_map(|own| own.name.as_ref())
            .map(|name| format!("${name}"))
            .collect();
        match names.as_slice() {
            [] => "set it in an earlier trigger: `keys=...:NAME=FIELD`".to_owned(),
            names => format!("earlier triggers set {}", names.join(", ")),
        }
    }
}

impl<'a> Resolver<'a> {
    /// Allows or forbids variables in the expressions that `inside` resolves.
    fn open<T>(&mut self, open: bool, inside: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(links) = &mut self.links {
            links.open = open;
        }
        let made = inside(self);
        if let Some(links) = &mut self.links {
            links.open = false;
        }
        made
    }

    /// Resolves a variable to a number. `once` is set if it is an operand.
    pub(super) fn variable(&mut self, name: &Name, span: Span, once: bool) -> Option<Typed> {
        let (source, signed) = self.variable_source(name, span, once, None)?;
        match source {
            Source::Number(number) => Some(Typed::wide(number, signed)),
            Source::Text(_) => self.wrong(span, NO_OPERAND),
        }
    }

    /// Resolves a variable to its value. If several tables have the variable, the one of table `of`
    /// is used.
    fn variable_source(
        &mut self,
        name: &Name,
        span: Span,
        once: bool,
        of: Option<usize>,
    ) -> Option<(Source, bool)> {
        let Some(links) = self.links.as_mut().filter(|links| links.open) else {
            let help = "variables can be used in values, in other variables and in actions; filter the synthetic \
                        event that receives them";
            return self.wrong_with(span, "A variable cannot be used here", help);
        };
        let mut found = links.named(name);
        if let (Some(of), true) = (of, found.len() > 1) {
            found.retain(|one| matches!(one, Found::Other { table, .. } if *table == of));
        }
        let one = match found.as_slice() {
            [one] => one,
            [] => {
                let help = links.variables_help();
                return self.wrong_with(span, NOT_FOUND, help);
            }
            _ => return self.wrong(span, NOT_UNIQUE),
        };
        match *one {
            Found::Own(index) => {
                let own = links.own[index].clone();
                Some(match own.value {
                    Source::Number(_) => (Source::Number(Number::Own(index)), own.signed),
                    // The text cannot be copied from the variable, so it is read from the record
                    // again.
                    text @ Source::Text(_) => (text, false),
                })
            }
            Found::Other { table, set } => self.read(table, set, once, span),
        }
    }

    /// Reads a value that another trigger has stored for the same key.
    fn read(&mut self, table: usize, set: usize, once: bool, span: Span) -> Option<(Source, bool)> {
        let links = self.links.as_mut()?;
        let sizes = |keys: &[Part]| keys.iter().map(Part::size).collect::<Vec<_>>();
        if sizes(&links.keys) != sizes(&links.done[table].program.keys) {
            let event = &links.all[table].event;
            let text = format!(
                "`{event}` has different keys, so its variables cannot be looked up from here"
            );
            let help =
                "both triggers need the same number of keys, with the same sizes in the same order";
            return self.wrong_with(span, text, help);
        }
        let (index, own) = links.read(table, set, once);
        Some(match &own.value {
            Source::Number(_) => (Source::Number(Number::Read(index)), own.signed),
            Source::Text(text) => {
                let room = text.room();
                (Source::Text(Text::Read { index, room }), false)
            }
        })
    }

    /// Sets the keys by which variables are looked up.
    pub(super) fn set_link_keys(&mut self, keys: &[Part]) {
        if let Some(links) = &mut self.links {
            links.keys = keys.to_vec();
        }
    }

    /// Resolves the event's own variables.
    pub(super) fn sets(&mut self, hist: &Hist) -> Vec<Set> {
        self.open(true, |resolver| {
            for variable in &hist.vars {
                resolver.set(variable);
            }
        });
        let own = self.links.iter().flat_map(|links| &links.own);
        own.map(|own| Set {
            value: own.value.clone(),
            at: None,
        })
        .collect()
    }

    fn set(&mut self, variable: &tree::Variable) -> Option<()> {
        let name = &variable.name;
        let source = self.source(&variable.value);
        let links = self.links.as_mut()?;
        if links
            .own
            .iter()
            .any(|own| own.name.as_ref() == Some(&name.node))
        {
            return self.wrong(name.span, "Variable already defined");
        }
        let (value, signed) = source?;
        links.own.push(Own {
            name: Some(name.node.clone()),
            value,
            signed,
        });
        Some(())
    }

    /// Resolves an expression to a number or text.
    fn source(&mut self, expr: &Expr) -> Option<(Source, bool)> {
        if let ExprKind::Variable(name) = &expr.kind {
            return self.variable_source(name, expr.span, false, None);
        }
        match self.operand(expr) {
            Some(meaning) => match meaning? {
                Meaning::Text(text) => Some((Source::Text(text), false)),
                Meaning::Number(typed) => Some((Source::Number(typed.number), typed.signed)),
                Meaning::Owner(_, id) => Some((Source::Number(id), false)),
                Meaning::Address { .. } | Meaning::CpuMask { .. } => {
                    self.wrong(expr.span, "Expecting numeric field")
                }
            },
            None => {
                let typed = self.number(expr)?;
                Some((Source::Number(typed.number), typed.signed))
            }
        }
    }

    /// Resolves a value that may contain variables.
    pub(super) fn with_variables<T>(&mut self, inside: impl FnOnce(&mut Self) -> T) -> T {
        self.open(true, inside)
    }

    /// Resolves the actions. Adds saved data to the program's values and the table.
    pub(super) fn actions(
        &mut self,
        hist: &Hist,
        program: &mut Program,
        table: &mut Table,
    ) -> Option<()> {
        let actions = self.open(true, |resolver| {
            let mut actions = Vec::new();
            let mut saves = 0;
            for action in &hist.actions {
                saves += u32::from(action.name.node == "save");
                if saves > 1 && action.name.node == "save" {
                    let text = "Can't have more than one save() action per hist";
                    let _: Option<()> = resolver.wrong(action.name.span, text);
                    continue;
                }
                actions.push(resolver.action(action, program, table));
            }
            actions
        });
        program.linked.actions = actions.into_iter().collect::<Option<_>>()?;
        Some(())
    }

    fn action(
        &mut self,
        action: &tree::Action,
        program: &mut Program,
        table: &mut Table,
    ) -> Option<Action> {
        let (when, variable) = match &action.handler.node {
            Handler::OnMatch(event) => {
                let links = self.links.as_ref()?;
                let Some(of) = links.table_of(event) else {
                    let text = "Matching event histogram not found";
                    let help = "its trigger must come before this one";
                    return self.wrong_with(action.handler.span, text, help);
                };
                return Some(Action::Emit(self.emit(action, Some(of))?));
            }
            Handler::OnMax(variable) => (When::Greater, variable),
            Handler::OnChange(variable) => (When::Other, variable),
        };
        let own = self.links.as_ref()?.own.iter();
        let index = own
            .clone()
            .position(|own| own.name.as_ref() == Some(variable));
        let number = index.filter(|index| {
            matches!(
                own.clone().nth(*index),
                Some(Own {
                    value: Source::Number(_),
                    ..
                })
            )
        });
        let Some(index) = number else {
            let text = "Couldn't find onmax or onchange variable";
            let help = format!("set it in this trigger: `{variable}=FIELD`");
            return self.wrong_with(action.handler.span, text, help);
        };
        let (mut fields, mut columns, mut emit) = (Vec::new(), Vec::new(), None);
        let mut is_snapshot = false;
        match action.name.node.as_str() {
            "save" => {
                for param in &action.params {
                    let (source, signed) = self.param(param, None)?;
                    columns.push(saved_column(param, &source, signed));
                    fields.push(source);
                }
            }
            "snapshot" => {
                if table.tracked.iter().any(|tracked| tracked.is_snapshot) {
                    let text = "Can't have more than one snapshot() action per hist";
                    return self.wrong(action.name.span, text);
                }
                is_snapshot = true;
            }
            _ => emit = Some(self.emit(action, None)?),
        }
        let words = 2 + fields.iter().map(Source::room).sum::<usize>() / 8;
        let saved = program.values.len();
        program.values.push(Kept {
            number: Number::Constant(0),
            what: Aggregate::Saved { words, when },
        });
        table.tracked.push(Tracked {
            saved,
            name: variable.clone(),
            when,
            fields: columns,
            is_snapshot,
        });
        // The maximum of all CPUs is determined when the table is read. Only actions that run
        // immediately need a shared value.
        let is_shared = when == When::Other || emit.is_some();
        let at = is_shared.then(|| {
            let at = program.linked.kept;
            program.linked.kept += 8;
            at
        });
        Some(Action::Track(Track {
            number: Number::Own(index),
            when,
            at,
            saved,
            fields,
            emit,
        }))
    }

    /// Resolves the synthetic event that an action generates. `of` is the table of the matching
    /// event.
    fn emit(&mut self, action: &tree::Action, of: Option<usize>) -> Option<Emit> {
        let mut params = action.params.as_slice();
        let (mut name, mut span) = (action.name.node.as_str(), action.name.span);
        if name == "trace"
            && let Some((first, rest)) = params.split_first()
            && let ExprKind::Name(word) = &first.kind
        {
            (name, span, params) = (&word.field, first.span, rest);
        }
        let synthetic = self.links.as_ref()?.synthetic;
        let Some(event) = synthetic.iter().position(|one| one.format.name == name) else {
            let help = format!("define it: `--synth '{name} u64 FIELD; ...'`");
            return self.wrong_with(span, "Couldn't find synthetic event", help);
        };
        let Synthetic { format, size } = &synthetic[event];
        if params.len() != format.fields.len() {
            let text = "Param count doesn't match synthetic event field count";
            let names: Vec<_> = format
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .collect();
            let help = format!("`{name}` has {}", names.join(", "));
            return self.wrong_with(span, text, help);
        }
        let mut fields = Vec::new();
        for (field, param) in format.fields.iter().zip(params) {
            let (value, _) = self.param(param, of)?;
            let is_text = field.declared.starts_with("char[");
            if is_text != matches!(value, Source::Text(_)) {
                let text = "Param type doesn't match synthetic event field type";
                let help = format!("`{}` is {}", field.name, field.declared);
                return self.wrong_with(param.span, text, help);
            }
            fields.push(EmitField {
                offset: field.offset as usize,
                size: field.size as usize,
                value,
            });
        }
        Some(Emit {
            event,
            size: *size,
            fields,
            programs: Vec::new(),
        })
    }

    /// Resolves a parameter of an action: a variable, a field of this event, or a field of the
    /// matching event.
    fn param(&mut self, param: &Expr, of: Option<usize>) -> Option<(Source, bool)> {
        match &param.kind {
            ExprKind::Variable(name) => self.variable_source(name, param.span, false, of),
            ExprKind::Name(name) => {
                let links = self.links.as_ref()?;
                let current = links.all.get(links.done.len()).map(|one| &one.event);
                let has = |scope: &Scope<'_>| scope.format.field(&name.field).is_some();
                let other = match &name.event {
                    Some(event) if Some(event) == current => None,
                    Some(event) => match links.table_of(event) {
                        Some(table) => Some(table),
                        None => return self.wrong(param.span, NO_PARAM),
                    },
                    None if has(self.scope) => None,
                    None => of.filter(|of| has(&links.all[*of].scope)),
                };
                match other {
                    None => self.source(&own_name(param, name)),
                    Some(table) => self.stored_field(table, name, param.span),
                }
            }
            _ => self.source(param),
        }
    }

    /// Resolves a field of another event. The program of the other event is extended to store the
    /// field.
    fn stored_field(&mut self, table: usize, name: &Name, span: Span) -> Option<(Source, bool)> {
        let links = self.links.as_ref()?;
        let one = &links.all[table];
        let expr = own_name(
            &Expr {
                kind: ExprKind::Name(name.clone()),
                span,
            },
            name,
        );
        let mut other = Resolver::new(&one.scope);
        let found = other.source(&expr);
        if !other.problems.is_empty() {
            return self.wrong(span, NO_PARAM);
        }
        let (value, signed) = found?;
        let links = self.links.as_mut()?;
        let done = &mut links.done[table];
        let known = done
            .own
            .iter()
            .position(|own| own.name.is_none() && own.value == value);
        let set = known.unwrap_or_else(|| {
            done.program.linked.sets.push(Set {
                value: value.clone(),
                at: None,
            });
            done.own.push(Own {
                name: None,
                value,
                signed,
            });
            done.own.len() - 1
        });
        self.read(table, set, false, span)
    }

    /// Moves the collected links to the program and keeps its actions.
    pub(super) fn finish_links(&mut self, sets: Vec<Set>, program: &mut Program) {
        if let Some(links) = &mut self.links {
            let Linked { actions, kept, .. } = std::mem::take(&mut program.linked);
            program.linked = Linked {
                table: links.done.len(),
                reads: std::mem::take(&mut links.reads),
                sets,
                actions,
                kept,
            };
        }
    }
}

/// Returns the name without its event, which is the event of the scope.
fn own_name(param: &Expr, name: &Name) -> Expr {
    Expr {
        kind: ExprKind::Name(Name {
            event: None,
            field: name.field.clone(),
        }),
        span: param.span,
    }
}

fn saved_column(param: &Expr, source: &Source, signed: bool) -> SavedColumn {
    SavedColumn {
        name: match &param.kind {
            ExprKind::Variable(name) | ExprKind::Name(name) => name.field.clone(),
            _ => param.to_string(),
        },
        size: source.room(),
        show: match source {
            Source::Text(_) => SavedShow::Text,
            Source::Number(_) if signed => SavedShow::Signed,
            Source::Number(_) => SavedShow::Number,
        },
    }
}
