//! Decides when the agent collects.
//!
//! The agent collects once per interval while a client views the page, and while something records
//! every batch. At other times only scrapes and the windows of verdicts need batches, and the agent
//! collects when a scrape arrives.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use noctule_model::{Batch, MapFill};

use crate::config::Config;
use crate::stop::Waker;
use crate::wire;

/// How long after the last request of a client the agent still collects once per interval. The
/// page's stream ends after 25 s, and the page then opens the next one.
const VIEWED_NS: u64 = 30_000_000_000;

/// How long a request waits for a batch. The client then receives the previous batch.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Number of batches that may be missed, and additional time, before the agent counts as stalled.
const PATIENT_BATCHES: u64 = 4;
const PATIENT_NS: u64 = 1_000_000_000;

/// The times of batches. All times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug)]
struct Schedule {
    interval_ns: u64,
    /// The interval while only scrapes and verdicts need batches.
    unwatched_ns: u64,
    /// Whether each interval needs a batch even without clients.
    always: bool,
    /// When the last collection was begun.
    begun_ns: u64,
    /// When the collection of the last published batch was begun.
    taken_ns: u64,
    /// When the batch was due that failed collections have not provided yet.
    missed_ns: Option<u64>,
    /// When the next batch is due.
    due_ns: u64,
    viewed_ns: Option<u64>,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    /// The next batch is now due earlier.
    earlier: bool,
    /// The last batch is older than an interval.
    batch: bool,
}

impl Schedule {
    fn new(config: &Config, always: bool, now_ns: u64) -> Self {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        Self {
            interval_ns: ns(config.interval()),
            unwatched_ns: ns(config.longest_interval()),
            always,
            begun_ns: now_ns,
            taken_ns: now_ns,
            missed_ns: None,
            due_ns: now_ns,
            viewed_ns: None,
        }
    }

    /// Handles a request for the last batch. `views` means that more requests will follow.
    fn request(&mut self, now_ns: u64, views: bool) -> Need {
        if views {
            self.viewed_ns = Some(now_ns);
        }
        let next_ns = self.begun_ns + self.interval_ns;
        // During a collection, the last published batch can be old.
        let batch = self.taken_ns + self.interval_ns <= now_ns;
        let earlier = (views || batch) && next_ns.max(now_ns) < self.due_ns;
        if earlier {
            self.due_ns = next_ns.max(now_ns);
        }
        Need { earlier, batch }
    }

    /// Records whether a collection has provided the batch that was due.
    fn end(&mut self, published: bool) {
        if published {
            self.taken_ns = self.begun_ns;
            self.missed_ns = None;
        } else {
            self.missed_ns.get_or_insert(self.due_ns);
        }
    }

    /// Sets when the next batch is due.
    fn plan(&mut self, now_ns: u64, crowded: bool, window_ns: Option<u64>) {
        let viewed = |at: u64| now_ns.saturating_sub(at) < VIEWED_NS;
        let next_ns = self.due_ns + self.interval_ns;
        let next_ns = match self.always || crowded || self.viewed_ns.is_some_and(viewed) {
            true => next_ns,
            false => (self.due_ns + self.unwatched_ns)
                .min(window_ns.unwrap_or(u64::MAX))
                .max(next_ns),
        };
        // Skips the batches that were missed while the machine was suspended or the process was
        // stopped.
        self.due_ns = next_ns.max(now_ns);
    }

    fn is_overdue(&self, now_ns: u64) -> bool {
        let due_ns = self.missed_ns.unwrap_or(self.due_ns);
        now_ns > due_ns + PATIENT_BATCHES * self.interval_ns + PATIENT_NS
    }
}

/// Returns whether a table of the kernel side is more than three quarters full. Its idle rows are
/// deleted only when a batch is taken.
pub(crate) fn is_crowded(batch: &Batch) -> bool {
    let fills = |map: &MapFill| 4 * map.entries > 3 * map.capacity;
    batch.agent.maps.iter().any(fills)
}

