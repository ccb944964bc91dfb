//! Parts of events that have several columns: parents, and what else is known of a process.

use noctule_model::{Comm, ExecContext, FilePath, Namespace, Parent, ProcessId};

use crate::column::{List, Moment, Word, Words, WordsList, record};

record! {
    /// A parent.
    pub(crate) struct ParentRecord {
        pid: u32,
        start_ns: u64,
        start_time: Moment,
        comm: Words,
    }
}

/// A list of one, or of none.
pub(super) fn parent_list(parent: Option<&Parent>) -> List<ParentRecord> {
    let record = |parent: &Parent| {
        let Parent {
            id,
            start_unix_ns,
            comm,
        } = parent;
        ParentRecord {
            pid: id.pid,
            start_ns: id.start_ns,
            start_time: Moment(*start_unix_ns),
            comm: Words::of(comm),
        }
    };
    List(parent.map(record).into_iter().collect())
}

pub(super) fn parent(list: &List<ParentRecord>) -> Option<Parent> {
    let record = list.0.first()?;
    Some(Parent {
        id: ProcessId {
            pid: record.pid,
            start_ns: record.start_ns,
        },
        start_unix_ns: record.start_time.0,
        comm: Comm::new(&record.comm.0),
    })
}

record! {
    /// One more path.
    pub(crate) struct PathRecord {
        path: FilePath,
    }
}

impl PathRecord {
    /// A list of one, or of none.
    pub(super) fn list(path: Option<&FilePath>) -> List<Self> {
        let record = |path: &FilePath| Self { path: path.clone() };
        List(path.map(record).into_iter().collect())
    }

    pub(super) fn path(list: &List<Self>) -> FilePath {
        let record = list.0.first();
        record.map_or_else(FilePath::default, |record| record.path.clone())
    }
}

record! {
    /// A namespace.
    pub(crate) struct NamespaceRecord {
        kind: Word,
        inode: u32,
        of_host: Option<bool>,
    }
}

record! {
    /// What else is known of a process that executes a program.
    pub(crate) struct ContextRecord {
        parent: List<ParentRecord>,
        ancestors: WordsList,
        effective_uid: u32,
        gid: u32,
        effective_gid: u32,
        capabilities: u64,
        login_uid: Option<u32>,
        audit_session: Option<u32>,
        tty: Option<Words>,
        namespaces: List<NamespaceRecord>,
        directory: FilePath,
    }
}

impl ContextRecord {
    /// A list of one.
    pub(super) fn list(context: &ExecContext) -> List<Self> {
        let ExecContext {
            parent,
            ancestors,
            effective_uid,
            gid,
            effective_gid,
            capabilities,
            login_uid,
            audit_session,
            tty,
            namespaces,
            directory,
        } = context;
        let namespaces = namespaces.iter().map(|namespace| {
            let Namespace {
                kind,
                inode,
                of_host,
            } = *namespace;
            NamespaceRecord {
                kind: Word(kind),
                inode,
                of_host,
            }
        });
        let names = ancestors.iter().map(|name| Words::of(name).0);
        List(vec![Self {
            parent: parent_list(parent.as_ref()),
            ancestors: WordsList(Some(names.collect())),
            effective_uid: *effective_uid,
            gid: *gid,
            effective_gid: *effective_gid,
            capabilities: *capabilities,
            login_uid: *login_uid,
            audit_session: *audit_session,
            tty: tty.as_ref().map(Words::of),
            namespaces: List(namespaces.collect()),
            directory: directory.clone(),
        }])
    }

    /// The default where the list is empty: an older tape has none.
    pub(super) fn context(list: &List<Self>) -> ExecContext {
        let Some(record) = list.0.first() else {
            return ExecContext::default();
        };
        let namespaces = record.namespaces.0.iter().map(|namespace| Namespace {
            kind: namespace.kind.0,
            inode: namespace.inode,
            of_host: namespace.of_host,
        });
        let ancestors = record.ancestors.0.iter().flatten();
        ExecContext {
            parent: parent(&record.parent),
            ancestors: ancestors.map(|name| Comm::new(name)).collect(),
            effective_uid: record.effective_uid,
            gid: record.gid,
            effective_gid: record.effective_gid,
            capabilities: record.capabilities,
            login_uid: record.login_uid,
            audit_session: record.audit_session,
            tty: record.tty.as_ref().map(|name| Comm::new(&name.0)),
            namespaces: namespaces.collect(),
            directory: record.directory.clone(),
        }
    }
}
