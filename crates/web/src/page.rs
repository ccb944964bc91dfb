//! Answers of which the large part is made once and shared by all clients.

use std::io;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use hyper::body::{Bytes, Frame, SizeHint};

/// How much of a page the connection takes at once: what a client holds of it beside the page itself.
const PART_BYTES: usize = 64 * 1024;

/// The head of a gzip stream without name and time, of the fastest compression.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// The part of a page that all clients share.
#[derive(Debug)]
pub struct Shared {
    bytes: Bytes,
    /// Checksum and length of what was compressed; `None` where nothing was.
    packed: Option<Crc>,
}

impl Shared {
    /// As it is; it is not copied again.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        let mut text: Vec<u8> = text.into();
        text.shrink_to_fit();
        Self {
            bytes: text.into(),
            packed: None,
        }
    }

    /// Its length as it is sent.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Compresses a shared part piece by piece, so that it is never there as a whole.
#[derive(Debug)]
pub struct Packer {
    deflate: DeflateEncoder<Vec<u8>>,
    crc: Crc,
}

impl Packer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            deflate: DeflateEncoder::new(GZIP_HEAD.to_vec(), Compression::fast()),
            crc: Crc::new(),
        }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        self.crc.update(piece);
        self.deflate.write_all(piece)
    }

    /// The part, which ends on a byte: each page continues it with a block of its own.
    pub fn finish(mut self) -> io::Result<Shared> {
        self.deflate.flush()?;
        let mut bytes = std::mem::take(self.deflate.get_mut());
        bytes.shrink_to_fit();
        Ok(Shared {
            bytes: bytes.into(),
            packed: Some(self.crc),
        })
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

/// A body and what it is.
#[derive(Clone, Debug)]
pub struct Page {
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// The beginning of the body, which other answers have as well.
    pub shared: Arc<Shared>,
    /// The rest, made for this answer, not compressed.
    pub own: Vec<u8>,
}

impl Page {
    /// Value of the header `Content-Encoding`.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        self.shared.packed.as_ref().map(|_| "gzip")
    }

    pub(crate) fn into_body(self) -> io::Result<Body> {
        let own = match &self.shared.packed {
            Some(crc) => gzip_end(&self.own, crc)?,
            None => self.own,
        };
        Ok(Body::new(Parts {
            left: [self.shared.bytes.clone(), own.into()],
        }))
    }
}

/// The end of a gzip stream whose beginning has this checksum.
fn gzip_end(own: &[u8], before: &Crc) -> io::Result<Vec<u8>> {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
    deflate.write_all(own)?;
    let mut end = deflate.finish()?;
    let (mut last, mut crc) = (Crc::new(), Crc::new());
    last.update(own);
    crc.combine(before);
    crc.combine(&last);
    end.extend(crc.sum().to_le_bytes());
    end.extend(crc.amount().to_le_bytes());
    Ok(end)
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
