//! Tracks the last snapshot that each scraper of `/metrics` received.
//!
//! A series that is new to a scraper is first exposed at 0, because Prometheus computes increases
//! from differences between samples. Each scraper has its own entry, so scrapers do not affect each
//! other.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use noctule_sinks::openmetrics::View;
use noctule_web::{Peer, Scraper};

/// Maximum number of tracked scrapers.
const MOST: usize = 256;

/// Time in nanoseconds after which a silent scraper is dropped. The time equals the lookback of
/// Prometheus.
const FORGOTTEN_NS: u64 = 300_000_000_000;

/// The scrapers of one agent.
#[derive(Default)]
pub(super) struct Scrapers {
    hasher: RandomState,
    known: Mutex<Known>,
    untracked: AtomicU64,
}

#[derive(Default)]
struct Known(HashMap<u64, Looks>);

/// State of one scraper. Each time is when a snapshot was taken, in nanoseconds.
#[derive(Clone, Copy)]
struct Looks {
    peer: Option<Peer>,
    /// Time of the snapshot in the last page that was generated for the scraper.
    asked_ns: u64,
    /// Time of the snapshot in the last page that was sent to the scraper.
    seen_ns: Option<u64>,
    /// View of the last page that was sent. If no page was sent yet, view of the first page that
    /// will be sent.
    view: View,
    /// Whether the scraper requested more than one snapshot.
    has_returned: bool,
}

impl Looks {
    /// Returns the view of a snapshot taken at `taken_ns`.
    fn view(&self, taken_ns: u64) -> View {
        let before = self.seen_ns.filter(|seen_ns| *seen_ns < taken_ns);
        before.map_or(self.view, View::Since)
    }
}

impl Scrapers {
    /// Returns the view of a snapshot for this scraper; repeated calls for one snapshot return the
    /// same view. `first_ns` is the time of the agent's first snapshot. If a scraper appears soon
    /// after that time, it was already waiting for the agent, so series that began later are new to
    /// it.
    pub(super) fn view_for(&self, scraper: &Scraper, first_ns: u64, taken_ns: u64) -> View {
        let key = self.key(scraper);
        let mut known = self.known();
        let age_ns = |since_ns| taken_ns.saturating_sub(since_ns);
        known
            .0
            .retain(|_, looks| age_ns(looks.asked_ns) <= FORGOTTEN_NS);
        if let Some(looks) = known.0.get_mut(&key) {
            looks.has_returned |= looks.asked_ns < taken_ns;
            looks.asked_ns = looks.asked_ns.max(taken_ns);
            return looks.view(taken_ns);
        }
        if !known.make_room(scraper.peer) {
            self.untracked.fetch_add(1, Ordering::Relaxed);
            return View::Complete;
        }
        let view = match age_ns(first_ns) <= FORGOTTEN_NS {
            true => View::Since(first_ns),
            false => View::Complete,
        };
        let looks = Looks {
            peer: scraper.peer,
            asked_ns: taken_ns,
            seen_ns: None,
            view,
            has_returned: false,
        };
        known.0.insert(key, looks);
        view
    }

    /// Records that the page with this snapshot was sent. Series that this page exposed as 0 have
    /// their real value in later pages.
    pub(super) fn record_sent(&self, scraper: &Scraper, taken_ns: u64) {
        let key = self.key(scraper);
        if let Some(looks) = self.known().0.get_mut(&key)
            && looks.seen_ns.is_none_or(|seen_ns| seen_ns < taken_ns)
        {
            looks.view = looks.view(taken_ns);
            looks.seen_ns = Some(taken_ns);
        }
    }

    fn key(&self, scraper: &Scraper) -> u64 {
        self.hasher.hash_one(&scraper.name)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of scrapes by scrapers that could not be tracked.
    pub(super) fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }
}

