//! What the programs sent: read from bytes, and put into the order of time.

use std::collections::{BinaryHeap, HashMap};

/// Bytes in front of a record.
pub const HEAD: usize = 64;
/// Addresses of a stack that are kept, as many as the kernel's own stack traces have.
pub const FRAMES: i32 = 126;
/// Bytes between head and record that a stack takes.
pub const STACK_ROOM: usize = 1024;

/// An event that was shown, or a trigger that did what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The process id.
    pub tgid: u32,
    /// The thread's id.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// The number of the event in its command.
    pub event: u16,
    /// The number of the trigger; `None`: the event itself is shown.
    pub trigger: Option<u16>,
    /// What the ring had no room for on this CPU since the one before.
    pub lost: u64,
    /// The number of the thread's cgroup in the unified hierarchy.
    pub cgroup: u64,
    /// The thread's name, up to its first NUL.
    pub comm: Vec<u8>,
    /// The record, with its common fields.
    pub record: Vec<u8>,
    /// The addresses of the kernel's stack, the innermost first.
    pub stack: Vec<u64>,
}

/// What has arrived and is not shown yet.
///
/// The ring has what all CPUs sent in the order in which they found room, which is nearly the order of
/// time. An arrival is held until everything before it must have come.
#[derive(Debug, Default)]
pub struct Arrivals {
    held: BinaryHeap<Held>,
    /// How many came so far.
    count: u64,
    /// What each CPU had lost when it sent last.
    lost: HashMap<u32, u64>,
}

/// The earliest is the greatest; of the same time what came first.
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
    /// Takes what a program sent. `kinds`: the type number of each event of the command, for the first
    /// bytes of the record, which programs cannot read. What is too short to be anything is left out.
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

    /// The next one in the order of time, if it happened before this moment.
    pub fn next_before(&mut self, time_ns: u64) -> Option<Arrival> {
        if self.held.peek()?.order.0 >= time_ns {
            return None;
        }
        self.held.pop().map(|held| held.arrival)
    }

    /// What each CPU has lost in all, of which nothing was said yet.
    pub fn unsaid(&self, lost: &[u64]) -> u64 {
        let said = |cpu: usize| {
            let cpu = u32::try_from(cpu).ok();
            cpu.and_then(|cpu| self.lost.get(&cpu))
                .copied()
                .unwrap_or(0)
        };
        let missing = |(cpu, lost): (usize, &u64)| lost.saturating_sub(said(cpu));
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
    // The record comes last; in front of it is room for a stack, or none.
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

/// The common fields that are known: number of the event and thread.
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

    /// What a program of event 3 sends.
    fn sent(time: u64, cpu: u32, what: u32, lost: u64, stack: Option<&[u64]>) -> Vec<u8> {
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
    fn an_arrival_is_read_with_its_common_fields() {
        let mut arrivals = Arrivals::default();
        arrivals.take(&sent(5, 1, 0, 0, None), &[0, 0, 0, 0x0102]);
        arrivals.take(&sent(6, 1, 2, 0, Some(&[10, 11])), &[0, 0, 0, 0x0102]);
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
    fn the_order_is_that_of_time_and_then_of_arrival() {
        let mut arrivals = Arrivals::default();
        for (time, cpu) in [(20, 0), (10, 1), (30, 0), (10, 2), (25, 1)] {
            arrivals.take(&sent(time, cpu, 0, 0, None), &[]);
        }
        let shown = |arrivals: Vec<Arrival>| -> Vec<_> {
            arrivals.iter().map(|one| (one.time_ns, one.cpu)).collect()
        };
        let first = all(&mut arrivals, 25);
        assert_eq!(shown(first), [(10, 1), (10, 2), (20, 0)]);
        arrivals.take(&sent(24, 3, 0, 0, None), &[]);
        let rest = all(&mut arrivals, u64::MAX);
        assert_eq!(shown(rest), [(24, 3), (25, 1), (30, 0)]);
    }

    #[test]
    fn what_was_lost_stands_before_what_came_next_on_that_cpu() {
        let mut arrivals = Arrivals::default();
        for (time, cpu, lost) in [(1, 0, 0), (2, 1, 4), (3, 0, 2), (4, 1, 4), (5, 0, 7)] {
            arrivals.take(&sent(time, cpu, 0, lost, None), &[]);
        }
        let lost: Vec<_> = all(&mut arrivals, 9).iter().map(|one| one.lost).collect();
        assert_eq!(lost, [0, 4, 2, 0, 5]);
        assert_eq!(arrivals.unsaid(&[7, 6, 3]), 5);
    }

    #[test]
    fn bytes_that_are_nothing_are_left_out() {
        let mut arrivals = Arrivals::default();
        let whole = sent(1, 0, 2, 0, Some(&[1]));
        for end in 0..HEAD + 12 {
            arrivals.take(&whole[..end], &[]);
        }
        let mut long = sent(1, 0, 0, 0, None);
        long[56] = 0xff;
        arrivals.take(&long, &[]);
        let mut deep = sent(1, 0, 0, 0, None);
        deep[60] = 0xf8;
        arrivals.take(&deep, &[]);
        assert_eq!(arrivals.next_before(u64::MAX), None);
    }
}
