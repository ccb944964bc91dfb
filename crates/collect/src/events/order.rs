//! Orders events by time across rings and reads. The rings are read one after the other, and a
//! program takes the timestamp of a record before it reserves space in the ring.

use std::time::Duration;

use noctule_kernel::RawEvent;
use noctule_model::Origin;

use crate::clock::since_boot_ns;

/// Maximum time between the timestamp of a record and its arrival in the ring. A record arrives
/// later if its program was interrupted for longer.
const ON_ITS_WAY: Duration = Duration::from_millis(5);

/// Maximum plausible lead of record timestamps over the agent's clock. In a time namespace the
/// clocks may differ by more; in that case no event is held back.
const AHEAD_NS: u64 = 1_000_000_000;

/// Events that are held back, because another ring may still have earlier ones.
#[derive(Default)]
pub(super) struct Order {
    waiting: Vec<(RawEvent, Origin)>,
    ended: bool,
}

impl Order {
    /// Adds an event. A time of 0 means now.
    pub(super) fn add(&mut self, event: RawEvent, origin: Origin) {
        let time_ns = match event.time_ns {
            0 => since_boot_ns(),
            known => known,
        };
        self.waiting.push((RawEvent { time_ns, ..event }, origin));
    }

    /// Returns, in order, the events that no later event can precede. `begun_ns` is the time at
    /// which reading of the rings began.
    pub(super) fn take(&mut self, begun_ns: u64, now_ns: u64) -> Vec<(RawEvent, Origin)> {
        self.waiting.sort_by_key(|(event, _)| event.time_ns);
        let newest_ns = self.waiting.last().map_or(0, |(event, _)| event.time_ns);
        if self.ended || newest_ns > now_ns + AHEAD_NS {
            return std::mem::take(&mut self.waiting);
        }
        let whole_ns = begun_ns.saturating_sub(ON_ITS_WAY.as_nanos() as u64);
        let whole = |(event, _): &(RawEvent, Origin)| event.time_ns <= whole_ns;
        let ready = self.waiting.partition_point(whole);
        self.waiting.drain(..ready).collect()
    }

    /// Returns how long until all held-back events can be taken.
    pub(super) fn waits(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(ON_ITS_WAY)
    }

    /// Stops holding back events.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::What;

    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Returns an event of a ring, identified by its milliseconds.
    fn event(milliseconds: u64) -> RawEvent {
        RawEvent {
            time_ns: milliseconds * MILLISECOND,
            process: None,
            what: What::Gap {
                lost: Vec::new(),
                since_unix_ns: None,
            },
        }
    }

    /// Reads two rings at that time, the second one some milliseconds after the first.
    fn read(order: &mut Order, rings: [&[u64]; 2], begun: u64) -> Vec<u64> {
        for milliseconds in rings.into_iter().flatten() {
            order.add(event(*milliseconds), Origin::Seen);
        }
        let taken = order.take(begun * MILLISECOND, (begun + 9) * MILLISECOND);
        let times = taken.iter().map(|(event, _)| event.time_ns / MILLISECOND);
        times.collect()
    }

    #[test]
    fn events_of_the_second_ring_during_a_read_wait_for_the_next_read() {
        let mut order = Order::default();
        let begin = read(&mut order, [&[100, 102], &[101, 112, 118]], 110);
        assert_eq!(begin, [100, 101, 102]);
        assert!(order.waits().is_some());
        // The event in the first ring precedes all events that were held back.
        assert_eq!(read(&mut order, [&[111], &[]], 130), [111, 112, 118]);
        assert_eq!(order.waits(), None);
    }

    #[test]
    fn events_just_before_a_read_wait_for_the_next_read() {
        let mut order = Order::default();
        assert_eq!(read(&mut order, [&[], &[109]], 110), []);
        assert_eq!(read(&mut order, [&[108], &[]], 120), [108, 109]);
    }

    #[test]
    fn no_events_are_held_back_at_the_end() {
        let mut order = Order::default();
        order.end();
        assert_eq!(read(&mut order, [&[112], &[111]], 110), [111, 112]);
    }

    #[test]
    fn events_of_another_clock_are_not_held_back() {
        let mut order = Order::default();
        assert_eq!(read(&mut order, [&[9000], &[8000]], 110), [8000, 9000]);
    }
}
