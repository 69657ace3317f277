//! An export of an NBD server as the target of a measurement.

use crate::failure::Failure;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use weir_model::client::{Connection, Settings, Uri, drive};
use weir_model::load::RequestSource;
use weir_wire::nbd::client::{ClientHandshakeConfig, ClientSession};

/// The longest time for connecting and the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest time without a reply while requests are in flight.
const PATIENCE: Duration = Duration::from_mins(1);

/// An export. Each run opens a connection of its own, so the server may restart between two runs.
pub(super) struct ExportTarget(Uri);

impl ExportTarget {
    /// Connects once, to query the properties of the export.
    pub(super) fn open(uri: Uri) -> Result<(Self, ClientSession), Failure> {
        let export = Self(uri);
        let session = export.connect()?.session().clone();
        Ok((export, session))
    }

    fn connect(&self) -> Result<Connection, Failure> {
        let Uri {
            address, export, ..
        } = &self.0;
        let config = ClientHandshakeConfig::new(export.clone());
        Connection::open(address, config, HANDSHAKE).map_err(Failure::run)
    }

    /// Plays the requests of a source until it has finished.
    pub(super) fn run<S: RequestSource>(&mut self, source: &mut S) -> Result<(), Failure> {
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
