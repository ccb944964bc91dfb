//! Which test is next.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

/// A test, and what it needs of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    /// Nothing else may run.
    pub(super) alone: bool,
    /// Parts of the machine that it has for itself.
    parts: BTreeSet<String>,
}

impl Test {
    /// As the test says it: `alone`, or `shared` with names of parts.
    pub(super) fn new(name: &str, wants: &str) -> Result<Self> {
        let mut words = wants.split(' ');
        let alone = match words.next() {
            Some("alone") => true,
            Some("shared") => false,
            _ => bail!("{name} wants the machine {wants}: neither alone nor shared"),
        };
        Ok(Self {
            name: name.to_owned(),
            alone,
            parts: words.map(str::to_owned).collect(),
        })
    }
}

/// Tests that wait, and the parts of the machine that those have that run.
pub(super) struct Queue {
    state: Mutex<State>,
    given_back: Condvar,
}

struct State {
    waiting: Vec<Test>,
    taken: BTreeSet<String>,
}

impl Queue {
    /// Those that need a part for themselves come first: they are the ones that wait for each other,
    /// and the others fill the gaps.
    pub(super) fn new(mut tests: Vec<Test>) -> Self {
        tests.sort_by_key(|test| test.parts.is_empty());
        let state = State {
            waiting: tests,
            taken: BTreeSet::new(),
        };
        Self {
            state: Mutex::new(state),
            given_back: Condvar::new(),
        }
    }

    /// The next test whose parts are free, once there is one; none when no test is left.
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
            let waiting = self.given_back.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The test has ended.
    pub(super) fn give_back(&self, test: &Test) {
        self.state().taken.retain(|part| !test.parts.contains(part));
        self.given_back.notify_all();
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
    fn tests_that_need_the_same_part_wait_for_each_other_and_others_do_not() {
        let queue = Queue::new(vec![
            test("other", "shared"),
            test("first", "shared cpu"),
            test("both", "shared cpu groups"),
            test("groups", "shared groups"),
        ]);
        let first = taken(&queue);
        assert_eq!(first.name, "first");
        // "both" waits for the first, and keeps nobody else waiting.
        let groups = taken(&queue);
        assert_eq!(groups.name, "groups");
        assert_eq!(taken(&queue).name, "other");
        queue.give_back(&first);
        queue.give_back(&groups);
        assert_eq!(taken(&queue).name, "both");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_test_waits_in_another_thread_until_its_part_is_given_back() {
        let queue = Queue::new(vec![test("a", "shared cpu"), test("b", "shared cpu")]);
        let first = taken(&queue);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| taken(&queue));
            queue.give_back(&first);
            assert_eq!(second.join().expect("no panic").name, "b");
        });
    }

    #[test]
    fn a_test_that_says_neither_is_an_error() {
        let error = Test::new("a", "somehow").expect_err("a wrong word");
        assert!(error.to_string().contains("somehow"), "{error}");
    }
}
