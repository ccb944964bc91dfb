//! Delays between retries.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first and the longest delay.
const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(15);

/// Upper limit for delays that the receiver requests.
const MOST_ASKED: Duration = Duration::from_secs(600);

/// Exponential back-off. Each delay is multiplied by a random factor from 0.5 to 1.5, so that
/// agents that lost their receiver at the same time do not reconnect at the same time.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    failed: u32,
}

impl BackOff {
    /// Returns the delay after another failure, which is at least the delay that the receiver
    /// requests.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let step = FIRST.saturating_mul(1 << self.failed.min(10)).min(MOST);
        self.failed += 1;
        let pause = step.mul_f64(0.5 + random());
        // The random part only lengthens a requested delay.
        asked.map_or(pause, |asked| {
            let asked = asked.min(MOST_ASKED);
            pause.max(asked + FIRST.mul_f64(random()))
        })
    }

    /// Restarts with the first delay, after a response.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
    }
}

/// Returns a number from 0 to 1. Each state of the standard library's hasher has new random keys.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_differ() {
        let mut back_off = BackOff::default();
        for failed in 0..40 {
            let step = FIRST.saturating_mul(1 << failed.min(10)).min(MOST);
            let pause = back_off.next(None);
            assert!(pause >= step.mul_f64(0.5) && pause <= step.mul_f64(1.5));
        }
        back_off.reset();
        assert!(back_off.next(None) < FIRST * 2);
        let some: Vec<f64> = (0..16).map(|_| random()).collect();
        assert!(some.iter().any(|it| *it != some[0]), "{some:?}");
        assert!(some.iter().all(|it| (0.0..1.0).contains(it)));
    }

    #[test]
    fn retry_waits_as_long_as_the_receiver_asks() {
        let mut back_off = BackOff::default();
        let asked = Duration::from_secs(30);
        assert!(back_off.next(Some(asked)) >= asked);
        assert!(back_off.next(Some(Duration::MAX)) <= MOST_ASKED + FIRST);
    }
}
