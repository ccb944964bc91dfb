//! Returns which groups had a CPU recently, from the data that the BPF programs keep to divide
//! waits (`bpf/switch/past.bpf.h`). Reading these data adds no work to switches.

use std::cmp::Reverse;
use std::collections::HashMap;

use libbpf_rs::{MapCore as _, MapFlags};
use noctule_model::Group;

use crate::abi::{self, CpuSlot, Past};
use crate::error::{Context as _, Error};
use crate::skel::switch::{SwitchSkel, types};

/// Groups that had a CPU, each with its time in nanoseconds, in descending order of time.
type Holders = Vec<(Group, u64)>;

/// Returns, for each of these CPUs, the groups that had the CPU between two moments
/// (`CLOCK_MONOTONIC`). If a CPU switches during the read, some of its oldest data may be missing,
/// or may be divided like the time before.
pub(super) fn holders(
    switch: &SwitchSkel<'static>,
    cpus: &[(u32, CpuSlot)],
    from_ns: u64,
    until_ns: u64,
) -> Result<Vec<(u32, Holders)>, Error> {
    let of = |(cpu, slot): &(u32, CpuSlot)| {
        let bytes = switch.maps.pasts.lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
        let past: Option<Past> = abi::plain(
            &bytes
                .context("reading the recent switches of a CPU")?
                .unwrap_or_default(),
        );
        let [from, until] = [from_ns, until_ns].map(|ns| by_scheduler(ns, slot));
        let holders = past.map(|past| divide(&past, from, until));
        Ok((*cpu, holders.unwrap_or_default()))
    };
    cpus.iter().map(of).collect()
}

/// Converts `CLOCK_MONOTONIC` to the scheduler's clock, which timestamps the past. Either clock can
/// be ahead, because NTP slews one of them.
fn by_scheduler(ns: u64, slot: &CpuSlot) -> u64 {
    ns.saturating_add_signed(slot.clock_offset.cast_signed().saturating_neg())
}

/// Divides the time between two moments among the groups that ran. The sum excludes idle, interrupt
/// and steal time, and time that is no longer recorded.
fn divide(past: &Past, from: u64, until: u64) -> Holders {
    let mut sums: HashMap<Group, u64> = HashMap::new();
    let mut add = |runner: u64, ns: u64| {
        let group = abi::group((runner.cast_signed() >> RANK_BITS).cast_unsigned());
        if let Some(group) = group.filter(|_| ns > 0) {
            *sums.entry(group).or_default() += ns;
        }
    };
    let slices = latest(&past.ring, past.folded, past.count);
    let ends = slices.iter().skip(1).map(|next| next.began);
    let ends = ends.chain([types::moment {
        clock: until,
        stolen: slices.last().map_or(0, |last| last.began.stolen),
        ..Default::default()
    }]);
    for (slice, end) in slices.iter().zip(ends) {
        let began = slice.began;
        let all = Span::new(began.clock, end.clock);
        let ran = all
            .length()
            .saturating_sub(end.stolen.saturating_sub(began.stolen));
        add(slice.runner, all.part_of(ran, from, until));
    }
    let mut epochs = latest(&past.epochs[LONG], 0, past.epochs_count[LONG]);
    epochs.extend(latest(&past.epochs[SHORT], 0, past.epochs_count[SHORT]));
    let ends = epochs.iter().skip(1).map(|next| next.began);
    // Uses the minimum, because the newest slice may have overwritten the first.
    let ends = ends.chain(slices.iter().map(|slice| slice.began.clock).min());
    for (epoch, end) in epochs.iter().zip(ends) {
        let all = Span::new(epoch.began, end);
        // Slices that were folded into an epoch between the two reads are also in the ring. Such
        // slices exceed the span and are not included.
        let mut room = all.length();
        for share in epoch.shares.iter().take(epoch.used as usize) {
            let ns = share.ns.min(room);
            room -= ns;
            add(share.runner, all.part_of(ns, from, until));
        }
    }
    let mut holders: Holders = sums.into_iter().collect();
    holders.sort_by_key(|(group, ns)| (Reverse(*ns), *group));
    holders
}

const SHORT: usize = types::level::SHORT_EPOCHS.0 as usize;
const LONG: usize = types::level::LONG_EPOCHS.0 as usize;
const RANK_BITS: u32 = types::rank::RANK_BITS.0;

/// Returns the entries of a ring to which `count` entries were written, oldest first, from index
/// `first` or the oldest available one.
fn latest<T>(ring: &[T], first: u64, count: u64) -> Vec<&T> {
    let size = ring.len() as u64;
    let places = first.max(count.saturating_sub(size))..count;
    places.map(|at| &ring[(at % size) as usize]).collect()
}

/// The time of a slice or epoch. The length is 0 if the end is before the start, as for an entry
/// that was overwritten during the read.
#[derive(Clone, Copy)]
struct Span {
    began: u64,
    end: u64,
}

impl Span {
    fn new(began: u64, end: u64) -> Self {
        Self { began, end }
    }

    fn length(self) -> u64 {
        self.end.saturating_sub(self.began)
    }

