//! Decodes the messages that BPF programs send, and sorts them by time.

use std::collections::{BinaryHeap, HashMap};

/// Size of the header before each record, in bytes.
pub const HEAD: usize = 64;
/// Maximum number of stack addresses, the same as in the kernel's stack traces.
pub const FRAMES: i32 = 126;
/// Bytes reserved for a stack between the header and the record.
pub const STACK_ROOM: usize = 1024;

/// A shown event or an executed trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub tgid: u32,
    /// Thread id.
    pub pid: u32,
    pub cpu: u32,
    /// Number of the event in its command.
    pub event: u16,
    /// Number of the trigger; `None` if the event itself is shown.
    pub trigger: Option<u16>,
    /// Number of messages of this CPU that were lost since its previous message, because the ring
    /// was full.
    pub lost: u64,
    /// Id of the thread's cgroup in the unified hierarchy.
    pub cgroup: u64,
    /// Name of the thread, up to its first NUL.
    pub comm: Vec<u8>,
    /// The record including its common fields.
    pub record: Vec<u8>,
    /// Addresses of the kernel stack, innermost first.
    pub stack: Vec<u64>,
}

/// Received messages that have not been shown yet.
///
/// The ring buffer holds the messages of all CPUs in the order in which they reserved space. This
/// order is nearly, but not exactly, the order of time. A message is therefore held until all
/// earlier ones must have arrived.
#[derive(Debug, Default)]
pub struct Arrivals {
    held: BinaryHeap<Held>,
    /// Number of messages received.
    count: u64,
    /// Lost count in the last message of each CPU.
    lost: HashMap<u32, u64>,
}

/// A message that is held until all earlier ones must have arrived. Messages are ordered such that
/// the earliest one is the greatest; of equal times, the first received is the greatest.
#[derive(Debug)]
struct Held {
    order: (u64, u64),
    arrival: Arrival,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.order.cmp(&self.order)
    }
}

impl Arrivals {
    /// Decodes a message. `kinds` has the type id of each event of the command, which replaces the
    /// bytes of the record that programs cannot read. Ignores messages that are too short.
    pub fn take(&mut self, bytes: &[u8], kinds: &[u64]) {
        let Some(mut arrival) = read(bytes) else {
            return;
        };
        let kind = kinds.get(usize::from(arrival.event)).copied();
        common(&mut arrival, kind.unwrap_or(0));
        let before = self.lost.insert(arrival.cpu, arrival.lost).unwrap_or(0);
        arrival.lost = arrival.lost.saturating_sub(before);
        self.count += 1;
        self.held.push(Held {
            order: (arrival.time_ns, self.count),
            arrival,
        });
    }

    /// Returns the next message in time order, if it is older than this time.
    pub fn next_before(&mut self, time_ns: u64) -> Option<Arrival> {
        if self.held.peek()?.order.0 >= time_ns {
            return None;
        }
        self.held.pop().map(|held| held.arrival)
    }

    /// Returns the losses of all CPUs that no message has reported yet.
    pub fn unreported(&self, lost: &[u64]) -> u64 {
        let reported = |cpu: usize| {
            let cpu = u32::try_from(cpu).ok();
            cpu.and_then(|cpu| self.lost.get(&cpu))
                .copied()
                .unwrap_or(0)
        };
        let missing = |(cpu, lost): (usize, &u64)| lost.saturating_sub(reported(cpu));
        lost.iter().enumerate().map(missing).sum()
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes)
}

fn read(bytes: &[u8]) -> Option<Arrival> {
    let id = u32_at(bytes, 20)?;
    let ids = u64_at(bytes, 8)?;
    let comm = bytes.get(40..56)?;
    let end = comm
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(comm.len());
    // The record comes last. Room for a stack may precede it.
    let length = u32_at(bytes, 56)? as usize;
    let record = bytes.len().checked_sub(length).filter(|at| *at >= HEAD)?;
    let stack = u32_at(bytes, 60)? as usize;
    let stack = bytes
        .get(HEAD..HEAD + stack)
        .filter(|_| HEAD + stack <= record)?;
    Some(Arrival {
        time_ns: u64_at(bytes, 0)?,
        tgid: (ids >> 32) as u32,
        pid: ids as u32,
        cpu: u32_at(bytes, 16)?,
        event: id as u16,
        trigger: ((id >> 16) as u16).checked_sub(1),
        lost: u64_at(bytes, 24)?,
        cgroup: u64_at(bytes, 32)?,
        comm: comm[..end].to_vec(),
        record: bytes[record..].to_vec(),
        stack: stack
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(u64::from_ne_bytes)
            .collect(),
    })
}

