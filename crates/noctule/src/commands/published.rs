//! The last snapshot, and its text for all who ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use noctule_sinks::openmetrics::{Exposition, Reader, Snapshot};
use noctule_sinks::otlp::{Identity, Request};
use noctule_web::{Packer, Page, Shared, Wish};

/// A snapshot of which the large part is compressed once in each format, however many clients ask.
pub(crate) struct Published {
    snapshot: Snapshot,
    /// Compressed, by format.
    packed: [OnceLock<Arc<Shared>>; Exposition::ALL.len()],
    /// As text, which is ten times as large: only in the format that was asked for last.
    plain: Mutex<Option<(Exposition, Arc<Shared>)>>,
    /// By reader.
    shown: [AtomicBool; Reader::ALL.len()],
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            packed: Default::default(),
            plain: Mutex::default(),
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
    pub(crate) fn otlp(&self, identity: &Identity, now_ns: u64, hand_on: &mut dyn FnMut(Request)) {
        self.snapshot.otlp(identity, now_ns, hand_on);
    }

    /// The same as the last that are sent.
    pub(crate) fn last_otlp(
        &self,
        identity: &Identity,
        now_ns: u64,
        hand_on: &mut dyn FnMut(Request),
    ) {
        self.snapshot.last_otlp(identity, now_ns, hand_on);
    }

    /// The page of `/metrics`.
    pub(super) fn page(&self, wish: &Wish, now_ns: u64) -> Page {
        self.show_to(Reader::Scrapes);
        let exposition = Exposition::negotiate(wish.accept.as_deref());
        let shared = match wish.gzip {
            true => {
                let packed = &self.packed[exposition as usize];
                packed
                    .get_or_init(|| Arc::new(self.pack(exposition)))
                    .clone()
            }
            false => self.plain(exposition),
        };
        Page {
            content_type: exposition.content_type(),
            shared,
            own: self.snapshot.render_own(exposition, now_ns),
        }
    }

    fn pack(&self, exposition: Exposition) -> Shared {
        let mut packer = Packer::new();
        let mut pushed = Ok(());
        self.snapshot.render_levels(exposition, &mut |part| {
            if pushed.is_ok() {
                pushed = packer.push(&part);
            }
        });
        let packed = pushed.and_then(|()| packer.finish());
        packed.unwrap_or_else(|_| self.render(exposition))
    }

    fn plain(&self, exposition: Exposition) -> Arc<Shared> {
        // A panic while it is rendered leaves what was there.
        let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shared)) = plain.as_ref().filter(|(of, _)| *of == exposition) {
            return shared.clone();
        }
        // The one before is given back first.
        *plain = None;
        let shared = Arc::new(self.render(exposition));
        *plain = Some((exposition, shared.clone()));
        shared
    }

    fn render(&self, exposition: Exposition) -> Shared {
        let mut text = Vec::new();
        let render = &mut |part: Vec<u8>| text.extend(part);
        self.snapshot.render_levels(exposition, render);
        Shared::new(text)
    }
}