    /// Returns how much of `ns` is between two moments, if `ns` is spread evenly over the span.
    fn part_of(self, ns: u64, from: u64, until: u64) -> u64 {
        let inside = Self::new(self.began.max(from), self.end.min(until)).length();
        let whole = u128::from(self.length().max(1));
        (u128::from(ns.min(self.length())) * u128::from(inside) / whole) as u64
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::CgroupId;

    use super::*;

    const A: Group = Group::Cgroup(CgroupId(7));
    const B: Group = Group::Cgroup(CgroupId(8));
    const IDLE: u64 = 0;

    fn runner(group: i64) -> u64 {
        (group << RANK_BITS | 1).cast_unsigned()
    }

    /// Returns the past of a CPU, given the start and the group number of each slice.
    fn past(slices: &[(u64, i64)]) -> Past {
        let mut past = Past::default();
        for &(clock, group) in slices {
            let places = past.ring.len() as u64;
            let slice = &mut past.ring[(past.count % places) as usize];
            slice.runner = if group == 0 { IDLE } else { runner(group) };
            slice.began.clock = clock;
            past.count += 1;
        }
        past
    }

    /// Returns an epoch with its start, and the time of each group in it.
    fn epoch(began: u64, shares: &[(i64, u64)]) -> types::epoch {
        let mut epoch = types::epoch {
            began,
            used: shares.len() as u64,
            ..Default::default()
        };
        for (share, &(group, ns)) in epoch.shares.iter_mut().zip(shares) {
            (share.runner, share.ns) = (runner(group), ns);
        }
        epoch
    }

    #[test]
    fn time_is_divided_among_running_groups() {
        let past = past(&[(100, 7), (150, 8), (160, 0), (200, 7), (210, -1), (220, 0)]);
        assert_eq!(
            divide(&past, 100, 300),
            [(A, 60), (B, 10), (Group::Kernel, 10)]
        );
        assert_eq!(divide(&past, 140, 205), [(A, 15), (B, 10)]);
        assert_eq!(divide(&past, 300, 400), []);
        // The running group has the time up to the moment.
        assert_eq!(divide(&past, 100, 155), [(A, 50), (B, 5)]);
        assert_eq!(divide(&Past::default(), 0, 100), []);
    }

    #[test]
    fn either_clock_can_be_ahead() {
        let at = |offset: i64| CpuSlot {
            clock_offset: offset.cast_unsigned(),
            ..Default::default()
        };
        assert_eq!(by_scheduler(1000, &at(300)), 700);
        assert_eq!(by_scheduler(1000, &at(-300)), 1300);
        // The moment is shortly after boot.
        assert_eq!(by_scheduler(100, &at(300)), 0);
    }

    #[test]
    fn stolen_time_is_charged_to_no_holder() {
        let mut past = past(&[(100, 7), (200, 8)]);
        past.ring[1].began.stolen = 40;
        assert_eq!(divide(&past, 100, 210), [(A, 60), (B, 10)]);
        assert_eq!(divide(&past, 150, 210), [(A, 30), (B, 10)]);
    }

    #[test]
    fn older_time_is_taken_from_epochs() {
        let mut past = past(&[(1000, 7)]);
        past.epochs_count = [2, 1];
        past.epochs[SHORT][0] = epoch(800, &[(7, 60), (8, 40)]);
        past.epochs[SHORT][1] = epoch(900, &[(8, 100)]);
        past.epochs[LONG][0] = epoch(600, &[(7, 200)]);
        assert_eq!(divide(&past, 850, 1010), [(B, 120), (A, 40)]);
        assert_eq!(divide(&past, 700, 1010), [(A, 170), (B, 140)]);
    }

    #[test]
    fn slices_in_an_epoch_do_not_count_twice() {
        let mut past = past(&[(1000, 7), (1100, 8), (1150, 7)]);
        past.folded = 1;
        past.epochs_count[SHORT] = 1;
        past.epochs[SHORT][0] = epoch(1000, &[(7, 100)]);
        assert_eq!(divide(&past, 1000, 1200), [(A, 150), (B, 50)]);
    }

    #[test]
    fn slices_moved_to_an_epoch_during_a_read_count_once() {
        // The header was read before slices were folded, and the epochs were read afterwards.
        let mut past = past(&[(1000, 7), (1100, 8), (1150, 7)]);
        past.epochs_count[SHORT] = 1;
        past.epochs[SHORT][0] = epoch(900, &[(7, 200), (8, 50)]);
        assert_eq!(divide(&past, 900, 1200), [(A, 250), (B, 50)]);
    }

    #[test]
    fn slice_overwritten_during_a_read_does_not_count() {
        const PLACES: usize = 64;
        let mut slices: Vec<(u64, i64)> = (0..72).map(|at| (at * 10, 7)).collect();
        slices[71].1 = 8;
        let mut past = past(&slices);
        assert_eq!(past.ring.len(), PLACES);
        // The newest slice overwrites the oldest one, and `count` does not include it yet.
        past.ring[72 % PLACES].began.clock = 720;
        past.ring[72 % PLACES].runner = runner(8);
        assert_eq!(divide(&past, 0, 720), [(A, 620), (B, 10)]);
    }
}
