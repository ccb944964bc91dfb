//! For how long the stream is compared with what is there after a loss.

/// Until when the stream may lack something that no record will report.
#[derive(Debug)]
pub(super) struct Relist {
    /// How long a process is listed whose end was lost in the rings of events and of accounts, at least.
    grace_ns: u64,
    until_ns: u64,
    /// The last look left something open.
    unsettled: bool,
}

impl Relist {
    pub(super) fn new(grace_ns: u64) -> Self {
        Self {
            grace_ns,
            until_ns: 0,
            unsettled: false,
        }
    }

    /// Records were lost: a process may live whose start was not reported, and one may have ended whose end was not.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.until_ns = now_ns + self.grace_ns;
        self.unsettled = true;
    }

    /// Whether the stream has everything: no look is needed at this batch. `losing`: more was lost by now.
    /// `waits`: the batch has a process whose end is not reported and that the kernel no longer lists. Batches
    /// can be further apart than the grace, and it stays in some of them: the first without it is looked at too.
    pub(super) fn is_over(&mut self, now_ns: u64, losing: bool, waits: bool) -> bool {
        let open = now_ns < self.until_ns || losing || (self.unsettled && waits);
        let over = !open && !self.unsettled;
        self.unsettled = open;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_look_follows_the_last_that_left_something_open() {
        let mut relist = Relist::new(5);
        assert!(relist.is_over(1, false, true), "nothing was lost");
        relist.begin(10);
        assert!(!relist.is_over(10, false, false));
        assert!(!relist.is_over(20, false, true), "a process is in doubt");
        assert!(!relist.is_over(30, false, true));
        assert!(!relist.is_over(40, false, false), "it is in no list now");
        assert!(relist.is_over(50, false, false));
        assert!(!relist.is_over(60, true, false), "the gap is not told yet");
    }
}
