//! Selects the next test to run.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

/// A test and its needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    /// Whether no other test may run at the same time.
    pub(super) alone: bool,
    /// Parts of the machine that no other test may use at the same time.
    parts: BTreeSet<String>,
}

impl Test {
    /// Parses the needs that a test declares: `alone`, or `shared` followed by names of parts.
    pub(super) fn new(name: &str, wants: &str) -> Result<Self> {
        let mut words = wants.split(' ');
        let alone = match words.next() {
            Some("alone") => true,
            Some("shared") => false,
            _ => bail!("{name} declares `{wants}`: expected `alone` or `shared`"),
        };
        Ok(Self {
            name: name.to_owned(),
            alone,
            parts: words.map(str::to_owned).collect(),
        })
    }
}

/// Waiting tests, and the parts of the machine that running tests occupy.
pub(super) struct Queue {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    waiting: Vec<Test>,
    taken: BTreeSet<String>,
}

impl Queue {
    /// Creates a queue. Tests that need a part exclusively come first, because they wait for each
    /// other. The other tests fill the gaps.
    pub(super) fn new(mut tests: Vec<Test>) -> Self {
        tests.sort_by_key(|test| test.parts.is_empty());
        let state = State {
            waiting: tests,
            taken: BTreeSet::new(),
        };
        Self {
            state: Mutex::new(state),
            released: Condvar::new(),
        }
    }

    /// Waits for a test whose parts are free and returns it. Returns `None` if no tests are left.
    pub(super) fn take(&self) -> Option<Test> {
        let mut state = self.state();
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            let taken = &state.taken;
            let free = |test: &Test| test.parts.is_disjoint(taken);
            if let Some(at) = state.waiting.iter().position(free) {
                let test = state.waiting.remove(at);
                state.taken.extend(test.parts.iter().cloned());
                return Some(test);
            }
            let waiting = self.released.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Releases the parts of a finished test.
    pub(super) fn release(&self, test: &Test) {
        self.state().taken.retain(|part| !test.parts.contains(part));
        self.released.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, wants: &str) -> Test {
        Test::new(name, wants).expect("right words")
    }

    fn taken(queue: &Queue) -> Test {
        queue.take().expect("a test is free")
    }

    #[test]
    fn tests_wait_only_for_parts_they_need() {
        let queue = Queue::new(vec![
            test("other", "shared"),
            test("first", "shared cpu"),
            test("both", "shared cpu groups"),
            test("groups", "shared groups"),
        ]);
        let first = taken(&queue);
        assert_eq!(first.name, "first");
        // "both" waits for "first" and does not block other tests.
        let groups = taken(&queue);
        assert_eq!(groups.name, "groups");
        assert_eq!(taken(&queue).name, "other");
        queue.release(&first);
        queue.release(&groups);
        assert_eq!(taken(&queue).name, "both");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_test_waits_until_its_part_is_released() {
        let queue = Queue::new(vec![test("a", "shared cpu"), test("b", "shared cpu")]);
        let first = taken(&queue);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| taken(&queue));
            queue.release(&first);
            assert_eq!(second.join().expect("no panic").name, "b");
        });
    }

    #[test]
    fn unknown_needs_are_an_error() {
        let error = Test::new("a", "somehow").expect_err("a wrong word");
        assert!(error.to_string().contains("somehow"), "{error}");
    }
}
