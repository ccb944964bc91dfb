//! `--web-config`: TLS, passwords and headers, in the format of Prometheus' exporter-toolkit.
//!
//! This file, and the files that it refers to, are read with the rights of the user who started
//! noctule. No message quotes the contents of these files. A thread checks for changes every
//! second, so that certificates can be renewed without a restart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use noctule_web::{
    ClientAuth, Headers, Secured, Security, Tls, TlsPart, TlsVersion, TlsWish, Users,
};
use serde::Deserialize;

use crate::changes::Files;
use crate::exit::Usage;
use crate::private::{self, Readers};
use crate::rights;

/// Interval between checks for changes.
const EVERY: Duration = Duration::from_secs(1);

/// The file, with the keys of exporter-toolkit. Unknown keys are rejected, because ignoring a
/// protection would be unsafe.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WebFile {
    tls_server_config: Option<TlsFile>,
    http_server_config: Option<HttpFile>,
    basic_auth_users: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsFile {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Clients,
    client_ca_file: Option<PathBuf>,
    min_version: Option<Version>,
    max_version: Option<Version>,
    cipher_suites: Vec<String>,
    curve_preferences: Vec<String>,
    /// Without effect, as in exporter-toolkit.
    #[serde(rename = "prefer_server_cipher_suites")]
    _prefer_ours: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpFile {
    /// Without effect; the server only supports HTTP/1.1.
    #[serde(rename = "http2")]
    _http2: bool,
    headers: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Clients {
    #[default]
    #[serde(alias = "")]
    NoClientCert,
    RequestClientCert,
    #[serde(alias = "RequireClientCert")]
    RequireAnyClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Version {
    TLS12,
    TLS13,
}

impl Version {
    const fn to_tls_version(self) -> TlsVersion {
        match self {
            Self::TLS12 => TlsVersion::V12,
            Self::TLS13 => TlsVersion::V13,
        }
    }
}

/// A parsed web configuration, and the files from which it was read.
struct Loaded {
    security: Security,
    files: Files,
}

/// The security settings of the server, updated when the files change.
pub(crate) struct WebConfig {
    pub(crate) secured: Arc<Secured>,
    /// Whether TLS is enabled.
    pub(crate) tls: bool,
    valid: Arc<AtomicBool>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WebConfig {
    /// Reads the configuration and starts to check for changes.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut files = Files::default();
        let place = || Usage(format!("web configuration {}", path.display()));
        let security = read(path, &mut files).with_context(place)?;
        let tls = security.tls.is_some();
        let secured = Arc::new(Secured::new(security.clone()));
        let valid = Arc::new(AtomicBool::new(true));
        let (stop, stopped) = mpsc::channel();
        let mut watch = Watch {
            path: path.to_owned(),
            loaded: Loaded { security, files },
            secured: secured.clone(),
            valid: valid.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("noctule-webconf".into())
            .spawn(move || {
                rights::none();
                while stopped.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    watch.reload_if_changed();
                }
            })
            .context("starting the thread that watches the web configuration")?;
        Ok(Self {
            secured,
            tls,
            valid,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns a flag that is set while the current files are in effect.
    pub(crate) fn validity(&self) -> Arc<AtomicBool> {
        self.valid.clone()
    }
}

impl Drop for WebConfig {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }
}

struct Watch {
    path: PathBuf,
    loaded: Loaded,
    secured: Arc<Secured>,
    valid: Arc<AtomicBool>,
}

impl Watch {
    fn reload_if_changed(&mut self) {
        if !self.loaded.files.changed() {
            return;
        }
        let mut files = Files::default();
        let read = read(&self.path, &mut files);
        // At this moment a file may be partially written, or a key may be newer than its
        // certificate. In both cases the files change again, and are read again.
        self.loaded.files = files;
        let read = read.and_then(|security| {
            let before = &self.loaded.security;
            if before.tls.is_some() && security.tls.is_none() {
                bail!("TLS cannot be switched off while the agent runs");
            }
            // An empty list can be the result of a full disk.
            if !before.users.is_empty() && security.users.is_empty() {
                bail!("passwords cannot be switched off while the agent runs");
            }
            Ok(security)
        });
        self.valid.store(read.is_ok(), Ordering::Relaxed);
        let path = self.path.display();
        match read {
            Ok(security) => {
                self.secured.replace(security.clone());
                self.loaded.security = security;
                tracing::info!("reloaded web configuration {path}");
            }
            Err(error) => {
                tracing::warn!(
                    "web configuration {path}: {error:#}; the previous configuration stays in \
                     effect"
                );
            }
        }
    }
}

pub(crate) fn read(path: &Path, files: &mut Files) -> Result<Security> {
    files.note(path);
    let found = private::read(path, Readers::All)?;
    let parsed = match found.bytes.iter().all(u8::is_ascii_whitespace) {
        true => Ok(WebFile::default()),
        false => serde_yaml_ng::from_slice(&found.bytes),
    };
    let parsed: WebFile = parsed.map_err(|error| Usage(without_quotes(&error)))?;
    let users = Users::new(parsed.basic_auth_users.unwrap_or_default())
        .map_err(|words| Usage(format!("basic_auth_users: {words}")))?;
    if found.shown && !users.is_empty() {
        tracing::warn!(
            "web configuration {}: every user of this machine can read its password hashes: chmod \
             640 it",
            path.display()
        );
    }
    let headers = parsed.http_server_config.unwrap_or_default().headers;
    let headers: Vec<_> = headers.unwrap_or_default().into_iter().collect();
    let headers = Headers::new(&headers)
        .map_err(|words| Usage(format!("http_server_config.headers: {words}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let tls = parsed.tls_server_config;
    let tls = tls.map(|tls| tls.read(folder, files)).transpose()?;
    Ok(Security {
        tls,
        users,
        headers,
    })
}

impl TlsFile {
    /// Reads the files, whose paths are relative to the directory of the configuration.
    fn read(&self, folder: &Path, files: &mut Files) -> Result<Tls> {
        let mut take = |key: &str, path: &Option<PathBuf>, readers| {
            let Some(path) = path.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
                return Ok(None);
            };
            let path = folder.join(path);
            files.note(&path);
            let found = private::read(&path, readers)
                .with_context(|| Usage(format!("tls_server_config.{key} {}", path.display())));
            found.map(|found| Some((path, found.bytes)))
        };
        let certificate = take("cert_file", &self.cert_file, Readers::All)?;
        let key = take("key_file", &self.key_file, Readers::Group)?;
        let client_ca = take("client_ca_file", &self.client_ca_file, Readers::All)?;
        let (Some(certificate), Some(key)) = (certificate, key) else {
            bail!(Usage(
                "tls_server_config: cert_file and key_file are both needed".into()
            ));
        };
        let wish = TlsWish {
            certificates: &certificate.1,
            key: &key.1,
            clients: match self.client_auth_type {
                Clients::NoClientCert => ClientAuth::None,
                Clients::RequestClientCert => ClientAuth::Request,
                Clients::RequireAnyClientCert => ClientAuth::RequireAny,
                Clients::VerifyClientCertIfGiven => ClientAuth::VerifyIfGiven,
                Clients::RequireAndVerifyClientCert => ClientAuth::RequireAndVerify,
            },
            client_ca: client_ca.as_ref().map(|(_, bytes)| bytes.as_slice()),
            least: self
                .min_version
                .map_or(TlsVersion::V12, Version::to_tls_version),
            most: self
                .max_version
                .map_or(TlsVersion::V13, Version::to_tls_version),
            suites: &self.cipher_suites,
            curves: &self.curve_preferences,
        };
        Tls::new(&wish).map_err(|error| {
            let place = match error.part {
                TlsPart::Certificate => format!("cert_file {}", certificate.0.display()),
                TlsPart::Key => format!("key_file {}", key.0.display()),
                TlsPart::Authorities => match &client_ca {
                    Some((path, _)) => format!("client_ca_file {}", path.display()),
                    None => "client_ca_file".into(),
                },
                TlsPart::Choice => String::from("min_version, cipher_suites"),
            };
            Usage(format!("tls_server_config.{place}: {error}")).into()
        })
    }
}

/// Returns serde's message without quotations from the file, which contains password hashes.
fn without_quotes(error: &serde_yaml_ng::Error) -> String {
    let words = error.to_string();
    let place = error.location().map_or(String::new(), |place| {
        format!("line {} column {}: ", place.line(), place.column())
    });
    let end = words.rfind(" at line ").unwrap_or(words.len());
    match words[..end].split_once(", expected ") {
        Some((_, expected)) => {
            // The names of internal types are meaningless to users.
            let expected = match expected.starts_with("struct ") {
                true => "a map of keys",
                false => expected,
            };
            format!("{place}not valid here, expected {expected}")
        }
        None => format!("{place}not a valid web configuration in YAML"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn error_for(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.yml");
        fs::write(&path, text).expect("our file");
        match read(&path, &mut Files::default()) {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn invalid_settings_are_reported_without_quoting() {
        let cases = [
            ("", ""),
            ("# nothing\n", ""),
            ("{}", ""),
            ("basic_auth_users: {}\n", ""),
            ("root:x:0:0:hunter2\n", "line 1 column 1: "),
            ("hunter2\n", "line 1 column 1: "),
            ("hunter2: 1\n", "expected one of `tls_server_config`"),
            (
                "tls_server_config: {hunter2: a}\n",
                "expected one of `cert_file`",
            ),
            (
                "tls_server_config:\n  client_auth_type: hunter2\n",
                "line 2 column 21: ",
            ),
            (
                "tls_server_config: {min_version: TLS10}\n",
                "`TLS12` or `TLS13`",
            ),
            ("tls_server_config: {cert_file: a}\n", "cert_file"),
            ("tls_server_config: {}\n", "both needed"),
            (
                "http_server_config: {http2: hunter2}\n",
                "expected a boolean",
            ),
            (
                "http_server_config: {headers: {Cookie: hunter2}}\n",
                "header number 1 (in order of name)",
            ),
            (
                "basic_auth_users: {a: hunter2}\n",
                "user number 1 (in order of name) is not a bcrypt hash",
            ),
            ("basic_auth_users: [hunter2]\n", "expected a map"),
            ("basic_auth_users: {hunter2: a\n", "YAML"),
            ("a: &x [*x, hunter2]\n", "expected one of"),
        ];
        for (text, expected) in cases {
            let said = error_for(text);
            let right = said.contains(expected) && said.is_empty() == expected.is_empty();
            assert!(right && !said.contains("hunter2"), "{text}: {said}");
        }
    }
}
