//! The last snapshot, and its text for all who ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use noctule_sinks::openmetrics::{Exposition, Reader, Snapshot, View};
use noctule_sinks::otlp::{Identity, Request};
use noctule_web::{Packer, Page, Shared, Wish};

/// A snapshot of which the large part is compressed once in each format, however many clients ask.
pub(crate) struct Published {
    snapshot: Snapshot,
    /// The pages that were asked for, by format.
    packed: [OnceLock<Arc<Shared>>; Exposition::ALL.len()],
    /// By reader.
    shown: [AtomicBool; Reader::ALL.len()],
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            packed: Default::default(),
            shown: Default::default(),
        }
    }

    /// `CLOCK_MONOTONIC` at which the figures were taken, in nanoseconds.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.snapshot.taken_ns()
    }

    /// Whether the reader sees it, or will when its page is made.
    pub(super) fn was_shown_to(&self, reader: Reader) -> bool {
        self.shown[reader as usize].load(Ordering::Relaxed)
    }

    /// Notes that the reader sees it.
    pub(crate) fn show_to(&self, reader: Reader) {
        self.shown[reader as usize].store(true, Ordering::Relaxed);
    }

    /// The same figures as requests of OTLP.
    pub(crate) fn otlp(
        &self,
        identity: &Identity,
        view: View,
        now_ns: u64,
        hand_on: &mut dyn FnMut(Request),
    ) {
        self.snapshot.otlp(identity, view, now_ns, hand_on);
    }

    /// The page of `/metrics`.
    pub(super) fn page(&self, wish: &Wish, now_ns: u64) -> Page {
        self.show_to(Reader::Scrapes);
        let exposition = Exposition::negotiate(wish.accept.as_deref());
        let packed = &self.packed[exposition as usize];
        let shared = packed.get_or_init(|| Arc::new(self.pack(exposition)));
        Page {
            content_type: exposition.content_type(),
            shared: shared.clone(),
            own: self.snapshot.render_own(exposition, now_ns),
            gzip: wish.gzip,
        }
    }

    fn pack(&self, exposition: Exposition) -> Shared {
        let mut packer = Packer::new();
        let view = View::Complete;
        self.snapshot.render_levels(exposition, view, &mut |part| {
            packer.push(&part).expect("a Vec takes all that is written");
        });
        packer.finish().expect("a Vec takes all that is written")
    }
}
