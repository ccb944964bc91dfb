//! Reads certificates and keys from PEM, and explains defects in them.
//!
//! The HTTP server (`noctule-web`) and the client of an OpenTelemetry receiver (`noctule-otlp`)
//! read the same kinds of files. Both report defects with the same messages.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The TLS setting that is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The certificates of the peer's authorities.
    Authorities,
    /// The agent's own certificate.
    Certificate,
    /// The agent's own private key.
    Key,
    /// The selected versions, cipher suites or curves.
    Choice,
}

/// Why TLS cannot be set up. The text quotes nothing from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct TlsError {
    /// The unusable part.
    pub part: TlsPart,
    /// The reason, and how to fix it.
    pub words: String,
}

impl TlsError {
    /// Creates an error about a part.
    pub fn new(part: TlsPart, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { part, words }
    }

    /// Creates an error about the agent's certificate and its key. The messages of rustls about key
    /// types and defects do not quote any bytes.
    pub fn of_own(error: &rustls::Error) -> Self {
        use rustls::Error::{InconsistentKeys, InvalidCertificate};
        match error {
            InconsistentKeys(_) => {
                Self::new(TlsPart::Key, "the key does not match the certificate")
            }
            InvalidCertificate(_) => Self::new(TlsPart::Certificate, format!("unusable: {error}")),
            _ => Self::new(TlsPart::Key, format!("unusable: {error}")),
        }
    }
}

/// Reads the agent's certificate and the intermediate certificates that follow it.
pub fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates(pem, TlsPart::Certificate)
}

/// Reads the private key of the agent's certificate.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        TlsError::new(
            TlsPart::Key,
            "the file contains no private key in PEM format (encrypted keys are not supported)",
        )
    })
}

/// Reads the authorities that may sign the peer's certificate.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let all = certificates(pem, TlsPart::Authorities)?;
    for (at, certificate) in all.into_iter().enumerate() {
        let words = || format!("certificate {} in the file is malformed", at + 1);
        let added = roots.add(certificate);
        added.map_err(|_| TlsError::new(TlsPart::Authorities, words()))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], part: TlsPart) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TlsError::new(
            part,
            "the file contains no certificate in PEM format",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEM whose content is not a certificate.
    const BROKEN: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn defects_are_reported_with_their_part() {
        let cases = [
            (
                chain(b"no PEM").map(drop),
                TlsPart::Certificate,
                "no certificate in PEM",
            ),
            (
                key(b"no PEM").map(drop),
                TlsPart::Key,
                "no private key in PEM",
            ),
            (
                authorities(b"").map(drop),
                TlsPart::Authorities,
                "no certificate in PEM",
            ),
            (
                authorities(BROKEN).map(drop),
                TlsPart::Authorities,
                "certificate 1 in the file is malformed",
            ),
        ];
        for (found, part, words) in cases {
            let error = found.expect_err(words);
            assert_eq!(error.part, part, "{words}");
            assert!(error.to_string().contains(words), "{error}");
        }
        // The contents of a certificate are checked later, by the user of the chain.
        assert_eq!(chain(BROKEN).map(|it| it.len()), Ok(1));
    }
}
