//! Decides how long after a loss the event stream is compared with the live processes and sockets.

/// The period after a loss in which the stream may lack a change that no record will report.
#[derive(Debug)]
pub(super) struct Relist {
    /// Minimum time for which a process stays listed if its exit was lost in both the ring of
    /// events and the ring of accounts.
    grace_ns: u64,
    until_ns: u64,
    /// Whether the last check could not yet conclude that the stream is complete.
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

    /// Starts comparing after records were lost. The lost record may be the start of a live process
    /// or the exit of an ended process.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.until_ns = now_ns + self.grace_ns;
        self.unsettled = true;
    }

    /// Returns whether the stream is complete, so that this batch needs no comparison.
    ///
    /// `losing` means that more records were lost since the last check. `waits` means that the
    /// batch has a process that the kernel no longer lists and whose exit was not reported. Batches
    /// may be further apart than the grace period, and such a process stays in several batches. The
    /// first batch without the process is also compared.
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
    fn relist_ends_one_pass_after_the_last_doubt() {
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
