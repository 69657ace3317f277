//! An export of an NBD server.

use crate::failure::Failure;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use weir_model::client::{Connection, Settings, Uri, drive};
use weir_model::load::Source;
use weir_wire::nbd::client::{HandshakeConfig, Session};

/// How long connecting may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long no request may be answered.
const PATIENCE: Duration = Duration::from_mins(1);

/// An export. Each run has a connection of its own, so that a server may start again between two.
pub(super) struct Export(Uri);

impl Export {
    /// Connects once, to see what it is.
    pub(super) fn open(uri: Uri) -> Result<(Self, Session), Failure> {
        let export = Self(uri);
        let session = export.connect()?.session().clone();
        Ok((export, session))
    }

    fn connect(&self) -> Result<Connection, Failure> {
        let Uri { address, export } = &self.0;
        let config = HandshakeConfig::new(export.clone());
        Connection::open(address, config, HANDSHAKE).map_err(Failure::run)
    }

    /// Carries out what a source issues, until it has finished.
    pub(super) fn run<S: Source>(&mut self, source: &mut S) -> Result<(), Failure> {
        let connection = self.connect()?;
        let settings = Settings {
            origin: Instant::now(),
            stop: &AtomicBool::new(false),
            patience: PATIENCE,
        };
        drive(connection, source, &settings)
            .map_err(|error| Failure::run(format!("{}: {error}", self.0)))
    }
}
