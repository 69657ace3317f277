//! TLS between clients and front ends.
//!
//! [`TlsOffer`] has the certificates in force. [`TlsSession`] encrypts a connection on which the
//! handshake of a front end continues. Afterwards, a thread relays between the client and a socket
//! pair ([`TlsOffer::relay`]), whose other end the shard serves like an unencrypted connection
//! (docs/decisions/tls.md).

mod buffer;
mod client;
mod files;
mod relay;
mod stream;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use weir_config::Tls;

pub use client::TlsClient;
pub(crate) use files::TlsProblem;
use files::{FileStamps, TlsSettings, read};
use relay::RelayThreads;
pub(crate) use stream::TlsSession;
pub use stream::certificate_names;

/// The minimum time between two checks for changed files.
const RECHECK: Duration = Duration::from_secs(1);

/// The certificates that were read for a configuration.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: Tls,
    /// The state of the files from which `config` was read.
    stamps: FileStamps,
    /// The state of the files that could not be used, which was reported.
    refused: Option<FileStamps>,
    checked: Instant,
    settings: TlsSettings,
}

impl Certificates {
    /// Reads the certificates of a configuration.
    ///
    /// # Errors
    /// Returns the first file that cannot be used.
    pub(crate) fn read(files: &Tls) -> Result<Self, TlsProblem> {
        // If a file changes while it is read, the next check reads it again.
        let stamps = FileStamps::of(files);
        Ok(Self {
            files: files.clone(),
            stamps,
            refused: None,
            checked: Instant::now(),
            settings: read(files)?,
        })
    }

    /// Reads the files again if they have changed. Files that cannot be used are reported once, and
    /// the present certificates stay in force.
    fn refresh(&mut self) {
        if self.checked.elapsed() < RECHECK {
            return;
        }
        self.checked = Instant::now();
        let stamps = FileStamps::of(&self.files);
        if stamps == self.stamps || self.refused.as_ref() == Some(&stamps) {
            return;
        }
        match read(&self.files) {
            Ok(settings) => {
                self.settings = settings;
                self.stamps = stamps;
                self.refused = None;
                tracing::info!("the certificates for TLS have changed; new clients use them");
            }
            Err(problem) => {
                tracing::warn!(
                    key = problem.key,
                    reason = problem.what,
                    "the changed certificates for TLS cannot be used; new clients use the old ones"
                );
                self.refused = Some(stamps);
            }
        }
    }
}

/// The certificates in force, and the threads of encrypted connections.
#[derive(Debug)]
pub(crate) struct TlsOffer {
    certificates: Mutex<Option<Certificates>>,
    relays: RelayThreads,
}

impl TlsOffer {
    /// Returns an offer for at most `connections` connections.
    pub(crate) fn new(certificates: Option<Certificates>, connections: u32) -> Self {
        Self {
            certificates: Mutex::new(certificates),
            relays: RelayThreads::new(connections as usize),
        }
    }

    /// Replaces the certificates for new clients.
    pub(crate) fn replace(&self, certificates: Option<Certificates>) {
        *self.lock() = certificates;
    }

    /// Returns true if clients can use TLS.
    pub(crate) fn is_offered(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns the state for a new encrypted connection, with the certificates in force.
    ///
    /// # Errors
    /// Returns the reason for the log.
    pub(crate) fn begin(&self) -> Result<TlsSession, String> {
        TlsSession::serve(self.settings()?.volumes).map_err(|error| error.to_string())
    }

    /// Returns the settings in force.
    fn settings(&self) -> Result<TlsSettings, String> {
        let mut certificates = self.lock();
        let certificates = certificates.as_mut();
        let certificates = certificates.ok_or("TLS is not offered any more")?;
        certificates.refresh();
        Ok(certificates.settings.clone())
    }

    /// Starts the thread that relays between an encrypted connection and a socket for a shard.
    /// Returns that socket.
    pub(crate) fn relay(&self, client: OwnedFd, session: TlsSession) -> io::Result<OwnedFd> {
        self.relays.start(client, session)
    }

    /// Waits until encrypted connections have sent their last replies, for at most `within`. The
    /// shards must have closed their sockets.
    pub(crate) fn wait(&self, within: Duration) {
        self.relays.wait(within);
    }

    /// Returns true if no encrypted connection is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.relays.count() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Option<Certificates>> {
        // The value is replaced as a whole, so that it is valid even if another thread has
        // panicked.
        self.certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificates in force, for the management interface.
#[derive(Clone, Debug)]
pub struct ManagementTls(pub(crate) Arc<TlsOffer>);

impl ManagementTls {
    /// Returns the settings for a new connection, whose client must have a certificate from
    /// `client_ca`.
    ///
    /// # Errors
    /// Returns the reason for the log if the configuration has no authority for clients any more.
    pub fn settings(&self) -> Result<Arc<ServerConfig>, String> {
        let settings = self.0.settings()?;
        settings
            .management
            .ok_or_else(|| "client_ca is not set in [listen.tls]".to_owned())
    }
}
