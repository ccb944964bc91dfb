//! File events: opens, and changes of names and modes.

use noctule_model::{FileChange, FilePath, What};

use super::{EventField, EventKind, get};
use crate::column::{Access, Column, Row, Stored, Values, column};
use crate::{Type, Value, names};

pub(super) const OPEN: EventKind = EventKind {
    name: "file.open",
    help: "A file was opened, or opening it failed. Like all `file.` events, it is reported only \
           with `--kind file`. Opens by handle (open_by_handle_at) are not seen.",
    fields: &[PATH, FLAGS, ERROR],
};

pub(super) const DELETE: EventKind = EventKind {
    name: "file.delete",
    help: "The name of a file or directory was removed, or removing it failed. As for every \
           change, a failure is not reported if it occurs before the kernel calls the file system: \
           the name does not exist, the file system is mounted read-only, or AppArmor, Landlock or \
           Tomoyo denies access by path.",
    fields: &[
        PATH,
        &[EventField {
            key: "file.directory",
            value_type: Type::Mark,
            help: "The path is a directory.",
            get: |what| match change(what)? {
                FileChange::Delete { directory } => Value::mark(*directory),
                _ => None,
            },
        }],
        ERROR,
    ],
};

pub(super) const RENAME: EventKind = EventKind {
    name: "file.rename",
    help: "A file was renamed. If a file with the new name existed, it was replaced, unless \
           `file.exchanged` is set. `file.path` is the old name.",
    fields: &[
        PATH,
        NEW_PATH,
        &[EventField {
            key: "file.exchanged",
            value_type: Type::Mark,
            help: "The two files exchanged their names (`RENAME_EXCHANGE`).",
            get: |what| match change(what)? {
                FileChange::Rename { exchanged, .. } => Value::mark(*exchanged),
                _ => None,
            },
        }],
        ERROR,
    ],
};

pub(super) const LINK: EventKind = EventKind {
    name: "file.link",
    help: "A hard link or a symbolic link was created. For a hard link, `file.path` is the \
           existing file; for a symbolic link, it is the link.",
    fields: &[
        PATH,
        NEW_PATH,
        &[EventField {
            key: "file.symbolic_link.target_path",
            value_type: Type::Text,
            help: "Target of the symbolic link, as stored in the link (not resolved).",
            get: |what| match change(what)? {
                FileChange::SymbolicLink { target } => Some(Value::Bytes(&target.bytes)),
                _ => None,
            },
        }],
        ERROR,
    ],
};

pub(super) const CHMOD: EventKind = EventKind {
    name: "file.chmod",
    help: "The permissions of a file were set.",
    fields: &[
        PATH,
        &[EventField {
            key: "file.mode",
            value_type: Type::Text,
            help: "Permissions in octal, as accepted by chmod(1), for example `4750`.",
            get: |what| match change(what)? {
                FileChange::Chmod { mode } => Some(Value::text(names::octal(*mode))),
                _ => None,
            },
        }],
        ERROR,
    ],
};

fn path(what: &What) -> Option<&FilePath> {
    match what {
        What::FileOpen { path, .. } | What::FileChange { path, .. } => Some(path),
        _ => None,
    }
}

fn change(what: &What) -> Option<&FileChange> {
    match what {
        What::FileChange { change, .. } => Some(change),
        _ => None,
    }
}

/// Returns the new name of a rename or a hard link.
fn new_path(what: &What) -> Option<&FilePath> {
    match change(what)? {
        FileChange::Rename { to, .. } | FileChange::HardLink { to } => Some(to),
        _ => None,
    }
}

fn error(what: &What) -> Option<i32> {
    match what {
        What::FileOpen { error, .. } | What::FileChange { error, .. } => *error,
        _ => None,
    }
}

