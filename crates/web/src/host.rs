//! Checks the header `Host` against the names of this server.
//!
//! With DNS rebinding, a foreign page makes a browser resolve the page's name to this machine's
//! address, and then reads the responses. Such requests still have the foreign name in `Host`. A
//! request to an address involves no name and is accepted.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};

/// Returns the value of `Host`. HTTP/1.1 requires exactly one; with two headers, a proxy might have
/// used the other one. HTTP/1.0 requests may have none.
pub(crate) fn host_header(request: &Request) -> Result<Option<&HeaderValue>, &'static str> {
    let mut sent = request.headers().get_all(header::HOST).iter();
    match (sent.next(), sent.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, _) if request.version() < Version::HTTP_11 => Ok(None),
        _ => Err("a request must have exactly one Host header"),
    }
}

/// Host names under which the server may be addressed.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Accepts these names, in addition to addresses and `localhost`.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let lower = |name: String| name.trim_end_matches('.').to_ascii_lowercase();
        Self(names.into_iter().map(lower).collect())
    }

    /// Returns whether a value of the header is accepted. The port is ignored.
    pub(crate) fn allows(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split_once(']').map(|(address, _)| address);
            return address.is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_since_http_1_1_need_exactly_one_host() {
        let cases = [
            (Version::HTTP_11, &["a"][..], Ok(Some("a"))),
            (Version::HTTP_11, &[], Err(())),
            (Version::HTTP_11, &["a", "a"], Err(())),
            (Version::HTTP_10, &["a"], Ok(Some("a"))),
            (Version::HTTP_10, &[], Ok(None)),
            (Version::HTTP_10, &["a", "b"], Err(())),
        ];
        for (version, hosts, expected) in cases {
            let mut request = Request::builder().version(version);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            let request = request.body(axum::body::Body::empty()).expect("a request");
            let host = host_header(&request).map(|host| host.and_then(|host| host.to_str().ok()));
            assert_eq!(host.map_err(drop), expected, "{version:?} {hosts:?}");
        }
    }

    #[test]
    fn only_addresses_and_listed_hosts_are_allowed() {
        let hosts = Hosts::new(["Node1.example.".to_owned()]);
        let cases = [
            ("127.0.0.1:9470", true),
            ("127.0.0.1", true),
            ("[::1]:9470", true),
            ("[::1]", true),
            ("10.1.2.3:80", true),
            ("localhost:9470", true),
            ("LOCALHOST.", true),
            ("node1.example:9470", true),
            ("node1.example", true),
            ("evil.example:9470", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("xnode1.example", false),
            ("[evil]", false),
            ("", false),
            (":9470", false),
        ];
        for (host, allowed) in cases {
            assert_eq!(hosts.allows(host), allowed, "{host}");
        }
    }
}
