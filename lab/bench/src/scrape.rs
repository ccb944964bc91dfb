//! A scrape over HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// Time from connecting to the last byte, and size of the response.
pub(super) struct Scrape {
    pub(super) time: Duration,
    pub(super) bytes: usize,
}

/// Gets `/metrics` as Prometheus does.
pub(super) fn scrape(address: &str) -> Result<Scrape> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).context("connecting for a scrape")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n"
    );
    stream
        .write_all(request.as_bytes())
        .context("asking for a scrape")?;
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .context("reading a scrape")?;
    let time = began.elapsed();
    ensure!(
        answer.starts_with(b"HTTP/1.1 200"),
        "the scrape was refused"
    );
    Ok(Scrape {
        time,
        bytes: answer.len(),
    })
}
