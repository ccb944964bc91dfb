//! The connection to the receiver, which is opened when needed.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    TE, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use rustls::client::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Signal;
use crate::endpoint::{Endpoint, Protocol};
use crate::grpc;
use crate::outcome::{Outcome, Status, accepted};
use crate::queue::Packed;
use crate::tls::{self, Tls};

/// Maximum number of bytes to read from a response.
const ANSWER_BYTES: usize = 64 * 1024;

/// Maximum number of characters to quote from the receiver's message.
const WORDS: usize = 200;

/// Where and how to send requests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The receiver.
    pub endpoint: Endpoint,
    /// TLS settings. `None` disables TLS, whatever the endpoint requires.
    pub tls: Option<Tls>,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// Whether to compress requests.
    pub gzip: bool,
    /// Time limit for connecting, sending a request and receiving the response.
    pub timeout: Duration,
    /// Name and version of the agent, shown in the receiver's logs.
    pub agent: HeaderValue,
}

impl Settings {
    /// Parses a request header; returns `None` if it is invalid.
    pub fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
        let mut value = HeaderValue::from_str(value).ok()?;
        // The value may be a credential, so no log message may show it.
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
    }

    /// Encodes a request as it is sent.
    pub(crate) fn pack(&self, body: &[u8], items: u64) -> Packed {
        let compressed = self.gzip.then(|| compress(body)).flatten();
        let is_compressed = compressed.is_some();
        let sent = compressed.unwrap_or_else(|| body.to_vec());
        let body = match self.endpoint.protocol() {
            Protocol::Http => sent.into(),
            Protocol::Grpc => grpc::framed(is_compressed, &sent).into(),
        };
        Packed { body, items }
    }
}

/// Returns the gzip form. Writing to memory does not fail.
fn compress(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

/// Sends requests, one at a time.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    connection: Option<Connection>,
    /// TLS settings of the open connection.
    spoken: Option<Arc<ClientConfig>>,
    /// Whether the receiver has requested a client certificate and not responded to a request
    /// since.
    asked: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Connection {
    Http(http1::SendRequest<Full<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

/// The stream below HTTP, with or without TLS. A trait object ensures that the HTTP code is
/// compiled only once.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why a request got no response.
type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// Creates a client without a connection.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            connection: None,
            spoken: None,
            asked: Arc::default(),
        }
    }

    /// Sends a request without items, to check whether the receiver accepts requests.
    pub async fn probe(&mut self, signal: Signal) -> Outcome {
        let request = self.settings.pack(&[], 0);
        self.send(signal, &request).await
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn send(&mut self, signal: Signal, request: &Packed) -> Outcome {
        let patience = self.settings.timeout;
        let outcome = match timeout(patience, self.exchange(signal, &request.body)).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(failed)) => Outcome::later(self.words(&*failed)),
            Err(_) => Outcome::later(format!("no response within {patience:?}")),
        };
        // A late response on that connection would be mistaken for the response to the next
        // request.
        self.connection = None;
        outcome
    }

    fn words(&self, error: &(dyn std::error::Error + 'static)) -> String {
        let explained = tls::explain(error, &self.settings.endpoint.host);
        // An explanation that concerns TLS takes precedence.
        let asked = self.asked.swap(false, Ordering::Relaxed);
        match (explained, asked) {
            (Some(explained), _) => explained,
            (None, true) => format!("{}: {}", words(error), tls::ASKED),
            (None, false) => words(error),
        }
    }

    async fn exchange(&mut self, signal: Signal, body: &Bytes) -> Result<Outcome, Failed> {
        // Renewed certificates apply from the next request, over a new connection.
        let tls = self.settings.tls.as_ref().map(Tls::config);
        if tls.as_ref().map(Arc::as_ptr) != self.spoken.as_ref().map(Arc::as_ptr) {
            self.connection = None;
            self.spoken = tls;
        }
        // The receiver may have closed an idle connection, which is noticed only now.
        if self.connection.is_some()
            && let Ok(response) = self.ask(signal, body).await
        {
            return self.read(response).await;
        }
        self.connection = Some(self.connect().await?);
        let response = self.ask(signal, body).await?;
        self.read(response).await
    }

    async fn connect(&self) -> Result<Connection, Failed> {
        let Endpoint { host, port, .. } = &self.settings.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let protocol = self.settings.endpoint.protocol();
        let stream: Box<dyn Stream> = match &self.spoken {
            None => Box::new(stream),
            Some(tls) => Box::new(Tls::begin(tls, host, protocol, stream, &self.asked).await?),
        };
        let stream = TokioIo::new(stream);
        Ok(match protocol {
            Protocol::Http => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Connection::Http(sender)
            }
            Protocol::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Connection::Grpc(sender)
            }
        })
    }

    async fn ask(&mut self, signal: Signal, body: &Bytes) -> Result<Response<Incoming>, Failed> {
        let request = self.request(signal, body.clone())?;
        Ok(match &mut self.connection {
            Some(Connection::Http(sender)) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Some(Connection::Grpc(sender)) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            None => return Err("not connected".into()),
        })
    }

    fn request(
        &self,
        signal: Signal,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let Settings {
            endpoint,
            headers,
            gzip,
            ..
        } = &self.settings;
        let path = endpoint.path(signal);
        let authority = endpoint.authority();
        let builder = Request::builder().method(Method::POST);
        let mut builder = match endpoint.protocol() {
            Protocol::Http => {
                let builder = builder
                    .uri(path)
                    .header(HOST, authority)
                    .header(CONTENT_TYPE, "application/x-protobuf")
                    .header(ACCEPT, "application/x-protobuf");
                match gzip {
                    true => builder.header(CONTENT_ENCODING, "gzip"),
                    false => builder,
                }
            }
            Protocol::Grpc => {
                let scheme = match endpoint.is_tls() {
                    true => "https",
                    false => "http",
                };
                let builder = builder
                    .uri(format!("{scheme}://{authority}{path}"))
                    .header(CONTENT_TYPE, "application/grpc")
                    .header(TE, "trailers");
                match gzip {
                    true => builder.header("grpc-encoding", "gzip"),
                    false => builder,
                }
            }
        };
        builder = builder.header(USER_AGENT, &self.settings.agent);
        if let Some(all) = builder.headers_mut() {
            all.extend(headers.clone());
        }
        builder.body(Full::new(body))
    }

    async fn read(&mut self, response: Response<Incoming>) -> Result<Outcome, Failed> {
        self.asked.store(false, Ordering::Relaxed);
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await?;
        Ok(match self.settings.endpoint.protocol() {
            Protocol::Http => http_outcome(head.status, &head.headers, &body.to_bytes()),
            Protocol::Grpc => grpc_outcome(head.status, &head.headers, body),
        })
    }
}

