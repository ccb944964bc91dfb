//! Pressure stall information (PSI) of the kernel.

use crate::named::named_values;

named_values! {
    /// A total that the kernel keeps for each group. `Some` is the time in which at least one
    /// thread of the group waited for the resource, and `Full` is the time in which, in addition,
    /// no thread of the group ran. The name is the start of the line in the group's file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Stall {
        /// A line of `cpu.pressure`.
        CpuSome: "some",
        /// A line of `cpu.pressure`, for groups since Linux 5.13.
        CpuFull: "full",
        /// A line of `io.pressure`.
        IoSome: "some",
        /// A line of `io.pressure`.
        IoFull: "full",
        /// A line of `memory.pressure`.
        MemorySome: "some",
        /// A line of `memory.pressure`.
        MemoryFull: "full",
    }
}

impl Stall {
    /// Returns the name of the file in the group's directory.
    pub const fn file(self) -> &'static str {
        match self {
            Self::CpuSome | Self::CpuFull => "cpu.pressure",
            Self::IoSome | Self::IoFull => "io.pressure",
            Self::MemorySome | Self::MemoryFull => "memory.pressure",
        }
    }
}

/// Totals in nanoseconds, in the order of [`Stall::ALL`]. `None` if the kernel has no such file or
/// line.
pub type Stalls = [Option<u64>; Stall::COUNT];
