//! A figure of the kernel over time, for comparison with a figure that noctule took at some moment.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::now;
use super::reading::Reading;

/// Reads figures every few milliseconds in the background.
pub(crate) struct Recorder<T> {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Entry<T>>>,
}

struct Entry<T> {
    before: f64,
    after: f64,
    value: T,
}

/// The figures that were read.
pub(crate) struct Record<T>(Vec<Entry<T>>);

impl<T: Send + 'static> Recorder<T> {
    /// Starts to read.
    pub(crate) fn start(read: impl Fn() -> T + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut entries = Vec::new();
            loop {
                let before = now();
                let value = read();
                let after = now();
                entries.push(Entry {
                    before,
                    after,
                    value,
                });
                if stopped.recv_timeout(Duration::from_millis(5)) != Err(RecvTimeoutError::Timeout)
                {
                    return entries;
                }
            }
        });
        Self { stop, thread }
    }

    /// Stops reading and returns the record.
    pub(crate) fn end(self) -> Record<T> {
        drop(self.stop);
        Record(self.thread.join().expect("the reader does not fail"))
    }
}

impl<T> Record<T> {
    /// Returns the values just before and just after the period between the two moments.
    fn around(&self, (from, to): (f64, f64)) -> Option<(&T, &T)> {
        let before = self.0.partition_point(|entry| entry.after <= from);
        let after = self.0.partition_point(|entry| entry.before < to);
        Some((
            &self.0.get(before.checked_sub(1)?)?.value,
            &self.0.get(after)?.value,
        ))
    }

    /// Returns how far noctule's counter strays from the kernel's counter, which it should follow
    /// at a constant distance. The result is 0 if one distance fits all batches: each value plus
    /// that distance then lies between the kernel's values just before and just after the batch. If
    /// a thread ends while a batch is taken, its usage may appear one batch later.
    pub(crate) fn stray(
        &self,
        readings: &[Reading],
        ours: impl Fn(&Reading) -> f64,
        theirs: impl Fn(&T) -> f64,
    ) -> f64 {
        let (mut least, mut most) = (f64::MIN, f64::MAX);
        let mut compared = 0;
        for pair in readings.windows(2) {
            let taken = (
                pair[0].taken.0 - pair[0].duration,
                pair[0].taken.1 + pair[0].duration,
            );
            // On a busy machine the first batch can have started before the record.
            if let Some((before, after)) = self.around(taken) {
                least = least.max(theirs(before) - ours(&pair[1]));
                most = most.min(theirs(after) - ours(&pair[0]));
                compared += 1;
            }
        }
        let enough = readings.len() / 2;
        assert!(compared >= enough, "only {compared} figures are comparable");
        (least - most).max(0.0)
    }

    /// Returns the seconds from the first figure to the last.
    pub(crate) fn length(&self) -> f64 {
        let [first, last] = [self.0.first(), self.0.last()].map(|e| e.expect("an entry").before);
        last - first
    }

    /// Returns the growth of the figure over the whole record.
    pub(crate) fn growth(&self, figure: impl Fn(&T) -> f64) -> f64 {
        let [first, last] =
            [self.0.first(), self.0.last()].map(|e| figure(&e.expect("an entry").value));
        last - first
    }
}
