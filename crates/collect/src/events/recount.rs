//! How many sockets are there, counted again when something was lost.
//!
//! Of a socket whose end no program has seen, because the kernel did not run it, nothing is left but
//! a count that is one too high. So the sockets that are there are taken over, one by one, to
//! counters of their own, and what is left in the ones before is not there any more
//! (`bpf/tcp/recount.bpf.h`).

use noctule_kernel::{Error, Events};

/// Looks at all sockets: what two have found is made up for, and one more takes over what began
/// meanwhile.
const PASSES: u32 = 3;

/// A recount, step by step.
#[derive(Default)]
pub(super) struct Recount {
    wanted: bool,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    /// `None` where not all sockets are seen: only what was missed of the others is made up for.
    parity: Option<usize>,
    passes: u32,
}

impl Recount {
    /// Something was lost.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether there is a step to make. What is lost while one is under way needs another one.
    pub(super) fn is_due(&self) -> bool {
        self.wanted || self.under_way.is_some()
    }

    /// Makes a step, if there is one to make. After the last one it returns the parity under which
    /// those are that are not there any more; it does so until [`Recount::finish`].
    pub(super) fn step(&mut self, kernel: &mut Events) -> Result<Option<usize>, Error> {
        if self.under_way.is_none() && std::mem::take(&mut self.wanted) {
            self.under_way = Some(UnderWay {
                parity: kernel.sees_all_sockets().then(|| kernel.begin_recount()),
                passes: 0,
            });
        }
        let Some(under_way) = &mut self.under_way else {
            return Ok(None);
        };
        kernel.recount_sockets()?;
        under_way.passes += 1;
        if under_way.passes < PASSES {
            return Ok(None);
        }
        let parity = under_way.parity;
        if parity.is_none() {
            self.finish();
        }
        Ok(parity)
    }

    /// They were dropped.
    pub(super) fn finish(&mut self) {
        self.under_way = None;
    }
}
