//! Certificates and keys from PEM, and what is wrong with them.
//!
//! The HTTP server (`noctule-web`) and the client of an OpenTelemetry receiver (`noctule-otlp`) read the same kinds
//! of files, and report their defects in the same words. What each makes of them is its own.

use std::error::Error;
use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Which part of the TLS that was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The certificates of the authorities that the other side's may be of.
    Authorities,
    /// Our own certificate.
    Certificate,
    /// Its key.
    Key,
    /// Versions, cipher suites or curves.
    Choice,
}

/// Why there is no TLS. The words quote nothing of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// What is wrong.
    pub part: TlsPart,
    /// Why, and how to mend it.
    pub words: String,
}

impl TlsError {
    /// Of this part, for this reason.
    pub fn new(part: TlsPart, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { part, words }
    }

    /// Why our own certificate and its key cannot be used. What rustls writes about kinds of keys and defects
    /// quotes no bytes.
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

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Error for TlsError {}

/// Our own certificate, followed by those between it and its authority.
pub fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates(pem, TlsPart::Certificate)
}

/// The private key of our certificate.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        TlsError::new(
            TlsPart::Key,
            "it contains no private key in PEM format without a pass phrase",
        )
    })
}

/// The authorities that the other side's certificate may be of.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let all = certificates(pem, TlsPart::Authorities)?;
    for (at, certificate) in all.into_iter().enumerate() {
        let words = || format!("its certificate {} is malformed", at + 1);
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
            "it contains no certificate in PEM format",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEM whose content is no certificate.
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
                "its certificate 1 is malformed",
            ),
        ];
        for (found, part, words) in cases {
            let error = found.expect_err(words);
            assert_eq!(error.part, part, "{words}");
            assert!(error.to_string().contains(words), "{error}");
        }
        // What is in a certificate is looked at by who uses it.
        assert_eq!(chain(BROKEN).map(|it| it.len()), Ok(1));
    }
}
