//! The kinds of events that a reader can request.

use super::What;

/// Events that are requested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Start, exec and exit of processes.
    Process,
    /// Programs that could not be executed.
    ExecFailure,
    /// OOM kills.
    Oom,
    Signal,
    Tcp,
    /// Opens of files, and changes of file names and modes.
    File,
    /// DNS queries.
    Dns,
    /// UDP flows.
    Udp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventKinds(u8);

impl EventKinds {
    /// Returns the set of these kinds.
    pub const fn of(kinds: &[EventKind]) -> Self {
        let mut set = Self(0);
        let mut next = 0;
        while next < kinds.len() {
            set = set.with(kinds[next]);
            next += 1;
        }
        set
    }

    /// Returns the set with one more kind.
    pub const fn with(self, kind: EventKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    pub const fn has(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns whether any of these kinds is in the set.
    pub const fn has_any(self, kinds: &[EventKind]) -> bool {
        self.0 & Self::of(kinds).0 != 0
    }

    /// Returns the kinds that are in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<EventKind> for EventKinds {
    fn from_iter<I: IntoIterator<Item = EventKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::default(), Self::with)
    }
}

impl What {
    /// Returns the kind of the event; `None` for a gap, which every reader receives.
    pub const fn kind(&self) -> Option<EventKind> {
        Some(match self {
            Self::ProcessStart { .. } | Self::ProcessExec { .. } | Self::ProcessExit { .. } => {
                EventKind::Process
            }
            Self::ProcessExecFailed { .. } => EventKind::ExecFailure,
            Self::ProcessSignal { .. } => EventKind::Signal,
            Self::OomKill { .. } => EventKind::Oom,
            Self::Tcp { .. } => EventKind::Tcp,
            Self::FileOpen { .. } | Self::FileChange { .. } => EventKind::File,
            Self::DnsQuery(_) => EventKind::Dns,
            Self::UdpFlow(_) => EventKind::Udp,
            Self::Gap { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_but_a_gap_has_a_kind() {
        let kind = |name| What::blank(name).and_then(|what| what.kind());
        let without = What::NAMES.into_iter().filter(|name| kind(name).is_none());
        assert_eq!(without.collect::<Vec<_>>(), ["gap"]);
    }

    #[test]
    fn a_set_has_only_the_kinds_that_were_put_into_it() {
        let set = EventKinds::of(&[EventKind::Process]).with(EventKind::Udp);
        let all = [EventKind::Process, EventKind::Tcp, EventKind::Udp];
        assert_eq!(all.map(|kind| set.has(kind)), [true, false, true]);
        assert!(set.has_any(&[EventKind::Tcp, EventKind::Udp]));
        assert_eq!(
            set.and(EventKinds::of(&all[1..])),
            EventKinds::of(&all[2..])
        );
    }
}
