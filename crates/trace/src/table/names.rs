//! What only the node knows.

use std::borrow::Cow;

use crate::identity::Identity;
use crate::print::{Symbols, symbol_text};

/// Names of the numbers in a table, and the escapes for text of strangers.
pub trait NodeNames: Symbols {
    /// The name of the thread with this id. The kernel keeps the name that the thread had at its
    /// first hit; one that is read when the table is shown may be a later one, or of a later thread.
    fn thread(&self, id: u64) -> Option<Cow<'_, [u8]>>;

    /// The name of a system call: `sys_read` of 0 on x86-64.
    fn syscall(&self, number: u64) -> Option<Cow<'_, str>>;

    /// The addresses of a stack, the innermost first.
    fn stack(&self, number: u64) -> Option<Cow<'_, [u64]>>;

    /// The name of the owner of the cgroup with this id, or of the cgroup itself.
    fn owner(&self, identity: Identity, cgroup: u64) -> String;

    /// The bytes as text that is safe to print: control characters, and what is not UTF-8, are
    /// visible escapes. All text that strangers choose goes through it.
    fn escape(&self, bytes: &[u8]) -> String;
}

/// Names as they are shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a>(pub(super) &'a dyn NodeNames);

impl Shown<'_> {
    /// `name [module]`, or the address in hex.
    pub(super) fn symbol(self, address: u64, with_offset: bool) -> String {
        self.text(symbol_text(address, with_offset, 0, self.0).as_bytes())
    }

    /// The same; `None` if no function has the address.
    pub(super) fn known_symbol(self, address: u64, with_offset: bool) -> Option<String> {
        let known = self.0.symbol(address).is_some();
        known.then(|| self.symbol(address, with_offset))
    }

    /// The name of a thread; without one `<...>`, as in the kernel's trace file.
    pub(super) fn thread(self, id: u64) -> String {
        let known = self.known_thread(id);
        known.unwrap_or_else(|| "<...>".to_owned())
    }

    /// The name of a thread. Thread 0 is the idle one of each CPU.
    pub(super) fn known_thread(self, id: u64) -> Option<String> {
        match id {
            0 => Some("<idle>".to_owned()),
            id => self.0.thread(id).map(|name| self.text(&name)),
        }
    }

    pub(super) fn owner(self, identity: Identity, cgroup: u64) -> String {
        self.text(self.0.owner(identity, cgroup).as_bytes())
    }

    pub(super) fn syscall(self, number: u64) -> Option<String> {
        let name = self.0.syscall(number)?;
        Some(self.text(name.as_bytes()))
    }

    pub(super) fn text(self, bytes: &[u8]) -> String {
        self.0.escape(bytes)
    }
}
