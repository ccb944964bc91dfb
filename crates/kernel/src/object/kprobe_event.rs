//! Kprobes as in the kernel's samples of 2015: a line in `kprobe_events`, the perf event with the
//! id of that line, and a program attached to the perf event.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::folder::{TraceFolder, names_of_dead_processes};
use crate::error::{Context as _, Error, ErrorKind};

/// Message for kernels without kprobes.
pub(crate) const NONE: &str = "this kernel has no kprobes (CONFIG_KPROBE_EVENTS); noctule hist and \
    noctule load also accept tracepoints, and most code paths have one";

const GROUP: &str = "noctule";
static MADE: AtomicU32 = AtomicU32::new(0);

/// A kprobe event, removed on drop.
#[derive(Debug)]
pub(crate) struct KprobeEvent {
    folder: TraceFolder,
    name: String,
    function: String,
    at_return: bool,
}

impl KprobeEvent {
    /// Creates the event. If a function `sys_...` does not exist, tries the name that system calls
    /// have since Linux 4.17.
    pub(crate) fn make(function: &str, offset: u64, at_return: bool) -> Result<Self, Error> {
        let folder = TraceFolder::open()?;
        folder.clean();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("load_{}_{number}", std::process::id());
        let mut event = Self {
            folder,
            name,
            function: function.to_owned(),
            at_return,
        };
        let made = event.write(function, offset);
        let made = match (made, function.strip_prefix("sys_")) {
            (Err(error), Some(call)) if missing(&error) => {
                event.function = format!("{}{call}", super::SYSCALL_PREFIX);
                let again = event.write(&event.function, offset);
                again.map_err(|_| error)
            }
            (made, _) => made,
        };
        match made {
            Ok(()) => Ok(event),
            Err(error) => {
                // On drop, there is nothing to remove.
                event.name.clear();
                Err(refused(function, &error))
            }
        }
    }

    fn write(&self, function: &str, offset: u64) -> io::Result<()> {
        let kind = if self.at_return { 'r' } else { 'p' };
        let line = match offset {
            0 => format!("{kind}:{GROUP}/{} {function}\n", self.name),
            offset => format!("{kind}:{GROUP}/{} {function}+{offset}\n", self.name),
        };
        self.folder.append("kprobe_events", &line)
    }

    /// Returns the id of the perf event.
    pub(crate) fn id(&self) -> Result<u64, Error> {
        let path = format!("events/{GROUP}/{}/id", self.name);
        let text = self.folder.read(&path).context(path.clone())?;
        text.trim().parse().map_err(io::Error::other).context(path)
    }

    pub(super) fn place(&self) -> String {
        let end = if self.at_return { "return of " } else { "" };
        format!("{end}kernel function {} (kprobe_events)", self.function)
    }
}

impl Drop for KprobeEvent {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let line = format!("-:{GROUP}/{}\n", self.name);
        if let Err(error) = self.folder.append("kprobe_events", &line) {
            tracing::warn!("cannot remove the kprobe event {}: {error}", self.name);
        }
    }
}

impl TraceFolder {
    /// Removes the kprobe events of killed processes.
    fn clean(&self) {
        let names = self.names(&format!("events/{GROUP}")).unwrap_or_default();
        for left in names_of_dead_processes(&names, "load_") {
            // Another process may already have removed the event.
            let _ = self.append("kprobe_events", &format!("-:{GROUP}/{left}\n"));
        }
    }
}

/// Returns whether the error is for a symbol that the kernel does not have, or has more than once.
fn missing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EINVAL | libc::EADDRNOTAVAIL)
    )
}

fn refused(function: &str, error: &io::Error) -> Error {
    let (kind, words) = match error.raw_os_error() {
        Some(libc::ENOENT) if !exist() => (ErrorKind::Kernel, NONE.to_owned()),
        _ if missing(error) => (
            ErrorKind::Kernel,
            format!(
                "this kernel has no function {function} that can be probed (grep {function} \
                     /proc/kallsyms)"
            ),
        ),
        Some(libc::EACCES | libc::EPERM) => (
            ErrorKind::Privileges,
            format!("kprobe_events: {error} (needs root, and a kernel that is not locked down)"),
        ),
        _ => (
            ErrorKind::Other,
            format!("kprobe_events, {function}: {error}"),
        ),
    };
    Error::new(kind, words)
}

/// Returns whether this kernel has kprobe events.
pub(crate) fn exist() -> bool {
    TraceFolder::open().is_ok_and(|folder| folder.read("kprobe_events").is_ok())
}
