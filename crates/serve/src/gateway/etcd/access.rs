//! Authentication at etcd: the certificates for TLS, and a user with a password.

use std::path::{Path, PathBuf};

use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use weir_config::{Gateways, os_error};

use crate::tls::TlsClient;

/// The maximum size of a password file in bytes.
const PASSWORD_MAX: u64 = 4096;

/// The identity with which the server uses etcd.
#[derive(Clone, Debug, Default)]
pub struct EtcdAccess {
    /// The directory of the certificates for `https` endpoints.
    certificates: Option<PathBuf>,
    login: Option<Login>,
}

/// A user of etcd.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) user: String,
    password_file: PathBuf,
}

impl EtcdAccess {
    /// Returns the identity that a configuration states.
    pub fn new(gateways: &Gateways) -> Self {
        let user = gateways.user.clone();
        let login = user.zip(gateways.password_file.clone());
        Self {
            certificates: gateways.certificates.clone(),
            login: login.map(|(user, password_file)| Login {
                user,
                password_file,
            }),
        }
    }

    /// Checks that the files can be used now. They are read again for each request.
    ///
    /// # Errors
    /// Returns the key of the first file that cannot be used, and the reason.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if let Some(directory) = &self.certificates {
            TlsClient::read(directory).map_err(|why| ("gateways.certificates", why))?;
        }
        match &self.login {
            Some(login) => login
                .password()
                .map(drop)
                .map_err(|why| ("gateways.password_file", why)),
            None => Ok(()),
        }
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Returns what a TLS connection to a host needs.
    pub(super) fn tls(&self, host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
        let directory = self
            .certificates
            .as_deref()
            .ok_or("certificates is not set in [gateways]")?;
        let client = TlsClient::read(directory)?;
        Ok((client.settings().into(), TlsClient::server_name(host)?))
    }
}

impl Login {
    /// Reads the password.
    pub(super) fn password(&self) -> Result<String, String> {
        let shown = self.password_file.display();
        let text = read(&self.password_file);
        let text = text.map_err(|e| format!("cannot read {shown}: {}", os_error::message(&e)))?;
        // The line feed at the end of the line is not a part of the password.
        let password = text.strip_suffix('\n').unwrap_or(&text);
        if password.is_empty() || password.contains('\n') {
            return Err(format!("{shown} must have one line with the password"));
        }
        Ok(password.to_owned())
    }
}

/// Reads a regular file. Opening a pipe would wait for its other end.
fn read(path: &Path) -> std::io::Result<String> {
    let data = std::fs::metadata(path)?;
    if !data.is_file() || data.len() > PASSWORD_MAX {
        return Err(std::io::Error::other(
            "it is not a regular file of at most 4 KiB",
        ));
    }
    std::fs::read_to_string(path)
}
