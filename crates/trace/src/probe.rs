//! Kinds of probes: where a program runs, and what it can know there.

/// Where a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Probe {
    /// At a tracepoint: the program's context is the event's record.
    #[default]
    Tracepoint,
}

impl Probe {
    /// The thread that runs has to do with the event, so that its name, its ids and its stack say
    /// something.
    pub const fn has_thread(self) -> bool {
        match self {
            Self::Tracepoint => true,
        }
    }
}
