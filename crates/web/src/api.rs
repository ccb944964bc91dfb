//! The JSON API below `/api/v1/`.
//!
//! The agent responds from the last published batch, so a response is valid until the next batch.
//! Each response has the tag of that batch. A response is made once and sent to every client that
//! requests it before the next batch.

mod encoding;
mod store;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::host::Hosts;
use crate::peer::Peer;
use crate::query::{Query, QueryError};
use crate::secure;
use crate::server::ANSWERERS;
pub(crate) use encoding::{accepts_gzip, gzip};
use store::{Made, Store};
use stream::Streams;
pub use stream::Ticks;

/// A resource of the API, `GET /api/v1/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Last component of the path.
    pub name: &'static str,
    /// Query parameters that the resource accepts.
    pub parameters: &'static [&'static str],
}

const TABLE: &[&str] = &["sort", "limit", "filter"];

/// All resources of the API. `docs/openapi.json` describes each.
pub const RESOURCES: &[Resource] = &[
    Resource::new("node", &[]),
    Resource::new("processes", TABLE),
    Resource::new("process", &["pid"]),
    Resource::new("containers", TABLE),
    Resource::new("pods", TABLE),
    Resource::new("units", TABLE),
    Resource::new("cgroups", TABLE),
    Resource::new("waits", &[]),
    Resource::new("pairs", &[]),
    Resource::new("now", &[]),
    Resource::new("episodes", &["from", "to", "limit"]),
    Resource::new("group", &["id", "from", "to", "seconds", "at"]),
    Resource::new("energy", &[]),
    Resource::new(
        "events",
        &["from", "to", "limit", "filter", "kind", "severity", "owner"],
    ),
    Resource::new("features", &[]),
    Resource::new(
        "history",
        &[
            "from", "to", "seconds", "steps", "owners", "pairs", "sort", "filter", "waits_of",
            "pair", "strips", "at",
        ],
    ),
    Resource::new("openapi.json", &[]),
];

/// A static response, which does not change while the agent runs.
const DESCRIPTION: &str = include_str!("../../../docs/openapi.json");

impl Resource {
    const fn new(name: &'static str, parameters: &'static [&'static str]) -> Self {
        Self { name, parameters }
    }
}

/// Why a query cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The query is wrong. The text describes the error and the accepted values.
    Query(String),
    /// The requested figures are not available yet. The text gives the reason.
    NotYet(String),
}

/// The source of responses. A separate thread makes one response at a time; other queries wait.
pub trait Agent: Send + Sync {
    /// Returns the number of the last publication; `None` before the first. If the last publication
    /// is old, waits for the next one. Until the number
    /// changes, the agent responds to the same query with the same text.
    fn published(&self) -> Option<u64>;

    /// Returns the response for a resource as JSON.
    fn answer(&self, resource: &str, query: &Query) -> Result<String, Refusal>;

    /// Records that a client follows the publications. Must not block.
    fn follow(&self) {}
}

/// The parts that the API needs.
pub struct Api {
    /// The source of responses.
    pub agent: Arc<dyn Agent>,
    /// Announces publications.
    pub ticks: Ticks,
    /// Host names accepted in requests.
    pub hosts: Arc<Hosts>,
    /// A number that differs between starts of the agent, so that tags of one start never match
    /// another.
    pub start: u64,
}

#[derive(Clone)]
struct Shared {
    agent: Arc<dyn Agent>,
    store: Arc<Store>,
    streams: Arc<Streams>,
    /// Limits how many responses are made at a time.
    answerers: Arc<Semaphore>,
}

pub(crate) fn routes(api: Api) -> Router {
    let shared = Shared {
        agent: api.agent,
        store: Arc::new(Store::new(api.start)),
        streams: Arc::new(Streams::new(&api.ticks)),
        answerers: Arc::new(Semaphore::new(ANSWERERS)),
    };
    let routes = Router::new()
        .route("/api/v1/stream", get(stream))
        .route("/api/v1/{resource}", get(resource))
        .route(
            "/api/{*rest}",
            get(async || refuse(StatusCode::NOT_FOUND, "no such resource")),
        )
        .method_not_allowed_fallback(async || {
            refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are allowed",
            )
        })
        .with_state(shared);
    secure::protect(routes, api.hosts)
}

