//! The last snapshot, and its text for all who ask.

use std::sync::{Arc, OnceLock};

use noctule_sinks::openmetrics::{Exposition, Snapshot};
use noctule_web::{Page, Shared};

/// A snapshot of which the large part is rendered once in each format, however many clients ask.
pub(super) struct Published {
    snapshot: Snapshot,
    open_metrics: OnceLock<Arc<Shared>>,
    classic: OnceLock<Arc<Shared>>,
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            open_metrics: OnceLock::new(),
            classic: OnceLock::new(),
        }
    }

    /// `CLOCK_MONOTONIC` at which the figures were taken, in nanoseconds.
    pub(super) fn taken_ns(&self) -> u64 {
        self.snapshot.taken_ns()
    }

    /// Whether a scrape has shown it.
    pub(super) fn was_scraped(&self) -> bool {
        self.open_metrics.get().is_some() || self.classic.get().is_some()
    }

    /// The page of `/metrics` for a header `Accept`.
    pub(super) fn page(&self, accept: Option<&str>, now_ns: u64) -> Page {
        let exposition = Exposition::negotiate(accept);
        let made = match exposition {
            Exposition::OpenMetrics => &self.open_metrics,
            Exposition::Classic => &self.classic,
        };
        let render = || Arc::new(Shared::new(self.snapshot.render_levels(exposition)));
        Page {
            content_type: exposition.content_type(),
            shared: made.get_or_init(render).clone(),
            own: self.snapshot.render_own(exposition, now_ns),
        }
    }
}
