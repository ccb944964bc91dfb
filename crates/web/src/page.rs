//! Responses whose large part is made once and shared by all clients.

use std::io;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc, Decompress, FlushDecompress};
use hyper::body::{Bytes, Frame, SizeHint};

/// Bytes of a page that a connection holds at a time, in addition to the shared page.
const PART_BYTES: usize = 64 * 1024;

/// Maximum output of a flush with nothing left to flush.
const EMPTY_BLOCK: u64 = 5;

/// The header of a gzip stream without name and time, for the fastest compression.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// The bytes of a page that all clients share. Only the compressed form is kept. If a client does
/// not accept gzip, the server decompresses them piece by piece.
#[derive(Debug, Default)]
pub struct Shared {
    /// A deflate stream in pieces, ending on a byte boundary.
    pieces: Vec<Bytes>,
    /// Checksum of the uncompressed part.
    crc: Crc,
    /// Length of the uncompressed part.
    plain_bytes: u64,
}

impl Shared {
    /// Compresses a complete part.
    pub fn new(text: impl AsRef<[u8]>) -> io::Result<Self> {
        let mut packer = Packer::new();
        packer.push(text.as_ref())?;
        packer.finish()
    }

    /// Returns the size in memory.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// Compresses a shared part piece by piece, so that the whole part is never in memory.
#[derive(Debug)]
pub struct Packer {
    deflate: DeflateEncoder<Vec<u8>>,
    shared: Shared,
}

impl Packer {
    /// Creates an empty packer.
    pub fn new() -> Self {
        Self {
            deflate: DeflateEncoder::new(Vec::with_capacity(PART_BYTES), Compression::fast()),
            shared: Shared::default(),
        }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        self.shared.crc.update(piece);
        self.shared.plain_bytes += piece.len() as u64;
        self.deflate.write_all(piece)?;
        if self.deflate.get_ref().len() >= PART_BYTES {
            self.cut(PART_BYTES);
        }
        Ok(())
    }

    /// Returns the finished part of the page. The part ends on a byte boundary, because each page
    /// continues it with its own block.
    pub fn finish(mut self) -> io::Result<Shared> {
        // A single flush can leave data in the compressor (flate2 1.1.11 with miniz_oxide 0.9.1).
        loop {
            let before = self.deflate.total_out();
            self.deflate.flush()?;
            if self.deflate.total_out() - before <= EMPTY_BLOCK {
                break;
            }
        }
        self.cut(0);
        Ok(self.shared)
    }

    /// Moves the compressed bytes into a new piece.
    fn cut(&mut self, room: usize) {
        let full = std::mem::replace(self.deflate.get_mut(), Vec::with_capacity(room));
        self.shared.pieces.push(full.into_boxed_slice().into());
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

/// A body and its type.
#[derive(Clone, Debug)]
pub struct Page {
    /// Value of the `Content-Type` header.
    pub content_type: &'static str,
    /// The first bytes of the body, shared with other responses.
    pub shared: Arc<Shared>,
    /// The remaining bytes of the body, made for this response.
    pub own: Vec<u8>,
    /// Whether the client receives the body compressed.
    pub gzip: bool,
    /// Called when the kernel has accepted the whole response for the client. Not called if the
    /// client received only a part.
    pub sent: Option<Sent>,
}

/// A function to call when a response was sent.
#[derive(Clone)]
pub struct Sent(Arc<dyn Fn() + Send + Sync>);

impl Sent {
    /// Wraps the function, which must not block.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sent")
    }
}

impl Page {
    /// Returns the value of the `Content-Encoding` header.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        self.gzip.then_some("gzip")
    }

