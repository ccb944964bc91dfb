//! How many requests and connections were refused, and why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a client got no answer to what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A request without a name and a password, where they are asked for.
    NoCredentials,
    /// A wrong password, or a name that does not exist.
    Credentials,
    /// Too many passwords wait to be checked.
    Busy,
    /// A name in `Host` that is not this server's.
    Host,
    /// The oldest connection, which gave way to a new one.
    Crowded,
    /// Plain HTTP where TLS is spoken.
    PlainHttp,
    /// No certificate of the client, or one that is not to be trusted.
    ClientCertificate,
    /// TLS that failed for another reason: mostly no version or cipher suite in common, or a client that
    /// does not trust our certificate.
    Tls,
}

impl Refused {
    /// Each of them.
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

    /// Its name as a label.
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

/// The counts since the start, shared between the server and who exports them.
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

    /// Each reason with its count.
    pub fn counts(&self) -> [(&'static str, u64); Refused::ALL.len()] {
        Refused::ALL.map(|why| (why.name(), self.count_of(why)))
    }
}
