//! The context of a process: its parents, credentials and namespaces.

use noctule_model::{Comm, ExecContext, Parent};
use noctule_text::lossless;
use serde::{Serialize, Serializer};

use super::names;

/// Beside `process.parent_pid`.
#[derive(Serialize)]
pub(super) struct ParentKeys {
    #[serde(rename = "process.parent.creation.time_unix_nano")]
    created: u64,
    #[serde(rename = "process.parent.executable.name")]
    name: String,
}

impl ParentKeys {
    pub(super) fn new(parent: &Parent) -> Self {
        Self {
            created: parent.start_unix_ns,
            name: parent.comm.text(),
        }
    }
}

/// A signal, and its sender.
#[derive(Serialize)]
pub(super) struct Signal {
    #[serde(rename = "signal.number")]
    number: u8,
    #[serde(rename = "signal.name")]
    name: String,
    #[serde(rename = "signal.code")]
    code: i32,
    #[serde(rename = "signal.sender.pid", skip_serializing_if = "Option::is_none")]
    sender: Option<u32>,
    #[serde(
        rename = "signal.sender.creation.time_unix_nano",
        skip_serializing_if = "Option::is_none"
    )]
    created: Option<u64>,
    #[serde(
        rename = "signal.sender.executable.name",
        skip_serializing_if = "Option::is_none"
    )]
    executable: Option<String>,
}

impl Signal {
    pub(super) fn new(number: u8, code: i32, sender: Option<&Parent>) -> Self {
        Self {
            number,
            name: names::signal(number),
            code,
            sender: sender.map(|sender| sender.id.pid),
            created: sender.map(|sender| sender.start_unix_ns),
            executable: sender.map(|sender| sender.comm.text()),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Context<'a> {
    #[serde(rename = "process.parent_pid", skip_serializing_if = "Option::is_none")]
    parent_pid: Option<u32>,
    #[serde(flatten)]
    parent: Option<ParentKeys>,
    #[serde(rename = "process.ancestors", skip_serializing_if = "Vec::is_empty")]
    ancestors: Vec<String>,
    #[serde(
        rename = "process.working_directory",
        skip_serializing_if = "String::is_empty"
    )]
    directory: String,
    #[serde(
        rename = "process.audit.login_user.id",
        skip_serializing_if = "Option::is_none"
    )]
    login_user: Option<u32>,
    #[serde(
        rename = "process.audit.session.id",
        skip_serializing_if = "Option::is_none"
    )]
    session: Option<u32>,
    #[serde(rename = "process.real_user.id")]
    real_user: u32,
    #[serde(rename = "process.user.id")]
    user: u32,
    #[serde(rename = "process.real_group.id")]
    real_group: u32,
    #[serde(rename = "process.group.id")]
    group: u32,
    #[serde(rename = "process.capabilities.effective")]
    capabilities: String,
    #[serde(rename = "process.tty", skip_serializing_if = "Option::is_none")]
    tty: Option<String>,
    #[serde(flatten)]
    namespaces: Option<Namespaces<'a>>,
}

#[derive(Serialize)]
struct Namespaces<'a> {
    #[serde(rename = "process.namespaces")]
    all: All<'a>,
    #[serde(
        rename = "process.namespaces.host",
        skip_serializing_if = "Option::is_none"
    )]
    of_host: Option<Vec<&'static str>>,
}

/// Inodes by kind.
struct All<'a>(&'a [noctule_model::Namespace]);

impl Serialize for All<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|space| (space.kind, space.inode)))
    }
}

impl<'a> Namespaces<'a> {
    fn new(all: &'a [noctule_model::Namespace]) -> Option<Self> {
        let of_host = all.iter().filter(|space| space.of_host == Some(true));
        let of_host = of_host.map(|space| space.kind).collect();
        let known = all.iter().any(|space| space.of_host.is_some());
        (!all.is_empty()).then_some(Self {
            all: All(all),
            of_host: known.then_some(of_host),
        })
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(real_user: u32, context: &'a ExecContext) -> Self {
        let parent = context.parent.as_ref();
        Self {
            parent_pid: parent.map(|parent| parent.id.pid),
            parent: parent.map(ParentKeys::new),
            ancestors: context.ancestors.iter().map(Comm::text).collect(),
            directory: lossless(&context.directory.bytes),
            login_user: context.login_uid,
            session: context.audit_session,
            real_user,
            user: context.effective_uid,
            real_group: context.gid,
            group: context.effective_gid,
            capabilities: format!("{:016x}", context.capabilities),
            tty: context.tty.as_ref().map(Comm::text),
            namespaces: Namespaces::new(&context.namespaces),
        }
    }
}
