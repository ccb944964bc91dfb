//! The last snapshot, and its text for all who ask.

use std::sync::{Arc, OnceLock};

use noctule_sinks::openmetrics::{Exposition, Snapshot};
use noctule_web::{Packer, Page, Shared, Wish};

/// A snapshot of which the large part is rendered once in each format and compression, however many
/// clients ask.
pub(super) struct Published {
    snapshot: Snapshot,
    /// By format, plain and compressed.
    made: [[OnceLock<Arc<Shared>>; 2]; Exposition::ALL.len()],
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            made: Default::default(),
        }
    }

    /// `CLOCK_MONOTONIC` at which the figures were taken, in nanoseconds.
    pub(super) fn taken_ns(&self) -> u64 {
        self.snapshot.taken_ns()
    }

    /// Whether a scrape has shown it.
    pub(super) fn was_scraped(&self) -> bool {
        let mut made = self.made.iter().flatten();
        made.any(|shared| shared.get().is_some())
    }

    /// The page of `/metrics`.
    pub(super) fn page(&self, wish: &Wish, now_ns: u64) -> Page {
        let exposition = Exposition::negotiate(wish.accept.as_deref());
        let made = &self.made[exposition as usize][usize::from(wish.gzip)];
        let shared = made.get_or_init(|| Arc::new(self.rendered(exposition, wish.gzip)));
        Page {
            content_type: exposition.content_type(),
            shared: shared.clone(),
            own: self.snapshot.render_own(exposition, now_ns),
        }
    }

    fn rendered(&self, exposition: Exposition, gzip: bool) -> Shared {
        if gzip {
            let mut packer = Packer::new();
            let mut pushed = Ok(());
            self.snapshot.render_levels(exposition, &mut |part| {
                if pushed.is_ok() {
                    pushed = packer.push(&part);
                }
            });
            if let Ok(packed) = pushed.and_then(|()| packer.finish()) {
                return packed;
            }
        }
        let mut text = Vec::new();
        let render = &mut |part: Vec<u8>| text.extend(part);
        self.snapshot.render_levels(exposition, render);
        Shared::new(text)
    }
}
