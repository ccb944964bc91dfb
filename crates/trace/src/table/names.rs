//! Names that depend on the node.

use std::borrow::Cow;

use crate::identity::Identity;
use crate::print::{Symbols, symbol_text};

/// Resolves the numbers in a table to names, and escapes untrusted text.
pub trait NodeNames: Symbols {
    /// Returns the name of a thread. The kernel keeps the name that the thread has at its first
    /// hit. A name that is looked up later may have changed or may belong to a newer thread.
    fn thread(&self, id: u64) -> Option<Cow<'_, [u8]>>;

    /// Returns the name of a system call, such as `sys_read` for 0 on x86-64.
    fn syscall(&self, number: u64) -> Option<Cow<'_, str>>;

    /// Returns the addresses of a stack, innermost first.
    fn stack(&self, number: u64) -> Option<Cow<'_, [u64]>>;

    /// Returns the name of the cgroup's owner, or of the cgroup itself.
    fn owner(&self, identity: Identity, cgroup: u64) -> String;

    /// Makes untrusted bytes safe to print: control characters and invalid UTF-8 become visible
    /// escapes.
    fn escape(&self, bytes: &[u8]) -> String;
}

/// Looks up and escapes names for display.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a>(pub(super) &'a dyn NodeNames);

impl Shown<'_> {
    /// Returns `name [module]`, or the address in hex.
    pub(super) fn symbol(self, address: u64, with_offset: bool) -> String {
        self.text(symbol_text(address, with_offset, 0, self.0).as_bytes())
    }

    /// Like [`Self::symbol`], but returns `None` if no function contains the address.
    pub(super) fn known_symbol(self, address: u64, with_offset: bool) -> Option<String> {
        let known = self.0.symbol(address).is_some();
        known.then(|| self.symbol(address, with_offset))
    }

    /// Returns the name of a thread, or `<...>` for an unknown one, like the kernel's trace file.
    pub(super) fn thread(self, id: u64) -> String {
        let known = self.known_thread(id);
        known.unwrap_or_else(|| "<...>".to_owned())
    }

    /// Returns the name of a thread. Thread 0 is the idle thread of each CPU.
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
