//! Reads certificates and keys.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
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

/// The state of the files, by which a change is found.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct FileStamps([Option<FileStamp>; 3]);

/// Device, inode, size, and the time of the last change of the content.
type FileStamp = (u64, u64, u64, (i64, i64));

impl FileStamps {
    pub(super) fn of(files: &Tls) -> Self {
        let stamp = |path: &Path| {
            let data = fs::metadata(path).ok()?;
            let changed = (data.mtime(), data.mtime_nsec());
            Some((data.dev(), data.ino(), data.size(), changed))
        };
        let client_ca = files.client_ca.as_deref();
        Self([
            stamp(&files.certificate),
            stamp(&files.key),
            client_ca.and_then(stamp),
        ])
    }
}

/// Reads the settings for connections from their files.
pub(super) fn read(files: &Tls) -> Result<Arc<ServerConfig>, TlsProblem> {
    let chain = certificates(CERTIFICATE, &files.certificate)?;
    let key = private_key(&files.key)?;
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
    let builder = match verifier(files)? {
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
fn verifier(files: &Tls) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsProblem> {
    let Some(path) = &files.client_ca else {
        return Ok(None);
    };
    let mut roots = RootCertStore::empty();
    let shown = path.display();
    for certificate in certificates(CLIENT_CA, path)? {
        roots.add(certificate).map_err(|error| {
            let what = format!("{shown} has a certificate that cannot be used: {error}");
            problem(CLIENT_CA, what, "use the certificate of an authority")
        })?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match files.client_certificates {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    let verifier = builder.build().map_err(|error| {
        let help = "use the certificate of an authority";
        problem(CLIENT_CA, format!("{shown} cannot be used: {error}"), help)
    })?;
    Ok(Some(verifier))
}

/// Reads all certificates of a file, at least one.
fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let text = content(key, path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let help = "use a file in the format PEM, which begins with -----BEGIN CERTIFICATE-----";
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => {
            let what = format!("{} contains no certificate", path.display());
            Err(problem(key, what, help))
        }
        Err(error) => {
            let what = format!("{} is not valid PEM: {error}", path.display());
            Err(problem(key, what, help))
        }
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    let text = content(KEY, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let help = "use an unencrypted key in the format PEM, which begins with -----BEGIN PRIVATE KEY-----";
        let what = match error {
            pem::Error::NoItemsFound => format!("{} contains no private key", path.display()),
            error => format!("{} is not valid PEM: {error}", path.display()),
        };
        problem(KEY, what, help)
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
