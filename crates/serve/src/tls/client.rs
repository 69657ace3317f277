//! The client side of TLS: the certificates with which this program connects to other servers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::files::{TlsProblem, authorities, certificates, private_key};
use super::relay;
use super::stream::TlsSession;

/// The names of the files in a directory of certificates, which libnbd and QEMU use as well.
const CA: &str = "ca-cert.pem";
const CERTIFICATE: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";

/// The certificates for connections to other servers.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Reads the certificates in a directory: the authorities of servers (`ca-cert.pem`), and the
    /// client's own certificate with its key (`client-cert.pem`, `client-key.pem`), if it exists.
    ///
    /// # Errors
    /// Returns the first file that cannot be used, with the reason and the help.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let said = |problem: TlsProblem| match &problem.help[..] {
            "" => problem.what,
            help => format!("{}; {help}", problem.what),
        };
        let roots = authorities(CA, &directory.join(CA)).map_err(said)?;
        let (chain, key) = (directory.join(CERTIFICATE), directory.join(KEY));
        let own = if chain.exists() || key.exists() {
            let chain = certificates(CERTIFICATE, &chain).map_err(said)?;
            Some((chain, private_key(KEY, &key).map_err(said)?))
        } else {
            None
        };
        Self::new(roots, own).map_err(|error| {
            let directory = directory.display();
            format!("the certificate and the key in {directory} cannot be used: {error}")
        })
    }

    fn new(
        roots: RootCertStore,
        own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Self, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match own {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
            None => builder.with_no_client_auth(),
        };
        // A resumed session would skip the check of the server's certificate.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// Returns the settings for a connection.
    pub fn settings(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    /// Begins TLS on a connected, non-blocking socket within the given time. Returns a socket for
    /// the decrypted bytes, which a thread relays. `server` is the server's name in the log.
    ///
    /// # Errors
    /// Returns the reason why TLS has failed, such as an expired certificate.
    pub(crate) fn begin(
        &self,
        socket: OwnedFd,
        (name, server): (ServerName<'static>, &str),
        within: Duration,
    ) -> Result<OwnedFd, String> {
        let session = TlsSession::connect(self.settings(), name);
        let mut session = session.map_err(|error| error.to_string())?;
        let said = |error: io::Error| weir_config::os_error::message(&error);
        session.handshake(&socket, within).map_err(said)?;
        let server = server.to_owned();
        let ended = move |result: io::Result<()>| {
            // With TLS 1.3, a server refuses the client's certificate after the handshake.
            if let Err(error) = result
                && error.kind() == io::ErrorKind::InvalidData
            {
                tracing::warn!(server, %error, "TLS with the remote server failed");
            }
        };
        relay::start(socket, session, ended).map_err(said)
    }

    /// Returns the name of a server, which its certificate must contain. `host` is a DNS name or an
    /// IP address, without a port. An IPv6 address can be in brackets.
    ///
    /// # Errors
    /// Returns the reason if the host can be neither.
    pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let name = ServerName::try_from(inner.unwrap_or(host).to_owned());
        name.map_err(|_| format!("{host:?} is neither a DNS name nor an IP address"))
    }
}
