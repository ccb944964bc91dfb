//! Kinds of probes: where a program runs, and what it can access there.

mod function;
mod packet;
mod perf;
mod registers;

pub use function::{FunctionValue, FunctionValues, function_format};
pub(crate) use packet::{IP_ADDRESS, NO_ADDRESS, RECORD_SIZE};
pub use packet::{Link, PacketField};
pub(crate) use perf::PERF_FIELDS;
pub use perf::perf_format;
pub(crate) use registers::SHIFT;

/// Where a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Probe {
    /// A tracepoint: the program's context is the event's record.
    #[default]
    Tracepoint,
    /// Each packet of an interface, as the filter of a packet socket.
    Packet(Link),
    /// Each overflow of a perf event: a fixed number of times per second, or once per number of
    /// events.
    PerfEvent,
    /// The entry or return of a kernel function: the program's context is the registers.
    Function,
    /// The entry or return of a function in an executable or library. The kernel can preempt such a
    /// program and run another thread, and that thread's programs, on the same CPU (Linux 6.10,
    /// 1b8f85defbc8).
    FileFunction,
    /// Inside the program of another event, which has built the record.
    Synthetic,
}

impl Probe {
    /// Whether the program's context consists of the CPU's registers.
    pub const fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::FileFunction)
    }

    /// Whether another program can count into the same table on this CPU before this program has
    /// ended. Programs at tracepoints, kernel functions and perf events exclude each other
    /// (`bpf_prog_active`).
    pub(crate) const fn is_interrupted(self) -> bool {
        matches!(self, Self::FileFunction | Self::Packet(_))
    }

    /// Whether the current thread is related to the event, so that its name, ids and stack are
    /// meaningful.
    pub const fn has_thread(self) -> bool {
        match self {
            Self::Tracepoint
            | Self::PerfEvent
            | Self::Function
            | Self::FileFunction
            | Self::Synthetic => true,
            // Packets arrive in interrupts, which run on top of an arbitrary thread.
            Self::Packet(_) => false,
        }
    }
}
