//! Compression of bodies.

use std::io::Write as _;

use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;

/// Smaller bodies are not compressed.
const LEAST_BYTES: usize = 1024;

/// Compresses the body with gzip; `None` if that does not make it smaller.
pub(crate) fn gzip(body: &[u8], level: Compression) -> Option<Bytes> {
    if body.len() < LEAST_BYTES {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), level);
    encoder.write_all(body).ok()?;
    let mut packed = encoder.finish().ok()?;
    packed.shrink_to_fit();
    (packed.len() < body.len()).then(|| packed.into())
}

/// Returns whether the client accepts gzip. A quality of 0 means no.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let sent = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = sent
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts
            .next()
            .is_some_and(|it| it.eq_ignore_ascii_case("gzip"));
        let refused = |part: &str| {
            let quality = part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
            quality.is_some_and(|quality| quality <= 0.0)
        };
        named && !parts.any(refused)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_accepted_if_named_and_not_refused() {
        let cases = [
            ("gzip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("GZIP", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("identity", false),
            ("xgzip", false),
        ];
        for (sent, taken) in cases {
            let value = HeaderValue::from_static(sent);
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]);
            assert_eq!(accepts_gzip(&headers), taken, "{sent}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn short_or_incompressible_bodies_stay_plain() {
        assert!(gzip(&[b'x'; 100], Compression::fast()).is_none());
        assert!(gzip(&[b'x'; 10_000], Compression::fast()).is_some());
    }
}
