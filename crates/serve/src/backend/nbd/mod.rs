//! A volume on an export of another NBD server: Ceph behind `qemu-storage-daemon`, what nbdkit has,
//! another of these (`docs/remote.md`).
//!
//! Requests go to the server over several connections, each of which has a bounded number of them
//! unanswered. What is written is copied first: the copy is what is sent, and it is kept until it
//! is durable ([`keeper`]). A server that goes away is dialled until it is back ([`redial`]).

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

use super::{Backend, Found, Prepare, Traits};
use dial::{DialError, Dialled, PATIENCE, dial};
use remote::Remote;

/// An export that is connected to.
#[derive(Debug)]
pub(super) struct Export {
    settings: Arc<Settings>,
    read_only: bool,
    dialled: Dialled,
}

impl Export {
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

/// Looks at what [`Export::open`] would connect to.
pub(super) fn look(volume: &Volume, settings: &Settings) -> io::Result<Found> {
    let one = Settings {
        connections: 1,
        ..settings.clone()
    };
    let shape = reach(volume, &one).map_err(io::Error::other)?.shape;
    Ok(Found {
        size: shape.size,
        now: Some(shape.size),
        place: None,
        block: shape.block,
    })
}

impl Prepare for Export {
    fn size(&self) -> u64 {
        self.dialled.shape.size
    }

    fn traits(&self) -> Traits {
        let shape = &self.dialled.shape;
        let offers = |flag| !self.read_only && shape.flags.contains(flag);
        Traits {
            // What is read is copied out of what is received.
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
