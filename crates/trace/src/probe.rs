//! Kinds of probes: where a program runs, and what it can know there.

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
    /// At a tracepoint: the program's context is the event's record.
    #[default]
    Tracepoint,
    /// At each packet of an interface, as the filter of a packet socket.
    Packet(Link),
    /// Each time a perf event overflows: so many times a second, or once in so many events.
    PerfEvent,
    /// At the entry or return of a function: the program's context are the registers.
    Function,
    /// The same of a file's function, which a process runs. There the kernel can run another thread before
    /// the program has ended, and its programs on the same CPU (Linux 6.10, 1b8f85defbc8).
    FileFunction,
    /// Inside the program of another event, which has made the record.
    Synthetic,
}

impl Probe {
    /// The context are the registers.
    pub const fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::FileFunction)
    }

    /// A program that counts into the same table can run on the CPU before this one has ended. Those of
    /// tracepoints, functions of the kernel and perf events exclude each other (`bpf_prog_active`).
    pub(crate) const fn is_interrupted(self) -> bool {
        matches!(self, Self::FileFunction | Self::Packet(_))
    }

    /// The thread that runs has to do with the event, so that its name, its ids and its stack say
    /// something.
    pub const fn has_thread(self) -> bool {
        match self {
            Self::Tracepoint
            | Self::PerfEvent
            | Self::Function
            | Self::FileFunction
            | Self::Synthetic => true,
            // Packets come in interrupts, on top of whatever thread runs.
            Self::Packet(_) => false,
        }
    }
}
