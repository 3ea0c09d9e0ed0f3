//! Connections that are encrypted, as far as the address asks for it.
//!
//! `sslmode` means what it means to other clients: `disable` never encrypts, `prefer` does where the server
//! offers it, `require` insists on it, `verify-ca` also on a certificate from somebody who is trusted, and
//! `verify-full` on one for the name of the server. Trusted are those in the file that `sslrootcert` names,
//! or whom the system trusts.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

/// `sslrootcert` that names no file: whom the system trusts.
const SYSTEM_ROOTS: &str = "system";

/// Certificates that a file of trusted ones may have.
const ROOTS_MAX: usize = 10_000;

/// What is asked of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Nothing,
    Issuer,
    IssuerAndName,
}

/// What an address says about encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Security {
    demand: Demand,
    roots: Option<String>,
}

impl Security {
    /// Takes what is said about certificates out of an address, which the driver does not know. Answers the
    /// address without it.
    pub(super) fn read(url: &str) -> (Self, String) {
        let (mut mode, mut roots) = (None, None);
        let Some((place, options)) = url.split_once('?') else {
            return (Self { demand: Demand::Nothing, roots }, url.to_owned());
        };
        let mut others: Vec<&str> = Vec::new();
        for option in options.split('&') {
            match option.split_once('=') {
                Some(("sslrootcert", file)) => {
                    roots = Some(percent_decode_str(file).decode_utf8_lossy().into_owned());
                }
                Some(("sslmode", asked @ ("verify-ca" | "verify-full"))) => {
                    mode = Some(asked);
                    others.push("sslmode=require");
                }
                Some(("sslmode", "require")) => {
                    mode = Some("require");
                    others.push(option);
                }
                Some(_) | None => others.push(option),
            }
        }
        let demand = match (mode, &roots) {
            (Some("verify-full"), _) => Demand::IssuerAndName,
            // Whoever names whom to trust wants that to be looked at.
            (Some("verify-ca"), _) | (Some("require"), Some(_)) => Demand::Issuer,
            (Some(_) | None, _) => Demand::Nothing,
        };
        let url = if others.is_empty() { place.to_owned() } else { format!("{place}?{}", others.join("&")) };
        (Self { demand, roots }, url)
    }

    /// What encrypts connections.
    pub(super) fn connector(&self) -> Result<Connector, String> {
        let provider = Arc::new(ring::default_provider());
        let trusted = match self.demand {
            Demand::Nothing => None,
            Demand::Issuer | Demand::IssuerAndName => Some(self.trusted(&provider)?),
        };
        let check = Check { demand: self.demand, trusted, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(check))
            .with_no_client_auth();
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }

    fn trusted(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let Some(file) = self.roots.as_deref().filter(|file| *file != SYSTEM_ROOTS) else {
            let system = rustls_platform_verifier::Verifier::new(Arc::clone(provider));
            return Ok(Arc::new(system.map_err(|error| format!("whom the system trusts: {error}"))?));
        };
        let unreadable =
            |why: String| format!("the certificates in {file} (sslrootcert) cannot be read: {why}");
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(Path::new(file));
        for certificate in certificates.map_err(|error| unreadable(error.to_string()))?.take(ROOTS_MAX) {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unreadable("it has none".to_owned()));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        verifier
            .build()
            .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
            .map_err(|error| error.to_string())
    }
}

/// Looks at the server's certificate as far as the address asks for it. That the server has the key to it is
/// always seen to.
#[derive(Debug)]
struct Check {
    demand: Demand,
    trusted: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last: where it is all that is wrong, the issuer is trusted.
        match trusted.verify_server_cert(certificate, between, name, ocsp_response, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.demand == Demand::Issuer => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Connector(TlsConnector);

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        // A socket has no name, and is never encrypted.
        let name = if domain.is_empty() { "localhost" } else { domain };
        Ok(Handshake { connector: self.0.clone(), name: ServerName::try_from(name.to_owned())? })
    }
}

/// A connection that is about to be encrypted.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

/// A connection that is encrypted.
pub(super) struct Encrypted<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_address() {
        let read = |options: &str| {
            let (security, url) = Security::read(&format!("postgres://me:a%3Fb@host/db{options}"));
            let rest = url.strip_prefix("postgres://me:a%3Fb@host/db").map(str::to_owned);
            (security.demand, security.roots, rest.expect("what comes before stays"))
        };
        let plain = |rest: &str| (Demand::Nothing, None, rest.to_owned());
        assert_eq!(read(""), plain(""));
        assert_eq!(read("?sslmode=disable"), plain("?sslmode=disable"));
        assert_eq!(read("?sslmode=require&keepalives=0"), plain("?sslmode=require&keepalives=0"));
        let required = "?sslmode=require".to_owned();
        assert_eq!(read("?sslmode=verify-full"), (Demand::IssuerAndName, None, required.clone()));
        let root = Some("/a b.pem".to_owned());
        let asked = "?sslrootcert=/a%20b.pem&sslmode=verify-ca";
        assert_eq!(read(asked), (Demand::Issuer, root.clone(), required.clone()));
        assert_eq!(read("?sslrootcert=/a%20b.pem&sslmode=require"), (Demand::Issuer, root.clone(), required));
        assert_eq!(read("?sslrootcert=/a%20b.pem"), (Demand::Nothing, root, String::new()));
    }

    #[test]
    fn certificates_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for file in [folder.path().join("none.pem"), empty] {
            let (security, _) = Security::read(&format!(
                "postgres://host/db?sslmode=verify-ca&sslrootcert={}",
                file.display()
            ));
            let why = security.connector().map(|_| ()).unwrap_err();
            assert!(why.contains(&file.display().to_string()), "{why}");
        }
    }
}
