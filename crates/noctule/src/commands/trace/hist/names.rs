//! Names that depend on the node: kernel functions, threads, system calls and cgroups.

use std::borrow::Cow;
use std::fs;

use noctule_trace::identity::Identity;
use noctule_trace::print::{Symbol, Symbols};
use noctule_trace::session::Counted;
use noctule_trace::table::NodeNames;

use crate::commands::trace::groups::Groups;
use crate::commands::trace::kallsyms::Kallsyms;

/// Resolves values in the counted rows to names.
pub(super) struct Names<'a> {
    symbols: &'a Kallsyms,
    groups: &'a Groups,
    counted: &'a Counted,
    escape: fn(&[u8]) -> String,
}

impl<'a> Names<'a> {
    pub(super) fn new(symbols: &'a Kallsyms, groups: &'a Groups, counted: &'a Counted) -> Self {
        Self {
            symbols,
            groups,
            counted,
            escape: noctule_text::escape_bytes,
        }
    }

    /// Keeps the names unescaped, for formats that escape control characters themselves.
    pub(super) fn lossless(self) -> Self {
        Self {
            escape: noctule_text::lossless,
            ..self
        }
    }
}

impl Symbols for Names<'_> {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        self.symbols.symbol(address)
    }
}

impl NodeNames for Names<'_> {
    fn thread(&self, id: u64) -> Option<Cow<'_, [u8]>> {
        let mut name = fs::read(format!("/proc/{id}/comm")).ok()?;
        name.pop_if(|last| *last == b'\n');
        Some(Cow::Owned(name))
    }

    fn syscall(&self, number: u64) -> Option<Cow<'_, str>> {
        let number = usize::try_from(number).ok()?;
        let name = syscalls::Sysno::new(number)?.name();
        // A few system calls have a different name in the kernel.
        let name = match name {
            "uname" | "stat" | "lstat" | "fstat" => format!("new{name}"),
            "sendfile" => "sendfile64".to_owned(),
            "umount2" => "umount".to_owned(),
            name => name.to_owned(),
        };
        Some(Cow::Owned(format!("sys_{name}")))
    }

    fn stack(&self, number: u64) -> Option<Cow<'_, [u64]>> {
        let stack = self.counted.stacks.get(&number)?;
        Some(Cow::Borrowed(stack))
    }

    fn owner(&self, identity: Identity, cgroup: u64) -> String {
        self.groups.name(identity, cgroup)
    }

    fn escape(&self, bytes: &[u8]) -> String {
        (self.escape)(bytes)
    }
}
