//! What is answered where.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::host::Hosts;
use crate::page::{Page, Shared};

/// Gives the page of `/metrics` for a header `Accept`; `None` before the first batch.
type Metrics = dyn Fn(Option<&str>) -> Option<Page> + Send + Sync;

/// Says whether the agent is ready, or why not.
type Ready = dyn Fn() -> Result<(), String> + Send + Sync;

/// Where the answers come from. Both are called on the server's only thread: they must neither
/// block nor take more than a few milliseconds, and they must change nothing.
#[derive(Clone)]
pub struct Handlers {
    /// The page of `/metrics` for a header `Accept`. `None` means that there is no batch yet, which
    /// is answered with 503.
    pub metrics: Arc<Metrics>,
    /// Whether the agent is ready; the reason why not goes to the client as it is.
    pub ready: Arc<Ready>,
}

/// An extension of an answer: the page that it holds until it is sent.
#[derive(Clone)]
pub(crate) struct Held(pub(crate) Arc<Shared>);

const TEXT: &str = "text/plain; charset=utf-8";

/// Names of strangers stand in these bodies: no browser may take them for HTML by their looks.
const NO_SNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

pub(crate) fn router(handlers: Handlers, hosts: Option<Hosts>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || text(StatusCode::OK, "alive\n")))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(async || {
            text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        })
        .fallback(async || text(StatusCode::NOT_FOUND, "no such page; see /\n"))
        .with_state(handlers)
        .layer(from_fn(move |request, next| {
            check_host(hosts.clone(), request, next)
        }))
}

/// Refuses a request for a name that is not this server's.
async fn check_host(hosts: Option<Hosts>, request: Request, next: Next) -> Response {
    // A browser sends one Host, and a request without any is from none.
    let mut sent = request.headers().get_all(header::HOST).iter();
    let (host, more) = (sent.next(), sent.next());
    let own = |host: &header::HeaderValue| {
        let known = |hosts: &Hosts| host.to_str().is_ok_and(|host| hosts.allows(host));
        hosts.as_ref().is_none_or(known)
    };
    if more.is_some() || !host.is_none_or(own) {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "not served under this name: use localhost or an address, or add the name to hosts in the \
             section [web] of the configuration\n",
        );
    }
    next.run(request).await
}

async fn metrics(State(handlers): State<Handlers>, headers: HeaderMap) -> Response {
    // An `Accept` that is not ASCII is no media type; it counts as none.
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    match (handlers.metrics)(accept) {
        Some(page) => {
            let shared = Held(page.shared.clone());
            let mut response = answer(StatusCode::OK, page.content_type, page.into_body());
            let vary = header::HeaderValue::from_static("accept");
            response.headers_mut().insert(header::VARY, vary);
            response.extensions_mut().insert(shared);
            response
        }
        None => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "no figures yet: the first batch is being collected\n",
        ),
    }
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

fn text(status: StatusCode, words: &'static str) -> Response {
    answer(status, TEXT, words)
}

fn answer(status: StatusCode, content_type: &'static str, body: impl IntoResponse) -> Response {
    let headers = [(header::CONTENT_TYPE, content_type), NO_SNIFF];
    (status, headers, body).into_response()
}
