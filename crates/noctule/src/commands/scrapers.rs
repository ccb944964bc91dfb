//! Which figures each scraper of `/metrics` saw last.
//!
//! A series that is new to a scraper is shown to it at 0 first, because Prometheus counts differences of samples only.
//! What one scraper sees does not depend on others: each has an entry of its own.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Mutex, PoisonError};

use noctule_sinks::openmetrics::View;

/// Scrapers that are remembered. Newcomers beyond them get each series with its value.
const MOST: usize = 64;

/// A scraper that has not come for so long is forgotten, in nanoseconds: as far back Prometheus looks.
const FORGOTTEN_NS: u64 = 300_000_000_000;

/// The scrapers of one agent.
#[derive(Default)]
pub(super) struct Scrapers {
    hasher: RandomState,
    known: Mutex<HashMap<u64, Looks>>,
}

/// When the figures were taken that a scraper saw last, and at the look before.
#[derive(Clone, Copy)]
struct Looks {
    last_ns: u64,
    before: View,
}

impl Scrapers {
    /// What the scraper with this name sees of figures that were taken at that moment, and notes that it sees them. Two
    /// looks at the same figures are equal. `first_ns`: when the first figures were taken. A scraper that comes for the
    /// first time soon after them has been waiting for the agent: what began later is new to it.
    pub(super) fn look(&self, name: &str, first_ns: u64, taken_ns: u64) -> View {
        let key = self.hasher.hash_one(name);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let age_ns = |since_ns| taken_ns.saturating_sub(since_ns);
        known.retain(|_, looks| age_ns(looks.last_ns) <= FORGOTTEN_NS);
        let is_full = known.len() >= MOST;
        if let Some(looks) = known.get_mut(&key) {
            if looks.last_ns < taken_ns {
                looks.before = View::Since(looks.last_ns);
                looks.last_ns = taken_ns;
            }
            return looks.before;
        }
        let before = match age_ns(first_ns) <= FORGOTTEN_NS {
            true => View::Since(first_ns),
            false => View::Complete,
        };
        if is_full {
            return View::Complete;
        }
        let last_ns = taken_ns;
        known.insert(key, Looks { last_ns, before });
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn since(seconds: u64) -> View {
        View::Since(seconds * SECOND)
    }

    #[test]
    fn each_scraper_has_looks_of_its_own() {
        let scrapers = Scrapers::default();
        let look = |name, seconds: u64| scrapers.look(name, SECOND, seconds * SECOND);
        assert_eq!(look("a", 5), since(1), "it has waited for the agent");
        assert_eq!(look("a", 5), since(1), "the same figures again");
        assert_eq!(look("a", 10), since(5));
        assert_eq!(look("b", 400), View::Complete, "it is new to an old agent");
        assert_eq!(look("b", 460), since(400));
        assert_eq!(look("a", 461), View::Complete, "it was away for too long");
    }

    #[test]
    fn newcomers_take_nothing_from_scrapers_that_are_known() {
        let scrapers = Scrapers::default();
        let look = |name: &str, seconds: u64| scrapers.look(name, 0, seconds * SECOND);
        look("first", 1);
        for number in 0..2 * MOST {
            look(&number.to_string(), 2);
        }
        assert_eq!(look("first", 3), since(1));
        assert_eq!(look("late", 3), View::Complete);
    }
}
