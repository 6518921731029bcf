//! The TLS configuration: TLS 1.3 with the cipher and the library of Braid's keyed connections, and
//! a key that is made for one run. The client reads the certificate from a file.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use quinn::rustls::crypto::CryptoProvider;
use quinn::rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384;
use quinn::rustls::crypto::aws_lc_rs::default_provider;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::version::TLS13;
use quinn::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::error::{Context, PeerError};

/// The name of the server in its certificate.
pub(super) const NAME: &str = "localhost";

/// Returns the configuration of a server with a new key, and writes its certificate to this file.
pub(super) fn server(path: Option<&Path>) -> Result<Arc<ServerConfig>, PeerError> {
    let path = path.ok_or_else(without)?;
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(broken)?;
    fs::write(path, made.cert.der()).context("write the certificate")?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&TLS13]).map_err(broken)?.with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key.into());
    config.map(Arc::new).map_err(broken)
}

/// Returns the configuration of a client of the server that wrote this certificate.
pub(super) fn client(path: Option<&Path>) -> Result<Arc<ClientConfig>, PeerError> {
    let path = path.ok_or_else(without)?;
    let certificate = CertificateDer::from(fs::read(path).context("read the certificate")?);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(broken)?;
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&TLS13]).map_err(broken)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![TLS13_AES_256_GCM_SHA384];
    Arc::new(CryptoProvider { cipher_suites, ..default_provider() })
}

fn without() -> PeerError {
    PeerError::Usage("TLS needs a file for its certificate: --certificate FILE".to_owned())
}

/// Wraps an error of the TLS set-up.
pub(super) fn broken(why: impl Display) -> PeerError {
    PeerError::Tls(why.to_string())
}
