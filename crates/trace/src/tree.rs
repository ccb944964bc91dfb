//! The syntax tree of the user's input. The tree represents the input as typed: names are not
//! resolved, and the placement of modifiers is not checked.

use crate::source::{Span, Spanned};

/// An expression of a filter, a key, a value or a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// A decimal, hexadecimal or octal number in C notation, of at most 64 bits, with an optional
    /// sign.
    Number(i128),
    /// Text without its quotes, which can be single or double.
    Text(String),
    /// A field of the event, `hitcount`, `stacktrace`, or any other bare word. The system and the
    /// event may precede it (`sched.sched_switch.prev_pid`).
    Name(Name),
    /// `$name`, stored without the `$`. For a variable of another event: `sys.event.$name`.
    Variable(Name),
    /// `CPUS{0-3,5}`: the text between the braces.
    Cpus(String),
    /// `-x`, `!x`, `~x`. The kernel does not support `~x`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`, `a == b`, `a && b`.
    Binary(Spanned<BinaryOp>, Box<Expr>, Box<Expr>),
    /// `x in {a, b}`.
    In(Box<Expr>, Vec<Expr>),
    /// `x.log2`, `x.buckets=8`, `filename.ustring`.
    Modified(Box<Expr>, Spanned<Modifier>),
    /// An invalid part whose problem was reported.
    Wrong,
}

/// A bare word, or three words separated by dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// System and event before the field, if given.
    pub event: Option<EventName>,
    /// The last word.
    pub field: String,
}

/// Names of system and event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventName {
    /// `sched`.
    pub system: String,
    /// `sched_switch`.
    pub event: String,
}

/// A unary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`.
    Minus,
    /// `!x`.
    Not,
    /// `~x`.
    Complement,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// `a & b`. As a condition, it is true if the operands have a common bit, as in the kernel.
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Times,
    Divided,
    Remainder,
}

/// A modifier after the dot of an operand. Modifiers marked as extensions do not exist in the
/// kernel.
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
    /// `.flags`: names from the event's `print fmt` (extension).
    Flags,
    /// `.min` (extension).
    Minimum,
    /// `.max` (extension).
    Maximum,
    /// `.avg` (extension).
    Average,
    /// `.p50`, `.p99`, `.p999`: a percentile in thousandths, from log-linear buckets (extension).
    Percentile(u16),
    /// `.ascending`, in `sort`.
    Ascending,
    /// `.descending`, in `sort`.
    Descending,
    /// An unknown modifier, which was reported.
    Unknown(String),
}

/// A histogram: `[hist:]keys=...[:vals=...][:...] [if FILTER]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hist {
    /// `keys=`; empty only if a problem was reported.
    pub keys: Vec<Expr>,
    /// `vals=`, including `hitcount` if given.
    pub vals: Vec<Expr>,
    /// `on=`: the key by which two events are paired (extension).
    pub on: Vec<Expr>,
    /// `sort=`.
    pub sort: Vec<Expr>,
    /// `size=`: maximum number of rows.
    pub size: Option<Spanned<u64>>,
    /// `name=`.
    pub name: Option<Spanned<String>>,
    /// `clock=`.
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
    /// The filter after `if`.
    pub filter: Option<Expr>,
    /// The filter as the user typed it, for the trigger info.
    pub filter_text: Option<String>,
}

impl Hist {
    /// Copies the sort order and the size of another histogram if this histogram has none. The
    /// order is copied only if both histograms have the same keys and values, because the order
    /// refers to them.
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
    /// Name without `$`.
    pub name: Spanned<String>,
    pub value: Expr,
}

/// `onmatch(sys.event).trace(...)`, `onmax($x).save(...)`, `onchange($x).snapshot()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub handler: Spanned<Handler>,
    /// `trace`, `save`, `snapshot`, or the name of a synthetic event.
    pub name: Spanned<String>,
    pub params: Vec<Expr>,
}

/// The condition for an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// An event matched and set the variables.
    OnMatch(EventName),
    /// The variable has a new maximum.
    OnMax(String),
    /// The variable has a new value.
    OnChange(String),
}

/// An event with a filter: `system:event [if FILTER]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// The event as given, which may be a pattern.
    pub event: Spanned<String>,
    /// The filter after `if`.
    pub filter: Option<Expr>,
}

/// An event trigger: `command[:count] [if FILTER]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub command: Spanned<Command>,
    /// Maximum number of times; `None` for no limit.
    pub count: Option<Spanned<u64>>,
    /// The filter after `if`.
    pub filter: Option<Expr>,
}

/// The command of an event trigger.
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
    /// An unknown command, which was reported.
    Unknown(String),
}
