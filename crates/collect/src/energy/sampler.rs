//! Samples a sensor in its own thread, so that a driver that talks to a slow chip or to firmware
//! does not block the agent.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use noctule_model::{FeatureState, ZoneReading};

use super::Clock;
use super::channel::Channel;
use super::source::Open;

/// A sensor that does not respond for this long is reported as silent.
const SILENT_NS: u64 = 10_000_000_000;
/// The same limit in sampling intervals of the sensor. The longer of the two applies.
const SILENT_INTERVALS: u64 = 4;

/// Stack size of the sensor's thread.
const STACK: usize = 128 << 10;

/// Handle to the thread, which ends when the handle is dropped.
pub(super) struct Sampler {
    shared: Arc<Shared>,
    silent_ns: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    reading: ZoneReading,
    /// Whether a sample was requested immediately.
    asked: bool,
    ended: bool,
}

impl Sampler {
    pub(super) fn start(
        channel: Channel,
        interval_ns: u64,
        files: Arc<dyn Open>,
        clock: Clock,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                reading: channel.reading().clone(),
                asked: false,
                ended: false,
            }),
            wake: Condvar::new(),
        });
        let own = shared.clone();
        let interval = Duration::from_nanos(interval_ns);
        thread::Builder::new()
            .name("noctule-meter".into())
            .stack_size(STACK)
            .spawn(move || sample(channel, &own, interval, files.as_ref(), &clock))?;
        Ok(Self {
            shared,
            silent_ns: SILENT_NS.max(SILENT_INTERVALS * interval_ns),
        })
    }

    /// Requests a sample. The next reading after the sensor has responded includes the sample.
    pub(super) fn ask(&self) {
        self.shared.state().asked = true;
        self.shared.wake.notify_one();
    }

    /// Returns the last sample.
    pub(super) fn reading(&self, now_ns: u64) -> ZoneReading {
        let mut reading = self.shared.state().reading.clone();
        let since_ns = now_ns.saturating_sub(reading.after_ns);
        let silent = since_ns > self.silent_ns;
        if silent && reading.state == FeatureState::On {
            reading.state = FeatureState::Degraded;
            reading.gaps += 1;
            reading.failed_ns += since_ns;
            reading.reason = Some("the sensor's driver does not respond".into());
        }
        reading
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples the sensor until the handle is dropped.
fn sample(
    mut channel: Channel,
    shared: &Shared,
    interval: Duration,
    files: &dyn Open,
    clock: &Clock,
) {
    loop {
        {
            let waiting = |state: &mut State| !state.asked && !state.ended;
            let waited = shared
                .wake
                .wait_timeout_while(shared.state(), interval, waiting);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.asked = false;
            if state.ended {
                return;
            }
        }
        channel.read(files, clock.as_ref());
        shared.state().reading = channel.reading().clone();
    }
}
