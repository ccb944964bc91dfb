//! Figures of single CPUs.

use crate::Group;

/// An online CPU. The times of a CPU only cover periods in which the agent was running and the CPU
/// was online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuRow {
    /// The kernel's number of the CPU.
    pub cpu: u32,
    /// Time online, in nanoseconds.
    pub elapsed_ns: u64,
    /// The time in which the CPU was idle, including interrupts that arrived then. Unlike
    /// [`crate::Node::idle_ns`], this also includes switches around a process that the kernel hides
    /// from tracing programs.
    pub idle_ns: u64,
    /// Time taken by interrupts, up to the CPU's last switch. `None` unless the kernel measures
    /// interrupt time (CONFIG_IRQ_TIME_ACCOUNTING).
    pub interrupt_ns: Option<u64>,
    /// Time taken by the host (steal), up to the CPU's last switch. `None` unless the kernel
    /// measures steal time (CONFIG_PARAVIRT).
    pub steal_ns: Option<u64>,
    /// Groups that had the CPU since the previous batch, in nanoseconds, longest first. These
    /// values are not counters. The list is empty if waits are not measured, and has at most
    /// [`CpuRow::HOLDERS`] groups per batch. The rest of the busy time belongs to other groups or
    /// is unknown. For example, for a CPU that switches constantly, only the last 1.3 s are known.
    pub holders: Vec<(Group, u64)>,
}

impl CpuRow {
    /// Maximum number of groups listed for a CPU.
    pub const HOLDERS: usize = 4;

    /// Returns the busy time, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.elapsed_ns.saturating_sub(self.idle_ns)
    }
}