    pub(crate) fn into_body(self) -> io::Result<Body> {
        Ok(match self.gzip {
            true => Body::new(Packed {
                begin: Bytes::from_static(&GZIP_HEAD),
                end: gzip_end(&self.own, &self.shared.crc)?.into(),
                shared: self.shared,
                piece: 0,
            }),
            false => Body::new(Plain {
                left: self.shared.plain_bytes,
                inflate: Decompress::new(false),
                shared: self.shared,
                piece: 0,
                taken: 0,
                own: self.own.into(),
            }),
        })
    }
}

/// Returns the end of a gzip stream whose beginning has the checksum `before`.
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

type NextFrame<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// A compressed body. The parts of the body are not copied.
struct Packed {
    begin: Bytes,
    shared: Arc<Shared>,
    /// Index of the next piece.
    piece: usize,
    end: Bytes,
}

impl HttpBody for Packed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> NextFrame<Self::Error> {
        let next = if !self.begin.is_empty() {
            std::mem::take(&mut self.begin)
        } else if let Some(piece) = self.shared.pieces.get(self.piece).cloned() {
            self.piece += 1;
            piece
        } else {
            std::mem::take(&mut self.end)
        };
        Poll::Ready((!next.is_empty()).then(|| Ok(Frame::data(next))))
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let pieces = self.shared.pieces.iter().skip(self.piece);
        let pieces: usize = pieces.map(Bytes::len).sum();
        SizeHint::with_exact((self.begin.len() + pieces + self.end.len()) as u64)
    }
}

/// A body that is decompressed while it is sent.
struct Plain {
    shared: Arc<Shared>,
    inflate: Decompress,
    /// The piece that is being decompressed, and the number of its bytes that were already
    /// consumed.
    piece: usize,
    taken: usize,
    /// Remaining bytes of the shared part.
    left: u64,
    own: Bytes,
}

impl Plain {
    /// Returns the next bytes of the shared part.
    fn inflate(&mut self) -> io::Result<Bytes> {
        let room = self.left.min(PART_BYTES as u64) as usize;
        let mut part = Vec::with_capacity(room);
        while part.len() < room {
            let piece = self.shared.pieces.get(self.piece);
            let rest = piece.map_or(&[][..], |piece| &piece[self.taken..]);
            let (read, written) = (self.inflate.total_in(), part.len());
            let more = FlushDecompress::None;
            self.inflate.decompress_vec(rest, &mut part, more)?;
            self.taken += (self.inflate.total_in() - read) as usize;
            match piece {
                Some(piece) if self.taken == piece.len() => {
                    (self.piece, self.taken) = (self.piece + 1, 0);
                }
                // Without input, the decompressor still returns buffered data.
                None if part.len() == written => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
        self.left -= part.len() as u64;
        Ok(part.into())
    }
}

impl HttpBody for Plain {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> NextFrame<Self::Error> {
        if self.left > 0 {
            return Poll::Ready(Some(self.inflate().map(Frame::data)));
        }
        let own = std::mem::take(&mut self.own);
        Poll::Ready((!own.is_empty()).then(|| Ok(Frame::data(own))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.own.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left + self.own.len() as u64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    /// Returns incompressible bytes.
    pub(crate) fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    fn sent(page: Page) -> (Option<u64>, Vec<u8>, usize) {
        let mut body = page.into_body().expect("a body");
        let announced = body.size_hint().exact();
        let (mut bytes, mut largest) = (Vec::new(), 0);
        let mut context = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
            let frame = frame.expect("no error").into_data().expect("data");
            largest = largest.max(frame.len());
            bytes.extend(frame);
        }
        assert!(body.is_end_stream());
        (announced, bytes, largest)
    }

    #[test]
    fn a_page_is_the_same_with_and_without_compression() {
        for bytes in [0, 10, PART_BYTES, 3 * PART_BYTES + 5, 1 << 20] {
            let text = noise(bytes);
            let mut packer = Packer::new();
            for piece in text.chunks(70_001) {
                packer.push(piece).expect("memory");
            }
            let shared = Arc::new(packer.finish().expect("memory"));
            let whole = [&text[..], b"the end"].concat();
            for gzip in [false, true] {
                let page = Page {
                    content_type: "text/plain",
                    shared: shared.clone(),
                    own: b"the end".to_vec(),
                    gzip,
                    sent: None,
                };
                let (announced, body, largest) = sent(page);
                assert_eq!(announced, Some(body.len() as u64), "{bytes} {gzip}");
                assert!(largest <= 3 * PART_BYTES, "{largest}");
                let mut read = Vec::new();
                match gzip {
                    true => drop(
                        GzDecoder::new(&body[..])
                            .read_to_end(&mut read)
                            .expect("gzip"),
                    ),
                    false => read = body,
                }
                assert!(read == whole, "{bytes} {gzip}");
            }
        }
    }
}