async fn resource(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(resource) = RESOURCES.iter().find(|it| it.name == name) else {
        let names: Vec<&str> = RESOURCES.iter().map(|it| it.name).collect();
        let words = format!("no such resource; expected one of {}", names.join(", "));
        return refuse(StatusCode::NOT_FOUND, &words);
    };
    let query = match Query::parse(query.as_deref().unwrap_or_default(), resource.parameters) {
        Ok(query) => query,
        Err(QueryError(words)) => return refuse(StatusCode::BAD_REQUEST, &words),
    };
    // As for `/metrics`, a client that disconnects while waiting here leaves no work behind.
    let Ok(answerer) = shared.answerers.clone().acquire_owned().await else {
        return refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the agent is shutting down",
        );
    };
    let make = move || {
        let _answerer = answerer;
        shared.made(resource, &query)
    };
    match spawn_blocking(make).await {
        Ok(Ok(made)) => made.response(&headers),
        Ok(Err(Refusal::Query(words))) => refuse(StatusCode::BAD_REQUEST, &words),
        Ok(Err(Refusal::NotYet(words))) => refuse(StatusCode::SERVICE_UNAVAILABLE, &words),
        // The panic ends this connection, as a panic on this thread would.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the agent is shutting down",
        ),
    }
}

impl Shared {
    fn made(&self, resource: &Resource, query: &Query) -> Result<Arc<Made>, Refusal> {
        if resource.name == "openapi.json" {
            let text = || Ok(DESCRIPTION.into());
            return self.store.get_or_make("openapi.json", 0, text);
        }
        let Some(published) = self.agent.published() else {
            let words = "no data yet: the first batches are being collected";
            return Err(Refusal::NotYet(words.into()));
        };
        let key = format!("{}?{}", resource.name, query.canonical());
        self.store
            .get_or_make(&key, published, || self.agent.answer(resource.name, query))
    }
}

async fn stream(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
) -> Response {
    if let Err(QueryError(words)) = Query::parse(query.as_deref().unwrap_or_default(), &[]) {
        return refuse(StatusCode::BAD_REQUEST, &words);
    }
    match shared.streams.open(peer) {
        Some(response) => {
            shared.agent.follow();
            response
        }
        None => {
            let mut response = refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many streams are open: poll the API instead",
            );
            let seconds = HeaderValue::from_static("10");
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
    }
}

/// Returns an error as `{"error": WORDS}`.
pub(crate) fn refuse(status: StatusCode, words: &str) -> Response {
    let mut body = String::from("{\"error\":\"");
    for c in words.chars() {
        match c {
            '"' | '\\' => body.extend(['\\', c]),
            c if c.is_control() || !c.is_ascii() => body.push('?'),
            c => body.push(c),
        }
    }
    body.push_str("\"}\n");
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body).into_response()
}

/// Returns whether the client already has the response with this tag.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let sent = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = sent
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    tags.any(|known| known.trim().trim_start_matches("W/") == tag)
}

/// Returns a response with its tag, compressed if the client accepts that.
pub(crate) fn tagged(
    headers: &HeaderMap,
    tag: &str,
    content_type: &'static str,
    plain: &hyper::body::Bytes,
    packed: Option<&hyper::body::Bytes>,
) -> Response {
    let mut answer = if is_known(headers, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let packed = packed.filter(|_| accepts_gzip(headers));
        let body = axum::body::Body::from(packed.unwrap_or(plain).clone());
        let mut answer = ([(header::CONTENT_TYPE, content_type)], body).into_response();
        if packed.is_some() {
            let gzip = HeaderValue::from_static("gzip");
            answer.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        }
        answer
    };
    let kept = answer.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        kept.insert(header::ETAG, tag);
    }
    kept.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    kept.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    answer
}