/// Fills in the known common fields: event type and thread id.
fn common(arrival: &mut Arrival, kind: u64) {
    if let Some(common) = arrival.record.first_chunk_mut::<8>() {
        let [k0, k1, ..] = (kind as u16).to_ne_bytes();
        let [p0, p1, p2, p3] = arrival.pid.to_ne_bytes();
        *common = [k0, k1, 0, 0, p0, p1, p2, p3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a message of event 3.
    fn message(time: u64, cpu: u32, what: u32, lost: u64, stack: Option<&[u64]>) -> Vec<u8> {
        let mut bytes = time.to_ne_bytes().to_vec();
        bytes.extend((7_u64 << 32 | 8).to_ne_bytes());
        bytes.extend(cpu.to_ne_bytes());
        bytes.extend((what << 16 | 3).to_ne_bytes());
        bytes.extend(lost.to_ne_bytes());
        bytes.extend(99_u64.to_ne_bytes());
        bytes.extend(b"name\0garbage\0\0\0\0");
        bytes.extend(12_u32.to_ne_bytes());
        let frames = stack.unwrap_or_default();
        bytes.extend((8 * frames.len() as u32).to_ne_bytes());
        if stack.is_some() {
            let mut room: Vec<_> = frames
                .iter()
                .flat_map(|frame| frame.to_ne_bytes())
                .collect();
            room.resize(STACK_ROOM, 0xee);
            bytes.extend(room);
        }
        bytes.extend([0xaa; 8]);
        bytes.extend([1, 2, 3, 4]);
        bytes
    }

    fn all(arrivals: &mut Arrivals, until: u64) -> Vec<Arrival> {
        std::iter::from_fn(|| arrivals.next_before(until)).collect()
    }

    #[test]
    fn messages_are_decoded_with_common_fields() {
        let mut arrivals = Arrivals::default();
        arrivals.take(&message(5, 1, 0, 0, None), &[0, 0, 0, 0x0102]);
        arrivals.take(&message(6, 1, 2, 0, Some(&[10, 11])), &[0, 0, 0, 0x0102]);
        let [shown, stack] = &all(&mut arrivals, 9)[..] else {
            panic!("two");
        };
        assert_eq!(
            (shown.tgid, shown.pid, shown.cpu, shown.cgroup),
            (7, 8, 1, 99)
        );
        assert_eq!((shown.event, shown.trigger), (3, None));
        assert_eq!(shown.comm, b"name");
        let mut record = 0x0102_u16.to_ne_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(8_u32.to_ne_bytes());
        record.extend([1, 2, 3, 4]);
        assert_eq!(shown.record, record);
        assert_eq!(stack.trigger, Some(1));
        assert_eq!(stack.stack, [10, 11]);
        assert_eq!(stack.record, record);
    }

    #[test]
    fn messages_are_sorted_by_time_then_arrival() {
        let mut arrivals = Arrivals::default();
        for (time, cpu) in [(20, 0), (10, 1), (30, 0), (10, 2), (25, 1)] {
            arrivals.take(&message(time, cpu, 0, 0, None), &[]);
        }
        let shown = |arrivals: Vec<Arrival>| -> Vec<_> {
            arrivals.iter().map(|one| (one.time_ns, one.cpu)).collect()
        };
        let first = all(&mut arrivals, 25);
        assert_eq!(shown(first), [(10, 1), (10, 2), (20, 0)]);
        arrivals.take(&message(24, 3, 0, 0, None), &[]);
        let rest = all(&mut arrivals, u64::MAX);
        assert_eq!(shown(rest), [(24, 3), (25, 1), (30, 0)]);
    }

    #[test]
    fn losses_are_reported_with_the_next_message() {
        let mut arrivals = Arrivals::default();
        for (time, cpu, lost) in [(1, 0, 0), (2, 1, 4), (3, 0, 2), (4, 1, 4), (5, 0, 7)] {
            arrivals.take(&message(time, cpu, 0, lost, None), &[]);
        }
        let lost: Vec<_> = all(&mut arrivals, 9).iter().map(|one| one.lost).collect();
        assert_eq!(lost, [0, 4, 2, 0, 5]);
        assert_eq!(arrivals.unreported(&[7, 6, 3]), 5);
    }

    #[test]
    fn invalid_messages_are_ignored() {
        let mut arrivals = Arrivals::default();
        let whole = message(1, 0, 2, 0, Some(&[1]));
        for end in 0..HEAD + 12 {
            arrivals.take(&whole[..end], &[]);
        }
        let mut long = message(1, 0, 0, 0, None);
        long[56] = 0xff;
        arrivals.take(&long, &[]);
        let mut deep = message(1, 0, 0, 0, None);
        deep[60] = 0xf8;
        arrivals.take(&deep, &[]);
        assert_eq!(arrivals.next_before(u64::MAX), None);
    }
}
