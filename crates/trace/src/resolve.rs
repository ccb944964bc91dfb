//! Names become what the event has: the tree of a command and the layout of an event give a
//! [`Program`](crate::program::Program), or the list of what is wrong.
//!
//! The rules for types and constants are the kernel's, and so are the texts of the problems where the
//! kernel has one.

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

/// What is known of an event, and of the kernel.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Where the program runs.
    pub probe: Probe,
    /// The layout of its records.
    pub format: &'a EventFormat,
    /// The names of its fields' values.
    pub tables: &'a [FieldTable],
    /// Start and size of a function of the kernel, if it has this one.
    pub function: &'a dyn Fn(Function<'_>) -> Option<(u64, u64)>,
    /// The cgroups of the node.
    pub groups: &'a dyn Groups,
    /// How many CPUs can be online: each has a row of its own for each key.
    pub cpus: usize,
}

/// How a filter names a function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function<'a> {
    /// By its name.
    Named(&'a str),
    /// By an address inside of it.
    At(u64),
}

/// What is known of cgroups.
pub trait Groups {
    /// The id of the thread's group, or why no program can know it.
    ///
    /// # Errors
    ///
    /// The words say what is missing.
    fn current(&self) -> Result<Number, String>;

    /// The ids of the groups whose owner fits, those that exist now.
    fn fitting(&self, identity: Identity, fits: Fits) -> Vec<u64>;
}

/// Which names are meant.
#[derive(Clone, Debug)]
pub enum Fits {
    /// This one.
    Name(String),
    /// All that match the pattern, which was given as this text.
    Glob(Glob, String),
}

impl Fits {
    /// Whether the name is meant.
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

/// The condition of a filter.
///
/// # Errors
///
/// What is wrong, in the order of the places.
pub fn filter(expr: &Expr, scope: &Scope<'_>) -> Result<Condition, Vec<Problem>> {
    let mut resolver = Resolver::new(scope);
    let condition = resolver.condition(expr);
    resolver.finish(condition)
}

/// What is to be resolved, and what was wrong so far.
struct Resolver<'a> {
    scope: &'a Scope<'a>,
    problems: Vec<Problem>,
    /// The event is the second of two.
    has_latency: bool,
    /// What is resolved is compared: the sign of fields counts there. Keys and values are unsigned as the kernel's are;
    /// its filters have no arithmetic.
    in_filter: bool,
    /// Others that it can have to do with.
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
    /// What was made if nothing was wrong.
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

    /// No field has this name.
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
