//! Headers and access check for the page and its API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use crate::api::refuse;
use crate::host::{self, Hosts};

/// Only scripts of this server may run, and they may connect only to this server. The hash belongs
/// to the import map in `ui/index.html`, because browsers do not load import maps from files.
pub(crate) const POLICY: &str = "default-src 'none'; \
    script-src 'self' 'sha256-fQ4xixOq3mHgBvvm7D1toF4qIwQ3/uNilAJCuDUfhkg='; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Rejects requests for other hosts, and adds the headers.
pub(crate) fn protect(routes: Router, hosts: Arc<Hosts>) -> Router {
    routes.layer(from_fn_with_state(hosts, guard))
}

async fn guard(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let host = host::host_header(&request).map(|host| host.and_then(|it| it.to_str().ok()));
    let allowed = host.map(|host| host.is_some_and(|host| hosts.allows(host)));
    let mut response = match allowed {
        Ok(true) => next.run(request).await,
        Err(words) => refuse(StatusCode::BAD_REQUEST, words),
        Ok(false) => refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "the Host header names another server: use an address or localhost, or add the name to \
             hosts in the section [web] of the configuration",
        ),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
