//! One CPU at a time.

use crate::Group;

/// A CPU that is online. Its times are of the time since the agent started for which it was online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuRow {
    /// The number that the kernel gives it.
    pub cpu: u32,
    /// How long it was online, in nanoseconds.
    pub elapsed_ns: u64,
    /// The part of it in which it was idle. Interrupts that arrive meanwhile are in here. A process that the
    /// kernel hides from tracing programs counts as idle before and after itself, unlike in
    /// [`crate::Node::idle_ns`].
    pub idle_ns: u64,
    /// What interrupts took of it, where the kernel measures it (CONFIG_IRQ_TIME_ACCOUNTING), up to its last
    /// switch.
    pub interrupt_ns: Option<u64>,
    /// What the host took of it, where the kernel measures it (CONFIG_PARAVIRT), up to its last switch.
    pub steal_ns: Option<u64>,
    /// Who had it since the batch before, in nanoseconds, the longest first: no counters. Empty where waits are
    /// not measured. No more than [`CpuRow::HOLDERS`] of each batch that was taken since: what is missing of the
    /// time in which it was not idle is that of others, or not known any more, as of a CPU that switched all the
    /// time 1.3 s ago.
    pub holders: Vec<(Group, u64)>,
}

impl CpuRow {
    /// Groups that are listed of a CPU at most.
    pub const HOLDERS: usize = 4;

    /// How long it was not idle, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.elapsed_ns.saturating_sub(self.idle_ns)
    }
}
