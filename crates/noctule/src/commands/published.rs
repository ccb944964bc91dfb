//! The last snapshot, and its pages for all clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use noctule_sinks::openmetrics::{Exposition, Reader, Snapshot, View};
use noctule_sinks::otlp::{Identity, Request};
use noctule_web::{Packer, Page, Shared, Wish};

/// A snapshot whose pages are compressed once for all clients that ask for them.
pub(crate) struct Published {
    snapshot: Snapshot,
    /// Complete pages, by format.
    complete: [OnceLock<Arc<Shared>>; Exposition::ALL.len()],
    /// The last page that has new series at 0: a page of one reader is seldom that of another.
    partial: Mutex<Option<(Exposition, View, Arc<Shared>)>>,
    /// By reader.
    shown: [AtomicBool; Reader::ALL.len()],
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            complete: Default::default(),
            partial: Mutex::default(),
            shown: Default::default(),
        }
    }

    /// `CLOCK_MONOTONIC` at which the figures were taken, in nanoseconds.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.snapshot.taken_ns()
    }

    /// When the first figures of the agent were taken.
    pub(super) fn first_ns(&self) -> u64 {
        self.snapshot.first_ns()
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
    pub(super) fn page(&self, wish: &Wish, view: View, now_ns: u64) -> Page {
        self.show_to(Reader::Scrapes);
        let exposition = Exposition::negotiate(wish.accept.as_deref());
        let shared = match self.snapshot.least_view(view) {
            View::Complete => {
                let complete = &self.complete[exposition as usize];
                let pack = || Arc::new(self.pack(exposition, View::Complete));
                complete.get_or_init(pack).clone()
            }
            view => self.partial(exposition, view),
        };
        Page {
            content_type: exposition.content_type(),
            shared,
            own: self.snapshot.render_own(exposition, now_ns),
            gzip: wish.gzip,
            sent: None,
        }
    }

    fn partial(&self, exposition: Exposition, view: View) -> Arc<Shared> {
        // A panic during rendering leaves the slot empty.
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (exposition, view);
        if let Some((.., shared)) = partial.as_ref().filter(|it| (it.0, it.1) == wanted) {
            return shared.clone();
        }
        // Frees the page before it makes another.
        *partial = None;
        let shared = Arc::new(self.pack(exposition, view));
        *partial = Some((exposition, view, shared.clone()));
        shared
    }

    fn pack(&self, exposition: Exposition, view: View) -> Shared {
        let mut packer = Packer::new();
        self.snapshot.render_levels(exposition, view, &mut |part| {
            packer.push(&part).expect("a Vec takes all that is written");
        });
        packer.finish().expect("a Vec takes all that is written")
    }
}
