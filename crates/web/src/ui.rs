//! The page: files embedded in the binary. The sources of these files are in `ui/` and are served
//! unchanged.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use flate2::Compression;
use hyper::body::Bytes;

use crate::api::{gzip, refuse, tagged};
use crate::host::Hosts;
use crate::secure;

/// A file of the page.
struct Asset {
    /// Path below `/ui/`.
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

macro_rules! asset {
    ($path:literal, $content_type:expr) => {
        Asset {
            path: $path,
            content_type: $content_type,
            bytes: include_bytes!(concat!("../ui/", $path)),
        }
    };
}

/// All files. The first is the page at `/`.
const ASSETS: &[Asset] = &[
    asset!("index.html", "text/html; charset=utf-8"),
    asset!("app.css", STYLE),
    asset!("icon.svg", "image/svg+xml"),
    asset!("advice.js", SCRIPT),
    asset!("answers.js", SCRIPT),
    asset!("api.js", SCRIPT),
    asset!("app.js", SCRIPT),
    asset!("chart.js", SCRIPT),
    asset!("compare.js", SCRIPT),
    asset!("colors.js", SCRIPT),
    asset!("crosshair.js", SCRIPT),
    asset!("episodes.js", SCRIPT),
    asset!("export.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("group.js", SCRIPT),
    asset!("headline.js", SCRIPT),
    asset!("heat.js", SCRIPT),
    asset!("lanes.js", SCRIPT),
    asset!("panels.js", SCRIPT),
    asset!("section.js", SCRIPT),
    asset!("spans.js", SCRIPT),
    asset!("state.js", SCRIPT),
    asset!("steps.js", SCRIPT),
    asset!("tables.js", SCRIPT),
    asset!("ui.js", SCRIPT),
    asset!("words.js", SCRIPT),
    asset!("vendor/htm.module.js", SCRIPT),
    asset!("vendor/hooks.mjs", SCRIPT),
    asset!("vendor/preact.mjs", SCRIPT),
    asset!("vendor/uPlot.esm.js", SCRIPT),
    asset!("vendor/uPlot.min.css", STYLE),
    asset!("vendor/LICENSE-htm", PLAIN),
    asset!("vendor/LICENSE-preact", PLAIN),
    asset!("vendor/LICENSE-uplot", PLAIN),
];

/// A file that was requested, kept in compressed form as well.
struct Ready {
    tag: String,
    plain: Bytes,
    packed: Option<Bytes>,
}

impl Ready {
    fn new(asset: &Asset) -> Self {
        let mut hasher = DefaultHasher::new();
        asset.bytes.hash(&mut hasher);
        Self {
            tag: format!("\"{:016x}\"", hasher.finish()),
            plain: Bytes::from_static(asset.bytes),
            packed: gzip(asset.bytes, Compression::default()),
        }
    }
}

type Files = Arc<[OnceLock<Ready>]>;

/// Returns the routes of the page and its files.
pub(crate) fn routes(hosts: Arc<Hosts>) -> Router {
    let files: Files = ASSETS.iter().map(|_| OnceLock::new()).collect();
    let index = async |State(files): State<Files>, headers: HeaderMap| file(&files, 0, &headers);
    let routes = Router::new()
        .route("/", get(index))
        .route("/ui/{*path}", get(asset))
        .method_not_allowed_fallback(async || {
            refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are allowed",
            )
        })
        .with_state(files);
    secure::protect(routes, hosts)
}

async fn asset(
    State(files): State<Files>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    match ASSETS.iter().position(|asset| asset.path == path) {
        Some(at) => file(&files, at, &headers),
        None => refuse(StatusCode::NOT_FOUND, "no such file"),
    }
}

fn file(files: &Files, at: usize, headers: &HeaderMap) -> Response {
    let asset = &ASSETS[at];
    let ready = files[at].get_or_init(|| Ready::new(asset));
    let packed = ready.packed.as_ref();
    tagged(
        headers,
        &ready.tag,
        asset.content_type,
        &ready.plain,
        packed,
    )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn text(path: &str) -> &'static str {
        let asset = ASSETS.iter().find(|asset| asset.path == path);
        std::str::from_utf8(asset.expect("a file").bytes).expect("UTF-8")
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = bytes.chunks(3).flat_map(|part| {
            let group = (0..3).fold(0, |sum, at| {
                sum << 8 | usize::from(part.get(at).copied().unwrap_or(0))
            });
            (0..4).map(move |at| match at <= part.len() {
                true => char::from(DIGITS[group >> (18 - 6 * at) & 63]),
                false => '=',
            })
        });
        digits.collect()
    }

    #[test]
    fn policy_allows_only_the_import_map_inline() {
        let page = text("index.html");
        let (_, rest) = page.split_once("<script type=\"importmap\">").expect("one");
        let (map, rest) = rest.split_once("</script>").expect("its end");
        let hash = base64(&Sha256::digest(map));
        assert!(
            secure::POLICY.contains(&format!("'sha256-{hash}'")),
            "{hash}"
        );
        assert!(
            !rest.contains("<script>"),
            "the page has another inline script"
        );
        assert!(!page.contains("style=") && !page.contains("<style"));
        // Every file in the import map exists.
        for place in map.split('"').filter(|it| it.starts_with("/ui/")) {
            text(&place["/ui/".len()..]);
        }
    }

    #[test]
    fn vendored_files_match_their_checksums() {
        let list = include_str!("../ui/vendor/CHECKSUMS");
        let vendored = ASSETS.iter().filter(|it| it.path.starts_with("vendor/"));
        for asset in vendored {
            let hash = Sha256::digest(asset.bytes);
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("{hash}  {}", &asset.path["vendor/".len()..]);
            assert!(list.lines().any(|it| it == line), "{line}");
        }
    }

    #[test]
    fn own_files_name_no_other_host() {
        for asset in ASSETS.iter().filter(|it| !it.path.starts_with("vendor/")) {
            let text = text(asset.path).replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{}",
                asset.path
            );
        }
    }
}
