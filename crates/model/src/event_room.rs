//! The room of a bounded queue of events, part of which is kept for those that matter most.

use crate::{Event, What};

/// The share of the room that is kept for the others when events of files and of UDP come in floods: one in so many.
const KEPT: usize = 4;

/// How much of a queue's room is used, in a unit of the queue's choice.
#[derive(Clone, Copy, Debug)]
pub struct EventRoom {
    most: usize,
    used: usize,
    /// Something found no room.
    full: bool,
    /// An event of a file or of UDP found no room.
    bulk_full: bool,
}

impl EventRoom {
    /// An empty queue with this much room.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            used: 0,
            full: false,
            bulk_full: false,
        }
    }

    /// Whether the event finds room, which it takes then. From the first refusal until the next [`Self::clear`] all
    /// events are refused, so that they are missing in one place. Events of files and of UDP, which can come by
    /// the ten thousand, find no room earlier than others, and then only they are refused.
    pub fn admit(&mut self, event: &Event, size: usize) -> bool {
        let bulk = is_bulk(&event.what);
        let most = match bulk {
            true => self.most - self.most / KEPT,
            false => self.most,
        };
        let fits = self.used.saturating_add(size) <= most;
        let refused = self.full || (bulk && self.bulk_full) || !fits;
        if refused {
            self.full |= !bulk;
            self.bulk_full = true;
            return false;
        }
        self.used += size;
        true
    }

    /// The queue is empty.
    pub const fn clear(&mut self) {
        *self = Self::new(self.most);
    }
}

/// Whether the event is one of many that a single system call each can cause.
const fn is_bulk(what: &What) -> bool {
    matches!(
        what,
        What::FileOpen { .. } | What::FileChange { .. } | What::DnsQuery(_) | What::UdpFlow(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilePath, Origin};

    fn event(what: What) -> Event {
        Event {
            time_unix_ns: 0,
            process: None,
            origin: Origin::Seen,
            what,
        }
    }

    #[test]
    fn flood_of_opens_leaves_room_for_processes() {
        let open = event(What::FileOpen {
            path: FilePath::default(),
            flags: 0,
            error: None,
        });
        let start = event(What::ProcessStart {
            parent_pid: 1,
            parent: None,
        });
        let mut room = EventRoom::new(100);
        let taken = (0..1000).filter(|_| room.admit(&open, 1)).count();
        assert_eq!(taken, 75);
        let taken = (0..20).filter(|_| room.admit(&start, 1)).count();
        assert_eq!(taken, 20);
        // The first one that is refused closes the queue for all.
        assert!(!room.admit(&start, 6));
        assert!(!room.admit(&start, 1));
        room.clear();
        // Where nothing else comes, processes have all of it.
        let taken = (0..1000).filter(|_| room.admit(&start, 1)).count();
        assert_eq!(taken, 100);
        assert!(!room.admit(&open, 0));
    }
}
