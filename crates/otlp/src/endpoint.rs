//! The address of the receiver.

use hyper::Uri;

use crate::Signal;

/// The protocol of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A POST with protobuf for each request (`http/protobuf`).
    #[default]
    Http,
    /// gRPC over HTTP/2.
    Grpc,
}

/// The address of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address. An IPv6 address has no brackets.
    pub host: String,
    /// The port, by default the port of the protocol.
    pub port: u16,
    /// The path before `/v1/metrics`, without a slash at the end.
    path: String,
    protocol: Protocol,
    tls: bool,
}

/// Why an address cannot be used as an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableEndpoint(pub &'static str);

impl Endpoint {
    /// Parses `http://HOST[:PORT][/PATH]`, or the same with `https`.
    pub fn parse(text: &str, protocol: Protocol) -> Result<Self, UnusableEndpoint> {
        let uri: Uri = text.parse().map_err(|_| UnusableEndpoint("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => {
                return Err(UnusableEndpoint(
                    "the URL must start with http:// or https://",
                ));
            }
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or(UnusableEndpoint("the URL has no host"))?;
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(UnusableEndpoint(
                "the URL contains credentials: set otlp.headers instead",
            ));
        }
        let path = uri.path().trim_end_matches('/');
        if uri.query().is_some() || (protocol == Protocol::Grpc && !path.is_empty()) {
            return Err(UnusableEndpoint(
                "the URL has a path or query that the protocol does not use",
            ));
        }
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(match (tls, protocol) {
                // A TLS endpoint is usually a public service or behind a proxy.
                (true, _) => 443,
                (false, Protocol::Http) => 4318,
                (false, Protocol::Grpc) => 4317,
            }),
            path: path.to_owned(),
            protocol,
            tls,
        })
    }

    /// Returns the protocol of requests.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns whether requests use TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns host and port, in URL form.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(crate) fn path(&self, signal: Signal) -> String {
        match (self.protocol, signal) {
            (Protocol::Http, signal) => format!("{}/v1/{}", self.path, signal.name()),
            (Protocol::Grpc, Signal::Metrics) => {
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export".to_owned()
            }
            (Protocol::Grpc, Signal::Logs) => {
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_endpoints_are_parsed() {
        let cases = [
            (
                "http://127.0.0.1:4318",
                Protocol::Http,
                "127.0.0.1:4318",
                "/v1/metrics",
            ),
            (
                "http://otel.example/",
                Protocol::Http,
                "otel.example:4318",
                "/v1/metrics",
            ),
            (
                "http://[::1]/api/v1/otlp/",
                Protocol::Http,
                "[::1]:4318",
                "/api/v1/otlp/v1/metrics",
            ),
            (
                "http://x",
                Protocol::Grpc,
                "x:4317",
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ),
            (
                "https://otel.example/otlp",
                Protocol::Http,
                "otel.example:443",
                "/otlp/v1/metrics",
            ),
            (
                "https://otel.example:4317",
                Protocol::Grpc,
                "otel.example:4317",
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ),
        ];
        for (text, protocol, authority, path) in cases {
            let endpoint = Endpoint::parse(text, protocol).expect(text);
            assert_eq!(endpoint.authority(), authority);
            assert_eq!(endpoint.path(Signal::Metrics), path);
            assert_eq!(endpoint.is_tls(), text.starts_with("https"));
        }
    }

    #[test]
    fn unusable_endpoints_are_refused() {
        let http = [
            "",
            "localhost:4318",
            "ftp://x",
            "http://",
            "http://u:p@x",
            "http://x/?a=b",
        ];
        for text in http {
            assert!(Endpoint::parse(text, Protocol::Http).is_err(), "{text}");
        }
        assert!(Endpoint::parse("http://x/path", Protocol::Grpc).is_err());
    }
}
