//! The section `[otlp]`: settings of an OpenTelemetry receiver.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use noctule_otlp::{Endpoint, Protocol, Settings, Tls, TlsPart, TlsWish};
use serde::Deserialize;

use super::Count;
use crate::changes::Files;
use crate::exit::Usage;
use crate::private::{self, Readers};

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Otlp {
    /// Empty if there is no receiver.
    pub(crate) endpoint: String,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) headers: BTreeMap<String, String>,
    /// Certificate authorities of the receiver; empty to trust the system's authorities.
    pub(crate) ca_file: String,
    /// The client certificate; empty if there is none.
    pub(crate) cert_file: String,
    pub(crate) key_file: String,
    pub(crate) compression: Compression,
    pub(crate) interval_seconds: f64,
    pub(crate) timeout_seconds: f64,
    pub(crate) queue_bytes: u64,
    pub(crate) metrics: bool,
    pub(crate) events: OtlpEvents,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// Named like the values of OpenTelemetry's environment variables.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) enum OtlpProtocol {
    #[default]
    #[serde(rename = "http/protobuf")]
    Http,
    #[serde(rename = "grpc")]
    Grpc,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compression {
    #[default]
    Gzip,
    None,
}

/// Which events are sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OtlpEvents {
    Off,
    /// Abnormal exits of processes, OOM kills and changed verdicts.
    #[default]
    Warnings,
    /// Every event that `[events]` enables.
    All,
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            protocol: OtlpProtocol::Http,
            headers: BTreeMap::new(),
            ca_file: String::new(),
            cert_file: String::new(),
            key_file: String::new(),
            compression: Compression::Gzip,
            interval_seconds: 60.0,
            timeout_seconds: 10.0,
            queue_bytes: 16 << 20,
            metrics: true,
            events: OtlpEvents::Warnings,
            attributes: BTreeMap::new(),
        }
    }
}

impl Otlp {
    /// Returns whether a receiver is configured.
    pub(crate) fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }

    /// Returns which events are sent.
    pub(crate) fn wanted_events(&self) -> OtlpEvents {
        match self.is_on() {
            true => self.events,
            false => OtlpEvents::Off,
        }
    }

    /// Returns the settings of requests. Reads the certificate files.
    pub(crate) fn settings(&self) -> Result<Settings, Usage> {
        let endpoint = self.endpoint()?;
        let tls = endpoint.is_tls().then(|| self.tls()).transpose()?;
        Ok(Settings {
            tls,
            ..self.untrusting(endpoint)?
        })
    }

    /// Returns the settings without TLS.
    fn untrusting(&self, endpoint: Endpoint) -> Result<Settings, Usage> {
        let header = |(name, value): (&String, &String)| {
            Settings::header(name, value).ok_or_else(|| {
                // The value may be a credential, so the message does not contain it.
                Usage(format!(
                    "otlp.headers: {name:?} or its value is not valid in an HTTP header"
                ))
            })
        };
        let agent = concat!("noctule/", env!("CARGO_PKG_VERSION"));
        let Some((_, agent)) = Settings::header("user-agent", agent) else {
            return Err(Usage("the version is not a valid header value".into()));
        };
        Ok(Settings {
            endpoint,
            tls: None,
            headers: self.headers.iter().map(header).collect::<Result<_, _>>()?,
            gzip: self.compression == Compression::Gzip,
            timeout: Duration::from_secs_f64(self.timeout_seconds),
            agent,
        })
    }

    fn endpoint(&self) -> Result<Endpoint, Usage> {
        let protocol = match self.protocol {
            OtlpProtocol::Http => Protocol::Http,
            OtlpProtocol::Grpc => Protocol::Grpc,
        };
        let parsed = Endpoint::parse(&self.endpoint, protocol);
        parsed.map_err(|error| {
            let shown = without_secrets(&self.endpoint);
            Usage(format!("otlp.endpoint is {shown:?}: {error}"))
        })
    }

    pub(super) fn check(&self) -> Result<(), Usage> {
        if !self.is_on() {
            return Ok(());
        }
        let endpoint = self.endpoint()?;
        let files = [&self.ca_file, &self.cert_file, &self.key_file];
        if !endpoint.is_tls() && files.iter().any(|file| !file.is_empty()) {
            return Err(Usage(format!(
                "otlp.ca_file, cert_file and key_file need TLS, but otlp.endpoint is {:?}: start \
                 it with https://",
                self.endpoint
            )));
        }
        if self.cert_file.is_empty() != self.key_file.is_empty() {
            return Err(Usage(
                "otlp.cert_file and otlp.key_file: only one is set, but both are needed".into(),
            ));
        }
        self.untrusting(endpoint).map(|_| ())
    }

    /// Returns the current versions of the TLS files.
    pub(crate) fn files(&self) -> Files {
        let mut files = Files::default();
        for path in [&self.ca_file, &self.cert_file, &self.key_file] {
            if !path.is_empty() {
                files.note(Path::new(path));
            }
        }
        files
    }

    /// Reads the TLS files.
    pub(crate) fn tls(&self) -> Result<Tls, Usage> {
        let read = |key: &str, path: &str, readers| {
            if path.is_empty() {
                return Ok(None);
            }
            let found = private::read(Path::new(path), readers);
            found
                .map(|found| Some(found.bytes))
                .map_err(|error| Usage(format!("otlp.{key} {path}: {error}")))
        };
        let authorities = read("ca_file", &self.ca_file, Readers::All)?;
        let certificate = read("cert_file", &self.cert_file, Readers::All)?;
        let key = read("key_file", &self.key_file, Readers::Group)?;
        let wish = TlsWish {
            authorities: authorities.as_deref(),
            own: certificate.as_deref().zip(key.as_deref()),
        };
        Tls::new(&wish).map_err(|error| {
            let (key, path) = match error.part {
                // Versions and cipher suites are not configurable here.
                TlsPart::Authorities | TlsPart::Choice => ("ca_file", &self.ca_file),
                TlsPart::Certificate => ("cert_file", &self.cert_file),
                TlsPart::Key => ("key_file", &self.key_file),
            };
            let place = match path.is_empty() {
                true => format!("otlp.{key}"),
                false => format!("otlp.{key} {path}"),
            };
            Usage(format!("{place}: {error}"))
        })
    }

    pub(super) fn numbers(&self) -> [(&'static str, f64, f64, f64); 2] {
        [
            ("otlp.interval_seconds", self.interval_seconds, 0.1, 3600.0),
            ("otlp.timeout_seconds", self.timeout_seconds, 0.1, 600.0),
        ]
    }

    pub(super) fn counts(&self) -> [Count; 1] {
        [("otlp.queue_bytes", self.queue_bytes, 64 << 10, 1 << 32)]
    }
}

