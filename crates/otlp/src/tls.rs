//! TLS connections to the receiver: loads the trusted authorities and the client certificate, and
//! explains failures.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use noctule_tls::{TlsError, TlsPart};
use rustls::client::{ClientConfig, ResolvesClientCert};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, InvalidMessage, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::endpoint::Protocol;

/// Requested TLS settings. Files are passed as their PEM contents.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsWish<'a> {
    /// Certificates of the receiver's authorities; `None` for the authorities that the system
    /// trusts.
    pub authorities: Option<&'a [u8]>,
    /// Client certificate with intermediate certificates, and its private key, for a receiver that
    /// requests one.
    pub own: Option<(&'a [u8], &'a [u8])>,
}

/// TLS settings that are checked and ready. Clones share the settings: replacing the settings of
/// one clone replaces them for all.
#[derive(Clone)]
pub struct Tls(Arc<Mutex<Arc<ClientConfig>>>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Loads the certificates, including the system's trusted ones, and checks that client
    /// certificate and key match.
    pub fn new(wish: &TlsWish<'_>) -> Result<Self, TlsError> {
        let roots = match wish.authorities {
            Some(pem) => noctule_tls::authorities(pem)?,
            None => system_roots()?,
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(TlsPart::Authorities, error.to_string()))?
            .with_root_certificates(roots);
        let config = match wish.own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(noctule_tls::chain(chain)?, noctule_tls::key(key)?)
                .map_err(|error| TlsError::of_own(&error))?,
        };
        Ok(Self(Arc::new(Mutex::new(Arc::new(config)))))
    }

    /// Replaces the settings with the settings of `other` after files changed.
    pub fn replace(&self, other: &Self) {
        let config = other.config();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Returns the current settings.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let config = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        config.clone()
    }

    /// Performs the TLS handshake on a connection. Sets `asked` if the receiver requests a client
    /// certificate.
    pub(crate) async fn begin(
        config: &ClientConfig,
        host: &str,
        protocol: Protocol,
        stream: TcpStream,
        asked: &Arc<AtomicBool>,
    ) -> Result<TlsStream<TcpStream>, Box<dyn Error + Send + Sync>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| "the host of the endpoint is neither a DNS name nor an IP address")?;
        let mut config = config.clone();
        config.client_auth_cert_resolver = Arc::new(Noting {
            own: config.client_auth_cert_resolver.clone(),
            asked: asked.clone(),
        });
        config.alpn_protocols = match protocol {
            Protocol::Http => vec![b"http/1.1".to_vec()],
            Protocol::Grpc => vec![b"h2".to_vec()],
        };
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        if protocol == Protocol::Grpc && agreed != Some(b"h2") {
            return Err(NO_HTTP2.into());
        }
        Ok(stream)
    }
}

/// Records that the receiver requested a client certificate. A receiver that gets none often closes
/// the connection without giving a reason.
#[derive(Debug)]
struct Noting {
    own: Arc<dyn ResolvesClientCert>,
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Noting {
    fn resolve(
        &self,
        authorities: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.own.resolve(authorities, schemes)
    }

    fn has_certs(&self) -> bool {
        self.own.has_certs()
    }
}

/// The likely reason why a receiver that requested a client certificate closed the connection.
pub(crate) const ASKED: &str = "the receiver asked for a client certificate: set otlp.cert_file and \
    otlp.key_file to one from an authority that it trusts";

/// gRPC requires HTTP/2, which TLS negotiates (ALPN).
const NO_HTTP2: &str = "the receiver does not offer HTTP/2 on this port, which gRPC needs: use its gRPC port, or \
    protocol = \"http/protobuf\"";

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // The system's stores may contain certificates that rustls cannot parse. The other certificates
    // suffice.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map(|it| format!(" ({it})"));
    Err(TlsError::new(
        TlsPart::Authorities,
        format!(
            "this system has no CA certificates{}: install ca-certificates, or set otlp.ca_file to the \
             certificate of the receiver's authority",
            why.unwrap_or_default()
        ),
    ))
}

