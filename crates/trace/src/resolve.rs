//! Resolves names: turns the tree of a command and the layout of an event into a
//! [`Program`](crate::program::Program) or a list of problems.
//!
//! The rules for types and constants are the kernel's. Where the kernel has an error message for a
//! problem, noctule uses the same message.

mod address;
mod condition;
mod field;
mod hist;
mod linked;
mod number;

use std::fmt;

use crate::format::EventFormat;
use crate::glob::Glob;
use crate::identity::Identity;
use crate::print::FieldTable;
use crate::probe::Probe;
use crate::program::{Condition, Number};
use crate::source::{Problem, Span};
use crate::tree::{Expr, Name};

pub use hist::{hist, latency};
pub use linked::{Linkable, Resolved, linked};

/// The environment of a command: the event and the kernel.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub probe: Probe,
    /// The layout of the event's records.
    pub format: &'a EventFormat,
    /// Names for values of the event's fields.
    pub tables: &'a [FieldTable],
    /// Returns start and size of a kernel function, if it exists.
    pub function: &'a dyn Fn(Function<'_>) -> Option<(u64, u64)>,
    /// The cgroups of the node.
    pub groups: &'a dyn Groups,
    /// Number of possible CPUs. Each of them has its own row per key.
    pub cpus: usize,
}

/// A reference to a kernel function in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function<'a> {
    Named(&'a str),
    /// The function that contains this address.
    At(u64),
}

/// Looks up cgroups.
pub trait Groups {
    /// Returns an expression for the cgroup id of the current thread.
    ///
    /// # Errors
    ///
    /// Returns the reason why programs cannot determine the id.
    fn current(&self) -> Result<Number, String>;

    /// Returns the ids of all existing cgroups whose owner matches.
    fn fitting(&self, identity: Identity, fits: Fits) -> Vec<u64>;
}

/// A name or a pattern of names.
#[derive(Clone, Debug)]
pub enum Fits {
    /// An exact name.
    Name(String),
    /// A pattern, and its source text.
    Glob(Glob, String),
}

impl Fits {
    /// Whether the name matches.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Self::Name(wanted) => name == wanted,
            Self::Glob(glob, _) => glob.matches(name.as_bytes()),
        }
    }
}

impl fmt::Display for Fits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::Glob(_, text) => f.write_str(text),
        }
    }
}

/// Resolves a filter.
///
/// # Errors
///
/// Returns all problems in source order.
pub fn filter(expr: &Expr, scope: &Scope<'_>) -> Result<Condition, Vec<Problem>> {
    let mut resolver = Resolver::new(scope);
    let condition = resolver.condition(expr);
    resolver.finish(condition)
}

/// A resolver with the problems so far.
struct Resolver<'a> {
    scope: &'a Scope<'a>,
    problems: Vec<Problem>,
    /// Whether the event is the second of a pair.
    has_latency: bool,
    /// Whether a comparison is being resolved. In comparisons, the sign of fields matters. In keys
    /// and values, fields are unsigned, as in the kernel. The kernel's filters have no arithmetic.
    in_filter: bool,
    /// Links to other events of the command.
    links: Option<linked::Links<'a>>,
}

impl<'a> Resolver<'a> {
    fn new(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            problems: Vec::new(),
            has_latency: false,
            in_filter: false,
            links: None,
        }
    }
}

impl Resolver<'_> {
    /// Returns the result if there were no problems.
    fn finish<T>(mut self, made: Option<T>) -> Result<T, Vec<Problem>> {
        self.problems.sort_by_key(|problem| problem.span);
        match made {
            Some(made) if self.problems.is_empty() => Ok(made),
            _ => Err(self.problems),
        }
    }

    fn wrong<T>(&mut self, span: Span, text: impl Into<String>) -> Option<T> {
        self.problems.push(Problem::new(span, text));
        None
    }

    fn wrong_with<T>(
        &mut self,
        span: Span,
        text: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        let problem = Problem::new(span, text).with_help(help);
        self.problems.push(problem);
        None
    }

    /// Reports an unknown field.
    fn not_found<T>(&mut self, name: &Name, span: Span) -> Option<T> {
        let fields = self.scope.format.fields.iter();
        let near = fields
            .map(|field| (strsim::damerau_levenshtein(&field.name, &name.field), field))
            .min_by_key(|(distance, _)| *distance);
        match near {
            Some((distance, field)) if distance <= 1 + name.field.len() / 4 => {
                let help = format!("did you mean `{}`?", field.name);
                self.wrong_with(span, "Field not found", help)
            }
            _ => {
                let all = self.scope.format.fields.iter();
                let names: Vec<_> = all.map(|field| field.name.as_str()).collect();
                let help = format!("the event has {}", names.join(", "));
                self.wrong_with(span, "Field not found", help)
            }
        }
    }
}

#[cfg(test)]
mod tests;