/// The schedule of the agent's batches, shared by the pipeline's thread and the threads that
/// respond to clients.
pub(crate) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
    waker: Option<Waker>,
}

struct State {
    schedule: Schedule,
    /// Number of collections, including failed ones.
    collections: u64,
    closed: bool,
}

impl Pace {
    /// Creates a schedule whose first batch is due at `now_ns`. `always` means that each interval
    /// needs a batch even without clients. `waker` wakes the pipeline's thread.
    pub(crate) fn new(config: &Config, always: bool, waker: Option<Waker>, now_ns: u64) -> Self {
        Self {
            state: Mutex::new(State {
                schedule: Schedule::new(config, always, now_ns),
                collections: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            waker,
        }
    }

    /// Returns when the next batch is due.
    pub(crate) fn due(&self) -> Instant {
        let left_ns = (self.state().schedule.due_ns).saturating_sub(wire::now_ns());
        Instant::now() + Duration::from_nanos(left_ns)
    }

    /// Returns whether a batch is due now.
    pub(crate) fn is_due(&self) -> bool {
        self.state().schedule.due_ns <= wire::now_ns()
    }

    /// Records that a collection begins at this time.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.state().schedule.begun_ns = now_ns;
    }

    /// Ends a collection, and plans the next one. `published` means that the collection did not
    /// fail. `crowded` means that an interval must not pass without a batch. `window_ns` is the end
    /// of the window of verdicts.
    pub(crate) fn end(&self, now_ns: u64, published: bool, crowded: bool, window_ns: Option<u64>) {
        let mut state = self.state();
        state.schedule.end(published);
        state.schedule.plan(now_ns, crowded, window_ns);
        state.collections += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Makes the next batch due as soon as an interval has passed since the last one.
    pub(crate) fn hurry(&self) {
        let mut state = self.state();
        let schedule = &mut state.schedule;
        schedule.due_ns = schedule
            .due_ns
            .min(schedule.begun_ns + schedule.interval_ns);
    }

    /// Waits for a new batch if the last one is older than an interval. Does not wait for a stalled
    /// pipeline.
    pub(crate) fn refresh(&self) {
        self.request(false);
    }

    /// Like [`Self::refresh`], for a client whose further requests need a batch per interval.
    pub(crate) fn view(&self) {
        self.request(true);
    }

    /// Like [`Self::view`], without waiting.
    pub(crate) fn follow(&self) {
        self.demand(&mut self.state(), true);
    }

    fn request(&self, views: bool) {
        let mut state = self.state();
        let need = self.demand(&mut state, views);
        if !need.batch || state.schedule.is_overdue(wire::now_ns()) {
            return;
        }
        let before = state.collections;
        let waits = |state: &mut State| state.collections == before && !state.closed;
        let _ = self.changed.wait_timeout_while(state, LONGEST_WAIT, waits);
    }

    fn demand(&self, state: &mut State, views: bool) -> Need {
        let need = state.schedule.request(wire::now_ns(), views);
        if need.earlier
            && let Some(waker) = &self.waker
        {
            waker.wake();
        }
        need
    }

    /// Returns whether the pipeline is stalled at this time.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        self.state().schedule.is_overdue(now_ns)
    }

    /// Ends all waits, because no further batch will arrive.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Ignores poisoning: no code panics while it holds the lock, and the state is always
    /// consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns a schedule whose first batch was taken at 0 s.
    fn schedule(always: bool) -> Schedule {
        let mut config = Config::default();
        config.collect.unwatched_interval_seconds = 10.0;
        let mut schedule = Schedule::new(&config, always, 0);
        schedule.plan(0, false, None);
        schedule
    }

    /// Takes the batch that is due, and returns its time in seconds.
    fn collect(schedule: &mut Schedule, window_seconds: u64) -> u64 {
        let now_ns = schedule.due_ns;
        schedule.begun_ns = now_ns;
        schedule.end(true);
        schedule.plan(now_ns, false, Some(window_seconds * SECOND));
        now_ns / SECOND
    }

    #[test]
    fn without_clients_the_windows_of_verdicts_decide_when_to_collect() {
        let mut schedule = schedule(false);
        let times = [17, 24, 34].map(|window| collect(&mut schedule, window));
        assert_eq!(times, [10, 17, 24], "each at the end of the window before");
        schedule.plan(24 * SECOND, false, Some(24 * SECOND + 1));
        assert_eq!(
            schedule.due_ns / SECOND,
            35,
            "an interval passes between two"
        );
    }

    #[test]
    fn what_records_each_batch_gets_one_per_interval() {
        let mut schedule = schedule(true);
        let times = [10; 3].map(|window| collect(&mut schedule, window));
        assert_eq!(times, [1, 2, 3]);
    }

    #[test]
    fn a_scrape_gets_a_batch_of_the_last_interval() {
        let mut schedule = schedule(false);
        let need = |earlier, batch| Need { earlier, batch };
        assert_eq!(schedule.request(SECOND / 2, false), need(false, false));
        assert_eq!(schedule.due_ns, 10 * SECOND);
        assert_eq!(schedule.request(5 * SECOND, false), need(true, true));
        assert_eq!(schedule.request(5 * SECOND + 1, false), need(false, true));
        assert_eq!(collect(&mut schedule, 10), 5);
        assert_eq!(collect(&mut schedule, 20), 10);
        assert_eq!(schedule.request(10 * SECOND + 1, false), need(false, false));
    }

    #[test]
    fn a_viewer_gets_a_batch_per_interval_for_half_a_minute() {
        let mut schedule = schedule(false);
        let need = schedule.request(SECOND / 2, true);
        assert_eq!((need.earlier, need.batch), (true, false));
        let times = (0..40).map(|_| collect(&mut schedule, 1000));
        let times: Vec<u64> = times.collect();
        assert_eq!(times[..30], (1..31).collect::<Vec<u64>>());
        assert_eq!(times[30..32], [31, 41]);
    }

    #[test]
    fn scrape_during_a_collection_waits_for_it() {
        let mut schedule = schedule(false);
        schedule.request(5 * SECOND, false);
        schedule.begun_ns = 5 * SECOND;
        let need = schedule.request(5 * SECOND + 1, false);
        assert_eq!((need.earlier, need.batch), (false, true));
        schedule.end(true);
        schedule.plan(5 * SECOND + 2, false, None);
        assert!(!schedule.request(5 * SECOND + 3, false).batch);
    }

    #[test]
    fn failed_collections_are_overdue_from_the_first_one() {
        let mut schedule = schedule(true);
        for second in 1..=6 {
            assert!(!schedule.is_overdue(second * SECOND));
            schedule.begun_ns = second * SECOND;
            schedule.end(false);
            schedule.plan(second * SECOND, true, None);
        }
        assert!(schedule.request(6 * SECOND + 1, false).batch);
        assert!(schedule.is_overdue(6 * SECOND + 1));
        schedule.end(true);
        assert!(!schedule.is_overdue(6 * SECOND + 1));
    }

    #[test]
    fn tables_that_fill_up_need_a_batch_per_interval() {
        let mut schedule = schedule(false);
        schedule.plan(10 * SECOND, true, None);
        assert_eq!(schedule.due_ns, 11 * SECOND);
    }

    #[test]
    fn a_batch_that_is_not_due_is_not_overdue() {
        let mut schedule = schedule(false);
        assert!(!schedule.is_overdue(15 * SECOND));
        assert!(schedule.is_overdue(15 * SECOND + 1));
        schedule.request(5 * SECOND, false);
        assert!(!schedule.is_overdue(10 * SECOND));
        assert!(schedule.is_overdue(10 * SECOND + 1));
    }
}
