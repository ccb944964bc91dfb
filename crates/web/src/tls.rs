//! TLS of the server: its certificate, and verification of clients.

use std::fmt;
use std::io;
use std::sync::Arc;

use noctule_tls::{TlsError, TlsPart};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, InvalidMessage, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::refusals::Refused;

/// A TLS version. Older ones are not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2
    V12,
    /// 1.3
    V13,
}

/// Client certificates that the server requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    None,
    /// A certificate that is not checked. Clients without a certificate are also served.
    Request,
    /// Any certificate whose private key the client holds. The certificate does not identify the
    /// client.
    RequireAny,
    /// A certificate of a trusted authority, if the client sends one.
    VerifyIfGiven,
    /// A certificate of a trusted authority.
    RequireAndVerify,
}

/// Requested TLS settings. Files are passed as their PEM contents.
#[derive(Clone, Copy, Debug)]
pub struct TlsWish<'a> {
    /// The server's certificate and the intermediate certificates.
    pub certificates: &'a [u8],
    /// The private key of the server's certificate.
    pub key: &'a [u8],
    /// Whether client certificates are requested, and how they are checked.
    pub clients: ClientAuth,
    /// Certificates of the authorities that sign client certificates.
    pub client_ca: Option<&'a [u8]>,
    /// The oldest TLS version to accept.
    pub least: TlsVersion,
    /// The newest TLS version to accept.
    pub most: TlsVersion,
    /// Names of TLS 1.2 cipher suites; empty for all secure ones. The suites of TLS 1.3 are always
    /// enabled.
    pub suites: &'a [String],
    /// Names of curves, best first; empty for all secure ones.
    pub curves: &'a [String],
}

/// TLS settings that are checked and ready.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Curve names in Go, which web configurations use, and their names in rustls.
const CURVES: [(&str, &str); 3] = [
    ("X25519", "X25519"),
    ("CurveP256", "secp256r1"),
    ("CurveP384", "secp384r1"),
];

impl Tls {
    /// Checks all settings, and that key and certificate match.
    pub fn new(wish: &TlsWish<'_>) -> Result<Self, TlsError> {
        let chain = noctule_tls::chain(wish.certificates)?;
        let key = noctule_tls::key(wish.key)?;
        let provider = Arc::new(provider(wish)?);
        let clients = clients(wish, &provider)?;
        let choice = |error: Error| {
            TlsError::new(
                TlsPart::Choice,
                format!("these versions, cipher suites and curves cannot be combined: {error}"),
            )
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(wish))
            .map_err(choice)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| TlsError::of_own(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Performs the TLS handshake with a client. If it fails, returns the reason.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Refused> {
        // A client that speaks plain HTTP receives a readable response.
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first[0].is_ascii_alphabetic() => {
                refuse_plain(stream).await;
                return Err(Refused::PlainHttp);
            }
            Ok(1) => {}
            _ => return Err(Refused::Tls),
        }
        let acceptor = TlsAcceptor::from(self.0.clone());
        acceptor.accept(stream).await.map_err(|error| why(&error))
    }
}

async fn refuse_plain(mut stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
        Connection: close\r\n\r\nthis port speaks HTTPS: use https:// instead of http://\n";
    // The request is read first: closing a connection with unread bytes resets it, and the client
    // would lose the response.
    let mut sent = [0; 4096];
    let _ = stream.try_read(&mut sent);
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
}

fn why(error: &io::Error) -> Refused {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    match inner {
        Some(Error::NoCertificatesPresented | Error::InvalidCertificate(_)) => {
            Refused::ClientCertificate
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Refused::PlainHttp,
        _ => Refused::Tls,
    }
}

fn versions(wish: &TlsWish<'_>) -> Vec<&'static SupportedProtocolVersion> {
    let all = [(TlsVersion::V13, &TLS13), (TlsVersion::V12, &TLS12)];
    let wanted = |version| (wish.least..=wish.most).contains(&version);
    all.into_iter()
        .filter(|(version, _)| wanted(*version))
        .map(|(_, version)| version)
        .collect()
}

fn provider(wish: &TlsWish<'_>) -> Result<CryptoProvider, TlsError> {
    let mut provider = ring::default_provider();
    if !wish.suites.is_empty() {
        let older = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_none();
        let name = |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite());
        let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
        for (at, wanted) in wish.suites.iter().enumerate() {
            // Go's names of TLS 1.3 suites have no version prefix either.
            let newer = wanted.replacen("TLS_", "TLS13_", 1);
            if !known.contains(wanted) && !known.contains(&newer) {
                let words = format!(
                    "entry {} of cipher_suites is not one of {}",
                    at + 1,
                    known.join(", ")
                );
                return Err(TlsError::new(TlsPart::Choice, words));
            }
        }
        provider
            .cipher_suites
            .retain(|suite| !older(suite) || wish.suites.contains(&name(suite)));
    }
    if !wish.curves.is_empty() {
        let mut groups = Vec::new();
        for (at, wanted) in wish.curves.iter().enumerate() {
            let own = CURVES.iter().find(|(go, _)| go == wanted);
            let group = own.and_then(|(_, own)| {
                let named = |group: &&&dyn rustls::crypto::SupportedKxGroup| {
                    format!("{:?}", group.name()).eq_ignore_ascii_case(own)
                };
                provider.kx_groups.iter().find(named)
            });
            let names = CURVES.map(|(go, _)| go).join(", ");
            let words = || {
                format!(
                    "entry {} of curve_preferences is not one of {names}",
                    at + 1
                )
            };
            groups.push(*group.ok_or_else(|| TlsError::new(TlsPart::Choice, words()))?);
        }
        provider.kx_groups = groups;
    }
    Ok(provider)
}

type Verifier = Arc<dyn ClientCertVerifier>;

fn clients(
    wish: &TlsWish<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Verifier>, TlsError> {
    let required = match wish.clients {
        ClientAuth::None => return Ok(None),
        ClientAuth::Request | ClientAuth::RequireAny => {
            return Ok(Some(Arc::new(AnyCertificate {
                required: wish.clients == ClientAuth::RequireAny,
                provider: provider.clone(),
            })));
        }
        ClientAuth::VerifyIfGiven => false,
        ClientAuth::RequireAndVerify => true,
    };
    let part = TlsPart::Authorities;
    let Some(pem) = wish.client_ca else {
        return Err(TlsError::new(
            part,
            "missing, but required to verify client certificates",
        ));
    };
    let roots = noctule_tls::authorities(pem)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match required {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    let verifier = builder.build();
    verifier
        .map(Some)
        .map_err(|error| TlsError::new(part, format!("unusable: {error}")))
}

/// Accepts every certificate whose private key the client holds.
#[derive(Debug)]
struct AnyCertificate {
    required: bool,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}