impl Known {
    /// Makes room for a new scraper of this peer; returns false if the table stays full. The peer
    /// with the most entries loses one if it has at least two more than this peer. Otherwise this
    /// peer loses a scraper that requested only one snapshot.
    fn make_room(&mut self, peer: Option<Peer>) -> bool {
        if self.0.len() < MOST {
            return true;
        }
        let mut places: HashMap<Option<Peer>, usize> = HashMap::new();
        for looks in self.0.values() {
            *places.entry(looks.peer).or_default() += 1;
        }
        let own = places.get(&peer).copied().unwrap_or(0);
        let most = places
            .iter()
            .max_by_key(|(peer, places)| (**places, **peer));
        let giver = most.filter(|(_, places)| **places >= own + 2);
        let (from, takes_any) = giver.map_or((peer, false), |(giver, _)| (*giver, true));
        let may_go = |looks: &Looks| looks.peer == from && (takes_any || !looks.has_returned);
        let able = self.0.iter().filter(|(_, looks)| may_go(looks));
        let oldest = able.min_by_key(|(_, looks)| (looks.has_returned, looks.asked_ns));
        let Some(key) = oldest.map(|(key, _)| *key) else {
            return false;
        };
        self.0.remove(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn since(seconds: u64) -> View {
        View::Since(seconds * SECOND)
    }

    fn scraper(name: &str, address: u8) -> Scraper {
        Scraper {
            name: format!("{address} {name}"),
            peer: Some(Peer::from_address(Ipv4Addr::new(192, 0, 2, address).into())),
        }
    }

    /// Requests the snapshot of that second and receives its page.
    fn scrape(scrapers: &Scrapers, scraper: &Scraper, first: u64, seconds: u64) -> View {
        let view = scrapers.view_for(scraper, first * SECOND, seconds * SECOND);
        scrapers.record_sent(scraper, seconds * SECOND);
        view
    }

    #[test]
    fn unsent_page_does_not_count_as_seen() {
        let (scrapers, scraper) = (Scrapers::default(), scraper("a", 1));
        assert_eq!(scrape(&scrapers, &scraper, 1, 5), since(1));
        let cut = |seconds: u64| scrapers.view_for(&scraper, SECOND, seconds * SECOND);
        assert_eq!(cut(10), since(5));
        assert_eq!(cut(15), since(5));
        assert_eq!(scrape(&scrapers, &scraper, 1, 15), since(5));
        assert_eq!(cut(15), since(5), "the same figures again");
        assert_eq!(cut(20), since(15));
    }

    #[test]
    fn each_scraper_is_tracked_separately() {
        let scrapers = Scrapers::default();
        let look = |name, seconds: u64| scrape(&scrapers, &scraper(name, 1), 1, seconds);
        assert_eq!(look("a", 5), since(1), "it has waited for the agent");
        assert_eq!(look("a", 5), since(1), "the same figures again");
        assert_eq!(look("a", 10), since(5));
        assert_eq!(look("b", 400), View::Complete, "it is new to an old agent");
        assert_eq!(look("b", 460), since(400));
        assert_eq!(look("a", 461), View::Complete, "it was away for too long");
    }

    #[test]
    fn flood_from_one_address_displaces_no_others() {
        let scrapers = Scrapers::default();
        let look = |name: &str, address, seconds: u64| {
            scrape(&scrapers, &scraper(name, address), 0, seconds)
        };
        let flood = |seconds| {
            for number in 0..2 * MOST {
                look(&number.to_string(), 9, seconds);
            }
        };
        look("first", 1, 1);
        flood(2);
        assert_eq!(look("first", 1, 3), since(1));
        // The flood has more entries than the peer of the new scraper.
        look("late", 2, 3);
        flood(4);
        assert_eq!(look("late", 2, 5), since(3));
        assert_eq!(scrapers.untracked(), 0);
    }

    #[test]
    fn returning_scraper_of_a_flooding_address_keeps_its_place() {
        let scrapers = Scrapers::default();
        let look = |name: &str, seconds: u64| scrape(&scrapers, &scraper(name, 1), 0, seconds);
        look("regular", 1);
        look("regular", 2);
        for number in 0..2 * MOST {
            look(&number.to_string(), 3);
        }
        assert_eq!(look("regular", 4), since(2));
        // Each entry belongs to a scraper that came more than once.
        for seconds in [5, 6] {
            for number in MOST + 1..2 * MOST {
                look(&number.to_string(), seconds);
            }
        }
        assert_eq!(scrapers.untracked(), 0);
        assert_eq!(look("late", 7), View::Complete);
        assert_eq!(scrapers.untracked(), 1);
    }
}
