//! The section `[otlp]`: an OpenTelemetry receiver.

use std::collections::BTreeMap;
use std::time::Duration;

use noctule_otlp::{Endpoint, Protocol, Settings};
use serde::Deserialize;

use super::Count;
use crate::exit::Usage;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Otlp {
    /// Empty: none.
    pub(crate) endpoint: String,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) compression: Compression,
    pub(crate) interval_seconds: f64,
    pub(crate) timeout_seconds: f64,
    pub(crate) queue_bytes: u64,
    pub(crate) metrics: bool,
    pub(crate) events: OtlpEvents,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// By the names that OpenTelemetry's own variables have.
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
    /// Those of processes that went wrong, OOM kills, changed verdicts.
    #[default]
    Warnings,
    /// Each that `[events]` looks at.
    All,
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            protocol: OtlpProtocol::Http,
            headers: BTreeMap::new(),
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
    /// Whether there is a receiver.
    pub(crate) fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }

    /// The events that are sent.
    pub(crate) fn wanted_events(&self) -> OtlpEvents {
        match self.is_on() {
            true => self.events,
            false => OtlpEvents::Off,
        }
    }

    /// How requests are sent.
    pub(crate) fn settings(&self) -> Result<Settings, Usage> {
        let endpoint = self.endpoint()?;
        let header = |(name, value): (&String, &String)| {
            Settings::header(name, value).ok_or_else(|| {
                // The value may be a credential.
                Usage(format!(
                    "otlp.headers: {name:?} is no header, or its value is none"
                ))
            })
        };
        let agent = concat!("noctule/", env!("CARGO_PKG_VERSION"));
        let Some((_, agent)) = Settings::header("user-agent", agent) else {
            return Err(Usage("the version is no value of a header".into()));
        };
        Ok(Settings {
            endpoint,
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
        Endpoint::parse(&self.endpoint, protocol)
            .map_err(|error| Usage(format!("otlp.endpoint is {:?}: {error}", self.endpoint)))
    }

    pub(super) fn check(&self) -> Result<(), Usage> {
        if !self.is_on() {
            return Ok(());
        }
        self.settings().map(|_| ())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(), Usage> {
        let otlp: Otlp = toml::from_str(text).expect("parses");
        otlp.check()
    }

    #[test]
    fn what_would_not_work_is_said_at_the_start() {
        let good = [
            "",
            "endpoint = \"http://127.0.0.1:4318\"\nheaders = { authorization = \"Bearer x\" }",
            "endpoint = \"http://[::1]\"\nprotocol = \"grpc\"",
        ];
        for text in good {
            assert!(parse(text).is_ok(), "{text}");
        }
        let bad = [
            ("endpoint = \"127.0.0.1:4318\"", "http://"),
            ("endpoint = \"https://x\"", "TLS"),
            (
                "endpoint = \"http://x/y\"\nprotocol = \"grpc\"",
                "not be used",
            ),
            (
                "endpoint = \"http://x\"\nheaders = { \"a b\" = \"secret\" }",
                "no header",
            ),
        ];
        for (text, words) in bad {
            let error = parse(text).expect_err(text);
            assert!(error.0.contains(words), "{}", error.0);
            assert!(!error.0.contains("secret"), "{}", error.0);
        }
    }
}
