//! File events: opens, and changes of names and modes.

use noctule_model::{FileChange, FilePath, What};

use super::{EventField, EventKind, get};
use crate::column::{Access, Column, Row, Stored, Values, column};
use crate::{Value, integer, mark, names, text, texts};

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
        &[mark(
            "file.directory",
            "The path is a directory.",
            get!(change, FileChange::Delete { directory } => Value::mark(*directory)),
        )],
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
        &[mark(
            "file.exchanged",
            "The two files exchanged their names (`RENAME_EXCHANGE`).",
            get!(change, FileChange::Rename { exchanged, .. } => Value::mark(*exchanged)),
        )],
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
        &[text(
            "file.symbolic_link.target_path",
            "Target of the symbolic link, as stored in the link (not resolved).",
            get!(change, FileChange::SymbolicLink { target } => Some(Value::Bytes(&target.bytes))),
        )],
        ERROR,
    ],
};

pub(super) const CHMOD: EventKind = EventKind {
    name: "file.chmod",
    help: "The permissions of a file were set.",
    fields: &[
        PATH,
        &[text(
            "file.mode",
            "Permissions in octal, as accepted by chmod(1), for example `4750`.",
            get!(change, FileChange::Chmod { mode } => Some(Value::text(names::octal(*mode)))),
        )],
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

#[rustfmt::skip]
const PATH: &[EventField] = &[
    text("file.path",
        "Full path of the file. If it could not be opened, the path as requested.",
        |what| Some(Value::Bytes(&path(what)?.bytes))),
    mark("file.path.truncated",
        "The path was too long; only its end is kept.",
        |what| Value::mark(path(what)?.truncated)),
    mark("file.deleted",
        "The file had been removed from its directory, and the path is its last one; or it \
         was not in a directory yet.",
        |what| Value::mark(path(what)?.deleted)),
    mark("file.unreachable",
        "The file is not below the root directory of the process: it is outside its chroot, \
         in a detached mount, or in no mount (such as a memfd). The path starts at the \
         highest directory that was found.",
        |what| Value::mark(path(what)?.unreachable)),
];

#[rustfmt::skip]
const NEW_PATH: &[EventField] = &[
    text("file.new_path",
        "The new path.",
        |what| Some(Value::Bytes(&new_path(what)?.bytes))),
    mark("file.new_path.truncated",
        "The new path was too long; only its end is kept.",
        |what| Value::mark(new_path(what)?.truncated)),
    mark("file.new_path.unreachable",
        "Like `file.unreachable`, for the new path.",
        |what| Value::mark(new_path(what)?.unreachable)),
];

#[rustfmt::skip]
const FLAGS: &[EventField] = &[texts("file.flags",
    "Flags as in open(2), access mode first: `[\"O_WRONLY\", \"O_CREAT\"]`. Bits without a \
           name are combined into one hexadecimal number. `O_LARGEFILE`, which the kernel adds to \
           every open, is left out. So is `O_NONBLOCK` for an io_uring open that did not have to \
           wait, because io_uring adds this flag to its first attempt.",
    get!(FileOpen { flags } => {
        Some(Value::Texts(names::open_flags(*flags).into_iter().map(Value::Text).collect()))
    }))];

#[rustfmt::skip]
const ERROR: &[EventField] = &[
    text("error.type",
        "Name of the error, such as `ENOENT`, or its number. Absent on success.",
        |what| error(what).map(|errno| Value::text(names::error(errno)))),
    integer("error.errno",
        "Error number. Absent on success.",
        |what| error(what).map(Value::from)),
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
