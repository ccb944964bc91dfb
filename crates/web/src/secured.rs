//! TLS, passwords and headers, which can be replaced while the server runs.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::basic::{Users, Verifier};
use crate::refusals::{Refusals, Refused};
use crate::tls::Tls;

/// Headers that the configuration may add to every response.
const ALLOWED: [HeaderName; 5] = [
    header::CONTENT_SECURITY_POLICY,
    header::STRICT_TRANSPORT_SECURITY,
    header::X_CONTENT_TYPE_OPTIONS,
    header::X_FRAME_OPTIONS,
    header::X_XSS_PROTECTION,
];

/// The security settings of a web configuration.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// TLS instead of plain HTTP.
    pub tls: Option<Tls>,
    /// Users; empty if no password is required.
    pub users: Users,
    /// Headers added to every response that lacks them.
    pub headers: Headers,
}

/// Headers added to every response.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Rejects headers that do not concern security. Errors contain neither names nor values.
    pub fn new(headers: &[(String, String)]) -> Result<Self, String> {
        let mut taken = Vec::new();
        for (at, (name, value)) in headers.iter().enumerate() {
            let lower = name.to_ascii_lowercase();
            let Some(name) = ALLOWED.iter().find(|allowed| allowed.as_str() == lower) else {
                return Err(format!(
                    "header number {} (in order of name) is not one of {}",
                    at + 1,
                    ALLOWED.map(|name| name.to_string()).join(", ")
                ));
            };
            let value = HeaderValue::from_str(value).map_err(|_| {
                format!("the value of {name} has a character that is not allowed in headers")
            })?;
            taken.push((name.clone(), value));
        }
        Ok(Self(taken))
    }
}

/// The current security settings of a server, which are replaced as a whole.
#[derive(Debug, Default)]
pub struct Secured(RwLock<Arc<Security>>);

impl Secured {
    /// Creates the initial settings.
    pub fn new(security: Security) -> Self {
        Self(RwLock::new(Arc::new(security)))
    }

    /// Replaces the settings for new connections and new requests.
    pub fn replace(&self, security: Security) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *now = Arc::new(security);
    }

    pub(crate) fn now(&self) -> Arc<Security> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Decides which requests may be answered.
pub(crate) struct Guard {
    pub(crate) secured: Arc<Secured>,
    pub(crate) refusals: Arc<Refusals>,
    verifier: Verifier,
}

impl Guard {
    pub(crate) fn new(secured: Arc<Secured>, refusals: Arc<Refusals>) -> Self {
        Self {
            secured,
            refusals,
            verifier: Verifier::new(),
        }
    }

    /// Returns whether a request may be answered; if not, returns the response that refuses it.
    pub(crate) async fn admit(&self, sent: &HeaderMap, from: IpAddr) -> Result<(), Response> {
        let security = self.secured.now();
        let checked = self.verifier.check(&security.users, sent, from).await;
        checked.map_err(|why| {
            self.refusals.count(why);
            refuse(why)
        })
    }

    /// Adds the headers of the settings to a response.
    pub(crate) fn complete(&self, response: &mut Response<Body>) {
        if response.status() == StatusCode::MISDIRECTED_REQUEST {
            self.refusals.count(Refused::Host);
        }
        for (name, value) in &self.secured.now().headers.0 {
            let headers = response.headers_mut();
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn refuse(why: Refused) -> Response {
    const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
    match why {
        Refused::Busy => {
            let retry = (header::RETRY_AFTER, "1");
            let words = "too many password checks in progress: try again\n";
            (StatusCode::TOO_MANY_REQUESTS, [TEXT, retry], words).into_response()
        }
        _ => {
            let realm = r#"Basic realm="noctule", charset="UTF-8""#;
            let asked = (header::WWW_AUTHENTICATE, realm);
            let words = "a user name and a password are required\n";
            (StatusCode::UNAUTHORIZED, [TEXT, asked], words).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_security_headers_are_accepted() {
        let of = |name: &str, value: &str| Headers::new(&[(name.into(), value.into())]);
        assert!(of("X-Frame-Options", "deny").is_ok());
        assert!(
            of("Set-Cookie", "a=b")
                .unwrap_err()
                .contains("header number 1 ")
        );
        let words = of("X-Frame-Options", "hunter2\r\nSet-Cookie: a=b").unwrap_err();
        assert!(!words.contains("hunter2"), "{words}");
    }

    #[test]
    fn existing_header_of_an_answer_stays() {
        let headers = [
            ("X-Frame-Options".to_owned(), "deny".to_owned()),
            ("X-Content-Type-Options".to_owned(), "other".to_owned()),
        ];
        let security = Security {
            headers: Headers::new(&headers).unwrap(),
            ..Security::default()
        };
        let guard = Guard::new(Arc::new(Secured::new(security)), Arc::default());
        let mut answer = ([(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], "").into_response();
        guard.complete(&mut answer);
        assert_eq!(answer.headers()["x-frame-options"], "deny");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    }
}
