//! Routes of `/metrics`, `/livez` and `/readyz`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::task::spawn_blocking;

use crate::api::accepts_gzip;
use crate::host::{self, Hosts};
use crate::page::{Page, Shared};
use crate::peer::Peer;
use crate::server::RENDERERS;
use crate::turns::Turns;

/// Returns the page of `/metrics`; `None` before the first batch.
type Metrics = dyn Fn(&Wish) -> Option<Page> + Send + Sync;

/// The format in which a client wants the page of `/metrics`.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The `Accept` header. A value that is not ASCII counts as missing.
    pub accept: Option<String>,
    /// Whether to compress the page. Every client understands an uncompressed page.
    pub gzip: bool,
    /// The scraper; `None` for other clients. Only scrapers, such as Prometheus, send their
    /// timeout.
    pub scraper: Option<Scraper>,
}

/// A client that requests the page repeatedly.
#[derive(Clone, Debug)]
pub struct Scraper {
    /// The scraper's address, user agent, timeout and query, which distinguish it from others.
    pub name: String,
    /// The peer with which the scraper shares limits.
    pub peer: Option<Peer>,
}

/// The header in which a scraper sends its timeout.
const SCRAPE_TIMEOUT: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Request extension: the address of the client.
#[derive(Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Returns whether the agent is ready. If not, returns the reason.
type Ready = dyn Fn() -> Result<(), String> + Send + Sync;

/// The functions that provide responses. Pages are made on separate threads, and may wait for a
/// batch. `ready` is called on the thread that serves all clients, so it must not
/// block or take more than a few milliseconds.
#[derive(Clone)]
pub struct Handlers {
    /// Returns the page of `/metrics`. `None` means that there is no batch yet; the client then
    /// receives status 503.
    pub metrics: Arc<Metrics>,
    /// Returns whether the agent is ready. If not, the client receives the reason.
    pub ready: Arc<Ready>,
}

/// Response extension: the page that the response holds until it is sent.
#[derive(Clone)]
pub(crate) struct Held(pub(crate) Arc<Shared>);

const TEXT: &str = "text/plain; charset=utf-8";

/// These bodies contain untrusted names, so browsers must not sniff them as HTML.
const NO_SNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

pub(crate) fn router(handlers: Handlers, hosts: Option<Hosts>) -> Router {
    let turns = Arc::new(Turns::new(RENDERERS));
    let metrics = move |handlers, request| metrics(Arc::clone(&turns), handlers, request);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || text(StatusCode::OK, "alive\n")))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(async || {
            text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are allowed\n",
            )
        })
        .fallback(async || text(StatusCode::NOT_FOUND, "no such page; see /\n"))
        .with_state(handlers)
        .layer(from_fn(move |request, next| {
            check_host(hosts.clone(), request, next)
        }))
}

/// Rejects requests for a host name other than the names of this server.
async fn check_host(hosts: Option<Hosts>, request: Request, next: Next) -> Response {
    let host = match host::host_header(&request) {
        Ok(host) => host,
        Err(words) => return answer(StatusCode::BAD_REQUEST, TEXT, format!("{words}\n")),
    };
    let own = |host: &HeaderValue| {
        let known = |hosts: &Hosts| host.to_str().is_ok_and(|host| hosts.allows(host));
        hosts.as_ref().is_none_or(known)
    };
    // A request without a `Host` header does not come from a browser.
    if !host.is_none_or(own) {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "the Host header names another server: use localhost or an address, or add the name to hosts in \
             the section [web] of the configuration\n",
        );
    }
    next.run(request).await
}

async fn metrics(
    turns: Arc<Turns>,
    State(handlers): State<Handlers>,
    request: Request,
) -> Response {
    let headers = request.headers();
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let wish = Wish {
        accept: accept.map(str::to_owned),
        gzip: accepts_gzip(headers),
        scraper: scraper(&request),
    };
    let has_body = request.method() != Method::HEAD;
    // A task that was handed over outlives its connection, but a request that waits here does not.
    // Therefore clients that come and go do not build up a queue.
    let Some(turn) = turns.take(peer(&request)).await else {
        return failed();
    };
    let render = move || {
        let _turn = turn;
        let page = (handlers.metrics)(&wish)?;
        let (shared, encoding) = (Held(page.shared.clone()), page.encoding());
        let (kind, sent) = (page.content_type, page.sent.clone());
        Some((shared, sent, encoding, kind, page.into_body()))
    };
    // Rendering a large page takes longer than other clients should wait.
    let page = match spawn_blocking(render).await {
        Ok(page) => page,
        // Resuming the panic ends this connection, as if this thread had panicked.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => return failed(),
    };
    let Some((shared, sent, encoding, kind, body)) = page else {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            "no data yet: the first batch is being collected\n",
        );
    };
    let Ok(body) = body else {
        return failed();
    };
    let mut response = answer(StatusCode::OK, kind, body);
    let headers = response.headers_mut();
    let vary = HeaderValue::from_static("accept, accept-encoding");
    headers.insert(header::VARY, vary);
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response.extensions_mut().insert(shared);
    if let Some(sent) = sent.filter(|_| has_body) {
        response.extensions_mut().insert(sent);
    }
    response
}

fn scraper(request: &Request) -> Option<Scraper> {
    let headers = request.headers();
    let timeout = headers.get(SCRAPE_TIMEOUT)?;
    let address = request.extensions().get().map(|ClientAddress(from)| *from);
    let agent = headers.get(header::USER_AGENT);
    let query = request.uri().query();
    Some(Scraper {
        name: format!("{address:?} {agent:?} {timeout:?} {query:?}"),
        peer: peer(request),
    })
}

fn peer(request: &Request) -> Option<Peer> {
    request.extensions().get().copied()
}

async fn ready(State(handlers): State<Handlers>) -> Response {
    match (handlers.ready)() {
        Ok(()) => text(StatusCode::OK, "ready\n"),
        Err(reason) => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            format!("not ready: {reason}\n"),
        ),
    }
}

/// Returns the response to a request that is refused because too many others are waiting.
pub(crate) fn busy() -> Response {
    let mut response = text(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many requests are in progress: try again\n",
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn failed() -> Response {
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the page could not be rendered\n",
    )
}

fn text(status: StatusCode, words: &'static str) -> Response {
    answer(status, TEXT, words)
}

fn answer(status: StatusCode, content_type: &'static str, body: impl IntoResponse) -> Response {
    let headers = [(header::CONTENT_TYPE, content_type), NO_SNIFF];
    (status, headers, body).into_response()
}
