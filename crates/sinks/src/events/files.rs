//! What events of files have besides their time and their process.

use std::borrow::Cow;

use noctule_model::{FileChange, FilePath};
use noctule_text::lossless;
use serde::Serialize;

use super::attributes::is_false;
use super::names;

#[derive(Serialize)]
pub(super) struct File {
    #[serde(rename = "file.path")]
    path: String,
    #[serde(rename = "file.path.truncated", skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(rename = "file.deleted", skip_serializing_if = "is_false")]
    deleted: bool,
    #[serde(rename = "file.unreachable", skip_serializing_if = "is_false")]
    unreachable: bool,
    #[serde(rename = "file.flags")]
    flags: Vec<Cow<'static, str>>,
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'static, str>>,
    #[serde(rename = "error.errno", skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

impl File {
    pub(super) fn new(path: &FilePath, flags: u32, error: Option<i32>) -> Self {
        Self {
            path: lossless(&path.bytes),
            truncated: path.truncated,
            deleted: path.deleted,
            unreachable: path.unreachable,
            flags: names::open_flags(flags),
            error: error.map(names::error),
            errno: error,
        }
    }
}

/// The second path of a change.
#[derive(Serialize)]
struct NewPath {
    #[serde(rename = "file.new_path")]
    path: String,
    #[serde(rename = "file.new_path.truncated", skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(rename = "file.new_path.unreachable", skip_serializing_if = "is_false")]
    unreachable: bool,
}

impl NewPath {
    fn new(path: &FilePath) -> Self {
        Self {
            path: lossless(&path.bytes),
            truncated: path.truncated,
            unreachable: path.unreachable,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ChangeOfFile {
    #[serde(rename = "file.path")]
    path: String,
    #[serde(rename = "file.path.truncated", skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(rename = "file.deleted", skip_serializing_if = "is_false")]
    deleted: bool,
    #[serde(rename = "file.unreachable", skip_serializing_if = "is_false")]
    unreachable: bool,
    #[serde(rename = "file.directory", skip_serializing_if = "is_false")]
    directory: bool,
    #[serde(flatten)]
    new_path: Option<NewPath>,
    #[serde(rename = "file.exchanged", skip_serializing_if = "is_false")]
    exchanged: bool,
    #[serde(
        rename = "file.symbolic_link.target_path",
        skip_serializing_if = "Option::is_none"
    )]
    target: Option<String>,
    #[serde(rename = "file.mode", skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'static, str>>,
    #[serde(rename = "error.errno", skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

impl ChangeOfFile {
    pub(super) fn new(path: &FilePath, change: &FileChange, error: Option<i32>) -> Self {
        let mut this = Self {
            path: lossless(&path.bytes),
            truncated: path.truncated,
            deleted: path.deleted,
            unreachable: path.unreachable,
            directory: false,
            new_path: None,
            exchanged: false,
            target: None,
            mode: None,
            error: error.map(names::error),
            errno: error,
        };
        match change {
            FileChange::Delete { directory } => this.directory = *directory,
            FileChange::Rename { to, exchanged } => {
                this.new_path = Some(NewPath::new(to));
                this.exchanged = *exchanged;
            }
            FileChange::HardLink { to } => this.new_path = Some(NewPath::new(to)),
            FileChange::SymbolicLink { target } => this.target = Some(lossless(&target.bytes)),
            FileChange::Chmod { mode } => this.mode = Some(octal(*mode)),
        }
        this
    }
}

/// A mode as chmod(1) takes it.
pub(super) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}