fn http_outcome(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Outcome {
    if status.is_success() {
        return accepted(body);
    }
    let is_message = headers
        .get(CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"application/x-protobuf"));
    let said = match is_message {
        true => Status::decode(body).map(|it| it.said).unwrap_or_default(),
        false => String::from_utf8_lossy(body).into_owned(),
    };
    refused_or_later(status, headers, &said)
}

/// Returns the outcome of an HTTP error. The statuses 429, 502, 503 and 504 mean that the client
/// should retry.
fn refused_or_later(status: StatusCode, headers: &HeaderMap, said: &str) -> Outcome {
    let why = joined(&format!("HTTP {}", status.as_u16()), said);
    match status.as_u16() {
        429 | 502 | 503 | 504 => Outcome::Later {
            after: headers.get(RETRY_AFTER).and_then(retry_after),
            why,
        },
        _ => Outcome::Refused { why },
    }
}

fn grpc_outcome(status: StatusCode, headers: &HeaderMap, body: Collected<Bytes>) -> Outcome {
    if status != StatusCode::OK {
        return refused_or_later(status, headers, "");
    }
    // An error without a body has its status in the headers.
    let trailers = body.trailers().cloned().unwrap_or_default();
    let end = if headers.contains_key("grpc-status") {
        headers
    } else {
        &trailers
    };
    let text = |name: &str| end.get(name).and_then(|it| it.to_str().ok());
    let code = text("grpc-status").and_then(|it| it.parse::<i32>().ok());
    let Some(code) = code else {
        return Outcome::later("the response has no grpc-status");
    };
    if code == 0 {
        return accepted(grpc::message(&body.to_bytes()));
    }
    let details = text("grpc-status-details-bin").and_then(grpc::base64);
    let details = details.and_then(|it| Status::decode(it.as_slice()).ok());
    let after = details.and_then(|it| it.retry_after());
    let why = joined(
        &format!("gRPC {}", grpc::name(code)),
        text("grpc-message").unwrap_or_default(),
    );
    match grpc::allows_retry(code, after.is_some()) {
        true => Outcome::Later { after, why },
        false => Outcome::Refused { why },
    }
}

/// Reads the header as seconds or as a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Joins the strings on one line, shortened and without control characters.
fn joined(what: &str, said: &str) -> String {
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said
        .chars()
        .filter(|c| !c.is_control())
        .take(WORDS)
        .collect();
    match said.is_empty() {
        true => what.to_owned(),
        false => format!("{what}: {said}"),
    }
}

/// Returns an error with its causes.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_str(value).expect("a value");
            (HeaderName::from_static(name), value)
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn answers_are_classified_as_sent_later_or_refused() {
        let outcome = |status: u16, list: &[(&'static str, &str)], body: &[u8]| {
            let status = StatusCode::from_u16(status).expect("a status");
            http_outcome(status, &headers(list), body)
        };
        assert!(matches!(
            outcome(200, &[], b""),
            Outcome::Accepted { rejected: 0, .. }
        ));
        let busy = outcome(429, &[("retry-after", "7")], b"too\nmany");
        let expected = Outcome::Later {
            after: Some(Duration::from_secs(7)),
            why: "HTTP 429: too many".into(),
        };
        assert_eq!(busy, expected);
        for status in [502, 503, 504] {
            assert!(matches!(
                outcome(status, &[], b""),
                Outcome::Later { after: None, .. }
            ));
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert!(
                matches!(outcome(status, &[], b""), Outcome::Refused { .. }),
                "{status}"
            );
        }
        let status = Status {
            code: 3,
            said: "no such field".into(),
            details: Vec::new(),
        };
        let kind = [("content-type", "application/x-protobuf")];
        let expected = Outcome::Refused {
            why: "HTTP 400: no such field".into(),
        };
        assert_eq!(outcome(400, &kind, &status.encode_to_vec()), expected);
    }

    #[test]
    fn retry_after_may_be_a_date() {
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(90));
        let value = HeaderValue::from_str(&soon).expect("a value");
        let after = retry_after(&value).expect("a time");
        assert!(after > Duration::from_secs(60) && after <= Duration::from_secs(90));
        let past = HeaderValue::from_static("Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(retry_after(&past), Some(Duration::ZERO));
        assert_eq!(retry_after(&HeaderValue::from_static("soon")), None);
    }
}
