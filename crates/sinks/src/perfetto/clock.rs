//! The clock of a trace: the time since boot. The wall clock may be set while a trace is recorded.

use noctule_model::Batch;

/// If the boot time that the wall clock implies changes by more than this, the wall clock was set.
const SET_NS: u64 = 100_000_000;

/// Time since the first recorded boot. The clock continues across later boots.
#[derive(Debug, Default)]
pub(super) struct Clock {
    boot: String,
    is_new_boot: bool,
    /// Trace times of the previous batch and of the last one.
    batches: [u64; 2],
    /// Wall-clock times at which this clock was 0, according to these two batches, in nanoseconds
    /// since 1970.
    zeros: Option<[i64; 2]>,
    /// The difference between the time of this clock and the time since the current boot.
    behind_ns: i64,
}

impl Clock {
    /// Handles a restart of the agent. `boot` identifies the current boot of the machine.
    pub(super) fn restart(&mut self, boot: &str) {
        self.is_new_boot = self.zeros.is_some() && self.boot != boot;
        self.boot = boot.to_owned();
    }

    /// Advances to the next batch. If the wall clock was set, returns trace times with the
    /// wall-clock time at each.
    ///
    /// One of these is a reading of the old wall clock just before the change. Perfetto requires
    /// that no time before a clock snapshot is later than the snapshot.
    pub(super) fn advance(&mut self, batch: &Batch) -> Vec<(u64, u64)> {
        let at = batch.time_unix_ns.cast_signed();
        let boot = batch.boot_unix_ns.cast_signed();
        let known = self.zeros.map(|[_, last]| last);
        if let Some(known) = known.filter(|_| std::mem::take(&mut self.is_new_boot)) {
            // Only the wall clock continues across boots. If the wall clock went back, the new boot
            // directly follows the old one.
            let latest = at - self.batches[1].cast_signed() - 1;
            self.behind_ns = boot - known.min(latest);
        }
        let zero = boot - self.behind_ns;
        let zero = known
            .filter(|known| known.abs_diff(zero) <= SET_NS)
            .unwrap_or(zero);
        self.zeros = Some([known.unwrap_or(zero), zero]);
        self.batches = [self.batches[1], moment(zero, batch.time_unix_ns)];
        let reading = |at: u64, zero| (at, at.saturating_add_signed(zero));
        let last = self.batches[1];
        match known {
            None => vec![reading(0, zero)],
            Some(known) if known == zero => Vec::new(),
            Some(known) => vec![reading(last.saturating_sub(1), known), reading(last, zero)],
        }
    }

    /// Returns the trace time of the last batch.
    pub(super) fn last(&self) -> u64 {
        self.batches[1]
    }

    /// Returns the trace time of the previous batch.
    pub(super) fn before(&self) -> u64 {
        self.batches[0]
    }

    /// Returns the trace time of an event between the two batches. The wall clock may have been set
    /// between them, so the time is converted with both readings. Nearly always, exactly one of the
    /// results is between the batches.
    pub(super) fn of_event(&self, unix_ns: u64) -> u64 {
        let [before, last] = self.zeros.unwrap_or_default();
        let [by_before, by_last] = [moment(before, unix_ns), moment(last, unix_ns)];
        let is_inside = |at| (self.batches[0]..=self.batches[1]).contains(&at);
        match is_inside(by_before) && !is_inside(by_last) {
            true => by_before,
            false => by_last,
        }
    }
}

fn moment(zero_unix_ns: i64, unix_ns: u64) -> u64 {
    unix_ns.saturating_add_signed(-zero_unix_ns)
}
