//! The tree of what the user typed. It holds what stands there, right or wrong: names are not looked
//! up, and what a modifier may stand on is not checked here.

use crate::source::{Span, Spanned};

/// An expression of a filter, a key, a value or a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// A whole number, decimal, hexadecimal or octal as C writes it; at most 64 bits and a sign.
    Number(i128),
    /// Text in either quote, without the quotes.
    Text(String),
    /// A field of the event, `hitcount`, `stacktrace`, or any other bare word. With `system` and `event`
    /// in front where they were given (`sched.sched_switch.prev_pid`).
    Name(Name),
    /// `$name`, without the `$`; of another event `sys.event.$name`.
    Variable(Name),
    /// `CPUS{0-3,5}`: the text between the braces.
    Cpus(String),
    /// `-x`, `!x`, `~x` (the last is ours).
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`, `a == b`, `a && b`.
    Binary(Spanned<BinaryOp>, Box<Expr>, Box<Expr>),
    /// `x in {a, b}`.
    In(Box<Expr>, Vec<Expr>),
    /// `x.log2`, `x.buckets=8`, `filename.ustring`.
    Modified(Box<Expr>, Spanned<Modifier>),
    /// What stands there is no expression; the problem was reported.
    Wrong,
}

/// A bare word, or three with dots between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// System and event in front of the field, if they were given.
    pub event: Option<EventName>,
    /// The word itself.
    pub field: String,
}

/// System and event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventName {
    /// `sched`.
    pub system: String,
    /// `sched_switch`.
    pub event: String,
}

/// An operator in front of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`.
    Minus,
    /// `!x`.
    Not,
    /// `~x`.
    Complement,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say what they are")]
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `text ~ "glob*"`.
    Matches,
    BitOr,
    BitXor,
    /// `a & b`; alone as a condition it is true when any bit is common, as in the kernel.
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Times,
    Divided,
    Remainder,
}

/// What stands after a dot behind an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modifier {
    /// `.hex`.
    Hex,
    /// `.sym`: the kernel's symbol at an address.
    Symbol,
    /// `.sym-offset`.
    SymbolOffset,
    /// `.syscall`.
    Syscall,
    /// `.execname`.
    ExecName,
    /// `.log2`.
    Log2,
    /// `.buckets=N`, `.bucket=N`.
    Buckets(u64),
    /// `.usecs`.
    Microseconds,
    /// `.percent`.
    Percent,
    /// `.graph`.
    Graph,
    /// `.stacktrace`.
    Stacktrace,
    /// `.ustring`: text in user space, in filters.
    UserString,
    /// `.string`: text in kernel memory behind a pointer, in filters.
    KernelString,
    /// `.function`: an address inside this function, in filters.
    Function,
    /// `.flags`: by the event's own tables of `print fmt` (ours).
    Flags,
    /// `.min` (ours).
    Minimum,
    /// `.max` (ours).
    Maximum,
    /// `.avg` (ours).
    Average,
    /// `.p50`, `.p99`, `.p999`: a percentile in thousandths, from log-linear buckets (ours).
    Percentile(u16),
    /// `.ascending`, in `sort`.
    Ascending,
    /// `.descending`, in `sort`.
    Descending,
    /// No modifier that there is; the problem was reported.
    Unknown(String),
}

/// A histogram: `[hist:]keys=...[:vals=...][:...] [if FILTER]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hist {
    /// Of `keys=`; at least one, or a problem was reported.
    pub keys: Vec<Expr>,
    /// Of `vals=`, `hitcount` too if it was given.
    pub vals: Vec<Expr>,
    /// Of `on=`: by what two events belong together (ours).
    pub on: Vec<Expr>,
    /// Of `sort=`.
    pub sort: Vec<Expr>,
    /// Of `size=`: entries of the table.
    pub size: Option<Spanned<u64>>,
    /// Of `name=`.
    pub name: Option<Spanned<String>>,
    /// Of `clock=`.
    pub clock: Option<Spanned<String>>,
    /// `pause`.
    pub pause: Option<Span>,
    /// `cont` or `continue`.
    pub cont: Option<Span>,
    /// `clear`.
    pub clear: Option<Span>,
    /// `nohitcount` or `NOHC`.
    pub nohitcount: Option<Span>,
    /// Assignments to variables, in order.
    pub vars: Vec<Variable>,
    /// Handlers with their actions, in order.
    pub actions: Vec<Action>,
    /// Behind `if`.
    pub filter: Option<Expr>,
    /// The same as it was typed, which the kernel repeats.
    pub filter_text: Option<String>,
}

impl Hist {
    /// Takes the order and the size of another histogram where this one has none. An order only if both count
    /// the same keys and values, which it names.
    pub fn fill_from(&mut self, other: &Self) {
        let texts = |all: &[Expr]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let same = |own: &[Expr], other: &[Expr]| texts(own) == texts(other);
        if self.sort.is_empty() && same(&self.keys, &other.keys) && same(&self.vals, &other.vals) {
            self.sort.clone_from(&other.sort);
        }
        if self.size.is_none() {
            self.size.clone_from(&other.size);
        }
    }
}

/// `name=expression` in a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name, without `$`.
    pub name: Spanned<String>,
    /// What it gets.
    pub value: Expr,
}

/// `onmatch(sys.event).trace(...)`, `onmax($x).save(...)`, `onchange($x).snapshot()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// When.
    pub handler: Spanned<Handler>,
    /// What: `trace`, `save`, `snapshot`, or the name of a synthetic event.
    pub name: Spanned<String>,
    /// Its parameters.
    pub params: Vec<Expr>,
}

/// When an action is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The event that set the variables.
    OnMatch(EventName),
    /// The variable has a new maximum.
    OnMax(String),
    /// The variable has another value.
    OnChange(String),
}

/// An event with a filter: `system:event [if FILTER]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// The event as it was given; it can be a pattern.
    pub event: Spanned<String>,
    /// Behind `if`.
    pub filter: Option<Expr>,
}

/// An event trigger: `command[:count] [if FILTER]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What it does.
    pub command: Spanned<Command>,
    /// How many times; `None` is without end.
    pub count: Option<Spanned<u64>>,
    /// Behind `if`.
    pub filter: Option<Expr>,
}

/// What an event trigger does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `stacktrace`.
    Stacktrace,
    /// `snapshot`.
    Snapshot,
    /// `traceon`.
    TraceOn,
    /// `traceoff`.
    TraceOff,
    /// `enable_event:sys:event`.
    EnableEvent(EventName),
    /// `disable_event:sys:event`.
    DisableEvent(EventName),
    /// `enable_hist:sys:event`.
    EnableHist(EventName),
    /// `disable_hist:sys:event`.
    DisableHist(EventName),
    /// `hist:...`.
    Hist(Box<Hist>),
    /// No command that there is; the problem was reported.
    Unknown(String),
}
