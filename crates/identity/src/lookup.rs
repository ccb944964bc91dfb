//! Threads that look up names, so that no other thread waits for a file system.
//!
//! A separate thread reads the files that may belong to a user other than root. Such a user can
//! mount a file system that never responds (FUSE), or create files that take long to read.
//! Therefore each user gets only a share of that thread's time.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use noctule_model::CgroupId;

use crate::names::{Answer, Query};

/// Maximum number of queries whose replies have not been taken. The queue does not allocate memory
/// in advance.
const QUEUE: usize = 4096;

/// Number of consecutive queries that count as one burst.
const BURST: usize = 256;

/// Maximum time that reading the files of one user may take in each [`PERIOD`].
const SHARE: Duration = Duration::from_millis(500);
const PERIOD: Duration = Duration::from_secs(10);

/// The kind of owner whose files a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Files of runtimes that root runs.
    Machine,
    /// Files that may belong to a user.
    Users,
}

impl Lane {
    pub(crate) const ALL: [Self; 2] = [Self::Machine, Self::Users];

    pub(crate) fn of(query: &Query) -> Self {
        match query.reads_of() {
            None => Self::Machine,
            Some(_) => Self::Users,
        }
    }

    const fn thread(self) -> &'static str {
        match self {
            Self::Machine => "noctule-names",
            Self::Users => "noctule-names-u",
        }
    }
}

/// A query and its result.
pub(crate) struct Reply {
    pub(crate) cgroup: CgroupId,
    pub(crate) query: Query,
    pub(crate) answer: Answer,
}

/// Result of submitting a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    /// Too many queries have no reply yet. Try again later.
    Full,
    /// The thread has ended and will not reply.
    Gone,
}

/// Handle to the thread, which ends when the handle is dropped. Dropping does not wait, because the
/// thread may hang in a file system.
pub(crate) struct Lookups {
    questions: Sender<(CgroupId, Query)>,
    replies: Receiver<Reply>,
    /// Number of queries whose replies were not taken yet.
    open: usize,
    thread: JoinHandle<()>,
}

impl Lookups {
    /// Starts the thread, which calls `first` before anything else. `find` receives a query, and
    /// whether it is the first one of a burst.
    pub(crate) fn spawn(
        lane: Lane,
        first: fn(),
        find: impl FnMut(&Query, bool) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, inbox) = channel();
        let (outbox, replies) = channel();
        let thread = thread::Builder::new()
            .name(lane.thread().to_owned())
            .spawn(move || {
                first();
                serve(&inbox, &outbox, find);
            })?;
        Ok(Self {
            questions,
            replies,
            open: 0,
            thread,
        })
    }

    /// Returns the number of queries whose replies were not taken yet.
    pub(crate) const fn open(&self) -> usize {
        self.open
    }

    /// Submits a query without waiting.
    pub(crate) fn ask(&mut self, cgroup: CgroupId, query: Query) -> Asked {
        if self.thread.is_finished() || self.open < QUEUE {
            let sent = self.questions.send((cgroup, query));
            self.open += usize::from(sent.is_ok());
            return sent.map_or(Asked::Gone, |()| Asked::Yes);
        }
        Asked::Full
    }

    /// Returns the next reply, if there is one.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let reply = self.replies.try_recv().ok()?;
        self.open -= 1;
        Some(reply)
    }

    /// Waits for the next reply until `end`.
    pub(crate) fn reply_until(&mut self, end: Instant) -> Option<Reply> {
        let left = end.saturating_duration_since(Instant::now());
        let reply = self.replies.recv_timeout(left).ok()?;
        self.open -= 1;
        Some(reply)
    }
}

/// Time that the files of each user took in the current period.
struct Shares {
    since: Instant,
    taken: HashMap<String, Duration>,
}

impl Shares {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            taken: HashMap::new(),
        }
    }

    /// Runs the query, unless the user's share is used up.
    fn spend(&mut self, query: &Query, find: impl FnOnce() -> Answer) -> Answer {
        let Some(user) = query.reads_of() else {
            return find();
        };
        let begun = Instant::now();
        if begun.duration_since(self.since) >= PERIOD {
            self.since = begun;
            self.taken.clear();
        }
        let taken = self.taken.entry(user).or_default();
        if *taken >= SHARE {
            return Err(format!(
                "reading this user's container files took more than {} ms within {} s",
                SHARE.as_millis(),
                PERIOD.as_secs()
            ));
        }
        let answer = find();
        *taken += begun.elapsed();
        answer
    }
}

fn serve(
    inbox: &Receiver<(CgroupId, Query)>,
    outbox: &Sender<Reply>,
    mut find: impl FnMut(&Query, bool) -> Answer,
) {
    let mut in_burst = 0;
    let mut shares = Shares::new();
    loop {
        let question = match inbox.try_recv() {
            Err(TryRecvError::Empty) => {
                in_burst = 0;
                inbox.recv().ok()
            }
            question => question.ok(),
        };
        let Some((cgroup, query)) = question else {
            return;
        };
        let answer = shares.spend(&query, || find(&query, in_burst % BURST == 0));
        in_burst += 1;
        let reply = Reply {
            cgroup,
            query,
            answer,
        };
        if outbox.send(reply).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_its_own_share_of_search_time() {
        let query = |user| Query {
            machine_unit: None,
            path: "/user.slice/x".into(),
            container: None,
            user,
        };
        let mut shares = Shares::new();
        let mut asked = 0;
        let mut ask = |user, takes| {
            shares.spend(&query(user), || {
                asked += 1;
                thread::sleep(takes);
                Ok(None)
            })
        };
        assert!(ask(Some(1), SHARE).is_ok());
        assert!(ask(Some(1), Duration::ZERO).is_err());
        assert!(ask(Some(2), Duration::ZERO).is_ok());
        assert!(ask(None, SHARE).is_ok());
        assert!(ask(None, Duration::ZERO).is_ok());
        assert_eq!(asked, 4);
    }
}
