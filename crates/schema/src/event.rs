//! Kinds of events, and the fields that each has in addition to its time and its process.

mod file;
mod process;
mod socket;

use noctule_model::What;

use crate::column::{Access, Column, Row, Stored as _, Values, column};
use crate::{Field, Value, counts, integer};

pub type EventField = Field<What>;

#[derive(Debug)]
pub struct EventKind {
    /// The value of `event.name`.
    pub name: &'static str,
    /// A description of the event, and the cases in which it is not reported.
    pub help: &'static str,
    /// The fields, in the order in which formats write them.
    pub fields: &'static [&'static [EventField]],
}

impl EventKind {
    pub fn of(what: &What) -> &'static Self {
        let name = what.name();
        let found = KINDS.iter().find(|kind| kind.name == name);
        found.unwrap_or(&GAP)
    }

    /// Returns the keys and values that are known, in order.
    pub fn values<'a>(
        &self,
        what: &'a What,
    ) -> impl Iterator<Item = (&'static str, Value<'a>)> + use<'a> {
        let fields = self.fields.iter().copied().flatten();
        fields.filter_map(move |field| Some((field.key, (field.get)(what)?)))
    }
}

/// Makes a getter for fields of one variant of [`What`], or of a part of it; for other variants it
/// returns `None`.
macro_rules! get {
    ($variant:ident { $($field:ident),+ } => $value:expr) => {
        |what| match what {
            What::$variant { $($field,)+ .. } => $value,
            _ => None,
        }
    };
    // `$of` returns a part of the event, if it has that part.
    ($of:ident, $pattern:pat_param $(if $condition:expr)? => $value:expr) => {
        |what| match $of(what)? {
            $pattern $(if $condition)? => $value,
            _ => None,
        }
    };
}
use get;

pub const KINDS: &[EventKind] = &[
    process::START,
    process::EXEC,
    process::EXEC_FAILED,
    process::EXIT,
    process::SIGNAL,
    process::OOM_KILL,
    socket::LISTEN,
    socket::LISTEN_CLOSE,
    socket::CONNECT,
    socket::CONNECT_FAILED,
    socket::ACCEPT,
    socket::RETRANSMIT,
    socket::CLOSE,
    file::OPEN,
    file::DELETE,
    file::RENAME,
    file::LINK,
    file::CHMOD,
    socket::DNS_QUERY,
    socket::UDP_FLOW,
    GAP,
];

const GAP: EventKind = EventKind {
    name: "gap",
    help: "Events are missing at this point. The events after it are complete again.",
    fields: &[&[
        integer(
            "gap.since_unix_nano",
            "In the file of `run --events`: no agent was running from this time to the time \
                   of the gap. The number of missing events is unknown, and `lost` is absent.",
            get!(Gap { since_unix_ns } => since_unix_ns.map(Value::from)),
        ),
        counts(
            "lost",
            "Number of lost events by `event.name`. For `udp.flow`, the number of packets in \
                   flows for which there was no room. `skipped` counts how often the kernel \
                   skipped a BPF program because the same program was already running on that CPU, \
                   and no other program saw the event. This is an upper bound. If the start or end \
                   of a connection was skipped, it is reported later, without its time.",
            get!(Gap { lost, since_unix_ns } => {
                let known = since_unix_ns.is_none() || !lost.is_empty();
                known.then(|| Value::Counts(lost.clone()))
            }),
        ),
    ]],
};

/// A single table of a recording contains all kinds. Columns that a kind does not have are empty.
impl Row for What {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[
        process::COLUMNS,
        socket::COLUMNS,
        file::COLUMNS,
        socket::UDP_COLUMNS,
        GAP_COLUMNS,
    ];
}

const GAP_COLUMNS: &[Column<What>] = &[
    column!(Counts "lost": What::Gap { lost, .. } => lost),
    column!(MaybeMoment "since": What::Gap { since_unix_ns, .. } => since_unix_ns),
];

/// The number of lost events with this name.
impl Row for (&'static str, u64) {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[
        Column {
            name: "name",
            values: Values::Word(Access {
                get: |(name, _)| name.stored(),
                set: |(name, _), value| name.restore(value),
            }),
        },
        Column {
            name: "count",
            values: Values::U64(Access {
                get: |(_, count)| *count,
                set: |(_, count), value| count.restore(value),
            }),
        },
    ]];
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_event_name_has_one_kind() {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names, What::NAMES);
    }

    #[test]
    fn no_kind_has_a_key_twice() {
        for kind in KINDS {
            let fields = || kind.fields.iter().copied().flatten();
            let keys: HashSet<&str> = fields().map(|field| field.key).collect();
            assert_eq!(keys.len(), fields().count(), "{}", kind.name);
        }
    }
}
