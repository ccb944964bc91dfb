//! Capacity of a bounded event queue. A share of the capacity is reserved for important events.

use crate::{Event, What};

/// Reserved share of the capacity: 1/KEPT. The share stays free for other events when file and UDP
/// events flood the queue.
const KEPT: usize = 4;

/// Used capacity of a queue, in a unit chosen by the queue.
#[derive(Clone, Copy, Debug)]
pub struct EventRoom {
    most: usize,
    used: usize,
    /// Whether an event was refused because the queue was full.
    full: bool,
    /// Whether a file or UDP event was refused.
    bulk_full: bool,
}

impl EventRoom {
    /// Creates an empty queue with this capacity.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            used: 0,
            full: false,
            bulk_full: false,
        }
    }

    /// Reserves room for the event and returns whether there was room. After the first refusal, all
    /// events are refused until [`Self::clear`], so that losses form one gap. File and UDP events
    /// can arrive in bursts of tens of thousands. Such events are refused earlier, so that they
    /// leave room for other events.
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

    /// Marks the queue as empty.
    pub const fn clear(&mut self) {
        *self = Self::new(self.most);
    }
}

/// Returns whether a single system call can cause an event of this kind.
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
        // The first refusal closes the queue for all events.
        assert!(!room.admit(&start, 6));
        assert!(!room.admit(&start, 1));
        room.clear();
        // Without other events, process events may use the whole queue.
        let taken = (0..1000).filter(|_| room.admit(&start, 1)).count();
        assert_eq!(taken, 100);
        assert!(!room.admit(&open, 0));
    }
}
