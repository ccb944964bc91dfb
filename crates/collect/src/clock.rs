//! The time since boot, which the kernel side has, and the date.

use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// How far the moment of boot may move before it is believed: the wall clock was set. It moves a little at each look,
/// and the date at which a process was created is its name.
const SET_NS: u64 = 100_000_000;

/// How often the wall clock may be set. Of the moments of boot before that the oldest is forgotten.
const MOST_BOOTS: usize = 1000;

static BOOTS: Mutex<Boots> = Mutex::new(Boots::new());

/// How far the clock of our time namespace is ahead of the kernel's.
static AHEAD_NS: LazyLock<i64> = LazyLock::new(|| {
    // What was unshared and is for children alone is in the file, but not in our clock.
    let namespace = |name| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    match namespace("time") == namespace("time_for_children") {
        true => boottime_of(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default()),
        false => 0,
    }
});

/// Nanoseconds of `boottime` in a file of offsets; 0 where there are no such namespaces.
fn boottime_of(offsets: &str) -> i64 {
    let offset = offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let is_it = words.next() == Some("boottime");
        let mut number = || words.next()?.parse::<i64>().ok();
        let (seconds, nanoseconds) = is_it.then(|| Some((number()?, number()?)))??;
        Some(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    });
    offset.unwrap_or(0)
}

/// Nanoseconds since boot, those in which the machine slept included, as the kernel counts them in every namespace.
pub(crate) fn since_boot_ns() -> u64 {
    let up = clock_gettime(ClockId::Boottime);
    let up_ns = up.tv_sec as u64 * 1_000_000_000 + up.tv_nsec as u64;
    up_ns.saturating_add_signed(AHEAD_NS.saturating_neg())
}

/// Now and the moment of boot, in nanoseconds since 1970. That of boot stays the same until the clock is set.
pub(crate) fn wall_clock() -> (u64, u64) {
    let mut boots = BOOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    (now, boots.look(now, since_boot_ns()))
}

/// The date at which a process was created that began so long after boot, as the wall clock showed it then. It stays the
/// same when the clock is set.
pub(crate) fn created_unix_ns(start_ns: u64) -> u64 {
    let boots = BOOTS.lock().unwrap_or_else(PoisonError::into_inner);
    boots.at(start_ns).saturating_add(start_ns)
}

/// The moments of boot that the wall clock has had since the agent was started.
struct Boots {
    /// Each with the time since boot after which it held; the first one from the beginning on.
    known: Vec<(u64, u64)>,
    /// Time since boot at the last look.
    looked_ns: u64,
}

impl Boots {
    const fn new() -> Self {
        Self {
            known: Vec::new(),
            looked_ns: 0,
        }
    }

    /// The moment of boot by both clocks.
    fn look(&mut self, now_unix_ns: u64, since_boot_ns: u64) -> u64 {
        let boot = now_unix_ns.saturating_sub(since_boot_ns);
        let looked_ns = std::mem::replace(&mut self.looked_ns, since_boot_ns);
        match self.known.last() {
            Some((_, known)) if known.abs_diff(boot) <= SET_NS => *known,
            _ => {
                if self.known.len() == MOST_BOOTS {
                    self.known.remove(0);
                }
                // Whoever began since the last look has no date yet.
                self.known.push((looked_ns, boot));
                boot
            }
        }
    }

    fn at(&self, since_boot_ns: u64) -> u64 {
        let later = self
            .known
            .partition_point(|(after, _)| *after < since_boot_ns);
        self.known
            .get(later.saturating_sub(1))
            .map_or(0, |(_, boot)| *boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_date_when_the_wall_clock_is_set() {
        const S: u64 = 1_000_000_000;
        let mut boots = Boots::new();
        assert_eq!(boots.at(5 * S), 0);
        let looks = [
            // Time since boot, what the wall clock shows, and the moment of boot.
            (100 * S, 1_000_100 * S, 1_000_000 * S),
            (101 * S, 1_000_101 * S + SET_NS, 1_000_000 * S),
            // Set back, and ahead.
            (110 * S, 900_110 * S, 900_000 * S),
            (120 * S, 2_000_120 * S, 2_000_000 * S),
            (130 * S, 2_000_130 * S, 2_000_000 * S),
        ];
        for (since_boot, shown, boot) in looks {
            assert_eq!(boots.look(shown, since_boot), boot);
        }
        for (start, boot) in [
            (5, 1_000_000),
            (101, 1_000_000),
            (102, 900_000),
            (110, 900_000),
            (111, 2_000_000),
        ] {
            assert_eq!(boots.at(start * S), boot * S, "{start}");
        }
        for second in 0..2 * MOST_BOOTS as u64 {
            boots.look(3_000_000 * S * (1 + second % 2), (200 + second) * S);
        }
        assert_eq!(boots.known.len(), MOST_BOOTS);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let cases = [
            (
                "monotonic  50000 0\nboottime  100000 5\n",
                100_000_000_000_005,
            ),
            (
                "monotonic           0         0\nboottime          -2  500000000\n",
                -1_500_000_000,
            ),
            ("", 0),
            ("boottime x", 0),
        ];
        for (offsets, expected) in cases {
            assert_eq!(boottime_of(offsets), expected, "{offsets}");
        }
    }
}
