//! The clock of a trace: the time since boot. The wall clock may be set while it goes on.

use noctule_model::Batch;

/// As long as the moment of boot moves less, nobody has set the wall clock.
const SET_NS: u64 = 100_000_000;

/// The time since boot, of the first boot that is recorded. Those of later boots follow it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    boot: String,
    is_new_boot: bool,
    /// Moments of the batch before the last one, and of the last one.
    batches: [u64; 2],
    /// Wall-clock time at which it was 0, nanoseconds since 1970, as these batches have it.
    zeros: Option<[i64; 2]>,
    /// The time since this boot lies so far before this clock.
    behind_ns: i64,
}

impl Clock {
    /// The program was started again, in this boot of the machine.
    pub(super) fn restart(&mut self, boot: &str) {
        self.is_new_boot = self.zeros.is_some() && self.boot != boot;
        self.boot = boot.to_owned();
    }

    /// Goes on to the next batch. Returns moments with what the wall clock showed then, where it goes differently from
    /// the last batch on: also the end of how it went before, because Perfetto lets no time before a reading of both
    /// clocks be later than that reading.
    pub(super) fn advance(&mut self, batch: &Batch) -> Vec<(u64, u64)> {
        let at = batch.time_unix_ns.cast_signed();
        let boot = batch.boot_unix_ns.cast_signed();
        let known = self.zeros.map(|[_, last]| last);
        if let Some(known) = known.filter(|_| std::mem::take(&mut self.is_new_boot)) {
            // Only the wall clock goes on from boot to boot. Where it went back, the boots follow at once.
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

    /// The moment of the last batch.
    pub(super) fn last(&self) -> u64 {
        self.batches[1]
    }

    /// The moment of the batch before.
    pub(super) fn before(&self) -> u64 {
        self.batches[0]
    }

    /// The moment of an event that was seen between the two batches. Each may have its own wall clock: only one of them
    /// puts it between the two, or nearly always so.
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
