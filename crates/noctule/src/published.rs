//! The last snapshot, with pages shared by all clients.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use noctule_sinks::openmetrics::{Exposition, Snapshot, View};
use noctule_sinks::otlp::{Identity, Request};
use noctule_web::{Packer, Page, Shared, Wish};

/// A snapshot whose pages are compressed once for all clients that request them.
pub(crate) struct Published {
    snapshot: Snapshot,
    /// Complete pages, by format.
    complete: [OnceLock<Arc<Shared>>; Exposition::ALL.len()],
    /// Pages in which new series have the value 0, in order of their last request.
    partial: Mutex<Vec<Partial>>,
}

/// Memory limit of cached pages in which new series have the value 0, in bytes. The newest page is
/// always kept.
const PARTIAL_BYTES: usize = 2 << 20;

/// Maximum number of cached pages in which new series have the value 0.
const MOST_PARTIAL: usize = 16;

/// A page in which new series have the value 0. The page is empty until it is generated.
struct Partial {
    exposition: Exposition,
    view: View,
    page: Arc<OnceLock<Arc<Shared>>>,
}

impl Partial {
    /// Returns the size, or 0 while the page is being generated.
    fn bytes(&self) -> usize {
        self.page.get().map_or(0, |page| page.bytes())
    }
}

impl Published {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            complete: Default::default(),
            partial: Mutex::default(),
        }
    }

    /// Returns the time of the snapshot, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.snapshot.taken_ns()
    }

    /// Returns the time of the agent's first snapshot.
    pub(crate) fn first_ns(&self) -> u64 {
        self.snapshot.first_ns()
    }

    /// Returns the snapshot as OTLP requests.
    pub(crate) fn otlp(
        &self,
        identity: &Identity,
        view: View,
        now_ns: u64,
        pass_on: &mut dyn FnMut(Request),
    ) {
        self.snapshot.otlp(identity, view, now_ns, pass_on);
    }

    /// Returns the page of `/metrics`.
    pub(crate) fn page(&self, wish: &Wish, view: View, now_ns: u64) -> Page {
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

    /// Returns a page for this view. Concurrent requests for one view wait for a single generation;
    /// other views do not wait for it.
    fn partial(&self, exposition: Exposition, view: View) -> Arc<Shared> {
        let page = self.slot(exposition, view);
        let pack = || Arc::new(self.pack(exposition, view));
        page.get_or_init(pack).clone()
    }

    fn slot(&self, exposition: Exposition, view: View) -> Arc<OnceLock<Arc<Shared>>> {
        let mut kept = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |it: &Partial| (it.exposition, it.view) == (exposition, view);
        let known = kept.iter().position(wanted).map(|at| kept.remove(at));
        let slot = known.unwrap_or_else(|| Partial {
            exposition,
            view,
            page: Arc::default(),
        });
        let page = slot.page.clone();
        while kept.len() >= MOST_PARTIAL
            || kept.iter().map(Partial::bytes).sum::<usize>() > PARTIAL_BYTES
        {
            kept.remove(0);
        }
        kept.push(slot);
        page
    }

    fn pack(&self, exposition: Exposition, view: View) -> Shared {
        let mut packer = Packer::new();
        self.snapshot.render_levels(exposition, view, &mut |part| {
            packer.push(&part).expect("writing to a Vec cannot fail");
        });
        packer.finish().expect("writing to a Vec cannot fail")
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::Batch;
    use noctule_sinks::openmetrics::{Exporter, Options};

    use super::*;

    #[test]
    fn readers_with_different_views_keep_their_pages() {
        let snapshot = Exporter::new(Options::default()).observe(&Batch::default());
        let published = Published::new(snapshot);
        let page = |exposition, ns| published.partial(exposition, View::Since(ns));
        let all = |ns| Exposition::ALL.map(|exposition| page(exposition, ns));
        let (one, other) = (all(1), all(2));
        let same = [all(1), all(2)];
        let pages = one.iter().chain(&other).zip(same.iter().flatten());
        for (first, again) in pages {
            assert!(Arc::ptr_eq(first, again));
        }
        for ns in 3..100 {
            all(ns);
        }
        let kept = published.partial.lock().expect("a lock");
        assert_eq!(kept.len(), MOST_PARTIAL);
        assert!(Arc::strong_count(&one[0]) == 1 + 1, "it is given up");
    }
}
