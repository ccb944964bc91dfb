//! Answers of which the large part is made once and shared by all clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};

/// How much of a page the connection takes at once: what a client holds of it beside the page itself.
const PART_BYTES: usize = 64 * 1024;

/// The part of a page that all clients share.
#[derive(Debug)]
pub struct Shared(Bytes);

impl Shared {
    /// The text; it is not copied again.
    pub fn new(mut text: String) -> Self {
        text.shrink_to_fit();
        Self(text.into())
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// A body and what it is.
#[derive(Clone, Debug)]
pub struct Page {
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// The beginning of the body, which other answers have as well.
    pub shared: Arc<Shared>,
    /// The rest, made for this answer.
    pub own: String,
}

impl Page {
    pub(crate) fn into_body(self) -> Body {
        Body::new(Parts {
            left: [self.shared.0.clone(), self.own.into()],
        })
    }
}

/// A body in parts, none of which is copied.
struct Parts {
    left: [Bytes; 2],
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.left.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(next.map(|part| {
            let length = part.len().min(PART_BYTES);
            Ok(Frame::data(part.split_to(length)))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.iter().map(|part| part.len() as u64).sum())
    }
}
