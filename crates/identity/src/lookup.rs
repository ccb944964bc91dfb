//! The thread that looks names up, so that nobody else ever waits for a file system.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Instant;

use noctule_model::CgroupId;

use crate::names::{Answer, Query};

/// Questions that wait at most, and answers that wait at most.
const QUEUE: usize = 4096;

/// Questions that are taken to have come together.
const BURST: usize = 256;

/// A question with its answer.
pub(crate) struct Reply {
    pub(crate) cgroup: CgroupId,
    pub(crate) query: Query,
    pub(crate) answer: Answer,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    /// The queue is full: ask again later.
    Full,
    /// The thread has ended: nobody will answer.
    Gone,
}

/// The caller's end. The thread ends when this is dropped; nobody waits for that, since it may
/// hang in a file system.
pub(crate) struct Lookups {
    questions: SyncSender<(CgroupId, Query)>,
    replies: Receiver<Reply>,
}

impl Lookups {
    /// `find` gets a question, and whether it is the first one of a burst. The thread does `first` before
    /// anything else.
    pub(crate) fn spawn(
        first: fn(),
        find: impl FnMut(&Query, bool) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, inbox) = sync_channel(QUEUE);
        let (outbox, replies) = sync_channel(QUEUE);
        thread::Builder::new()
            .name("noctule-names".to_owned())
            .spawn(move || {
                first();
                serve(&inbox, &outbox, find);
            })?;
        Ok(Self { questions, replies })
    }

    /// Asks without waiting.
    pub(crate) fn ask(&self, cgroup: CgroupId, query: Query) -> Asked {
        match self.questions.try_send((cgroup, query)) {
            Ok(()) => Asked::Yes,
            Err(TrySendError::Full(_)) => Asked::Full,
            Err(TrySendError::Disconnected(_)) => Asked::Gone,
        }
    }

    /// The next reply that is there.
    pub(crate) fn reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }

    /// The next reply, which is waited for until then.
    pub(crate) fn reply_until(&self, end: Instant) -> Option<Reply> {
        let left = end.saturating_duration_since(Instant::now());
        self.replies.recv_timeout(left).ok()
    }
}

fn serve(
    inbox: &Receiver<(CgroupId, Query)>,
    outbox: &SyncSender<Reply>,
    mut find: impl FnMut(&Query, bool) -> Answer,
) {
    let mut in_burst = 0;
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
        let answer = find(&query, in_burst % BURST == 0);
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
