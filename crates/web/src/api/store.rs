//! Responses to the queries since the last publication.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::response::Response;
use flate2::Compression;
use hyper::body::Bytes;

use super::encoding::gzip;
use super::{Refusal, tagged};

/// Maximum number of stored responses, and of their bytes. Pages with the same view share a
/// response.
const ANSWERS: usize = 32;
const BYTES: usize = 8 << 20;

/// A finished response.
#[derive(Debug)]
pub(crate) struct Made {
    tag: String,
    plain: Bytes,
    packed: Option<Bytes>,
}

impl Made {
    pub(crate) fn response(&self, headers: &HeaderMap) -> Response {
        let packed = self.packed.as_ref();
        tagged(headers, &self.tag, "application/json", &self.plain, packed)
    }

    fn bytes(&self) -> usize {
        self.plain.len() + self.packed.as_ref().map_or(0, Bytes::len)
    }
}

/// The newest responses, oldest first.
#[derive(Debug)]
pub(crate) struct Store {
    start: u64,
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    key: String,
    published: u64,
    made: Arc<Made>,
}

impl Store {
    pub(crate) fn new(start: u64) -> Self {
        Self {
            start,
            kept: Mutex::default(),
        }
    }

    /// Returns the response for a key at this publication. If the response is not stored, makes it.
    pub(crate) fn get_or_make(
        &self,
        key: &str,
        published: u64,
        make: impl FnOnce() -> Result<String, Refusal>,
    ) -> Result<Arc<Made>, Refusal> {
        // No code panics while it holds the lock, and the stored responses would still be valid if
        // it did.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |it: &&Kept| it.key == key && it.published == published;
        if let Some(known) = kept.iter().find(same) {
            return Ok(known.made.clone());
        }
        let plain = Bytes::from(make()?);
        let made = Arc::new(Made {
            tag: format!("\"{:x}-{published:x}\"", self.start),
            packed: gzip(&plain, Compression::fast()),
            plain,
        });
        // Responses of earlier publications are no longer useful.
        kept.retain(|it| it.published == published || it.published == 0);
        kept.push_back(Kept {
            key: key.to_owned(),
            published,
            made: made.clone(),
        });
        let mut bytes: usize = kept.iter().map(|it| it.made.bytes()).sum();
        while kept.len() > ANSWERS || (bytes > BYTES && !kept.is_empty()) {
            let gone = kept.pop_front();
            bytes -= gone.map_or(0, |it| it.made.bytes());
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_made_once_per_publication() {
        let store = Store::new(7);
        let mut count = 0;
        for published in [1, 1, 2, 2, 2] {
            let made = store.get_or_make("a?", published, || {
                count += 1;
                Ok("{}".into())
            });
            assert_eq!(made.expect("made").tag, format!("\"7-{published}\""));
        }
        assert_eq!(count, 2);
    }

    #[test]
    fn stored_answers_are_bounded_and_exclude_refusals() {
        let store = Store::new(7);
        let refused = store.get_or_make("b?", 1, || Err(Refusal::Query("no".into())));
        assert!(refused.is_err());
        for key in 0..100 {
            let large = || Ok("x".repeat(1 << 20));
            store.get_or_make(&key.to_string(), 1, large).expect("made");
        }
        let kept = store.kept.lock().expect("a lock");
        let bytes: usize = kept.iter().map(|it| it.made.bytes()).sum();
        assert!(bytes <= BYTES && kept.len() <= ANSWERS && !kept.is_empty());
    }
}
