//! Converts between time since boot, which the kernel side uses, and dates.

use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Boot time may drift by this much before the wall clock counts as set. The computed boot time
/// varies slightly at each reading. The creation date of a process must not vary, because it is
/// part of the process's name.
const SET_NS: u64 = 100_000_000;

/// Maximum number of boot times to keep. Each change of the wall clock adds one, and the oldest is
/// dropped.
const MOST_BOOTS: usize = 1000;

static BOOTS: Mutex<Boots> = Mutex::new(Boots::new());

/// Difference between the boot clock of the time namespace and the kernel's boot clock, in
/// nanoseconds.
static AHEAD_NS: LazyLock<i64> = LazyLock::new(|| {
    // If only child processes are in a new time namespace, the file has the offsets of that
    // namespace, which do not apply to the agent's own clock.
    let namespace = |name| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    match namespace("time") == namespace("time_for_children") {
        true => boottime_of(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default()),
        false => 0,
    }
});

/// Returns the offset of `boottime` in nanoseconds; 0 if the kernel has no time namespaces.
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

/// Returns nanoseconds since boot, including suspended time, as the kernel counts them outside of
/// time namespaces.
pub(crate) fn since_boot_ns() -> u64 {
    let up = clock_gettime(ClockId::Boottime);
    let up_ns = up.tv_sec as u64 * 1_000_000_000 + up.tv_nsec as u64;
    up_ns.saturating_add_signed(AHEAD_NS.saturating_neg())
}

/// Returns the current time and the boot time, in nanoseconds since 1970. The boot time does not
/// change until the clock is set.
pub(crate) fn wall_clock() -> (u64, u64) {
    let mut boots = BOOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    (now, boots.update(now, since_boot_ns()))
}

/// Returns the creation date of a process that started `start_ns` after boot, according to the wall
/// clock at that time. Setting the clock later does not change the date.
pub(crate) fn created_unix_ns(start_ns: u64) -> u64 {
    let boots = BOOTS.lock().unwrap_or_else(PoisonError::into_inner);
    boots.at(start_ns).saturating_add(start_ns)
}

/// Boot times according to the wall clock, since the agent started.
struct Boots {
    /// Pairs of a boot time and the time since boot from which it applies. The first pair also
    /// applies to earlier times.
    known: Vec<(u64, u64)>,
    /// Time since boot at the last reading.
    looked_ns: u64,
}

impl Boots {
    const fn new() -> Self {
        Self {
            known: Vec::new(),
            looked_ns: 0,
        }
    }

    /// Returns the current boot time, given the readings of both clocks.
    fn update(&mut self, now_unix_ns: u64, since_boot_ns: u64) -> u64 {
        let boot = now_unix_ns.saturating_sub(since_boot_ns);
        let looked_ns = std::mem::replace(&mut self.looked_ns, since_boot_ns);
        match self.known.last() {
            Some((_, known)) if known.abs_diff(boot) <= SET_NS => *known,
            _ => {
                if self.known.len() == MOST_BOOTS {
                    self.known.remove(0);
                }
                // The new boot time applies from the last reading, because no process that started
                // since that reading has a date yet.
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
    fn process_start_time_survives_clock_changes() {
        const S: u64 = 1_000_000_000;
        let mut boots = Boots::new();
        assert_eq!(boots.at(5 * S), 0);
        let looks = [
            // Time since boot, wall clock, and expected boot time.
            (100 * S, 1_000_100 * S, 1_000_000 * S),
            (101 * S, 1_000_101 * S + SET_NS, 1_000_000 * S),
            // The clock is set back, and then forward.
            (110 * S, 900_110 * S, 900_000 * S),
            (120 * S, 2_000_120 * S, 2_000_000 * S),
            (130 * S, 2_000_130 * S, 2_000_000 * S),
        ];
        for (since_boot, shown, boot) in looks {
            assert_eq!(boots.update(shown, since_boot), boot);
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
            boots.update(3_000_000 * S * (1 + second % 2), (200 + second) * S);
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
