//! Counts refused requests and connections by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a request or connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A request without name and password, although they are required.
    NoCredentials,
    /// A wrong password or an unknown name.
    Credentials,
    /// Too many passwords are waiting to be checked.
    Busy,
    /// An unknown name in the `Host` header.
    Host,
    /// The oldest connection, which was closed to make room for a new one.
    Crowded,
    /// Plain HTTP on a TLS port.
    PlainHttp,
    /// A missing or untrusted client certificate.
    ClientCertificate,
    /// Another TLS failure. In most cases, client and server share no version or cipher suite, or
    /// the client does not trust the server's certificate.
    Tls,
}

impl Refused {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::NoCredentials,
        Self::Credentials,
        Self::Busy,
        Self::Host,
        Self::Crowded,
        Self::PlainHttp,
        Self::ClientCertificate,
        Self::Tls,
    ];

    /// Returns the value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::Credentials => "credentials",
            Self::Busy => "busy",
            Self::Host => "host",
            Self::Crowded => "crowded",
            Self::PlainHttp => "plain_http",
            Self::ClientCertificate => "client_certificate",
            Self::Tls => "tls",
        }
    }
}

/// Counts since the start, shared by the server and its exporter.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Refused::ALL.len()]);

impl Refusals {
    pub(crate) fn count(&self, why: Refused) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count for a reason.
    pub fn count_of(&self, why: Refused) -> u64 {
        self.0[why as usize].load(Ordering::Relaxed)
    }

    /// Returns each reason with its count.
    pub fn counts(&self) -> [(&'static str, u64); Refused::ALL.len()] {
        Refused::ALL.map(|why| (why.name(), self.count_of(why)))
    }
}