const PATH: &[EventField] = &[
    EventField {
        key: "file.path",
        value_type: Type::Text,
        help: "Full path of the file. If it could not be opened, the path as requested.",
        get: |what| Some(Value::Bytes(&path(what)?.bytes)),
    },
    EventField {
        key: "file.path.truncated",
        value_type: Type::Mark,
        help: "The path was too long; only its end is kept.",
        get: |what| Value::mark(path(what)?.truncated),
    },
    EventField {
        key: "file.deleted",
        value_type: Type::Mark,
        help: "The file had been removed from its directory, and the path is its last one; or it \
               was not in a directory yet.",
        get: |what| Value::mark(path(what)?.deleted),
    },
    EventField {
        key: "file.unreachable",
        value_type: Type::Mark,
        help: "The file is not below the root directory of the process: it is outside its chroot, \
               in a detached mount, or in no mount (such as a memfd). The path starts at the \
               highest directory that was found.",
        get: |what| Value::mark(path(what)?.unreachable),
    },
];

const NEW_PATH: &[EventField] = &[
    EventField {
        key: "file.new_path",
        value_type: Type::Text,
        help: "The new path.",
        get: |what| Some(Value::Bytes(&new_path(what)?.bytes)),
    },
    EventField {
        key: "file.new_path.truncated",
        value_type: Type::Mark,
        help: "The new path was too long; only its end is kept.",
        get: |what| Value::mark(new_path(what)?.truncated),
    },
    EventField {
        key: "file.new_path.unreachable",
        value_type: Type::Mark,
        help: "Like `file.unreachable`, for the new path.",
        get: |what| Value::mark(new_path(what)?.unreachable),
    },
];

const FLAGS: &[EventField] = &[EventField {
    key: "file.flags",
    value_type: Type::Texts,
    help: "Flags as in open(2), access mode first: `[\"O_WRONLY\", \"O_CREAT\"]`. Bits without a \
           name are combined into one hexadecimal number. `O_LARGEFILE`, which the kernel adds to \
           every open, is left out. So is `O_NONBLOCK` for an io_uring open that did not have to \
           wait, because io_uring adds this flag to its first attempt.",
    get: get!(FileOpen { flags } => {
        Some(Value::Texts(names::open_flags(*flags).into_iter().map(Value::Text).collect()))
    }),
}];

const ERROR: &[EventField] = &[
    EventField {
        key: "error.type",
        value_type: Type::Text,
        help: "Name of the error, such as `ENOENT`, or its number. Absent on success.",
        get: |what| error(what).map(|errno| Value::text(names::error(errno))),
    },
    EventField {
        key: "error.errno",
        value_type: Type::Integer,
        help: "Error number. Absent on success.",
        get: |what| error(what).map(Value::from),
    },
];

/// Columns in recordings, in addition to `path`.
pub(super) const COLUMNS: &[Column<What>] = &[
    column!(MaybeU32 "flags": What::FileOpen { flags, .. } => flags),
    column!(Flag "directory":
        What::FileChange { change: FileChange::Delete { directory }, .. } => directory),
    SYMBOLIC,
    column!(Flag "exchanged":
        What::FileChange { change: FileChange::Rename { exchanged, .. }, .. } => exchanged),
    column!(MaybeU32 "mode": What::FileChange { change: FileChange::Chmod { mode }, .. } => mode),
];

/// Whether the link is symbolic. The path has been restored before this column.
const SYMBOLIC: Column<What> = Column {
    name: "symbolic",
    values: Values::Flag(Access {
        get: |what| {
            matches!(
                what,
                What::FileChange {
                    change: FileChange::SymbolicLink { .. },
                    ..
                }
            )
        },
        set: |what, symbolic| {
            if let What::FileChange { change, .. } = what
                && let FileChange::HardLink { to } = change
                && symbolic
            {
                *change = FileChange::SymbolicLink {
                    target: std::mem::take(to),
                };
            }
            true
        },
    }),
};

impl Row for FilePath {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[Column {
        name: "path",
        values: Values::Path(Access {
            get: Clone::clone,
            set: Stored::restore,
        }),
    }]];
}
