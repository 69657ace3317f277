//! Volumes on an export of another NBD server, such as `qemu-storage-daemon` in front of Ceph, or
//! nbdkit (`docs/remote.md`).
//!
//! Requests are sent over several connections, each with a bounded number of outstanding requests.
//! Data that are written are copied first. The copy is sent, and is kept until it is durable on the
//! server ([`keeper`]). After the connection to a server is lost, the server is dialled until it is
//! reachable again ([`redial`]).
//!
//! [`RemoteExport::open`] connects to the server ([`dial`]), and [`Remote`] is the backend. It cuts
//! jobs into requests ([`work`]), which [`wire`] sends and receives on the shard's ring.

mod coverage;
mod dial;
mod keeper;
mod redial;
mod remote;
mod wire;
mod work;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use weir_config::{Remote as Settings, Volume};
use weir_wire::nbd::TransmissionFlags;

use super::{Backend, Prepare, StorageInfo, Traits};
use dial::{DialError, Dialled, PATIENCE, dial};
use remote::Remote;

/// An export with its connections.
#[derive(Debug)]
pub(super) struct RemoteExport {
    settings: Arc<Settings>,
    read_only: bool,
    dialled: Dialled,
}

impl RemoteExport {
    /// Connects to the export of a volume. May block.
    pub(super) fn open(volume: &Volume, settings: &Settings) -> io::Result<Self> {
        Ok(Self {
            settings: Arc::new(settings.clone()),
            read_only: volume.read_only,
            dialled: reach(volume, settings).map_err(io::Error::other)?,
        })
    }
}

fn reach(volume: &Volume, settings: &Settings) -> Result<Dialled, DialError> {
    let dialled = dial(settings, volume.read_only, PATIENCE)?;
    dialled.shape.has_size(settings, volume.size)?;
    Ok(dialled)
}

/// Inspects the export that [`RemoteExport::open`] would connect to.
pub(super) fn inspect(volume: &Volume, settings: &Settings) -> io::Result<StorageInfo> {
    // One connection is enough to see the export.
    let one = Settings {
        connections: 1,
        ..settings.clone()
    };
    let shape = reach(volume, &one).map_err(io::Error::other)?.shape;
    Ok(StorageInfo {
        size: shape.size,
        now: Some(shape.size),
        place: None,
        block: shape.block,
    })
}

impl Prepare for RemoteExport {
    fn size(&self) -> u64 {
        self.dialled.shape.size
    }

    fn traits(&self) -> Traits {
        let shape = &self.dialled.shape;
        let offers = |flag| !self.read_only && shape.flags.contains(flag);
        Traits {
            // Received data are copied into the buffers of a read, so that the buffers need no
            // alignment.
            align: 1,
            preferred: shape.preferred.max(4096),
            read_only: self.read_only,
            trim: offers(TransmissionFlags::SEND_TRIM),
            fast_zero: offers(TransmissionFlags::SEND_FAST_ZERO),
            allocation: shape.allocation.is_some(),
            guest: false,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(Remote::new(
            self.settings,
            self.read_only,
            self.dialled,
        )?))
    }
}
