//! An HTTP client that returns everything it receives.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header names are in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a header, or an empty string if the header is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Sends a request in HTTP/1.0, so that the body is not chunked.
pub(crate) fn request(address: &str, method: &str, path: &str, accept: Option<&str>) -> Answer {
    let accept = accept.map_or(String::new(), |a| format!("Accept: {a}\r\n"));
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n{accept}\r\n");
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a time-out");
    stream
        .write_all(head.as_bytes())
        .expect("the request is sent");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("an answer in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    Answer {
        status: status.expect("a status").parse().expect("a number"),
        headers: lines.map(header).collect(),
        body: body.to_owned(),
    }
}

/// Returns status and size of a compressed `/metrics` page, requested as Prometheus does.
pub(crate) fn scrape_packed(address: &str) -> (u16, usize) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a time-out");
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = String::from_utf8_lossy(&answer[..answer.len().min(1024)]);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), answer.len())
}
