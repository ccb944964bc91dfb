//! A table that is counted, and the errors of its trigger.

use noctule_kernel::TraceEvents;
use noctule_trace::print::Print;
use noctule_trace::program::Program;
use noctule_trace::resolve::Scope;
use noctule_trace::source::Problem;
use noctule_trace::table::Table;
use noctule_trace::tree::Hist;

use crate::commands::trace::attach_point::Target;
use crate::commands::trace::groups::Groups;
use crate::commands::trace::kallsyms::Kallsyms;
use crate::exit::Usage;

/// A table with its programs and the target of each program.
pub(super) struct Job {
    /// The events as typed by the user.
    pub(super) events: String,
    /// The trigger of the first event.
    pub(super) trigger: String,
    /// The value of `name=`.
    pub(super) name: Option<String>,
    /// The parsed trigger.
    pub(super) tree: Hist,
    pub(super) table: Table,
    /// The first program defines the table. In a pair, the program of the second event comes first.
    pub(super) programs: Vec<Program>,
    pub(super) targets: Vec<Target>,
    /// Whether counting starts paused.
    pub(super) paused: bool,
    /// Position among the tables that depend on each other, which are started together; `None` if
    /// the table is independent.
    pub(super) number: Option<usize>,
    /// Whether the table has no output of its own, because it only serves other tables.
    pub(super) is_hidden: bool,
}

pub(super) fn with_scope<T>(
    target: &Target,
    symbols: &Kallsyms,
    groups: &Groups,
    what: impl FnOnce(&Scope<'_>) -> T,
) -> T {
    let tables = Print::parse(target.format()).map(|print| print.tables());
    what(&Scope {
        probe: target.probe(),
        format: target.format(),
        tables: &tables.unwrap_or_default(),
        function: &|wanted| symbols.function(wanted),
        groups,
        cpus: TraceEvents::possible_cpus(),
    })
}

/// Returns the usage error for a trigger. `event` names the affected event, if there are several.
pub(super) fn refused(event: Option<&str>, problems: &[Problem], trigger: &str) -> Usage {
    let shown: Vec<_> = problems
        .iter()
        .map(|problem| problem.show(trigger))
        .collect();
    let event = event.map_or(String::new(), |event| {
        format!("{}: ", noctule_text::escape(event))
    });
    Usage(format!("{event}{}", shown.join("").trim_end()))
}
