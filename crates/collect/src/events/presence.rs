//! Sockets that began and ended, by parity of the recount that has seen them last.

use std::ops::AddAssign;

use noctule_kernel::{Presence, TcpCounts};

/// Those of a group.
#[derive(Clone, Copy, Default)]
pub(super) struct Sockets {
    connections: Presence,
    listeners: Presence,
}

impl Sockets {
    pub(super) fn of(counts: &TcpCounts) -> Self {
        Self {
            connections: counts.connections,
            listeners: counts.listeners,
        }
    }

    /// As if those that are still there under that parity had ended.
    pub(super) fn ending(&self, parity: usize) -> Self {
        let ending = |presence: &Presence| {
            let mut ended = [0; 2];
            ended[parity] = presence.begun[parity].saturating_sub(presence.ended[parity]);
            Presence {
                begun: [0; 2],
                ended,
            }
        };
        Self {
            connections: ending(&self.connections),
            listeners: ending(&self.listeners),
        }
    }

    /// What is open.
    pub(super) fn open(&self) -> noctule_model::Sockets {
        let open = |presence: &Presence| {
            let begun = presence.begun.iter().sum::<u64>();
            begun.saturating_sub(presence.ended.iter().sum())
        };
        noctule_model::Sockets {
            connections: open(&self.connections),
            listeners: open(&self.listeners),
        }
    }
}

impl AddAssign<&Sockets> for Sockets {
    fn add_assign(&mut self, other: &Sockets) {
        let add = |to: &mut Presence, from: &Presence| {
            for parity in 0..2 {
                to.begun[parity] += from.begun[parity];
                to.ended[parity] += from.ended[parity];
            }
        };
        add(&mut self.connections, &other.connections);
        add(&mut self.listeners, &other.listeners);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(begun: [u64; 2], ended: [u64; 2]) -> Sockets {
        Sockets {
            connections: Presence { begun, ended },
            ..Sockets::default()
        }
    }

    fn open(sockets: &Sockets) -> u64 {
        sockets.open().connections
    }

    #[test]
    fn what_no_recount_has_taken_over_ends_once() {
        // Ten began, three ended, five were taken over to the other parity: two were missed.
        let row = connections([10, 5], [8, 0]);
        let mut settled = Sockets::default();
        settled += &row.ending(0);
        let mut total = row;
        total += &settled;
        assert_eq!((open(&row), open(&total)), (7, 5));
        // Nothing more was missed when it is taken back.
        let mut row = connections([15, 5], [8, 5]);
        row += &settled;
        assert_eq!(open(&row), 5);
        row += &row.ending(1);
        assert_eq!(open(&row), 5);
    }
}