/// Returns the endpoint for messages, without a password and without the query, which can contain a
/// key.
fn without_secrets(endpoint: &str) -> String {
    let endpoint = endpoint.split(['?', '#']).next().unwrap_or_default();
    match endpoint.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.find("://").map_or("", |at| &before[..at + 3]);
            format!("{scheme}***@{host}")
        }
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(), Usage> {
        let otlp: Otlp = toml::from_str(text).expect("parses");
        otlp.check()
    }

    #[test]
    fn unreadable_file_is_named() {
        let text = "endpoint = \"https://x\"\nca_file = \"/no/such/file\"";
        let otlp: Otlp = toml::from_str(text).expect("parses");
        assert!(otlp.check().is_ok(), "files are read by who sends");
        let error = otlp.settings().expect_err("there is no file").0;
        assert!(error.starts_with("otlp.ca_file /no/such/file: "), "{error}");
    }

    #[test]
    fn unusable_settings_are_rejected_at_start() {
        let good = [
            "",
            "endpoint = \"http://127.0.0.1:4318\"\nheaders = { authorization = \"Bearer x\" }",
            "endpoint = \"http://[::1]\"\nprotocol = \"grpc\"",
            "endpoint = \"https://x\"\nca_file = \"a\"",
        ];
        for text in good {
            assert!(parse(text).is_ok(), "{text}");
        }
        let bad = [
            ("endpoint = \"127.0.0.1:4318\"", "http://"),
            ("endpoint = \"ftp://x\"", "https://"),
            ("endpoint = \"http://user:secret@x\"", "\"http://***@x\""),
            ("endpoint = \"ftp://user:secret@x\"", "\"ftp://***@x\""),
            ("endpoint = \"http://x?key=secret\"", "\"http://x\""),
            ("endpoint = \"http://x\"\nca_file = \"a\"", "need TLS"),
            ("endpoint = \"https://x\"\nkey_file = \"a\"", "both"),
            (
                "endpoint = \"http://x/y\"\nprotocol = \"grpc\"",
                "does not use",
            ),
            (
                "endpoint = \"http://x\"\nheaders = { \"a b\" = \"secret\" }",
                "not valid",
            ),
        ];
        for (text, words) in bad {
            let error = parse(text).expect_err(text);
            assert!(error.0.contains(words), "{}", error.0);
            assert!(!error.0.contains("secret"), "{}", error.0);
        }
    }
}
