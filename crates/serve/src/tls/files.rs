//! Reads certificates, keys and revocation lists.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{
    NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier,
};
use rustls::{RootCertStore, ServerConfig};
use weir_config::{ClientCertificates, Tls, os_error};

/// The maximum size of a file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The reason why certificates cannot be used.
#[derive(Debug)]
pub(crate) struct TlsProblem {
    /// The key of the file, such as `listen.tls.key`.
    pub(crate) key: &'static str,
    pub(crate) what: String,
    pub(crate) help: String,
    /// True if this process lacks the permission. Another user may have it.
    pub(crate) forbidden: bool,
}

const CERTIFICATE: &str = "listen.tls.certificate";
const KEY: &str = "listen.tls.key";
const CLIENT_CA: &str = "listen.tls.client_ca";
const CRL: &str = "listen.tls.crl";

/// The state of the files, by which a change is found.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct FileStamps([Option<FileStamp>; 4]);

/// Device, inode, size, and the time of the last change of the content.
type FileStamp = (u64, u64, u64, (i64, i64));

impl FileStamps {
    pub(super) fn of(files: &Tls) -> Self {
        let stamp = |path: &Path| {
            let data = fs::metadata(path).ok()?;
            let changed = (data.mtime(), data.mtime_nsec());
            Some((data.dev(), data.ino(), data.size(), changed))
        };
        Self([
            stamp(&files.certificate),
            stamp(&files.key),
            files.client_ca.as_deref().and_then(stamp),
            files.crl.as_deref().and_then(stamp),
        ])
    }
}

/// The settings for encrypted connections.
#[derive(Clone, Debug)]
pub(super) struct TlsSettings {
    /// The settings for clients of volumes.
    pub(super) volumes: Arc<ServerConfig>,
    /// The settings for clients of the management interface, which must always have a certificate.
    /// `None` without an authority for clients.
    pub(super) management: Option<Arc<ServerConfig>>,
}

/// Reads the settings for connections from their files.
pub(super) fn read(files: &Tls) -> Result<TlsSettings, TlsProblem> {
    let volumes = settings(files, verifier(files, files.client_certificates)?)?;
    let strict = verifier(files, ClientCertificates::Required)?;
    let management = strict.map(|strict| settings(files, Some(strict)));
    Ok(TlsSettings {
        volumes,
        management: management.transpose()?,
    })
}

/// Returns the settings with a check of client certificates.
fn settings(
    files: &Tls,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, TlsProblem> {
    let chain = certificates(CERTIFICATE, &files.certificate)?;
    let key = private_key(KEY, &files.key)?;
    let provider = Arc::new(ring::default_provider());
    let unsuitable = |error: rustls::Error| {
        let help = "use the certificate and the private key of one pair";
        problem(
            CERTIFICATE,
            format!("cannot be used with the key: {error}"),
            help,
        )
    };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unsuitable)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unsuitable)?;
    // A resumed session would skip the check of the client's certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the check of client certificates, if clients can have certificates.
fn verifier(
    files: &Tls,
    required: ClientCertificates,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsProblem> {
    let Some(path) = &files.client_ca else {
        return Ok(None);
    };
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(CLIENT_CA, path)?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let Some(path) = &files.crl {
        // By default, the verifier checks every certificate of a chain except the root, and
        // refuses a certificate whose authority has no list.
        builder = builder.with_crls(revocation_lists(path)?);
    }
    if required == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|error| {
        let (key, path) = match (&error, &files.crl) {
            (VerifierBuilderError::InvalidCrl(_), Some(crl)) => (CRL, crl),
            _ => (CLIENT_CA, path),
        };
        let help = "use a file that the authority has made";
        problem(
            key,
            format!("{} cannot be used: {error}", path.display()),
            help,
        )
    })?;
    Ok(Some(verifier))
}

/// Reads the certificates of authorities.
pub(super) fn authorities(key: &'static str, path: &Path) -> Result<RootCertStore, TlsProblem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        roots.add(certificate).map_err(|error| {
            let shown = path.display();
            let what = format!("{shown} has a certificate that cannot be used: {error}");
            problem(key, what, "use the certificate of an authority")
        })?;
    }
    Ok(roots)
}

/// Reads all revocation lists of a file, at least one.
fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsProblem> {
    let help = "use a file in the format PEM, which begins with -----BEGIN X509 CRL-----";
    items(CRL, path, ("revocation list", help))
}

/// Reads all certificates of a file, at least one.
pub(super) fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let help = "use a file in the format PEM, which begins with -----BEGIN CERTIFICATE-----";
    items(key, path, ("certificate", help))
}

/// Reads all items of one kind in a file, at least one.
fn items<T: PemObject>(
    key: &'static str,
    path: &Path,
    (kind, help): (&str, &str),
) -> Result<Vec<T>, TlsProblem> {
    let text = content(key, path)?;
    let all: Result<Vec<_>, pem::Error> = T::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => {
            let what = format!("{} contains no {kind}", path.display());
            Err(problem(key, what, help))
        }
        Err(error) => {
            let what = format!("{} is not valid PEM: {error}", path.display());
            Err(problem(key, what, help))
        }
    }
}

pub(super) fn private_key(
    key: &'static str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    let text = content(key, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let help = "use an unencrypted key in the format PEM, which begins with -----BEGIN PRIVATE KEY-----";
        let what = match error {
            pem::Error::NoItemsFound => format!("{} contains no private key", path.display()),
            error => format!("{} is not valid PEM: {error}", path.display()),
        };
        problem(key, what, help)
    })
}

fn content(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsProblem> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let help = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "give the server's user read permission",
            _ => "",
        };
        TlsProblem {
            forbidden: error.kind() == std::io::ErrorKind::PermissionDenied,
            ..problem(
                key,
                format!("cannot read {shown}: {}", os_error::message(&error)),
                help,
            )
        }
    };
    // Opening a pipe would wait for its other end.
    let data = fs::metadata(path).map_err(failed)?;
    if !data.is_file() || data.len() > FILE_MAX {
        let what = format!("{shown} is not a regular file of at most 1 MiB");
        return Err(problem(key, what, "use a file in the format PEM"));
    }
    fs::read(path).map_err(failed)
}

fn problem(key: &'static str, what: String, help: &str) -> TlsProblem {
    TlsProblem {
        key,
        what,
        help: help.to_owned(),
        forbidden: false,
    }
}