/// Explains a TLS failure and how to fix it; `None` if TLS is not the reason.
pub(crate) fn explain(error: &(dyn Error + 'static), host: &str) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        // `io::Error::source` skips the wrapped error itself, so it is looked up here.
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inside = inside.and_then(|it| it.downcast_ref::<rustls::Error>());
        if let Some(found) = inside.or(error.downcast_ref()) {
            return Some(meaning(found, host));
        }
        next = error.source();
    }
    None
}

fn meaning(error: &rustls::Error, host: &str) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage as Invalid};
    match error {
        InvalidCertificate(certificate) => certificate_meaning(certificate, host),
        Invalid(InvalidMessage::InvalidContentType) => {
            "this port does not speak TLS: use the TLS port, or http:// in the endpoint".into()
        }
        AlertReceived(AlertDescription::NoApplicationProtocol) => NO_HTTP2.into(),
        AlertReceived(AlertDescription::CertificateRequired) => ASKED.into(),
        AlertReceived(alert) if is_about_client_certificate(*alert) => format!(
            "the receiver rejects the client certificate ({alert:?}): otlp.cert_file must be valid, and signed by an \
             authority that the receiver trusts"
        ),
        AlertReceived(alert) => {
            format!("the receiver aborted TLS with {alert:?}: see the receiver's log")
        }
        error => format!("TLS: {error}"),
    }
}

/// Returns whether the alert concerns the client certificate, or its absence in TLS 1.2.
fn is_about_client_certificate(alert: AlertDescription) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRevoked, CertificateUnknown,
        UnknownCA, UnsupportedCertificate,
    };
    let all = [
        AccessDenied,
        BadCertificate,
        CertificateExpired,
        CertificateRevoked,
        CertificateUnknown,
        UnknownCA,
        UnsupportedCertificate,
    ];
    all.contains(&alert)
}

fn certificate_meaning(error: &CertificateError, host: &str) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    match error {
        // If two authorities have the same name, only the signature shows that the certificate is
        // from the other one.
        UnknownIssuer | BadSignature => "the receiver's certificate is not signed by a trusted authority: set otlp.ca_file to the \
                          certificate of its authority"
            .into(),
        NotValidForNameContext { presented, .. } => {
            let names = presented.iter().take(5).map(|name| plain_name(name));
            let names = match presented.is_empty() {
                true => "no name".into(),
                false => names.collect::<Vec<_>>().join(", "),
            };
            format!(
                "the receiver's certificate is not valid for {host}, only for {names}: use one of these names in \
                 otlp.endpoint, or give the receiver a certificate for {host}"
            )
        }
        NotValidForName => format!(
            "the receiver's certificate is not valid for {host}: give the receiver a certificate for {host}"
        ),
        Expired | ExpiredContext { .. } => {
            "the receiver's certificate has expired: renew it, or check the clock of this node".into()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "the receiver's certificate is not valid yet: check the clock of this node".into()
        }
        error => format!("the receiver's certificate is unusable: {error}"),
    }
}

/// Returns the name in rustls' output, such as `DnsName("a.example")` or `IpAddress(127.0.0.1)`.
fn plain_name(shown: &str) -> &str {
    let inner = shown
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(shown).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_reason_is_found_inside_nested_errors() {
        let reason = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, reason);
        let words = explain(&wrapped, "x").expect("TLS is the reason");
        assert!(words.contains("otlp.ca_file"), "{words}");
        assert_eq!(explain(&io::Error::other("refused"), "x"), None);
    }

    #[test]
    fn names_of_a_certificate_are_shown() {
        let reason = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").expect("a name"),
            presented: vec!["DnsName(\"b.example\")".into()],
        };
        let words = certificate_meaning(&reason, "a.example");
        assert!(
            words.contains("not valid for a.example, only for b.example:"),
            "{words}"
        );
    }
}
